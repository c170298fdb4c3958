/*
 * Lanes: the vector of floats of one instruction set, and the operations on it that all kernels are written in. They
 * are those of the instruction set that the compiler's flags for a file allow. What is said here holds for all of them.
 *
 *   Vec, LANES (4, 8 or 16)
 *   vec_set(a)  vec_load(p)  vec_store(p, v)  vec_add, _sub, _mul, _div, _min, _max(a, b)
 *   vec_load_first(p, n), vec_store_first(p, v, n): the first n ≤ LANES lanes, zeros in the others
 *   vec_fma(a, b, c) = a·b + c   vec_fnma(a, b, c) = c − a·b     vec_round(v) to the nearest integer     vec_ldexp(v, k) = v·2^k
 *   vec_sum(v): the lanes added up, in an order that is always the same
 *   vec_transpose(v): lane j of v[i] changes places with lane i of v[j], LANES vectors
 *   vec_from_f16(p), vec_from_bf16(p), vec_from_int8(p), vec_to_f16(p, v)
 *   SHARED(name): the name of a function that several sets share, with the prefix of these lanes
 *
 * HAS_BF16_DOT is defined where pairs of BF16 can be multiplied, which lie where a vector has a float:
 *   vec_dot_bf16(a, b, c) = c + both products     vec_to_bf16(p, v)
 *
 * Ints: a vector of LANES units of integers, four bytes each, or of the dots of units.
 *   ints_load(p)  ints_set(a)  ints_add(a, b)  vec_from_ints(v)
 *   ints_spread(p): one unit in all lanes
 *   ints_repeat(p), vec_repeat(p): four units, or floats, in each four lanes; not in WebAssembly
 *   vec_turn(v): lane 4·i + j of v[k] changes places with lane 4·i + k of v[j], four vectors
 *   vec_in_rows(v): lane 4·i + j to lane LANES/4·j + i, which is the row that it then belongs to
 *   vec_of_bits(v), ints_of_bits(v): the same bits
 *   ints_widen(v, i): half of each sixteen bytes as int16: every other one from byte i on, on x86-64, and in WebAssembly the lower
 *                     eight, or the upper
 *   ints_dot(bytes, dots, w, x): dots + w's units · x's; bytes: of a column
 *   ints_dot_first(bytes, dots, w, x): the same, where dots are constant or as ints_begin gave them
 *   ints_rest(bytes, dots): in lanes of 32 bits, if they are not yet
 *   ints_add_fours(v): lane 4·i + j is what lanes [4·i, 4·i + 4) of v[j] add up to
 *   ints_begin(bytes, start): what sums begin with
 *   ints_end(bytes, dots, start): start + the sum of dots, as floats
 */
#ifndef ATTN_KERNELS_LANES_H
#define ATTN_KERNELS_LANES_H

#include "compiler.h"

#if defined(__AVX512F__) || defined(EMULATED_AVX512)
#include "lanes_avx512.h"
#elif defined(__AVX2__)
#include "lanes_avx2.h"
#elif defined(__aarch64__)
#include "lanes_neon.h"
#elif defined(__wasm_simd128__)
#include "lanes_wasm.h"
#else
#error "lanes are those of a kernel set's flags, on x86-64 -mavx2 -mfma -mf16c at least; see the Makefile"
#endif

#ifndef HAS_DOT_FIRST
#define ints_dot_first ints_dot
#endif

#endif
