/* Numbers made of logits, against what paper gives. Whether whole texts get the right ones is test_study.c's. */
#include "measures/arena.h"
#include "measures/difference.h"
#include "measures/distribution.h"
#include "test.h"

#include <math.h>
#include <string.h>

static void test_score_of_a_token(void) {
    const float logits[] = {logf(2), logf(4), 0, logf(4), logf(5)}; /* p: 2, 4, 1, 4, 5 of 16 */
    Distribution expected = distribution_of(logits, 5);
    TokenScore score = token_score(&expected, logits, 5, 0), second = token_score(&expected, logits, 5, 3);
    CHECK_NEAR(score.surprisal, log(8), 1e-6);
    CHECK_NEAR(probability_of(logits, 1, expected.log_sum), 0.25, 1e-6);
    double entropy = log(8) / 8 + log(4) / 2 + log(16) / 16 + log(3.2) * 5 / 16;
    CHECK_NEAR(score.entropy, entropy, 1e-6);
    CHECK(score.rank == 4 && second.rank == 2, "ranks %zu, %zu", score.rank, second.rank);
    CHECK(!score.best && token_score(&expected, logits, 5, 4).best, "5 of 16 is the best");

    const float even[] = {1, 1, 0};
    expected = distribution_of(even, 3);
    TokenScore first = token_score(&expected, even, 3, 0), other = token_score(&expected, even, 3, 1);
    CHECK(first.rank == 1 && other.rank == 1, "two of the same logit share a rank");
    CHECK(first.best && !other.best, "of two the lower id is chosen");

    const float sure[] = {0, -1e5f, -INFINITY}; /* e^-1e5 is 0 in a double */
    expected = distribution_of(sure, 3);
    CHECK(expected.entropy == 0 && expected.log_sum == 0, "entropy %g", expected.entropy);
    CHECK_NEAR(token_score(&expected, sure, 3, 1).surprisal, 1e5, 0);
}

static void test_score_of_a_text(void) {
    Totals totals = {0};
    TextScore none = text_score(&totals);
    CHECK(none.n == 0 && isnan(none.nll) && isnan(none.perplexity), "no tokens, no mean");

    totals_add(&totals, &(TokenScore){.surprisal = log(2), .best = true}, 0);
    TextScore one = text_score(&totals);
    CHECK_NEAR(one.perplexity, 2, 1e-12);
    CHECK(isnan(one.perplexity_error) && isnan(one.bits_per_byte), "one token, no bytes");

    totals_add(&totals, &(TokenScore){.surprisal = log(8)}, 5);
    TextScore two = text_score(&totals);
    CHECK(two.n == 2 && two.n_bytes == 5, "%zu tokens, %zu bytes", two.n, two.n_bytes);
    CHECK_NEAR(two.nll, log(4), 1e-12);
    CHECK_NEAR(two.perplexity, 4, 1e-12);
    CHECK_NEAR(two.perplexity_error, 4 * log(2), 1e-12); /* deviations of ln 2 either way, over √(2 − 1) */
    CHECK_NEAR(two.bits_per_byte, 4.0 / 5, 1e-12);
    CHECK_NEAR(two.top1_accuracy, 0.5, 0);
}

static void test_difference(void) {
    /* 1/2, 1/2 against 1/4, 3/4; then the same twice */
    const float a[] = {0, 0, 3, 1}, b[] = {0, logf(3), 3, 1};
    double kl = log(2) / 2 + log(2.0 / 3) / 2;
    CHECK_NEAR(logits_kl(a, b, 2), kl, 1e-7);
    CHECK_NEAR(logits_kl(a, a, 2), 0, 0);
    /* All logits may have as much more: nothing changes, and rounding makes no KL less than 0. */
    for (int more = 1; more < 100; more++) {
        const float c[] = {0.25f, 1.5f, -0.75f},
                    d[] = {0.25f + (float)more, 1.5f + (float)more, -0.75f + (float)more};
        double rounded = logits_kl(c, d, 3);
        CHECK(rounded >= 0 && rounded < 1e-11, "%d: %g", more, rounded);
    }

    Difference difference = {0};
    Threads *threads = threads_new(1, NULL);
    difference_add(&difference, threads, a, b, 2, 2, (int32_t[]){1}, 1);
    threads_free(threads);
    DifferenceMeans means = difference_means(&difference);
    CHECK(means.n == 1, "%zu positions followed by a token", means.n);
    CHECK_NEAR(means.nll_a, log(2), 1e-7);
    CHECK_NEAR(means.nll_b, log(4.0 / 3), 1e-7);
    CHECK_NEAR(means.nll_change, log(2.0 / 3), 1e-7);
    CHECK_NEAR(means.perplexity_change, 4.0 / 3 - 2, 1e-6);
    CHECK_NEAR(means.kl, kl / 2, 1e-7);
    CHECK_NEAR(means.top1_changed, 0.5, 0);
    CHECK_NEAR(means.top1_same, 0.5, 0);
}

/* The others may have what one request leaves, and no request after a refusal is met. */
static void test_arena(void) {
    Arena arena = {0};
    Error error = {{0}};
    const unsigned char *bytes = arena_new(&arena, 3, 100);
    CHECK(bytes && bytes[0] == 0 && bytes[299] == 0 && (uintptr_t)bytes % 64 == 0, "300 bytes");
    CHECK(arena_ok(&arena, &error, "%d rows", 3), "%s", error.message);
    for (size_t n = 1; n < 100; n += 7)
        CHECK((uintptr_t)arena_new(&arena, n, 1) % 64 == 0, "not on a line of the cache");
    CHECK(arena_new(&arena, 1, (size_t)(ARENA_BYTES / 2)) != NULL, "half of it");
    CHECK(!arena_new(&arena, 1, (size_t)(ARENA_BYTES / 2)), "more than all");
    CHECK(!arena_new(&arena, 1, 1) && !arena_ok(&arena, &error, "%d rows", 3), "after a refusal");
    CHECK(strcmp(error.message, "not enough memory for 3 rows; a view may take 4 GiB") == 0, "%s",
          error.message);
    arena_free(&arena);
    CHECK(arena_new(&arena, 1, 1) != NULL, "after the end");
    arena_free(&arena);
}

int main(void) {
    RUN(test_arena);
    RUN(test_score_of_a_token);
    RUN(test_score_of_a_text);
    RUN(test_difference);
    return test_end();
}
