/*
 * Guesses change nothing but the time: random schedules of adding, generating, stopping and going on are done twice, with and
 * without guesses, and all that can be seen of them is compared to the bit: tokens, texts, logits, what the session holds. The
 * guesses come from the text, as they do for people, and from one who knows what plain decoding has said, and lies now and then.
 */
#include "chain.h" /* the first: it asks for more of the C library */

#include "attn.h"
#include "generate.h"
#include "guess.h"
#include "model.h"
#include "test.h"

#include <stdbool.h>
#include <stdint.h>

static uint64_t random_state = 88172645463325252;

static size_t below(size_t n) { return random_draw(&random_state) % n; }

/* ---- Probed sites ---- */

enum { MAX_SAMPLED = 1 << 12 };

typedef struct Record {
    unsigned char *bytes;
    size_t n, room;
    int32_t sampled[MAX_SAMPLED];
    size_t n_sampled;
} Record;

static void see(Record *record, const void *bytes, size_t n) {
    if (record->n + n > record->room) {
        record->room = 2 * (record->n + n);
        record->bytes = realloc(record->bytes, record->room);
    }
    if (n > 0) memcpy(record->bytes + record->n, bytes, n);
    record->n += n;
}

/* A sum that tells bits apart (FNV-1a). */
static void see_sum(Record *record, const void *bytes, size_t n) {
    uint64_t sum = 0xCBF29CE484222325;
    for (size_t i = 0; i < n; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001B3;
    see(record, &sum, sizeof sum);
}

/* ---- A schedule ---- */

typedef struct Stage {
    Model *model;
    Tokenizer *tokenizer;
    Checkpoint *vocabulary; /* of another file, or NULL */
    Threads *threads;
    size_t n_vocab;
} Stage;

typedef struct Play {
    const Stage *stage;
    Session *session;
    Generator *generator;
    Record *record;
    const Record *known; /* what plain decoding has sampled, or NULL */
    unsigned truth;      /* in a hundred of the guesses of whoever knows it */
    uint64_t lies;       /* state of a generator of its own: it must not change the schedule */
    size_t most;         /* pieces, before the callback ends the text */
} Play;

static void see_session(Play *play) {
    size_t n = session_position(play->session);
    see(play->record, &n, sizeof n);
    see_sum(play->record, session_tokens(play->session), n * sizeof(int32_t));
}

static bool see_piece(void *user, int32_t id, const char *text, size_t n) {
    Play *play = user;
    see(play->record, &id, sizeof id);
    see(play->record, text, n);
    see_sum(play->record, generator_logits(play->generator), play->stage->n_vocab * sizeof(float));
    see_session(play);
    if (id >= 0 && play->record->n_sampled < MAX_SAMPLED)
        play->record->sampled[play->record->n_sampled++] = id;
    return play->most-- > 1;
}

static size_t guess_what_is_known(void *user, int32_t *ids, size_t n) {
    Play *play = user;
    size_t at = play->record->n_sampled, m = random_draw(&play->lies) % (n + 1);
    for (size_t i = 0; i < m; i++) {
        bool is_true = at + i < play->known->n_sampled && random_draw(&play->lies) % 100 < play->truth;
        bool is_token = random_draw(&play->lies) % 16;
        size_t any = random_draw(&play->lies) % play->stage->n_vocab;
        ids[i] = is_true ? play->known->sampled[at + i] : is_token ? (int32_t)any : -1;
    }
    return m;
}

static size_t all_guessed, all_held, n_shifted, n_ended[5];

static size_t stop_in; /* layers, or 0: never */

static bool stop_soon(void *user) {
    (void)user;
    return stop_in && --stop_in == 0;
}

/* Now and then what is added is stopped within. */
static void add_some(Play *play, size_t n) {
    stop_in = below(5) ? 0 : 1 + below(6);
    Error error = {""};
    int32_t ids[64];
    bool fits = false;
    size_t few = 2 + below(8);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)(below(4) ? below(few) : below(play->stage->n_vocab));
    bool ok = generator_add(play->generator, ids, n, &(Feed){0}, &fits, &error);
    stop_in = 0;
    see(play->record, &ok, sizeof ok);
    see(play->record, &fits, sizeof fits);
    see_session(play);
}

