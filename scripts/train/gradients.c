/* Loss and gradients of a GPT-2 on a CPU that multiplies bf16 (AVX-512 with BF16; best with AMX), for train.py: what
   PyTorch's autograd gives in bf16, several times as fast, because what follows a product is done while its rows are in the cache, and the
   scores of attention never leave it. gradients_tiles.h has the products and the numbers that they are of,
   gradients_attention.h one head of attention.

   Each thread takes windows of its own, CHUNK of them at a time, and keeps its own sums. Weights and activations are
   bf16 in products, sums and the residual stream are F32. d_head is 64; d_model, n_ctx and n_vocab are multiples of 32. */
#include "gradients_attention.h"
#include <pthread.h>

enum { CHUNK = 2, MAX_LAYERS = 32, GROUP = 256 };
/* A logit above it is taken for it, so that the exponentials of the last layer need no largest one. */
#define MOST 80.0f

typedef struct {
    int n_layer, n_head, d_model, n_ctx, n_vocab;
} Shape;

/* One matrix [n][k], laid out as B of x W^T and as B of dy W. */
typedef struct {
    int n, k;
    bf16 *forward, *backward;
} Packed;

enum {
    NORM1,
    NORM1_BIAS,
    QKV,
    QKV_BIAS,
    OUT,
    OUT_BIAS,
    NORM2,
    NORM2_BIAS,
    UP,
    UP_BIAS,
    DOWN,
    DOWN_BIAS,
    PER_LAYER
};

typedef struct {
    float *resid, *resid_mid;            /* [T][d] */
    bf16 *x1, *qkv, *z, *x2, *h, *slope; /* slope: of GELU */
    float *lse;                          /* [head][T] */
} Saved;

typedef struct Gradients Gradients;

typedef struct {
    Gradients *all;
    int first, n; /* windows */
    double loss;
    Saved layer[MAX_LAYERS];
    float *resid_last, *dx, *c;
    bf16 *xf, *dy, *du, *dz, *dqkv, *a, *b, *e;
    HeadScratch head;
    float **sums;    /* of each parameter; matrices in blocks */
    float *embedded; /* [n_vocab][d]: of the rows that were looked up */
    bool fresh;      /* nothing in sums yet */
} Worker;

struct Gradients {
    Shape shape;
    int n_threads, n_params;
    float **params, **grads;
    const int32_t *ids;
    int n_windows;
    Packed embd, *matrix; /* matrix: [layer][4] qkv, out, up, down */
    bf16 *row_major;
    Worker *worker;
    pthread_barrier_t barrier;
};

static float *parameter(const Gradients *all, int layer, int which) {
    return all->params[2 + layer * PER_LAYER + which];
}
static float *sum_of(const Worker *w, int layer, int which) { return w->sums[2 + layer * PER_LAYER + which]; }
static float *last_norm(float **list, const Gradients *all) {
    return list[2 + all->shape.n_layer * PER_LAYER];
}
static float *last_bias(float **list, const Gradients *all) {
    return list[3 + all->shape.n_layer * PER_LAYER];
}

