/* Causal attention of one head in one window, and its gradients, for gradients.c: the scores never leave the cache. */
#ifndef ATTN_GRADIENTS_ATTENTION_H
#define ATTN_GRADIENTS_ATTENTION_H

#include "gradients_tiles.h"

enum { HEAD = 64 }; /* d_head */

/* A thread's room for a head of n positions. */
typedef struct {
    int n;
    float *scores, *dscores, *c; /* c: of products, [64][n + PAD] and more */
    bf16 *p, *ds, *p_tiles, *ds_tiles, *k_t, *v_t, *k_i, *v_i, *dz_a, *q_a;
} HeadScratch;

static HeadScratch head_scratch(size_t n, float *c) {
    HeadScratch w = {.n = (int)n, .c = c, .scores = memory(32 * (n + PAD) * 4), .dscores = memory(2 * 4096)};
    w.p = memory(32 * (n + 2 * PAD) * 2), w.ds = memory(32 * (n + 2 * PAD) * 2);
    w.p_tiles = memory(n * (n + 32) * 2), w.ds_tiles = memory(n * (n + 32) * 2);
    bf16 **heads[] = {&w.k_t, &w.v_t, &w.k_i, &w.v_i, &w.dz_a, &w.q_a};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) *heads[i] = memory(n * HEAD * 2);
    return w;
}

/* The mask of 16 keys up to the one that is `last` places from the first */
static inline __mmask16 past(int last) {
    return last >= 15 ? 0xffff : last < 0 ? 0 : (__mmask16)((2u << last) - 1);
}

/*
 * z [n][64] (rows of d) of a head whose q [n][64] stands at qkv (rows of 3 d), k and v d and 2 d numbers behind it; lse [n]:
 * the logarithm of the sum of each row's exponentials, which attend_back needs.
 */
static void attend(HeadScratch *w, const bf16 *qkv, int d, bf16 *z, float *lse) {
    int n = w->n, steps = n / 32;
    size_t stride = 3 * (size_t)d;
    pack_rows(qkv + d, stride, n, HEAD, w->k_t);
    pack_pairs(qkv + 2 * d, stride, n, HEAD, w->v_i, false);
    for (int q = 0; q < n; q += 32) {
        int keys = q + 32, wide = n + PAD;
        float share[32];
        for (int j = 0; j < keys; j += 32)
            block(rows_of(qkv + (size_t)q * stride, stride), w->k_t + (size_t)j * HEAD, HEAD / 32,
                  w->scores + j, (size_t)wide * 4, false);
        for (int i = 0; i < 32; i++) {
            float *row = w->scores + (size_t)i * wide;
            __m512 largest = _mm512_set1_ps(-INFINITY), sums = _mm512_setzero_ps();
            for (int j = 0; j < keys; j += 16)
                largest = _mm512_mask_max_ps(largest, past(q + i - j), largest, _mm512_load_ps(row + j));
            float most = 0.125f * _mm512_reduce_max_ps(largest);
            for (int j = 0; j < keys; j += 32) {
                __m512 e[2];
                for (int half = 0; half < 2; half++) {
                    __m512 score = _mm512_fmsub_ps(_mm512_load_ps(row + j + half * 16),
                                                   _mm512_set1_ps(0.125f), _mm512_set1_ps(most));
                    e[half] = _mm512_maskz_mov_ps(past(q + i - j - half * 16), exp512(score));
                }
                sums = _mm512_add_ps(sums, _mm512_add_ps(e[0], e[1]));
                _mm512_store_si512(w->p + (size_t)i * (n + 2 * PAD) + j, narrow(e[0], e[1]));
            }
            float sum = _mm512_reduce_add_ps(sums);
            lse[q + i] = most + logf(sum), share[i] = 1 / sum;
        }
        for (int j = 0; j < HEAD / 32; j++)
            block(rows_of(w->p, n + 2 * PAD), w->v_i + (size_t)j * steps * 2 * TILE, keys / 32, w->c + j * 32,
                  HEAD * 4, false);
        for (int i = 0; i < 32; i++) {
            for (int k = 0; k < HEAD; k += 16)
                _mm256_storeu_si256(
                    (void *)(z + (size_t)(q + i) * d + k),
                    narrow16(_mm512_mul_ps(_mm512_load_ps(w->c + i * HEAD + k), _mm512_set1_ps(share[i]))));
        }
    }
}

/* out[n][64] (rows of `stride`) = the transpose of c[64][n] */
static void put_transposed(const float *c, int n, bf16 *out, size_t stride) {
    for (int k = 0; k < n; k += 16)
        for (int j = 0; j < HEAD; j += 16) {
            __m512i r[16];
            for (int i = 0; i < 16; i++) r[i] = _mm512_load_si512(c + (size_t)(j + i) * (n + PAD) + k);
            transpose16(r);
            for (int i = 0; i < 16; i++)
                _mm256_storeu_si256((void *)(out + (size_t)(k + i) * stride + j),
                                    narrow16(_mm512_castsi512_ps(r[i])));
        }
}

