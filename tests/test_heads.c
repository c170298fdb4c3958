/*
 * The scores of study's heads on patterns made by hand, whose values are known in closed form or from
 * TransformerLens, and against the definitions written out over whole matrices.
 */
#include "measures/heads.h"
#include "tests/test.h"

#include <stdint.h>

enum { MAX_TOKENS = 101, PERIOD = 50 };

static float pattern[MAX_TOKENS][MAX_TOKENS];
static int32_t ids[MAX_TOKENS];
static size_t earlier[MAX_TOKENS];

static HeadSums sums_of(size_t n, size_t period) {
    HeadSums sums = {0};
    find_earlier(ids, n, earlier);
    for (size_t q = 0; q < n; q++) head_sums_add(&sums, &(HeadText){n, earlier, period}, q, pattern[q]);
    return sums;
}

static HeadScores scores_of(void) {
    HeadSums sums = sums_of(MAX_TOKENS, PERIOD);
    return head_scores(&sums);
}

/* BOS, 50 tokens that differ, and the same again. */
static void repeat_tokens(void) {
    for (int32_t i = 0; i < 2 * PERIOD; i++) ids[1 + i] = 1000 + 7 * (i % PERIOD);
    ids[0] = 50256;
}

/* Each row has all its weight on one key. */
static void look_at(size_t query, size_t key) {
    memset(pattern[query], 0, sizeof pattern[query]);
    pattern[query][key] = 1;
}

static void perfect_induction(void) {
    repeat_tokens();
    for (size_t q = 0; q < MAX_TOKENS; q++) look_at(q, q > PERIOD ? q - PERIOD + 1 : 0);
    HeadScores scores = scores_of();
    CHECK_NEAR(scores.tl_diag, 51.0 / 52,
               1e-12); /* 0.981: one of two rows without a target is at BOS anyway */
    CHECK_NEAR(scores.tl_mul, 50.0 / 101, 1e-12);
    CHECK_NEAR(scores.tl_abs, 50.0 / 101, 1e-12);
    CHECK_NEAR(scores.induction, 1, 0);
    CHECK_NEAR(scores.duplicate, 0, 0);
    CHECK_NEAR(scores.sink, 0.5, 1e-12); /* 50 of the 100 queries */
    CHECK_NEAR(scores.entropy, 0, 0);
    CHECK_NEAR(scores.confidence, 1, 0);
    CHECK_NEAR(scores.distance, (50 * 51 / 2 + 50 * 49) / 100.0, 1e-12);
    CHECK(strcmp(head_label(&scores), "induction") == 0, "%s", head_label(&scores));

    HeadSums text = sums_of(MAX_TOKENS, 0);
    scores = head_scores(&text);
    CHECK(text.n_repeated == 50 && text.n_queries == 100 && text.n_rows == 101, "%zu", text.n_repeated);
    CHECK_NEAR(scores.induction, 1, 0);
    CHECK(isnan(scores.tl_diag), "%g", scores.tl_diag);
}

static void uniform(void) {
    repeat_tokens();
    double previous = 0, share = 0, entropy = 0, second = 0, diagonal = 0;
    for (size_t q = 0; q < MAX_TOKENS; q++)
        for (size_t k = 0; k <= q; k++) pattern[q][k] = 1.0f / (float)(q + 1);
    for (int q = 1; q < MAX_TOKENS; q++) {
        previous += 1.0 / (q + 1) / 100;
        entropy += log(q + 1) / 100;
        share += 1.0 / 100;
        if (q > PERIOD) second += 1.0 / (q + 1) / 50;
        if (q >= PERIOD - 1) diagonal += 1.0 / (q + 1) / 52;
    }
    HeadScores scores = scores_of();
    CHECK_NEAR(scores.tl_diag, 0.0138, 5e-5);
    CHECK_NEAR(scores.tl_diag, diagonal, 1e-7);
    CHECK_NEAR(scores.tl_mul, 0.0067, 5e-5);
    CHECK_NEAR(scores.previous, 0.042, 5e-4);
    CHECK_NEAR(scores.previous, previous, 1e-7);
    CHECK_NEAR(scores.self, previous, 1e-7);
    CHECK_NEAR(scores.sink, previous, 1e-7);
    CHECK_NEAR(scores.induction, second, 1e-7);
    CHECK_NEAR(scores.duplicate, second, 1e-7);
    CHECK_NEAR(scores.entropy, entropy, 1e-6);
    CHECK_NEAR(scores.entropy_share, share, 1e-6);
    CHECK_NEAR(scores.distance, 25.25, 1e-5); /* mean of q/2 */
    CHECK(strcmp(head_label(&scores), "") == 0, "%s", head_label(&scores));
}

static void first_token(void) {
    repeat_tokens();
    for (size_t q = 0; q < MAX_TOKENS; q++) look_at(q, 0);
    HeadScores scores = scores_of();
    CHECK_NEAR(scores.tl_diag, 0.019, 5e-4);
    CHECK_NEAR(scores.tl_diag, 1.0 / 52, 1e-12);
    CHECK_NEAR(scores.tl_mul, 0, 0);
    CHECK_NEAR(scores.tl_abs, 1 - (51 + 50 * 2) / 101.0, 1e-12);
    CHECK_NEAR(scores.sink, 1, 0);
    CHECK_NEAR(scores.previous, 0.01, 1e-12); /* position 1 */
    CHECK(strcmp(head_label(&scores), "parked on first token") == 0, "%s", head_label(&scores));
}