static void forward_layer(Worker *w, int layer, int T) {
    const Gradients *all = w->all;
    int d = all->shape.d_model, n = all->shape.n_ctx;
    Saved *s = &w->layer[layer];
    const Packed *m = &all->matrix[layer * 4];
    const float *bias = parameter(all, layer, QKV_BIAS);
    for (int t = 0; t < T; t += 32) {
        for (int j = 0; j < 3 * d; j += 32) {
            block(rows_of(s->x1 + (size_t)t * d, d), m[0].forward + (size_t)j * d, d / 32, w->c, 128, false);
            __m512 b0 = _mm512_loadu_ps(bias + j), b1 = _mm512_loadu_ps(bias + j + 16);
            for (int i = 0; i < 32; i++)
                _mm512_storeu_si512(s->qkv + (size_t)(t + i) * 3 * d + j,
                                    narrow(_mm512_add_ps(_mm512_load_ps(w->c + i * 32), b0),
                                           _mm512_add_ps(_mm512_load_ps(w->c + i * 32 + 16), b1)));
        }
    }
    for (int t = 0; t < T; t += n)
        for (int head = 0; head < all->shape.n_head; head++)
            attend(&w->head, s->qkv + (size_t)t * 3 * d + head * HEAD, d, s->z + (size_t)t * d + head * HEAD,
                   s->lse + (size_t)head * T + t);
    bias = parameter(all, layer, OUT_BIAS);
    for (int t = 0; t < T; t += 32) {
        product(rows_of(s->z + (size_t)t * d, d), m[1].forward, d, d, w->c);
        for (int i = 0; i < 32; i++) {
            float *to = s->resid_mid + (size_t)(t + i) * d, *from = s->resid + (size_t)(t + i) * d;
            for (int j = 0; j < d; j++) to[j] = from[j] + w->c[(size_t)i * (d + PAD) + j] + bias[j];
            layer_norm(to, parameter(all, layer, NORM2), parameter(all, layer, NORM2_BIAS), d,
                       s->x2 + (size_t)(t + i) * d);
        }
    }
    bias = parameter(all, layer, UP_BIAS);
    for (int t = 0; t < T; t += 32) {
        for (int j = 0; j < 4 * d; j += 32) {
            block(rows_of(s->x2 + (size_t)t * d, d), m[2].forward + (size_t)j * d, d / 32, w->c, 128, false);
            for (int i = 0; i < 32; i++) {
                __m512 h[2], slope[2];
                for (int half = 0; half < 2; half++) {
                    __m512 u = _mm512_add_ps(_mm512_load_ps(w->c + i * 32 + half * 16),
                                             _mm512_loadu_ps(bias + j + half * 16));
                    gelu(u, &h[half], &slope[half]);
                }
                size_t at = (size_t)(t + i) * 4 * d + j;
                _mm512_storeu_si512(s->h + at, narrow(h[0], h[1]));
                _mm512_storeu_si512(s->slope + at, narrow(slope[0], slope[1]));
            }
        }
    }
    bias = parameter(all, layer, DOWN_BIAS);
    bool last = layer + 1 == all->shape.n_layer;
    float *next = last ? w->resid_last : w->layer[layer + 1].resid;
    bf16 *x = last ? w->xf : w->layer[layer + 1].x1;
    const float *weight = last ? last_norm(all->params, all) : parameter(all, layer + 1, NORM1);
    const float *norm_bias = last ? last_bias(all->params, all) : parameter(all, layer + 1, NORM1_BIAS);
    for (int t = 0; t < T; t += 32) {
        product(rows_of(s->h + (size_t)t * 4 * d, 4 * d), m[3].forward, d, 4 * d, w->c);
        for (int i = 0; i < 32; i++) {
            float *to = next + (size_t)(t + i) * d, *from = s->resid_mid + (size_t)(t + i) * d;
            for (int j = 0; j < d; j++) to[j] = from[j] + w->c[(size_t)i * (d + PAD) + j] + bias[j];
            layer_norm(to, weight, norm_bias, d, x + (size_t)(t + i) * d);
        }
    }
}

/* y = bf16(dx), and the sums of its columns */
static void narrow_dx(Worker *w, int T, float *d_bias) {
    int d = w->all->shape.d_model;
    for (int t = 0; t < T; t++)
        for (int j = 0; j < d; j += 16) {
            __m512 x = _mm512_load_ps(w->dx + (size_t)t * d + j);
            _mm512_storeu_ps(d_bias + j, _mm512_add_ps(x, _mm512_loadu_ps(d_bias + j)));
            _mm256_storeu_si256((void *)(w->dy + (size_t)t * d + j), narrow16(x));
        }
}

