#include "layers/rope.h"

#include <math.h>
#include <stdlib.h>

/* YaRN, section 3.2: the dimension whose pair turns `turns` times within the original context. */
static double dim_of_turns(const RopeConfig *config, double turns) {
    const double pi = 3.14159265358979323846;
    return (double)config->dim * log((double)config->n_ctx_original / (turns * 2 * pi)) /
           (2 * log(config->base));
}

/* How much of pair i is divided by the scale: 0 for the fast ones, 1 for the slow ones. */
static double interpolated(const RopeConfig *config, size_t i) {
    if (!config->yarn) return 1;
    double low = dim_of_turns(config, config->beta_fast), high = dim_of_turns(config, config->beta_slow);
    if (!config->yarn_exact) low = floor(low), high = ceil(high);
    low = fmax(low, 0), high = fmin(high, (double)config->dim - 1);
    return fmin(fmax(((double)i - low) / fmax(high - low, 0.001), 0), 1);
}

static double *frequencies(const RopeConfig *config, const float *factors) {
    size_t n_pairs = config->dim / 2;
    double *freq = malloc(n_pairs * sizeof *freq);
    for (size_t i = 0; freq && i < n_pairs; i++) {
        double full = pow(config->base, -2.0 * (double)i / (double)config->dim),
               slow = interpolated(config, i);
        if (factors) full /= (double)factors[i];
        freq[i] = full / config->scale * slow + full * (1 - slow);
    }
    return freq;
}

bool rope_open(Rope *rope, const RopeConfig *config, const float *factors, const float *long_factors) {
    *rope = (Rope){
        config->pairing,       config->dim, (float)config->magnitude, frequencies(config, factors), NULL,
        config->n_ctx_original};
    if (long_factors) rope->long_freq = frequencies(config, long_factors);
    return rope->freq && (rope->long_freq || !long_factors);
}

void rope_close(Rope *rope) {
    free(rope->freq);
    free(rope->long_freq);
}

void rope_angles(const Rope *rope, size_t n_ctx, size_t position, float *cos_sin) {
    const double *freq = rope->long_freq && n_ctx > rope->n_ctx_original ? rope->long_freq : rope->freq;
    for (size_t i = 0; i < rope->dim / 2; i++) {
        double angle = (double)position * freq[i];
        cos_sin[2 * i] = (float)cos(angle) * rope->magnitude;
        cos_sin[2 * i + 1] = (float)sin(angle) * rope->magnitude;
    }
}

void rope_rotate(const Rope *rope, float *x, const float *cos_sin) {
    size_t n_pairs = rope->dim / 2;
    size_t step = rope->pairing == ROPE_NEIGHBOURS ? 2 : 1,
           apart = rope->pairing == ROPE_NEIGHBOURS ? 1 : n_pairs;
    for (size_t i = 0; i < n_pairs; i++) {
        float *a = x + i * step, *b = a + apart, c = cos_sin[2 * i], s = cos_sin[2 * i + 1], before = *a;
        *a = before * c - *b * s;
        *b = before * s + *b * c;
    }
}