/* As a chat does: the text so far, or its beginning, and more. */
static void sync_some(Play *play, size_t n) {
    stop_in = below(5) ? 0 : 1 + below(6);
    Error error = {""};
    int32_t ids[256];
    size_t most = session_n_ctx(play->session), held = session_position(play->session);
    if (held > 0 && below(3) == 0) held -= below(held);
    if (most > 200) most = 200;
    if (held + n > most) held = most > n ? most - n : 0;
    memcpy(ids, session_tokens(play->session), held * sizeof *ids);
    for (size_t i = 0; i < n; i++) ids[held + i] = (int32_t)below(play->stage->n_vocab);
    bool ok = generator_sync(play->generator, ids, held + n, &(Feed){0}, &error);
    stop_in = 0;
    see(play->record, &ok, sizeof ok);
    see_session(play);
}

static void generate_some(Play *play) {
    Error error = {""};
    TextEnd end = END_LIMIT;
    size_t before = session_position(play->session);
    size_t n = below(3) ? 1 + below(60) : below(4);
    play->most = below(4) ? SIZE_MAX : 1 + below(12);
    bool ok = generator_run(play->generator, n, see_piece, play, &end, &error);
    see(play->record, &ok, sizeof ok);
    see(play->record, &end, sizeof end);
    if (!ok) see(play->record, error.message, strlen(error.message));
    see_session(play);
    n_shifted += session_position(play->session) < before;
    n_ended[end]++;
}

/* The tokens that follow any text, and the generator's own logits. */
static void see_what_comes_next(Play *play) {
    Error error = {""};
    see_sum(play->record, generator_logits(play->generator), play->stage->n_vocab * sizeof(float));
    bool ok = generator_settle(play->generator, &error);
    see(play->record, &ok, sizeof ok);
    see_sum(play->record, generator_logits(play->generator), play->stage->n_vocab * sizeof(float));
}

static SamplerOptions random_sampling(void) {
    static const float temperatures[] = {0, 0, 0.3f, 0.8f, 1, 1.5f};
    SamplerOptions sampling = {.temperature = temperatures[below(6)], .top_p = 1, .repeat_penalty = 1};
    sampling.seed = below(1000);
    if (below(3) == 0) sampling.top_k = 1 + below(20);
    if (below(3) == 0) sampling.top_p = 0.5f + 0.05f * (float)below(10);
    if (below(4) == 0) sampling.min_p = 0.01f * (float)below(20);
    if (below(3) == 0) {
        sampling.repeat_penalty = 1 + 0.1f * (float)below(5);
        sampling.presence_penalty = 0.1f * (float)below(5);
        sampling.frequency_penalty = 0.1f * (float)below(5);
        sampling.penalty_window = below(40);
    }
    if (below(5) == 0)
        sampling.order = STEP_TEMPERATURE | STEP_TOP_P << 4 | STEP_PENALTIES << 8 | STEP_TOP_K << 12;
    return sampling;
}

