#include "peaks.h"

#include "cli/process.h"
#include "kernels/cpu.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A loop of arithmetic that touches no memory: `operations` a round. */
typedef struct Loop {
    const char *name;
    double operations;
    void (*run)(size_t rounds);
} Loop;

/*
 * In assembly, since a compiler moves what does not change out of such a loop, and may keep sums in memory. Each
 * round adds to N_SUMS registers. That is more than an instruction's latency times the number of units that run it.
 */
#if defined(__x86_64__)

enum { N_SUMS = 12 };

#define SUMS(step)                                                                                           \
    step("0") step("1") step("2") step("3") step("4") step("5") step("6") step("7") step("8") step("9")      \
        step("10") step("11")

/* Register 15 holds `bits` in every 32-bit lane; all steps multiply it. */
#define LOOP(name, vector, bits, step)                                                                       \
    static void name(size_t rounds) {                                                                        \
        const uint32_t x = bits;                                                                             \
        __asm__ volatile("vbroadcastss %1, %%" vector "15\n"                                                 \
                         "1:\n" SUMS(step) "dec %0\n"                                                        \
                                           "jnz 1b\n"                                                        \
                                           "vzeroupper\n"                                                    \
                         : "+r"(rounds)                                                                      \
                         : "m"(x)                                                                            \
                         : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",     \
                           "xmm9", "xmm10", "xmm11", "xmm14", "xmm15");                                      \
    }

#define FMA(vector, i) "vfmadd231ps %%" vector "15, %%" vector "15, %%" vector i "\n"
#define FMA_YMM(i) FMA("ymm", i)
#define FMA_ZMM(i) FMA("zmm", i)
#define BF16_ZMM(i) "vdpbf16ps %%zmm15, %%zmm15, %%zmm" i "\n"
/* vpdpbusd %ymm15, %ymm15, %ymm<i> as AVX-VNNI encodes it, which assemblers before 2021 do not know. */
#define VNNI_YMM(i) ".byte 0xc4, 0xc2 ^ (" i " >> 3 << 7), 0x05, 0x50, 0xc7 + ((" i " & 7) << 3)\n"
#define VNNI_ZMM(i) "vpdpbusd %%zmm15, %%zmm15, %%zmm" i "\n"
#define INT8(vector, i)                                                                                      \
    "vpmaddubsw %%" vector "15, %%" vector "15, %%" vector "14\n"                                            \
    "vpmaddwd %%" vector "15, %%" vector "14, %%" vector "14\n"                                              \
    "vpaddd %%" vector "14, %%" vector i ", %%" vector i "\n"
#define INT8_YMM(i) INT8("ymm", i)
#define INT8_ZMM(i) INT8("zmm", i)

LOOP(fma_ymm, "ymm", 0x3f000000, FMA_YMM) /* 0.5 */
LOOP(fma_zmm, "zmm", 0x3f000000, FMA_ZMM)
LOOP(bf16_zmm, "zmm", 0x3f003f00, BF16_ZMM)
LOOP(int8_ymm, "ymm", 0x01010101, INT8_YMM)
LOOP(int8_zmm, "zmm", 0x01010101, INT8_ZMM)
LOOP(vnni_ymm, "ymm", 0x01010101, VNNI_YMM)
LOOP(vnni_zmm, "zmm", 0x01010101, VNNI_ZMM)

#ifdef HAS_AMX
/* Each round multiplies into four tiles of sums in turn, 16 rows by 64 bytes each; all numbers are 0. */
static void tiles(size_t rounds) {
    struct {
        uint8_t palette, zeros[15];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } sizes = {1, {0}, {64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16}};
    rounds /= 4;
    __asm__ volatile("ldtilecfg %1\n"
                     "1: tdpbf16ps %%tmm5, %%tmm4, %%tmm0\n"
                     "tdpbf16ps %%tmm5, %%tmm4, %%tmm1\n"
                     "tdpbf16ps %%tmm5, %%tmm4, %%tmm2\n"
                     "tdpbf16ps %%tmm5, %%tmm4, %%tmm3\n"
                     "dec %0\n"
                     "jnz 1b\n"
                     "tilerelease\n"
                     : "+r"(rounds)
                     : "m"(sizes)
                     : "cc");
}
#endif

static Loop fastest_loop(PeakKind kind) {
#ifdef HAS_AMX
    if (kind == PEAK_TILE && cpu_has_amx_bf16()) /* which asks Linux for tiles */
        return (Loop){"tdpbf16ps", 16 * 16 * 64, tiles};
#endif
    if (kind == PEAK_F32 && cpu_has_avx512()) return (Loop){"vfmadd zmm", N_SUMS * 32, fma_zmm};
    if (kind == PEAK_F32 && cpu_has_avx2()) return (Loop){"vfmadd ymm", N_SUMS * 16, fma_ymm};
    if (kind == PEAK_BF16 && cpu_has_avx512_bf16()) return (Loop){"vdpbf16ps zmm", N_SUMS * 64, bf16_zmm};
    if (kind == PEAK_INT8 && cpu_has_avx512_vnni()) return (Loop){"vpdpbusd zmm", N_SUMS * 128, vnni_zmm};
    if (kind == PEAK_INT8 && cpu_has_avx_vnni()) return (Loop){"vpdpbusd ymm", N_SUMS * 64, vnni_ymm};
    if (kind == PEAK_INT8 && cpu_has_avx512()) return (Loop){"vpmaddubsw zmm", N_SUMS * 128, int8_zmm};
    if (kind == PEAK_INT8 && cpu_has_avx2()) return (Loop){"vpmaddubsw ymm", N_SUMS * 64, int8_ymm};
    return (Loop){0};
}

#elif defined(__aarch64__) && defined(__linux__)

enum { N_SUMS = 16 };

#define SUMS(step)                                                                                           \
    step("0") step("1") step("2") step("3") step("4") step("5") step("6") step("7") step("8") step("9")      \
        step("10") step("11") step("12") step("13") step("14") step("15")

#define LOOP(name, bits, step)                                                                               \
    static void name(size_t rounds) {                                                                        \
        const uint32_t x = bits;                                                                             \
        __asm__ volatile("dup v31.4s, %w1\n"                                                                 \
                         "1:\n" SUMS(step) "subs %0, %0, #1\n"                                               \
                                           "b.ne 1b\n"                                                       \
                         : "+r"(rounds)                                                                      \
                         : "r"(x)                                                                            \
                         : "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",   \
                           "v12", "v13", "v14", "v15", "v31");                                               \
    }

#define FMLA(i) "fmla v" i ".4s, v31.4s, v31.4s\n"
#define SDOT(i)                                                                                              \
    ".inst 0x4e9f97e0 + " i "\n" /* sdot v<i>.4s, v31.16b, v31.16b, which old -march do not know */

LOOP(fmla, 0x3f000000, FMLA) /* 0.5 */
LOOP(sdot, 0x01010101, SDOT)

static Loop fastest_loop(PeakKind kind) {
    if (kind == PEAK_F32) return (Loop){"fmla", N_SUMS * 8, fmla};
    if (kind == PEAK_INT8 && cpu_has_dot()) return (Loop){"sdot", N_SUMS * 32, sdot};
    return (Loop){0};
}

#else

static Loop fastest_loop(PeakKind kind) {
    (void)kind;
    return (Loop){0};
}

#endif

typedef uint64_t Words __attribute__((vector_size(32)));

/*
 * A piece is read as four streams, 2 MB apart: with one stream for each core, or with four near to each other,
 * the prefetchers of today's processors leave up to half of the bandwidth unused.
 */
enum {
    N_STREAMS = 4,
    LINE = 64 / sizeof(Words),
    STREAM = (2 << 20) / sizeof(Words),
    N_PIECES = 64,
    ROUNDS = 160000, /* of a piece of arithmetic: about 0.3 ms */
    PIECES_PER_THREAD = 32,
    AHEAD = 2048 / sizeof(Words), /* as in matvec on Intel's CPUs */
};

struct Peaks {
    Threads *threads;
    Words *words; /* [N_PIECES][N_STREAMS][STREAM] */
};

Peaks *peaks_new(Threads *threads, Error *error) {
    Peaks *peaks = calloc(1, sizeof *peaks);
    size_t bytes = (size_t)N_PIECES * N_STREAMS * STREAM * sizeof(Words);
    if (peaks) *peaks = (Peaks){threads, aligned_alloc(64, bytes)};
    if (!peaks || !peaks->words) {
        error_set(error, "not enough memory for the %zu MB that the read bandwidth is measured on",
                  bytes >> 20);
        peaks_free(peaks);
        return NULL;
    }
    memset(peaks->words, 1, bytes);
    return peaks;
}

void peaks_free(Peaks *peaks) {
    if (!peaks) return;
    free(peaks->words);
    free(peaks);
}

const char *peak_name(PeakKind kind) {
    if (kind == PEAK_READ) return "loads";
    return kind == PEAK_READ_AHEAD ? "loads and prefetches" : fastest_loop(kind).name;
}

static inline __attribute__((always_inline)) void read_pieces(const Peaks *peaks, size_t begin, size_t end,
                                                              bool ahead) {
    Words sums[N_STREAMS] = {0};
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < STREAM; j += LINE)
            for (size_t k = 0; k < N_STREAMS; k++) {
                const Words *line = peaks->words + (i * N_STREAMS + k) * STREAM + j;
                if (ahead) __builtin_prefetch(line + AHEAD);
                sums[k] += line[0] + line[1];
            }
    sums[0] += sums[1] + sums[2] + sums[3];
    uint64_t sum = sums[0][0] + sums[0][1] + sums[0][2] + sums[0][3];
    __asm__ volatile("" : : "r"(sum)); /* so that it is computed */
}

static void read_plainly(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    read_pieces(context, begin, end, false);
}

static void read_ahead(void *context, size_t begin, size_t end, unsigned worker) {
    (void)worker;
    read_pieces(context, begin, end, true);
}

static void run_pieces(void *context, size_t begin, size_t end, unsigned worker) {
    const Loop *loop = context;
    (void)worker;
    for (size_t i = begin; i < end; i++) loop->run(ROUNDS);
}

double peaks_measure(Peaks *peaks, PeakKind kind, int n_passes) {
    const bool reads = kind == PEAK_READ || kind == PEAK_READ_AHEAD;
    Loop loop = reads ? (Loop){0} : fastest_loop(kind);
    size_t n_pieces = (size_t)PIECES_PER_THREAD * threads_count(peaks->threads);
    double best = 0;
    if (!reads && !loop.run) return 0;
    for (int i = 0; i < n_passes; i++) {
        double start = now_ms(), work;
        if (reads) {
            parallel_for(peaks->threads, N_PIECES, 1, kind == PEAK_READ ? read_plainly : read_ahead, peaks);
            work = (double)N_PIECES * N_STREAMS * STREAM * sizeof(Words);
        } else {
            parallel_for(peaks->threads, n_pieces, 1, run_pieces, &loop);
            work = (double)n_pieces * ROUNDS * loop.operations;
        }
        double rate = 1e3 * work / (now_ms() - start);
        if (rate > best) best = rate;
    }
    return best;
}