static void backward_layer(Worker *w, int layer, int T) {
    const Gradients *all = w->all;
    int d = all->shape.d_model, n = all->shape.n_ctx;
    Saved *s = &w->layer[layer];
    const Packed *m = &all->matrix[layer * 4];
    narrow_dx(w, T, sum_of(w, layer, DOWN_BIAS));
    pack_pairs(w->dy, d, T, d, w->a, true);
    pack_pairs(s->h, 4 * (size_t)d, T, 4 * d, w->b, false);
    accumulate(w->fresh, w->a, w->b, d, 4 * d, T, sum_of(w, layer, DOWN));
    float *d_bias = sum_of(w, layer, UP_BIAS);
    for (int t = 0; t < T; t += 32) {
        for (int j = 0; j < 4 * d; j += 32) {
            block(rows_of(w->dy + (size_t)t * d, d), m[3].backward + (size_t)j * d, d / 32, w->c, 128, false);
            __m512 b0 = _mm512_loadu_ps(d_bias + j), b1 = _mm512_loadu_ps(d_bias + j + 16);
            for (int i = 0; i < 32; i++) {
                size_t at = (size_t)(t + i) * 4 * d + j;
                __m512 g0 = _mm512_mul_ps(_mm512_load_ps(w->c + i * 32), widen(s->slope + at));
                __m512 g1 = _mm512_mul_ps(_mm512_load_ps(w->c + i * 32 + 16), widen(s->slope + at + 16));
                b0 = _mm512_add_ps(b0, g0), b1 = _mm512_add_ps(b1, g1);
                _mm512_storeu_si512(w->du + at, narrow(g0, g1));
            }
            _mm512_storeu_ps(d_bias + j, b0), _mm512_storeu_ps(d_bias + j + 16, b1);
        }
    }
    pack_pairs(s->x2, d, T, d, w->a, true);
    pack_pairs(w->du, 4 * (size_t)d, T, 4 * d, w->b, false);
    accumulate(w->fresh, w->a, w->b, d, 4 * d, T, sum_of(w, layer, UP));
    for (int t = 0; t < T; t += 32) {
        product(rows_of(w->du + (size_t)t * 4 * d, 4 * d), m[2].backward, d, 4 * d, w->c);
        for (int i = 0; i < 32; i++)
            layer_norm_back(s->resid_mid + (size_t)(t + i) * d, parameter(all, layer, NORM2),
                            w->c + (size_t)i * (d + PAD), d, w->dx + (size_t)(t + i) * d,
                            sum_of(w, layer, NORM2), sum_of(w, layer, NORM2_BIAS));
    }

    narrow_dx(w, T, sum_of(w, layer, OUT_BIAS));
    pack_pairs(w->dy, d, T, d, w->a, true);
    pack_pairs(s->z, d, T, d, w->b, false);
    accumulate(w->fresh, w->a, w->b, d, d, T, sum_of(w, layer, OUT));
    for (int t = 0; t < T; t += 32) {
        for (int j = 0; j < d; j += 32) {
            block(rows_of(w->dy + (size_t)t * d, d), m[1].backward + (size_t)j * d, d / 32, w->c, 128, false);
            for (int i = 0; i < 32; i++)
                _mm512_storeu_si512(
                    w->dz + (size_t)(t + i) * d + j,
                    narrow(_mm512_load_ps(w->c + i * 32), _mm512_load_ps(w->c + i * 32 + 16)));
        }
    }
    for (int t = 0; t < T; t += n)
        for (int head = 0; head < all->shape.n_head; head++)
            attend_back(&w->head, s->qkv + (size_t)t * 3 * d + head * HEAD,
                        s->z + (size_t)t * d + head * HEAD, w->dz + (size_t)t * d + head * HEAD, d,
                        s->lse + (size_t)head * T + t, w->dqkv + (size_t)t * 3 * d + head * HEAD);
    d_bias = sum_of(w, layer, QKV_BIAS);
    for (int t = 0; t < T; t++)
        for (int j = 0; j < 3 * d; j += 16)
            _mm512_storeu_ps(d_bias + j, _mm512_add_ps(widen(w->dqkv + (size_t)t * 3 * d + j),
                                                       _mm512_loadu_ps(d_bias + j)));
    pack_pairs(s->x1, d, T, d, w->a, true);
    pack_pairs(w->dqkv, 3 * (size_t)d, T, 3 * d, w->b, false);
    accumulate(w->fresh, w->a, w->b, d, 3 * d, T, sum_of(w, layer, QKV));
    for (int t = 0; t < T; t += 32) {
        product(rows_of(w->dqkv + (size_t)t * 3 * d, 3 * d), m[0].backward, d, 3 * d, w->c);
        for (int i = 0; i < 32; i++)
            layer_norm_back(s->resid + (size_t)(t + i) * d, parameter(all, layer, NORM1),
                            w->c + (size_t)i * (d + PAD), d, w->dx + (size_t)(t + i) * d,
                            sum_of(w, layer, NORM1), sum_of(w, layer, NORM1_BIAS));
    }
}

