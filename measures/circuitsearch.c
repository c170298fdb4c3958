#include "measures/circuitsearch.h"

#include <math.h>
#include <string.h>

/* The mean of the metric with the edges that are in. */
static bool measure(CircuitSearch *search, double *mean, Error *error) {
    double sum = 0, value;
    for (size_t i = 0; i < search->n_texts; i++) {
        const SearchText *text = &search->texts[i];
        if (!mixture_run(text->mixture, text->clean, search->in, &value, error)) return false;
        sum += value;
        search->n_runs++;
    }
    *mean = sum / (double)search->n_texts;
    return true;
}

static void put(CircuitSearch *search, size_t from, size_t n, bool in) {
    for (size_t i = from; i < from + n; i++) search->in[search->order[i]] = in;
}

bool circuit_search(CircuitSearch *search, Error *error) {
    memset(search->in, true, search->n_edges * sizeof *search->in);
    search->n_in = search->n_edges;
    if (!measure(search, &search->whole, error)) return false;
    search->value = search->whole;
    for (size_t done = 0, group = 1; done < search->n_edges;) {
        double value;
        group = at_most(group, search->n_edges - done);
        put(search, done, group, false);
        if (!subject_go_on(search->subject, "edges", done, search->n_edges, error) ||
            !measure(search, &value, error))
            return false;
        search->n_tries++;
        if (fabs(value - search->value) <= search->threshold) {
            search->value = value;
            search->n_in -= group;
            done += group;
            group *= 2;
            continue;
        }
        put(search, done, group, true);
        if (group == 1) done++;
        group = group > 1 ? group / 2 : 1;
    }
    subject_go_on(search->subject, "edges", search->n_edges, search->n_edges, NULL);
    return true;
}
