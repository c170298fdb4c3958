/*
 * The abilities of this CPU, and of the system on it. The file that answers is compiled without the flags of any set, so
 * that every CPU can run it.
 */
#ifndef ATTN_CPU_H
#define ATTN_CPU_H

#include <stdbool.h>

bool cpu_is_any(void); /* true */

#if defined(__x86_64__)
bool cpu_has_avx2(void);          /* and FMA and F16C, which came with it */
bool cpu_has_avx_vnni(void);      /* beside AVX2: the 8-bit dot product without AVX-512 */
bool cpu_has_avx512(void);        /* F, BW, DQ and VL */
bool cpu_has_avx512_vnni(void);   /* beside those */
bool cpu_has_avx512_bf16(void);   /* beside VNNI */
bool cpu_has_fast_bf16_dot(void); /* that is not Intel's, whose cores multiply F32 twice as fast */
bool cpu_has_amx_bf16(void); /* beside those; asks Linux for the registers of its tiles, no other system */
#elif defined(__aarch64__)
bool cpu_has_dot(void); /* the dot product of int8 */
#endif

#endif