/* From the last norm's output to the loss, and back to dx. `windows` go together. The exponentials e of the logits are
   kept without their row's scale, which multiplies what is made of them, and without the 1 of the target. */
static void unembed(Worker *w, int first, int windows) {
    const Gradients *all = w->all;
    int d = all->shape.d_model, n = all->shape.n_ctx, blocks = all->shape.n_vocab / 32, T = windows * n,
        steps = T / 32;
    float share = 1 / ((float)all->n_windows * (float)n);
    size_t base = (size_t)(first - w->first) % CHUNK * (size_t)n;
    for (int t = 0; t < T; t += GROUP) {
        int rows = T - t < GROUP ? T - t : GROUP;
        __m512 sums[GROUP];
        for (int i = 0; i < rows; i++) sums[i] = _mm512_setzero_ps();
        for (int j = 0; j < blocks; j++)
            for (int p = 0; p < rows; p += 32) {
                block(rows_of(w->xf + (base + (size_t)(t + p)) * d, d),
                      all->embd.forward + (size_t)j * 32 * d, d / 32, w->c, 128, false);
                bf16 *left = w->e + ((size_t)p / 32 * blocks + j) * 2 * TILE;
                bf16 *right = w->b + ((size_t)j * steps + (t + p) / 32) * 2 * TILE;
                for (int i = 0; i < 32; i += 2) {
                    __m512i row[2];
                    for (int r = 0; r < 2; r++) {
                        const __m512 most = _mm512_set1_ps(MOST);
                        __m512 e0 = exp512(_mm512_min_ps(_mm512_load_ps(w->c + (i + r) * 32), most));
                        __m512 e1 = exp512(_mm512_min_ps(_mm512_load_ps(w->c + (i + r) * 32 + 16), most));
                        sums[p + i + r] = _mm512_add_ps(sums[p + i + r], _mm512_add_ps(e0, e1));
                        row[r] = narrow(e0, e1);
                        _mm512_store_si512(left + (i + r) * 32, row[r]);
                    }
                    _mm512_store_si512(right + i * 16, pair_low(row[0], row[1]));
                    _mm512_store_si512(right + TILE + i * 16, pair_high(row[0], row[1]));
                }
            }
        for (int s = 0; s < blocks; s += L1_STEPS)
            for (int j = 0; j < d / 32; j++)
                for (int p = 0; p < rows; p += 32)
                    block(tiles_of(w->e + ((size_t)p / 32 * blocks + s) * 2 * TILE),
                          all->embd.backward + ((size_t)j * blocks + s) * 2 * TILE,
                          blocks - s < L1_STEPS ? blocks - s : L1_STEPS,
                          w->c + (size_t)p * (d + PAD) + j * 32, (size_t)(d + PAD) * 4, s > 0);
        for (int i = 0; i < rows; i++) {
            int32_t target = all->ids[(size_t)(first + (t + i) / n) * (n + 1) + (t + i) % n + 1];
            const float *e = all->params[0] + (size_t)target * d;
            float total = _mm512_reduce_add_ps(sums[i]), *dy = w->c + (size_t)i * (d + PAD),
                  *to = w->embedded + (size_t)target * d;
            bf16 *x = w->xf + (base + (size_t)(t + i)) * d;
            __m512 scale = _mm512_set1_ps(share / total), minus = _mm512_set1_ps(-share),
                   dot = _mm512_setzero_ps();
            for (int j = 0; j < d; j += 16) {
                __m512 x16 = widen(x + j), e16 = _mm512_loadu_ps(e + j);
                dot = _mm512_fmadd_ps(x16, e16, dot);
                _mm512_storeu_ps(dy + j,
                                 _mm512_fmadd_ps(minus, e16, _mm512_mul_ps(scale, _mm512_load_ps(dy + j))));
                _mm512_storeu_ps(to + j, _mm512_fmadd_ps(minus, x16, _mm512_loadu_ps(to + j)));
                _mm256_storeu_si256((void *)(x + j), narrow16(_mm512_mul_ps(scale, x16)));
            }
            w->loss += (double)(logf(total) - _mm512_reduce_add_ps(dot));
            float *dx = w->dx + (base + (size_t)(t + i)) * d;
            memset(dx, 0, (size_t)d * 4);
            layer_norm_back(w->resid_last + (base + (size_t)(t + i)) * d, last_norm(all->params, all), dy, d,
                            dx, last_norm(w->sums, all), last_bias(w->sums, all));
        }
    }
    pack_pairs(w->xf + base * d, d, T, d, w->a, true);
    accumulate(w->fresh && first == w->first, w->a, w->b, d, all->shape.n_vocab, T, w->sums[0]);
}