/* Does what the seed says, once: the same for whatever guesses. */
static void act(const Stage *stage, uint64_t seed, Speculate speculate, const Record *known, Record *record) {
    static const DType caches[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    static const char *const stops[] = {"%", "a", "4"};
    Error error = {""};
    random_state = seed * 0x9E3779B97F4A7C15 | 1;
    for (int i = 0; i < 8; i++) below(2); /* seeds that differ in one bit begin alike */
    Play play = {.stage = stage, .record = record, .known = known, .lies = random_state};
    play.truth = (unsigned[]){100, 97, 90, 60, 0}[below(5)];
    const Kernels *kernels = below(2) ? kernels_pick(NULL, &error) : kernels_fastest();
    SessionOptions session = {.n_ctx = below(3) ? 12 + below(60) : 120 + below(100),
                              .kv_dtype = caches[below(3)],
                              .whole_cache = below(2),
                              .n_chunk = below(2) ? 1 + below(24) : 0,
                              .stop = stop_soon,
                              .compute = {.kernels = kernels, .threads = stage->threads}};
    GeneratorOptions options = {.sampling = random_sampling(),
                                .stop = stops,
                                .n_stop = below(3) ? 0 : 1 + below(3),
                                .special = below(2),
                                .shift = below(2),
                                .speculate = speculate,
                                .guess = known ? guess_what_is_known : NULL,
                                .guess_user = &play};
    size_t n_ctx_most = model_config(stage->model)->n_ctx;
    if (session.n_ctx > n_ctx_most) session.n_ctx = n_ctx_most;
    play.session = session_new(stage->model, &session, &error);
    play.generator =
        play.session ? generator_new(stage->model, stage->tokenizer, play.session, &options, &error) : NULL;
    CHECK(play.generator, "%s", error.message);
    if (!play.generator) return;
    add_some(&play, 1 + below(session.n_ctx < 40 ? session.n_ctx : 40));
    for (size_t turns = 1 + below(5); turns-- > 0;) {
        generate_some(&play);
        if (below(3) == 0) add_some(&play, below(6));
        if (below(3) == 0) sync_some(&play, 1 + below(6));
    }
    see_what_comes_next(&play);
    Guessed guessed = generator_guessed(play.generator);
    all_guessed += guessed.n, all_held += guessed.n_held;
    CHECK(speculate != SPECULATE_OFF || guessed.n == 0, "guesses where there are to be none");
    generator_free(play.generator);
    session_free(play.session);
}

/* Models that have no vocabulary take the first tokens of one. */
static const char stand_in[] = "tests/data/reference/gpt2-f32.gguf";

static Stage open_stage(const char *path) {
    Error error = {""};
    Stage stage = {.model = model_open(path, &error),
                   .threads = threads_new((unsigned)(1 + below(2)), &error)};
    if (stage.model) stage.tokenizer = tokenizer_new(model_checkpoint(stage.model), &error);
    if (!stage.tokenizer) stage.tokenizer = tokenizer_open(stand_in, NULL, &stage.vocabulary, &error);
    CHECK(stage.tokenizer && stage.threads, "%s: %s", path, error.message);
    if (stage.model) stage.n_vocab = model_config(stage.model)->n_vocab;
    return stage;
}

static void close_stage(Stage *stage) {
    tokenizer_free(stage->tokenizer);
    checkpoint_close(stage->vocabulary);
    threads_free(stage->threads);
    model_close(stage->model);
}

/* Plain, full attention; grouped heads; windows, whose keys come round in a ring; experts; types of weights. */
static const char *const models[] = {
    "gpt2-f32", "gpt2-q4_0",     "llama-f32", "llama-mixed-k",  "llama-q8_0", "llama-experts", "gemma2",
    "gemma3",   "gpt-oss-mxfp4", "cohere2",   "baichuan-alibi", "olmo2-3",    "qwen3moe",      "phi3-short"};

static void test_schedules(void) {
    const size_t n_schedules = how_many(1000, 40, 8);
    all_guessed = all_held = n_shifted = 0;
    for (size_t m = 0; m < COUNT(models); m++) {
        char path[128];
        snprintf(path, sizeof path, "tests/data/reference/%s.gguf", models[m]);
        Stage stage = open_stage(path);
        for (size_t i = 0; stage.tokenizer && !test_broken && i < n_schedules; i++) {
            static Record plain, guessing;
            for (int way = 0; way < 4; way++) {
                Record *record = way ? &guessing : &plain;
                record->n = record->n_sampled = 0;
                Speculate speculate = way == 0 ? SPECULATE_OFF : way == 1 ? SPECULATE_AUTO : SPECULATE_ON;
                act(&stage, 1000 * m + i + 1, speculate, way == 3 ? &plain : NULL, record);
                CHECK(record->n == plain.n && memcmp(record->bytes, plain.bytes, plain.n) == 0,
                      "%s: schedule %zu, way %d", models[m], i, way);
            }
        }
        close_stage(&stage);
    }
    CHECK(all_held > 20 * COUNT(models) * n_schedules &&
              all_guessed - all_held > 20 * COUNT(models) * n_schedules,
          "of %zu guesses %zu held", all_guessed, all_held);
    CHECK(n_shifted > 2 * n_schedules && n_ended[END_STOP] > 2 * n_schedules &&
              n_ended[END_CONTEXT] > 2 * n_schedules && n_ended[END_CALLER] > 2 * n_schedules,
          "%zu shifts, %zu stops, %zu full, %zu ended by the callback", n_shifted, n_ended[END_STOP],
          n_ended[END_CONTEXT], n_ended[END_CALLER]);
    if (getenv("ATTN_VERBOSE"))
        printf("%zu guesses, %zu held, %zu shifts, ends %zu %zu %zu %zu %zu\n", all_guessed, all_held,
               n_shifted, n_ended[0], n_ended[1], n_ended[2], n_ended[3], n_ended[4]);
}

/* ---- One by one ---- */

typedef struct Text {
    char bytes[1 << 14];
    size_t n;
    double logprobs[1024];
    int32_t ids[1024];
    size_t n_ids;
} Text;

static bool keep_text(void *user, const char *text, size_t n) {
    Text *to = user;
    if (to->n + n > sizeof to->bytes) return false;
    memcpy(to->bytes + to->n, text, n);
    to->n += n;
    return true;
}

static bool keep_token(void *user, int32_t id, double logprob) {
    Text *to = user;
    if (to->n_ids == COUNT(to->ids)) return false;
    to->ids[to->n_ids] = id, to->logprobs[to->n_ids++] = logprob;
    return true;
}

static Text generate(AttnSession *session, const char *prompt, AttnGenerateOptions options,
                     AttnSpeculate how) {
    static Text text;
    AttnError error = {""};
    AttnEnd end;
    /* With AMX's tiles a prompt that was kept has other bits than one that is read whole. */
    attn_rewind(session, 0);
    text.n = text.n_ids = 0;
    options.text = keep_text, options.token = keep_token, options.user = &text, options.speculate = how;
    CHECK(attn_generate(session, prompt, &options, &end, &error), "%s", error.message);
    return text;
}

/*
 * vLLM's issue 41758: "serving" 48 times, at temperature 0, gave another text with guesses than without. By the library, whose
 * users see tokens and their log-probabilities.
 */
static void check_serving(const char *path, float temperature) {
    AttnError error = {""};
    char prompt[48 * 8 + 1] = "";
    for (int i = 0; i < 48; i++) strcat(prompt, i ? " serving" : "serving");
    AttnModel *model = attn_model_open(path, NULL, &error);
    AttnSession *session =
        attn_session_new(model, &(AttnSessionOptions){.n_ctx = 1000, .fast = true}, &error);
    CHECK(session, "%s: %s", path, error.message);
    if (!session) return;
    AttnGenerateOptions options = {.sampling = {.temperature = temperature, .seed = 7}, .n_tokens = 300};
    Text plain = generate(session, prompt, options, ATTN_SPECULATE_OFF);
    for (int how = ATTN_SPECULATE_AUTO; how <= ATTN_SPECULATE_ON; how++) {
        Text guessed = generate(session, prompt, options, (AttnSpeculate)how);
        CHECK(guessed.n == plain.n && memcmp(guessed.bytes, plain.bytes, plain.n) == 0, "%s: text", path);
        CHECK(guessed.n_ids == plain.n_ids &&
                  memcmp(guessed.ids, plain.ids, plain.n_ids * sizeof *plain.ids) == 0 &&
                  memcmp(guessed.logprobs, plain.logprobs, plain.n_ids * sizeof *plain.logprobs) == 0,
              "%s: tokens", path);
    }
    CHECK(plain.n_ids > 20, "%s: %zu tokens", path, plain.n_ids);
    attn_session_free(session);
    attn_model_close(model);
}

static void test_serving(void) {
    check_serving("weights/model.gguf", 0);
    check_serving("weights/model.gguf", 0.8f);

    check_serving("tests/data/reference/llama-q8_0.gguf", 1);
}

static size_t n_passes, stop_at;

/* Counts passes by their first layer, of the chain's only one; says so once. */
static bool stop_once(void *user) {
    (void)user;
    return ++n_passes == stop_at;
}

/* A model that says "on" for ever. */
static bool wants_nothing(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)site, (void)layer, (void)head;
    return false;
}