/* dqkv, laid out as qkv, from dz, laid out as z; both as attend had them (Dao et al. 2022, arXiv:2205.14135, appendix B). */
static void attend_back(HeadScratch *w, const bf16 *qkv, const bf16 *z, const bf16 *dz, int d,
                        const float *lse, bf16 *dqkv) {
    int n = w->n, steps = n / 32;
    size_t stride = 3 * (size_t)d;
    pack_rows(qkv + d, stride, n, HEAD, w->k_t);
    pack_pairs(qkv + d, stride, n, HEAD, w->k_i, false);
    pack_rows(qkv + 2 * d, stride, n, HEAD, w->v_t);
    pack_pairs(dz, (size_t)d, n, HEAD, w->dz_a, true);
    pack_pairs(qkv, stride, n, HEAD, w->q_a, true);
    for (int q = 0; q < n; q += 32) {
        int keys = q + 32;
        float dots[32];
        for (int i = 0; i < 32; i++) {
            __m512 sum = _mm512_setzero_ps();
            for (int k = 0; k < HEAD; k += 16)
                sum = _mm512_fmadd_ps(widen(z + (size_t)(q + i) * d + k), widen(dz + (size_t)(q + i) * d + k),
                                      sum);
            dots[i] = _mm512_reduce_add_ps(sum);
        }
        for (int j = 0; j < keys; j += 32) {
            block(rows_of(qkv + (size_t)q * stride, stride), w->k_t + (size_t)j * HEAD, HEAD / 32, w->scores,
                  128, false);
            block(rows_of(dz + (size_t)q * d, d), w->v_t + (size_t)j * HEAD, HEAD / 32, w->dscores, 128,
                  false);
            bf16 *p_tile = w->p_tiles + ((size_t)(j / 32) * (steps + 1) + q / 32) * 2 * TILE;
            bf16 *ds_tile = w->ds_tiles + ((size_t)(j / 32) * (steps + 1) + q / 32) * 2 * TILE;
            for (int i = 0; i < 32; i += 2, p_tile += 32, ds_tile += 32) {
                __m512i p[2], ds[2];
                for (int r = 0; r < 2; r++) {
                    __m512 e[2], g[2], scale = _mm512_set1_ps(0.125f),
                                       minus = _mm512_set1_ps(-lse[q + i + r]);
                    __m512 dot = _mm512_set1_ps(dots[i + r] * 0.125f);
                    for (int half = 0; half < 2; half++) {
                        int at = (i + r) * 32 + half * 16;
                        __m512 score = _mm512_fmadd_ps(_mm512_load_ps(w->scores + at), scale, minus);
                        e[half] = _mm512_maskz_mov_ps(past(q + i + r - j - half * 16), exp512(score));
                        g[half] = _mm512_mul_ps(e[half],
                                                _mm512_fmsub_ps(_mm512_load_ps(w->dscores + at), scale, dot));
                    }
                    p[r] = narrow(e[0], e[1]), ds[r] = narrow(g[0], g[1]);
                    _mm512_store_si512(w->ds + (size_t)(i + r) * (n + 2 * PAD) + j, ds[r]);
                }
                _mm512_store_si512(p_tile, pair_low(p[0], p[1]));
                _mm512_store_si512(p_tile + TILE, pair_high(p[0], p[1]));
                _mm512_store_si512(ds_tile, pair_low(ds[0], ds[1]));
                _mm512_store_si512(ds_tile + TILE, pair_high(ds[0], ds[1]));
            }
        }
        for (int j = 0; j < HEAD / 32; j++)
            block(rows_of(w->ds, n + 2 * PAD), w->k_i + (size_t)j * steps * 2 * TILE, keys / 32,
                  w->c + j * 32, HEAD * 4, false);
        for (int i = 0; i < 32; i++)
            for (int k = 0; k < HEAD; k += 16)
                _mm256_storeu_si256((void *)(dqkv + (size_t)(q + i) * stride + k),
                                    narrow16(_mm512_load_ps(w->c + i * HEAD + k)));
    }
    for (int part = 1; part < 3; part++) { /* dK^T = Q^T dS, dV^T = dZ^T P */
        const bf16 *a = part == 1 ? w->q_a : w->dz_a, *b = part == 1 ? w->ds_tiles : w->p_tiles;
        for (int j = 0; j < steps; j++)
            for (int i = 0; i < HEAD / 32; i++)
                block(tiles_of(a + ((size_t)i * steps + j) * 2 * TILE),
                      b + ((size_t)j * (steps + 1) + j) * 2 * TILE, steps - j,
                      w->c + (size_t)i * 32 * (n + PAD) + j * 32, (size_t)(n + PAD) * 4, false);
        put_transposed(w->c, n, dqkv + (size_t)part * d, stride);
    }
}

#endif