static void chunk(Worker *w, int first, int windows) {
    const Gradients *all = w->all;
    int d = all->shape.d_model, n = all->shape.n_ctx, T = windows * n;
    for (int t = 0; t < T; t++) {
        const float *e = all->params[0] + (size_t)all->ids[(size_t)(first + t / n) * (n + 1) + t % n] * d;
        const float *p = all->params[1] + (size_t)(t % n) * d;
        float *to = w->layer[0].resid + (size_t)t * d;
        for (int j = 0; j < d; j++) to[j] = e[j] + p[j];
        layer_norm(to, parameter(all, 0, NORM1), parameter(all, 0, NORM1_BIAS), d,
                   w->layer[0].x1 + (size_t)t * d);
    }
    for (int layer = 0; layer < all->shape.n_layer; layer++) forward_layer(w, layer, T);
    for (int i = 0; i < windows; i += 2) unembed(w, first + i, windows - i < 2 ? windows - i : 2);
    for (int layer = all->shape.n_layer; layer-- > 0;) backward_layer(w, layer, T);
    for (int t = 0; t < T; t++) {
        float *e = w->embedded + (size_t)all->ids[(size_t)(first + t / n) * (n + 1) + t % n] * d;
        float *p = w->sums[1] + (size_t)(t % n) * d;
        const float *dx = w->dx + (size_t)t * d;
        for (int j = 0; j < d; j++) e[j] += dx[j], p[j] += dx[j];
    }
    w->fresh = false;
}

static void to_bf16(const float *x, size_t n, bf16 *out) {
    for (size_t i = 0; i < n; i += 16)
        _mm256_storeu_si256((void *)(out + i), narrow16(_mm512_loadu_ps(x + i)));
}

static void pack_matrix(const Gradients *all, const float *weights, const Packed *m) {
    bf16 *rows = all->row_major;
    to_bf16(weights, (size_t)m->n * m->k, rows);
    pack_rows(rows, m->k, m->n, m->k, m->forward);
    pack_pairs(rows, m->k, m->n, m->k, m->backward, false);
}