static const Probe nobody = {NULL, wants_nothing, NULL};
static const Probe *watcher; /* of the session, once there is a generator */

static Guessed guess_chain(size_t n, Record *record, Speculate speculate) {
    Error error = {""};
    int32_t on = 15;
    bool fits = false;
    TextEnd end = END_LIMIT;
    write_chain("");
    Stage stage = open_stage(scratch_path());
    SessionOptions options = {.n_ctx = 4000,
                              .stop = stop_once,
                              .compute = {.kernels = kernels_pick(NULL, &error), .threads = stage.threads}};
    GeneratorOptions generation = {.sampling = {.top_p = 1, .repeat_penalty = 1}, .speculate = speculate};
    Play play = {.stage = &stage, .record = record, .most = SIZE_MAX};
    play.session = session_new(stage.model, &options, &error);
    play.generator = generator_new(stage.model, stage.tokenizer, play.session, &generation, &error);
    session_watch(play.session, watcher);
    n_passes = 0;
    CHECK(generator_add(play.generator, &on, 1, &(Feed){0}, &fits, &error) && fits, "%s", error.message);
    for (int i = 0; i < 2 && record->n_sampled < n && end == END_LIMIT; i++) {
        bool ok = generator_run(play.generator, n - record->n_sampled, see_piece, &play, &end, &error);
        CHECK(ok == (stop_at == 0 || i > 0), "%s", error.message);
    }
    Guessed guessed = generator_guessed(play.generator);
    generator_free(play.generator);
    session_free(play.session);
    close_stage(&stage);
    return guessed;
}

