/* The most that a machine can do, measured by loops that do nothing else: the limits that speed is a share of. */
#ifndef ATTN_BENCH_PEAKS_H
#define ATTN_BENCH_PEAKS_H

#include "base/error.h"
#include "base/threads.h"

typedef enum PeakKind {
    PEAK_READ,       /* bytes read from memory that no cache holds */
    PEAK_READ_AHEAD, /* the same, with each line fetched 2 KB before it is read */
    PEAK_F32,        /* operations of fused multiply-adds; a multiplication and an addition count as two */
    PEAK_BF16,       /* operations of BF16 dots summed in F32 */
    PEAK_INT8,       /* operations of 8-bit dots summed in 32 bits */
    PEAK_TILE,       /* operations of AMX's tiles of BF16 summed in F32 */
} PeakKind;

enum { N_PEAKS = PEAK_TILE + 1 };

/* Holds the 512 MB that are read. Borrows the threads; peaks_free accepts NULL. */
typedef struct Peaks Peaks;

Peaks *peaks_new(Threads *threads, Error *error);
void peaks_free(Peaks *peaks);

/* The fastest instructions of this CPU for the peak, such as "vpdpbusd zmm". NULL: it has none. */
const char *peak_name(PeakKind kind);

/* Bytes or operations a second of all threads together: the best of n_passes passes of 10 to 30 ms. 0: none. */
double peaks_measure(Peaks *peaks, PeakKind kind, int n_passes);

#endif
