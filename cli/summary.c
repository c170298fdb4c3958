#include "cli/summary.h"

#include "cli/print.h"
#include "cli/process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool summary_add(Summary *summary, int32_t id, double logprob) {
    double *logprobs = realloc(summary->logprobs, (summary->tokens.n + 1) * sizeof *logprobs);
    if (!logprobs) return false;
    summary->logprobs = logprobs;
    summary->logprobs[summary->tokens.n] = logprob;
    return tokens_push(&summary->tokens, id, NULL);
}

void summary_free(Summary *summary) {
    tokens_free(&summary->tokens);
    free(summary->logprobs);
    free(summary->text.data);
}

static double per_second(size_t n, double ms) { return ms > 0 ? 1e3 * (double)n / ms : 0; }

void summary_print_json(const Summary *summary) {
    printf("{\"model\": ");
    print_json_string(stdout, summary->model, strlen(summary->model));
    printf(", \"text\": ");
    print_json_string(stdout, summary->text.data, summary->text.n);
    printf(", \"tokens\": [");
    for (size_t i = 0; i < summary->tokens.n; i++)
        printf("%s%" PRId32, i ? ", " : "", summary->tokens.ids[i]);
    printf("], \"logprobs\": [");
    for (size_t i = 0; i < summary->tokens.n; i++) printf("%s%.9g", i ? ", " : "", summary->logprobs[i]);
    printf("], \"stop\": \"%s\", \"seed\": %" PRIu64, summary->end, summary->seed);
    printf(", \"timings\": {\"load_ms\": %.3f, \"prompt_n\": %zu, \"prompt_ms\": %.3f, "
           "\"prompt_per_second\": %.3f, "
           "\"predicted_n\": %zu, \"predicted_ms\": %.3f, \"predicted_per_second\": %.3f, "
           "\"peak_rss_bytes\": %" PRIu64 "}}\n",
           summary->load_ms, summary->n_prompt, summary->prompt_ms,
           per_second(summary->n_prompt, summary->prompt_ms), summary->n_predicted, summary->predicted_ms,
           per_second(summary->n_predicted, summary->predicted_ms), peak_rss_bytes());
}

void summary_print_timings(const Summary *summary) {
    fprintf(stderr, "load       %8.1f ms\n", summary->load_ms);
    fprintf(stderr, "prompt     %8.1f ms, %zu tokens, %.1f tokens/s\n", summary->prompt_ms, summary->n_prompt,
            per_second(summary->n_prompt, summary->prompt_ms));
    fprintf(stderr, "generated  %8.1f ms, %zu tokens, %.1f tokens/s\n", summary->predicted_ms,
            summary->n_predicted, per_second(summary->n_predicted, summary->predicted_ms));
    if (summary->guessed.n)
        fprintf(stderr, "guessed    %8zu tokens, of which %zu held\n", summary->guessed.n,
                summary->guessed.n_held);
    fprintf(stderr, "memory     %8.1f MiB at most\n", (double)peak_rss_bytes() / (1 << 20));
    fprintf(stderr, "seed       %8" PRIu64 "\n", summary->seed);
}