static void test_a_text_that_repeats(void) {
    static Record plain, record;
    plain.n = plain.n_sampled = record.n = record.n_sampled = stop_at = 0;
    guess_chain(1000, &plain, SPECULATE_OFF);
    CHECK(n_passes == 1000, "%zu passes for the first token and all but the last of the others", n_passes);
    Guessed guessed = guess_chain(1000, &record, SPECULATE_ON);
    CHECK(record.n == plain.n && memcmp(record.bytes, plain.bytes, record.n) == 0, "another text");
    CHECK(guessed.n_held > 920 && guessed.n == guessed.n_held, "%zu of %zu held", guessed.n_held, guessed.n);
    CHECK(n_passes < 70, "%zu passes", n_passes);
    watcher = &nobody, record.n = record.n_sampled = 0;
    guessed = guess_chain(1000, &record, SPECULATE_ON);
    CHECK(record.n == plain.n && memcmp(record.bytes, plain.bytes, record.n) == 0 && n_passes == 1000 &&
              guessed.n == 0,
          "%zu guesses where somebody looks on", guessed.n);
    watcher = NULL;
}

/* A run that is stopped in a pass with guesses has what was accepted before it, and goes on with the same text. */
static void test_stopped_in_a_pass(void) {
    static Record plain, record;
    plain.n = plain.n_sampled = stop_at = 0;
    guess_chain(100, &plain, SPECULATE_OFF);
    for (stop_at = 2; stop_at < 8; stop_at++) {
        record.n = record.n_sampled = 0;
        guess_chain(100, &record, SPECULATE_ON);
        CHECK(record.n_sampled == 100 && record.n == plain.n &&
                  memcmp(record.bytes, plain.bytes, record.n) == 0,
              "stopped at %zu: %zu tokens", stop_at, record.n_sampled);
    }
    stop_at = 0;
}

/* Nothing is guessed that cannot be taken back: where layers keep a state, and where somebody looks on. */
static void test_who_is_not_guessed(void) {
    static const char *const paths[] = {"tests/data/reference/lfm2.gguf", "tests/data/reference/qwen35.gguf",
                                        "tests/data/reference/gpt2-f32.gguf"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        Error error = {""};
        Stage stage = open_stage(paths[i]);
        SessionOptions options = {
            .n_ctx = 30,
            .probe = i == 2 ? &nobody : NULL,
            .compute = {.kernels = kernels_pick(NULL, &error), .threads = stage.threads}};
        Session *session = session_new(stage.model, &options, &error);
        CHECK(session && !session_takes_guesses(session), "%s", paths[i]);
        session_watch(session, NULL);
        CHECK(session_takes_guesses(session) == (i == 2), "%s", paths[i]);
        session_free(session);
        close_stage(&stage);
    }
}

