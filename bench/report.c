#include "report.h"
#include "attn.h"

#include "cli/print.h"

#include <string.h>

static void print_speed(bool measured, const Speed *speed) {
    char share[16] = "-";
    if (measured && speed->limit > 0) snprintf(share, sizeof share, "%.0f %%", 100 * speed->share);
    if (measured)
        printf(" %9.1f %7s", speed->tokens_per_s, share);
    else
        printf(" %9s %7s", "-", "-");
}

void print_last_row(const Results *results) {
    const Row *row = &results->rows[results->n_rows - 1];
    if (results->n_rows == 1 || row[-1].shape != row->shape) {
        printf("\n%s\n%-10s %9s %9s %7s", row->shape, "type", "MB/token", "pp", "of peak");
        for (int i = 0; i < N_CONTEXTS; i++) {
            char name[24] = "tg -";
            if (row->has_context[i]) snprintf(name, sizeof name, "tg %zu", row->context[i]);
            printf(" %9s %7s", name, "of read");
        }
        for (int i = 0; i < N_FEW; i++) printf(" %3s%2zu", "x", few_tokens[i]);
        printf(" %6s %6s\n", "extra", "first");
    }
    printf("%-10s %9.1f", row->type, 1e-6 * row->bytes_per_token);
    print_speed(true, &row->prompt);
    for (int i = 0; i < N_CONTEXTS; i++) print_speed(row->has_context[i], &row->generate[i]);
    for (int i = 0; i < N_FEW; i++)
        if (row->few[i] > 0)
            printf(" %5.2f", row->few[i]);
        else
            printf(" %5s", "-");
    printf(" %6.1f %6.1f\n", row->extra_mib, row->first_ms);
    fflush(stdout);
}

static void print_limit(const Results *results, PeakKind kind, const char *what, const char *unit) {
    if (results->limits[kind] > 0)
        printf("%-28s %8.1f %-8s %s\n", what, 1e-9 * results->limits[kind], unit, peak_name(kind));
    else
        printf("%-28s %8s\n", what, "none");
}

void print_limits(const Results *results) {
    printf("kernels %s, %u threads; the most that loops of nothing else reach, at the start:\n",
           results->kernels, results->n_threads);
    print_limit(results, PEAK_READ, "read bandwidth", "GB/s");
    print_limit(results, PEAK_READ_AHEAD, "read bandwidth, ahead", "GB/s");
    print_limit(results, PEAK_F32, "F32 multiply-add", "GFLOP/s");
    print_limit(results, PEAK_BF16, "BF16 dot", "GFLOP/s");
    print_limit(results, PEAK_INT8, "8-bit dot", "GOP/s");
    print_limit(results, PEAK_TILE, "BF16 tiles", "GFLOP/s");
    fflush(stdout);
}

static void json_number(FILE *file, const char *key, double value, bool known) {
    if (known)
        fprintf(file, ", \"%s\": %.6g", key, value);
    else
        fprintf(file, ", \"%s\": null", key);
}

static void json_speed(FILE *file, const Speed *speed) {
    json_number(file, "tokens_per_s", speed->tokens_per_s, true);
    json_number(file, "per_s", speed->rate, true);
    json_number(file, "limit_per_s", speed->limit, speed->limit > 0);
    json_number(file, "share", speed->share, speed->limit > 0);
}

static void json_row(FILE *file, const Row *row) {
    fprintf(file, "{\"shape\": ");
    print_json_string(file, row->shape, strlen(row->shape));
    fprintf(file, ", \"type\": \"%s\"", row->type);
    json_number(file, "weight_bytes_per_token", row->bytes_per_token, true);
    fprintf(file, ",\n   \"prompt\": {\"tokens\": %zu", row->n_prompt);
    json_speed(file, &row->prompt);
    fprintf(file, "},\n   \"generate\": [");
    for (int i = 0, n = 0; i < N_CONTEXTS; i++) {
        if (!row->has_context[i]) continue;
        fprintf(file, "%s{\"context\": %zu", n++ ? ",\n     " : "", row->context[i]);
        json_speed(file, &row->generate[i]);
        putc('}', file);
    }
    fprintf(file, "],\n   \"few\": [");
    for (int i = 0; i < N_FEW; i++)
        fprintf(file, "%s{\"tokens\": %zu, \"ratio\": %.4g}", i ? ", " : "", few_tokens[i], row->few[i]);
    putc(']', file);
    json_number(file, "extra_mib", row->extra_mib, true);
    json_number(file, "first_token_ms", row->first_ms, true);
    putc('}', file);
}

void write_json(FILE *file, const Results *results) {
    static const char *const names[N_PEAKS] = {"read", "read_ahead", "f32", "bf16", "int8", "tile"};
    fprintf(file, "{\"version\": \"%s\", \"kernels\": \"%s\", \"threads\": %u,\n \"limits\": {", ATTN_VERSION,
            results->kernels, results->n_threads);
    for (int i = 0; i < N_PEAKS; i++) {
        const char *name = peak_name((PeakKind)i), *quote = name ? "\"" : "";
        fprintf(file, "%s\"%s\": {\"with\": %s%s%s", i ? ",\n  " : "\n  ", names[i], quote,
                name ? name : "null", quote);
        json_number(file, "per_s", results->limits[i], name != NULL);
        putc('}', file);
    }
    fprintf(file, "},\n \"rows\": [");
    for (size_t i = 0; i < results->n_rows; i++) {
        fprintf(file, i ? ",\n  " : "\n  ");
        json_row(file, &results->rows[i]);
    }
    fprintf(file, "\n ]}\n");
}