static size_t size_of(const Gradients *all, int i) {
    size_t d = (size_t)all->shape.d_model;
    if (i == 0) return (size_t)all->shape.n_vocab * d;
    if (i == 1) return (size_t)all->shape.n_ctx * d;
    i -= 2;
    if (i >= all->shape.n_layer * PER_LAYER) return d;
    switch (i % PER_LAYER) {
    case QKV: return 3 * d * d;
    case OUT: return d * d;
    case UP:
    case DOWN: return 4 * d * d;
    case QKV_BIAS: return 3 * d;
    case UP_BIAS: return 4 * d;
    default: return d;
    }
}

/* The columns of a matrix's sums, of d_model rows; 0: no matrix, they lie as the parameters. */
static size_t columns_of(const Gradients *all, int i) {
    size_t d = (size_t)all->shape.d_model;
    if (i == 0) return (size_t)all->shape.n_vocab;
    if (i == 1 || i >= 2 + all->shape.n_layer * PER_LAYER) return 0;
    switch ((i - 2) % PER_LAYER) {
    case QKV: return 3 * d;
    case OUT: return d;
    case UP:
    case DOWN: return 4 * d;
    default: return 0;
    }
}

/*
 * The sums of all threads, as the parameters lie: those of OUT and DOWN are [d][columns], of the others [columns][d].
 */
static void merge(const Gradients *all, int i) {
    size_t n = size_of(all, i), columns = columns_of(all, i), d = (size_t)all->shape.d_model;
    bool as_it_lies = i > 1 && ((i - 2) % PER_LAYER == OUT || (i - 2) % PER_LAYER == DOWN);
    float *to = all->grads[i];
    if (!columns) {
        for (size_t j = 0; j < n; j++) {
            float sum = 0;
            for (int t = 0; t < all->n_threads; t++) sum += all->worker[t].sums[i][j];
            to[j] = sum;
        }
        return;
    }
    for (size_t j = 0; j < columns; j += 16)
        for (size_t k = 0; k < d; k += 16) {
            __m512i r[16];
            for (size_t l = 0; l < 16; l++) {
                __m512 sum = _mm512_setzero_ps();
                for (int t = 0; t < all->n_threads; t++)
                    sum = _mm512_add_ps(
                        sum, _mm512_load_ps(all->worker[t].sums[i] + (j / 32 * d + k + l) * 32 + j % 32));
                if (as_it_lies) _mm512_storeu_ps(to + (k + l) * columns + j, sum);
                r[l] = _mm512_castps_si512(sum);
            }
            if (as_it_lies) continue;
            transpose16(r);
            for (size_t l = 0; l < 16; l++) {
                __m512 sum = _mm512_castsi512_ps(r[l]);
                for (int t = 0; i == 0 && t < all->n_threads; t++)
                    sum = _mm512_add_ps(sum, _mm512_loadu_ps(all->worker[t].embedded + (j + l) * d + k));
                _mm512_storeu_ps(to + (j + l) * d + k, sum);
            }
        }
}

static void *work(void *argument) {
    Worker *w = argument;
    Gradients *all = w->all;
    begin_tiles();
    int index = (int)(w - all->worker);
    w->loss = 0, w->fresh = true;
    for (int i = 1; i < all->n_params; i++)
        if (size_of(all, i) <= 4 * (size_t)all->shape.d_model || i == 1)
            memset(w->sums[i], 0, size_of(all, i) * 4);
    memset(w->embedded, 0, size_of(all, 0) * 4);
    for (int i = 0; i < w->n; i += CHUNK) chunk(w, w->first + i, w->n - i < CHUNK ? w->n - i : CHUNK);
    pthread_barrier_wait(&all->barrier);
    for (int i = index; i < all->n_params; i += all->n_threads) merge(all, i);
    end_tiles();
    return NULL;
}