/* Of guesses one of which is no token nobody has fed any, even where what stood there before was the same. */
static void test_guesses_at_fault(void) {
    static const int32_t text[] = {1, 2, 3, 4, 5}, fine[] = {3, 4, 9}, faulty[] = {3, 4, -1};
    Error error = {""};
    Stage stage = open_stage(stand_in);
    SessionOptions options = {.n_ctx = 30,
                              .whole_cache = true,
                              .compute = {.kernels = kernels_pick(NULL, &error), .threads = stage.threads}};
    Session *session = session_new(stage.model, &options, &error);
    float *alone = calloc(stage.n_vocab, sizeof *alone), *rows = calloc(3 * stage.n_vocab, sizeof *rows);
    size_t n_bytes = stage.n_vocab * sizeof *rows;
    for (int i = 0; i < 2; i++) {
        session_rewind(session, 0);
        CHECK(session_feed(session, text, 5, NULL, 0, &error), "%s", error.message);
        session_rewind(session, 2);
        CHECK(session_feed(session, text + 2, 1, alone, 1, &error), "%s", error.message);
        session_rewind(session, 2);
        CHECK(session_feed_guesses(session, i ? faulty : fine, 3, rows, &error), "%s", error.message);
        CHECK(session_position(session) == 3 && memcmp(rows, alone, n_bytes) == 0, "%d: at %zu", i,
              session_position(session));
        size_t most = session_restore(session, 5);
        CHECK(most == (i ? 3 : 5), "%d: forward to %zu", i, most);
    }
    CHECK(!session_feed_guesses(session, &(int32_t){-1}, 1, rows, &error), "−1 is no token");
    CHECK(session_position(session) == 3, "at %zu", session_position(session));
    free(alone);
    free(rows);
    session_free(session);
    close_stage(&stage);
}

/* ---- The guesses themselves ---- */

static size_t common(const int32_t *ids, size_t at, size_t n) {
    size_t length = 0;
    while (length < at && length < 64 && ids[at - 1 - length] == ids[n - 1 - length]) length++;
    return length;
}

/* The largest order that a match of that length is looked up by. */
static size_t order_of(size_t length) {
    static const size_t orders[] = {1, 2, 3, 5, 8, 16};
    size_t order = 0;
    for (size_t i = 0; i < COUNT(orders); i++)
        if (orders[i] <= length) order = orders[i];
    return order;
}

/* Each guess is what followed the last tokens somewhere before, where about as many of them stood as anywhere. */
static void test_guesses_are_what_followed(void) {
    enum { N = 1500 };
    static int32_t ids[N];
    Error error;
    for (size_t letters = 1; letters <= 64; letters *= 4) {
        Guesses *guesses = guesses_new(SPECULATE_ON, &error);
        for (size_t n = 0; n < N; n++) {
            int32_t guess[MAX_GUESSES];
            size_t n_guesses = guesses_make(guesses, guess, MAX_GUESSES), longest = 0, best = 0;
            for (size_t at = 1; at < n; at++) {
                size_t length = common(ids, at, n), i = 0;
                if (length > longest) longest = length;
                while (i < n_guesses && guess[i] == (at + i < n ? ids[at + i] : guess[at + i - n])) i++;
                if (i == MAX_GUESSES && length > best) best = length;
            }
            CHECK(n_guesses == (longest ? MAX_GUESSES : 0), "%zu guesses at %zu of %zu", n_guesses, n,
                  letters);
            CHECK(best >= order_of(longest), "%zu of %zu at %zu of %zu", best, longest, n, letters);
            CHECK(guesses_make(guesses, guess, 3) <= 3, "more than asked for");
            ids[n] = n >= 40 && below(20) ? ids[n - 40] : (int32_t)below(letters);
            guesses_learn(guesses, ids[n]);
        }
        guesses_free(guesses);
    }
}

static void test_guesses_end_where_texts_part(void) {
    Error error;
    int32_t guess[MAX_GUESSES];
    Guesses *guesses = guesses_new(SPECULATE_ON, &error);
    CHECK(guesses_make(guesses, guess, 15) == 0, "a guess from nothing");
    guesses_read(guesses, (const int32_t[]){5, 6, 7, 8}, 4);
    CHECK(guesses_make(guesses, guess, 15) == 0, "a guess from what is new");
    guesses_part(guesses);
    guesses_read(guesses, (const int32_t[]){1, 6}, 2);
    size_t n = guesses_make(guesses, guess, 15);
    CHECK(n == 2 && guess[0] == 7 && guess[1] == 8, "%zu guesses: %d", n, (int)guess[0]);
    guesses_free(guesses);
}

