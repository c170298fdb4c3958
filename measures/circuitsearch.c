#include "measures/circuitsearch.h"

#include <math.h>
#include <string.h>

/* Means over texts. */
typedef struct Means {
    double metric, divergence;
} Means;

/* Runs with the edges that are in. */
static bool measure(CircuitSearch *search, Means *means, Error *error) {
    Means sums = {0, search->kl ? 0 : NAN};
    for (size_t i = 0; i < search->n_texts; i++) {
        const SearchText *text = &search->texts[i];
        double value, divergence = NAN;
        if (!mixture_run(text->mixture, text->clean, search->in, &value, error)) return false;
        if (search->kl) {
            search->kl->metric.reference = text->whole;
            readout_values(search->kl, text->mixture->session, text->mixture->final, 1, &divergence);
        }
        sums.metric += value;
        sums.divergence += divergence;
        search->n_runs++;
    }
    double n = (double)search->n_texts;
    *means = (Means){sums.metric / n, sums.divergence / n};
    return true;
}

static void put(CircuitSearch *search, size_t from, size_t n, bool in) {
    for (size_t i = from; i < from + n; i++)
        unit_put(search->graph, search->unit, search->order[i], search->in, in);
}

static bool may_go(const CircuitSearch *search, const Means *now) {
    double moved = search->kl ? now->divergence - search->divergence : fabs(now->metric - search->value);
    return moved <= search->threshold;
}

static void take(CircuitSearch *search, const Means *now) {
    search->value = now->metric;
    search->divergence = now->divergence;
}

bool circuit_search(CircuitSearch *search, Error *error) {
    size_t n = n_units(search->graph, search->unit);
    const char *what = search->unit == UNIT_NODE ? "nodes" : "edges";
    Means now;
    memset(search->in, true, search->graph->n_edges * sizeof *search->in);
    search->n_in = n;
    if (!measure(search, &now, error)) return false;
    take(search, &now);
    search->whole = now.metric;
    for (size_t done = 0, group = 1; done < n;) {
        group = at_most(group, n - done);
        put(search, done, group, false);
        if (!subject_go_on(search->subject, what, done, n, error) || !measure(search, &now, error))
            return false;
        search->n_tries++;
        if (may_go(search, &now)) {
            take(search, &now);
            search->n_in -= group;
            done += group;
            group *= 2;
            continue;
        }
        put(search, done, group, true);
        if (group == 1) done++;
        group = group > 1 ? group / 2 : 1;
    }
    subject_go_on(search->subject, what, n, n, NULL);
    return true;
}
