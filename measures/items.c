#include "measures/items.h"

const double *items_row(const Items *items, size_t map, size_t item) {
    const size_t *begin = items->begin;
    double n_queries = (double)(begin[item + 1] - begin[item]);
    for (size_t key = 0; key <= item; key++) items->row[key] = 0;
    for (size_t query = begin[item]; query < begin[item + 1]; query++) {
        const double *row = patterns_row(items->patterns, map, query);
        for (size_t key = 0; key <= item; key++)
            for (size_t token = begin[key]; token < begin[key + 1] && token <= query; token++)
                items->row[key] += row[token] / n_queries;
    }
    return items->row;
}

double items_lost(const Items *items, const double *lost, size_t map, size_t item) {
    const Patterns *patterns = items->patterns;
    size_t begin = items->begin[item], end = items->begin[item + 1];
    double sum = 0;
    for (size_t query = begin; query < end; query++)
        sum += lost[map * patterns->n_rows + query - patterns->first];
    return sum / (double)(end - begin);
}