/* More than there is room for: the older half is forgotten, and the newer is not. */
static void test_long_texts(void) {
    Error error;
    int32_t guess[MAX_GUESSES];
    Guesses *guesses = guesses_new(SPECULATE_ON, &error);
    for (int32_t i = 0; i < 200000; i++) guesses_read(guesses, &i, 1);
    guesses_read(guesses, (const int32_t[]){190000, 190001}, 2);
    CHECK(guesses_make(guesses, guess, 3) == 3 && guess[0] == 190002 && guess[2] == 190004, "%d",
          (int)guess[0]);
    guesses_read(guesses, (const int32_t[]){100, 101}, 2);
    CHECK(guesses_make(guesses, guess, 3) == 0, "%d is remembered", (int)guess[0]);
    guesses_free(guesses);
}

/* Plays a text that is known to the guesses, where a pass of 1, 2, 4, 8, 16 tokens costs this; its cost over plain decoding's. */
static double cost_of_text(const int32_t *ids, size_t n, const double costs[5]) {
    Error error;
    Guesses *guesses = guesses_new(SPECULATE_AUTO, &error);
    double cost = 0;
    guesses_read(guesses, ids, 1);
    for (size_t i = 1, n_held; i < n; i += 1 + n_held) {
        int32_t guess[MAX_GUESSES];
        size_t n_guesses = guesses_make(guesses, guess, n - i - 1), size = 0;
        while ((size_t)1 << size < 1 + n_guesses) size++;
        double noise =
            below(10) ? 0.9 + 0.02 * (double)below(10) : 1 + (double)below(6); /* others work here, too */
        cost += costs[size];
        guesses_time(guesses, 1 + n_guesses, 1e-3 * noise * costs[size]);
        guesses_time(guesses, 1 + n_guesses, 0); /* a clock that stood still tells nothing */
        for (n_held = 0; n_held < n_guesses && guess[n_held] == ids[i + n_held];) n_held++;
        for (size_t k = 0; k <= n_held; k++) guesses_learn(guesses, ids[i + k]);
    }
    guesses_free(guesses);
    return cost / (double)(n - 1);
}

/*
 * However much passes cost: at most 2 % more where nothing repeats, and where it does as much less as they allow. A text of a
 * few letters repeats all the time, and never goes on as before.
 */
static void test_what_guesses_cost(void) {
    enum { N = 1000 };
    random_state = 1;
    static const double costs[][5] = {
        {1, 1.1, 1.15, 1.2, 1.3}, {1, 1.4, 1.5, 1.7, 1.4}, {1, 1.6, 2.2, 3.4, 5}, {1, 2, 4, 8, 16}};
    static const double allowed[] = {0.4, 0.45, 0.7, 1.02};
    static int32_t ids[N];
    for (size_t c = 0; c < COUNT(costs); c++) {
        for (size_t letters = 2; letters <= 2048; letters *= 2) {
            for (size_t i = 0; i < N; i++) ids[i] = (int32_t)below(letters);
            double cost = cost_of_text(ids, N, costs[c]);
            CHECK(cost < (letters < 16 ? 1.08 : 1.02), "%zu letters at random cost %.3f with costs %zu",
                  letters, cost, c);
        }
        for (size_t i = 0; i < N; i++) ids[i] = (int32_t)(i % 100); /* said ten times */
        double cost = cost_of_text(ids, N, costs[c]);
        CHECK(cost < allowed[c], "what repeats costs %.3f with costs %zu", cost, c);
    }
}

int main(void) {
    RUN(test_schedules);
    RUN(test_serving);
    RUN(test_a_text_that_repeats);
    RUN(test_stopped_in_a_pass);
    RUN(test_who_is_not_guessed);
    RUN(test_guesses_at_fault);
    RUN(test_guesses_are_what_followed);
    RUN(test_guesses_end_where_texts_part);
    RUN(test_long_texts);
    RUN(test_what_guesses_cost);
    return test_end();
}