/* Parameters are in the order of train.py's Model.named_parameters. */
Gradients *gradients_new(int n_layer, int n_head, int d_model, int n_ctx, int n_vocab, int n_threads) {
    if (!begin_tiles()) return NULL;
    end_tiles();
    if (d_model != n_head * HEAD || d_model % 32 || n_ctx % 32 || n_vocab % 32 || n_layer > MAX_LAYERS)
        return NULL;
    Gradients *all = calloc(1, sizeof *all);
    all->shape = (Shape){n_layer, n_head, d_model, n_ctx, n_vocab};
    all->n_threads = n_threads, all->n_params = 4 + n_layer * PER_LAYER;
    size_t d = (size_t)d_model, T = CHUNK * (size_t)n_ctx, v = (size_t)n_vocab;
    all->embd = (Packed){n_vocab, d_model, memory(v * d * 2), memory(v * d * 2)};
    all->matrix = calloc((size_t)n_layer * 4, sizeof *all->matrix);
    for (int i = 0; i < n_layer * 4; i++) {
        int n = (int[]){3, 1, 4, 1}[i % 4] * d_model, k = i % 4 == 3 ? 4 * d_model : d_model;
        all->matrix[i] = (Packed){n, k, memory((size_t)n * k * 2), memory((size_t)n * k * 2)};
    }
    all->row_major = memory(v * d * 2 + 8 * d * d);
    all->worker = calloc((size_t)n_threads, sizeof *all->worker);
    for (int t = 0; t < n_threads; t++) {
        Worker *w = &all->worker[t];
        w->all = all;
        for (int i = 0; i < n_layer; i++)
            w->layer[i] = (Saved){.resid = memory(T * d * 4),
                                  .resid_mid = memory(T * d * 4),
                                  .x1 = memory(T * d * 2),
                                  .qkv = memory(T * d * 6),
                                  .z = memory(T * d * 2),
                                  .x2 = memory(T * d * 2),
                                  .h = memory(T * d * 8),
                                  .slope = memory(T * d * 8),
                                  .lse = memory(T * (size_t)n_head * 4)};
        size_t n = (size_t)n_ctx;
        w->resid_last = memory(T * d * 4), w->dx = memory(T * d * 4),
        w->c = memory((GROUP * (d + PAD) + HEAD * (n + PAD)) * 4);
        w->head = head_scratch(n, w->c);
        w->xf = memory(T * d * 2), w->dy = memory(T * d * 2), w->du = memory(T * d * 8),
        w->dz = memory(T * d * 2);
        w->dqkv = memory(T * d * 6), w->a = memory(T * d * 2), w->e = memory(GROUP * v * 2);
        w->b = memory((T * d * 8 > 2 * n * v * 2 ? T * d * 8 : 2 * n * v * 2));
        w->sums = calloc((size_t)all->n_params, sizeof *w->sums);
        for (int i = 0; i < all->n_params; i++) w->sums[i] = memory(size_of(all, i) * 4);
        w->embedded = memory(v * d * 4);
    }
    return all;
}

/* Mean loss in nats over ids [n_windows][n_ctx + 1]; its gradients replace what is in grads. */
double gradients_run(Gradients *all, float **params, float **grads, const int32_t *ids, int n_windows) {
    all->params = params, all->grads = grads, all->ids = ids, all->n_windows = n_windows;
    pack_matrix(all, params[0], &all->embd);
    for (int i = 0; i < all->shape.n_layer; i++)
        for (int j = 0; j < 4; j++)
            pack_matrix(all, parameter(all, i, (int[]){QKV, OUT, UP, DOWN}[j]), &all->matrix[i * 4 + j]);
    pthread_barrier_init(&all->barrier, NULL, (unsigned)all->n_threads);
    pthread_t threads[64];
    for (int t = 0; t < all->n_threads; t++) {
        Worker *w = &all->worker[t];
        w->first = n_windows * t / all->n_threads;
        w->n = n_windows * (t + 1) / all->n_threads - w->first;
        if (pthread_create(&threads[t], NULL, work, w))
            return NAN; /* the others wait for it: train.py must end */
    }
    double loss = 0;
    for (int t = 0; t < all->n_threads; t++) pthread_join(threads[t], NULL), loss += all->worker[t].loss;
    pthread_barrier_destroy(&all->barrier);
    return loss / ((double)n_windows * all->shape.n_ctx);
}
