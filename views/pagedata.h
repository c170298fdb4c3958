/* What measures found, as the JSON of which a page is drawn: short, because there is much of it. */
#ifndef ATTN_PAGEDATA_H
#define ATTN_PAGEDATA_H

#include "cli/report.h"
#include "measures/heads.h"
#include "measures/lensrows.h"
#include "measures/predictions.h"
#include "measures/traces.h"

/*
 * "positions": [null, {"surprisal_nats", "rank", "entropy_nats"}, …], of each token as it was foreseen;
 * with `totals` "totals": {"n", "nll_nats", "perplexity", "bits_per_byte"};
 * "next": [{"entropy_nats", "log_sum", "top": [id, logit, …], "rest": […]}, …], after each token.
 */
void json_predictions(Report *report, const Predictions *predictions, bool totals);

/* "lens": {"rows": ["0_pre", …, "final_post"], "positions": [{"final", "rows": [[p, rank, id, p, …], …]}, …]} */
void json_lens(Report *report, const LensRows *lens);

/* The members "patterns", "output_norms", "value_norms" and "steps". levels [n_tokens][2] is scratch. */
void json_traces(Report *report, const Traces *traces, unsigned char *levels);

/*
 * Scores in few bytes: "columns" names them, "chance" and each of "rows" (head after head) hold them, "labels"; null of
 * heads that were not measured.
 */
void json_head_scores(Report *report, const char *key, const Heads *heads);

#endif