static void previous_and_duplicate(void) {
    repeat_tokens();
    for (size_t q = 0; q < MAX_TOKENS; q++) look_at(q, q > 0 ? q - 1 : 0);
    HeadScores scores = scores_of();
    CHECK_NEAR(scores.previous, 1, 0);
    CHECK_NEAR(scores.distance, 1, 0);
    CHECK(strcmp(head_label(&scores), "previous") == 0, "%s", head_label(&scores));

    for (size_t q = 0; q < MAX_TOKENS; q++) look_at(q, q > PERIOD ? q - PERIOD : q);
    scores = scores_of();
    CHECK_NEAR(scores.duplicate, 1, 0);
    CHECK_NEAR(scores.induction, 0, 0);
    CHECK_NEAR(scores.self, 0.5, 1e-12);
    CHECK(strcmp(head_label(&scores), "duplicate") == 0, "%s", head_label(&scores));
}

/* Nothing repeats, so dup and ind have nothing to be the mean of. */
static void no_repeats(void) {
    for (size_t q = 0; q < 10; q++) {
        ids[q] = (int32_t)q;
        look_at(q, q);
    }
    HeadSums sums = sums_of(10, 0);
    HeadScores scores = head_scores(&sums);
    CHECK(sums.n_repeated == 0 && isnan(scores.duplicate) && isnan(scores.induction), "%zu", sums.n_repeated);
    CHECK_NEAR(scores.self, 1, 0);
    CHECK_NEAR(scores.tl_abs, 0, 1e-12);
    CHECK(strcmp(head_label(&scores), "") == 0, "%s", head_label(&scores));
}

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

/* Sharp and flat rows, a few weights of exactly 0, few kinds of token so that they repeat. */
static void random_pattern(size_t n) {
    for (size_t q = 0; q < n; q++) {
        double sum = 0, weight[MAX_TOKENS], sharpness = (double)(q % 5) * 4;
        for (size_t k = 0; k <= q; k++) {
            weight[k] = random_below(8) ? exp(sharpness * random_below(1000) / 1000.0) : 0;
            sum += weight[k];
        }
        for (size_t k = 0; k <= q; k++)
            pattern[q][k] = sum > 0 ? (float)(weight[k] / sum) : 1.0f / (float)(q + 1);
        ids[q] = (int32_t)random_below(9);
    }
}

/* The definitions, with a detection matrix D for each. */
static void check_by_definition(size_t n) {
    double entropy = 0, share = 0, largest = 0, distance = 0, duplicate = 0, induction = 0, n_repeated = 0;
    double product = 0, total = 0, difference = 0;
    for (size_t q = 0; q < n; q++) {
        double row_entropy = 0, row_largest = 0, on_same = 0, after_same = 0, n_same = 0;
        for (size_t k = 0; k <= q; k++) {
            double a = (double)pattern[q][k], detected = k >= 1 && ids[k - 1] == ids[q] ? 1 : 0;
            if (a > 0) row_entropy -= a * log(a);
            if (a > row_largest) row_largest = a;
            if (q > 0) distance += a * (double)(q - k);
            if (k < q && ids[k] == ids[q]) on_same += a, n_same++;
            after_same += a * detected;
            product += a * detected;
            total += a;
            difference += fabs(a - detected);
        }
        if (q == 0) continue;
        entropy += row_entropy;
        share += row_entropy / log((double)q + 1);
        largest += row_largest;
        if (n_same == 0) continue;
        n_repeated++;
        duplicate += on_same;
        induction += after_same;
    }
    double queries = (double)n - 1;
    HeadSums sums = sums_of(n, 0);
    HeadScores scores = head_scores(&sums);
    CHECK_NEAR(sums.n_repeated, n_repeated, 0);
    CHECK_NEAR(scores.entropy, entropy / queries, 1e-6);
    CHECK_NEAR(scores.entropy_share, share / queries, 1e-6);
    CHECK_NEAR(scores.confidence, largest / queries, 1e-9);
    CHECK_NEAR(scores.distance, distance / queries, 1e-9);
    CHECK_NEAR(scores.duplicate, duplicate / n_repeated, 1e-9);
    CHECK_NEAR(scores.induction, induction / n_repeated, 1e-9);
    CHECK_NEAR(scores.tl_mul, product / total, 1e-9);
    CHECK_NEAR(scores.tl_abs, 1 - difference / (double)n, 1e-9);
}

static void by_definition(void) {
    for (size_t n = 12; n <= MAX_TOKENS; n += 29) {
        random_pattern(n);
        check_by_definition(n);
    }
}

/* With a period, each score is the mean of a diagonal; sums run on over texts. */
static void diagonals(void) {
    HeadSums sums = {0};
    double duplicate = 0, induction = 0, diagonal = 0;
    size_t n = 24, period = 12; /* no BOS */
    for (int text = 0; text < 3; text++) {
        random_pattern(n);
        for (size_t i = 0; i < period; i++) ids[period + i] = ids[i];
        find_earlier(ids, n, earlier);
        for (size_t q = 0; q < n; q++) {
            head_sums_add(&sums, &(HeadText){n, earlier, period}, q, pattern[q]);
            if (q >= period) duplicate += (double)pattern[q][q - 12];
            if (q >= period) induction += (double)pattern[q][q - 11];
            if (q >= 11) diagonal += (double)pattern[q][q - 11];
        }
    }
    HeadScores scores = head_scores(&sums);
    CHECK(sums.n_repeated == 36 && sums.n_queries == 69, "%zu %zu", sums.n_repeated, sums.n_queries);
    CHECK_NEAR(scores.duplicate, duplicate / 36, 1e-9);
    CHECK_NEAR(scores.induction, induction / 36, 1e-9);
    CHECK_NEAR(scores.tl_diag, diagonal / 39, 1e-9);
}

int main(void) {
    RUN(perfect_induction);
    RUN(uniform);
    RUN(first_token);
    RUN(previous_and_duplicate);
    RUN(no_repeats);
    RUN(by_definition);
    RUN(diagonals);
    return test_end();
}
