/* Picks the kernel set, once at start. */
#include "kernels.h"

#include "sets.h"

#include <stdio.h>
#include <string.h>

#define LISTED(name) &kernels_##name,
static const Kernels *const sets[] = {KERNEL_SETS(LISTED)};

enum { N_SETS = sizeof sets / sizeof *sets };

const Kernels *kernels_set(size_t i) { return i < N_SETS ? sets[i] : NULL; }

enum { PAIRED_QUERIES = 4 /* from so many on, attention by BF16 costs a lone token nothing */ };

static bool runs_here(const Kernels *set) { return set->runs_here && set->runs_here(); }

static bool to_8_bits(const Product *product) {
    return (product->rounding.largest_q && product->rounding.largest_q <= INT8_MAX) ||
           product->rounding.x_bf16 == 1;
}

static bool rounds_to_8_bits(const Kernels *set) {
    for (size_t i = 0; i < DTYPE_LIMIT; i++)
        for (size_t way = 0; way < MAX_WAYS; way++) {
            const Product *product = set->products[i].ways[way].product;
            if (product && to_8_bits(product)) return true;
        }
    return false;
}

const Product *kernels_product(const Kernels *kernels, DType dtype, size_t n, size_t cols) {
    const Products *products = &kernels->products[dtype];
    size_t way = 0;
    while (n > products->ways[way].tokens) way++;
    const Product *product = products->ways[way].product;
    while (product->whole_cols && cols % product->whole_cols) product = product->otherwise;
    return product;
}

const Kernels *kernels_attention(const Kernels *kernels, DType weights, DType cache, size_t n_queries) {
    const Product *product = kernels_product(kernels, weights, SIZE_MAX, 0);
    const bool in_floats = cache == DTYPE_F32 || !to_8_bits(product) || n_queries < PAIRED_QUERIES;
    return in_floats && kernels->float_attention ? kernels->float_attention : kernels;
}

size_t kernels_company(const Kernels *kernels) { return kernels->few_sums ? PACKED_TOKENS : SIZE_MAX; }

const Kernels *kernels_fastest(void) {
    size_t i = N_SETS - 1;
    while (!runs_here(sets[i]) || (sets[i]->pays_here && !sets[i]->pays_here())) i--;
    return sets[i];
}

const Kernels *kernels_pick(const char *name, Error *error) {
    bool any = !name || !*name;
    char choices[128] = "";
    /* Whether a set runs here is asked last, because some ask the system for registers. */
    for (size_t i = N_SETS; i--;) {
        if (any ? rounds_to_8_bits(sets[i]) : strcmp(name, sets[i]->name) != 0) continue;
        if (runs_here(sets[i])) return sets[i];
    }
    for (size_t i = N_SETS; i--;) {
        size_t used = strlen(choices);
        if (runs_here(sets[i]))
            snprintf(choices + used, sizeof choices - used, "%s%s", used ? ", " : "", sets[i]->name);
    }
    error_set(error, "no kernel set '%s' on this CPU; choose one of: %s", name, choices);
    return NULL;
}
