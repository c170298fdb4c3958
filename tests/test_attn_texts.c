/*
 * Texts by way of the public face: those of the program, to the bit; what callbacks are told, what ends a text, and two threads
 * at once.
 */
#include "face.h"

#include "sampler.h"

#include <fenv.h>
#include <pthread.h>

/* Text that a callback is given. */
typedef struct Text {
    char bytes[MAX_TEXT];
    size_t n, n_calls, most; /* after so many calls the callback says false; 0: never */
} Text;

static bool keep_text(void *user, const char *bytes, size_t n) {
    Text *text = user;
    CHECK(n > 0 && text->n + n < MAX_TEXT, "%zu bytes", n);
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    text->bytes[text->n] = '\0';
    return ++text->n_calls != text->most;
}

static void check_generate(const char *path, AttnSampling sampling, const char *arguments) {
    char all[256];
    World world = open_world(path, NULL);
    Text text = {.n = 0};
    AttnGenerateOptions options = {.sampling = sampling, .n_tokens = 60, .text = keep_text, .user = &text};
    AttnError error;
    AttnEnd end;
    CHECK(attn_generate(world.session, "The sea", &options, &end, &error), "%s", error.message);
    snprintf(all, sizeof all, "-p 'The sea' --no-echo -n 60 %s", arguments);
    size_t n;
    const char *wanted = output_of(all, path, &n);
    close_world(&world);
    CHECK(text.n + 1 == n && memcmp(text.bytes, wanted, text.n) == 0, "%s %s: '%s', not '%s'", path,
          arguments, text.bytes, wanted);
}

static void test_texts_are_the_programs(void) {
    if (!getenv("RUN")) SKIP("RUN names no program");
    for (size_t i = 0; i < N_MODELS; i++) {
        AttnSampling all = {.temperature = 1.1f,
                            .top_k = 90,
                            .top_p = 0.95f,
                            .min_p = 0.01f,
                            .repeat_penalty = 1.2f,
                            .presence_penalty = 0.3f,
                            .frequency_penalty = 0.2f,
                            .penalty_window = 30,
                            .seed = 7};
        check_generate(models[i], (AttnSampling){.temperature = 0}, "--temp 0");
        AttnSampling usual;
        World world = open_world(models[i], NULL);
        CHECK(attn_sampling(world.model, &usual, NULL), "no sampling");
        close_world(&world);
        usual.seed = 7;
        check_generate(models[i], usual, "-s 7");
        usual.order = 0x35; /* temperature before top-p */
        check_generate(models[i], usual, "-s 7 --samplers 'temperature;top_p'");
        check_generate(models[i], (AttnSampling){.temperature = 0, .repeat_penalty = 1.3f},
                       "--temp 0 --repeat-penalty 1.3");
        check_generate(models[i], all,
                       "--temp 1.1 --top-k 90 --top-p 0.95 --min-p 0.01 --repeat-penalty 1.2 "
                       "--presence-penalty 0.3 --frequency-penalty 0.2 --repeat-last-n 30 -s 7");
    }
}

/* By feeding tokens alone one can do what attn_generate does. */
static void test_a_loop_of_ones_own(void) {
    AttnSampling sampling = {.temperature = 1, .repeat_penalty = 1.4f, .frequency_penalty = 0.2f, .seed = 3};
    AttnGenerateOptions options = {.sampling = sampling, .n_tokens = 30};
    World world = open_world(GPT2, NULL);
    int32_t tokens[MAX_TOKENS];
    float logits[MAX_VOCAB];
    size_t n = tokens_of(world.model, "The sea", tokens), n_prompt = n;
    AttnSampler *sampler = attn_sampler_new(world.model, &sampling, NULL);
    for (size_t i = 0; i < n; i++) attn_sampler_accept(sampler, tokens[i]);
    attn_sampler_accept(sampler, -1);
    attn_sampler_accept(sampler, (int32_t)world.n_vocab);
    CHECK(attn_feed(world.session, tokens, n, logits, 1, NULL), "cannot feed");
    for (size_t i = 0; i < 29; i++) {
        tokens[n] = attn_sample(sampler, logits);
        CHECK(attn_feed(world.session, &tokens[n++], 1, logits, 1, NULL), "cannot feed");
    }
    attn_sampler_free(sampler);
    attn_rewind(world.session, 0);
    CHECK(attn_generate(world.session, "The sea", &options, NULL, NULL), "cannot generate");
    CHECK(holds(world.session, tokens, n_prompt + 29), "other tokens"); /* the 30th has not been fed */
    close_world(&world);
}

/* Tokens that a callback is given, and what they and the text cost it. */
typedef struct Heard {
    int32_t tokens[64];
    double logprobs[64];
    size_t n, most; /* after so many it says false; 0: never */
    Text text;
    bool over; /* it has said false */
} Heard;

static bool hear_token(void *user, int32_t token, double logprob) {
    Heard *heard = user;
    CHECK(!heard->over && heard->n < 64, "%zu tokens", heard->n);
    heard->tokens[heard->n] = token;
    heard->logprobs[heard->n++] = logprob;
    heard->over = heard->n == heard->most;
    return !heard->over;
}

static bool hear_text(void *user, const char *bytes, size_t n) {
    Heard *heard = user;
    CHECK(!heard->over && heard->n > 0, "text before its token, or after the end");
    return keep_text(&heard->text, bytes, n);
}

/* run --json reports the same tokens, and to its last digit the same numbers. */
static void check_reported(const char *path, const Heard *heard) {
    static char wanted[1 << 12];
    int at = snprintf(wanted, sizeof wanted, "\"tokens\": [");
    size_t n;
    for (size_t i = 0; i < heard->n; i++)
        at += snprintf(wanted + at, sizeof wanted - (size_t)at, "%s%d", i ? ", " : "", (int)heard->tokens[i]);
    at += snprintf(wanted + at, sizeof wanted - (size_t)at, "], \"logprobs\": [");
    for (size_t i = 0; i < heard->n; i++)
        at += snprintf(wanted + at, sizeof wanted - (size_t)at, "%s%.9g", i ? ", " : "", heard->logprobs[i]);
    const char *report = output_of("-p 'The sea' -n 40 --temp 0 --json", path, &n);
    CHECK(at < (int)sizeof wanted && strstr(report, wanted), "%s: %.300s, not %.300s", path, report, wanted);
}

/* The tokens are those that the session comes to hold; their logprobs the log of softmax of what attn_feed gives. */
static void check_heard(const char *path, AttnSampling sampling) {
    World world = open_world(path, NULL);
    Heard heard = {.n = 0};
    AttnGenerateOptions options = {
        .sampling = sampling, .n_tokens = 40, .token = hear_token, .text = hear_text};
    int32_t tokens[MAX_TOKENS];
    float logits[MAX_VOCAB];
    AttnEnd end;
    options.user = &heard;
    size_t n = tokens_of(world.model, "The sea", tokens), n_held;
    CHECK(attn_generate(world.session, "The sea", &options, &end, NULL), "cannot generate");
    CHECK(heard.n == 40 || end == ATTN_END_TOKEN, "%zu tokens", heard.n);
    const int32_t *held = attn_session_tokens(world.session, &n_held);
    CHECK(n_held + 1 == n + heard.n && memcmp(held + n, heard.tokens, (heard.n - 1) * sizeof *held) == 0,
          "%s: other tokens are held", path);
    for (size_t i = 0; i < heard.n; i++) {
        double sum = 0;
        CHECK(attn_sync(world.session, tokens, n + i, logits, NULL), "cannot feed");
        for (size_t j = 0; j < world.n_vocab; j++) sum += exp((double)logits[j]);
        CHECK_NEAR(heard.logprobs[i], (double)logits[heard.tokens[i]] - log(sum), 1e-6);
        tokens[n + i] = heard.tokens[i];
    }

    if (getenv("RUN") && sampling.temperature == 0) check_reported(path, &heard);

    /* Given as tokens, the prompt has the same text behind it. */
    Heard again = {.n = 0};
    options.user = &again;
    CHECK(attn_generate_from(world.session, tokens, n, &options, NULL, NULL), "cannot generate");
    CHECK(again.n == heard.n && memcmp(again.tokens, heard.tokens, sizeof heard.tokens) == 0, "other tokens");
    CHECK(memcmp(again.logprobs, heard.logprobs, sizeof heard.logprobs) == 0, "other logprobs");
    CHECK(strcmp(again.text.bytes, heard.text.bytes) == 0 && again.text.n > 0, "'%s'", again.text.bytes);
    close_world(&world);
}

static void test_tokens_are_heard(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        check_heard(models[i], (AttnSampling){.temperature = 0});
        check_heard(models[i],
                    (AttnSampling){.temperature = 2, .repeat_penalty = 1.5f, .top_k = 50, .seed = 4});
    }
}

/* Makes the model write a script, each letter a token of GPT2. */
typedef struct Script {
    const char *text;
    size_t next;
} Script;

static bool script_wants(void *user, AttnSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == ATTN_LOGITS;
}

static void script_visit(void *user, const AttnActivation *seen) {
    Script *script = user;
    unsigned char letter = (unsigned char)script->text[script->next++ % strlen(script->text)];
    memset(seen->data, 0, seen->n_cols * sizeof *seen->data);
    seen->data[letter == '.' ? 256 : letter - '!'] = 1; /* GPT-2's order of the bytes; a dot ends the text */
}

static void check_end(const char *script_text, AttnGenerateOptions options, size_t most, const char *wanted,
                      AttnEnd wanted_end, size_t n_held) {
    Script script = {.text = script_text};
    Text text = {.most = most};
    AttnSessionOptions session = {.n_ctx = 12, .probe = {&script, script_wants, script_visit}};
    World world = open_world(GPT2, &session);
    AttnError error = {""};
    AttnEnd end = (AttnEnd)-1;
    size_t n;
    options.text = keep_text;
    options.user = &text;
    CHECK(attn_generate(world.session, "ab", &options, &end, &error), "%s", error.message);
    CHECK(strcmp(text.bytes, wanted) == 0, "%s: '%s', not '%s'", script_text, text.bytes, wanted);
    CHECK(end == wanted_end, "%s: ended for reason %d, not %d", script_text, (int)end, (int)wanted_end);
    CHECK(attn_session_tokens(world.session, &n) && n == n_held, "%s: %zu tokens held, not %zu", script_text,
          n, n_held);
    CHECK(most == 0 || text.n_calls == most, "%zu calls after %zu", text.n_calls, most);
    close_world(&world);
}

static void test_ends(void) {
    const AttnGenerateOptions stop = {.stop = (const char *[]){"STOP"}, .n_stop = 1};
    check_end("xyz", (AttnGenerateOptions){.n_tokens = 5}, 0, "xyzxy", ATTN_END_LIMIT, 2 + 4);
    check_end("xyz.", (AttnGenerateOptions){0}, 0, "xyz", ATTN_END_TOKEN, 2 + 3);
    check_end("xyz.", (AttnGenerateOptions){.special = true}, 0, "xyz<|endoftext|>", ATTN_END_TOKEN, 2 + 3);
    check_end("xSTOPz", stop, 0, "x", ATTN_END_STOP, 2 + 4);
    check_end("xST.", stop, 0, "xST", ATTN_END_TOKEN, 2 + 3);
    check_end("xyz", (AttnGenerateOptions){0}, 0, "xyzxyzxyzxy", ATTN_END_CONTEXT, 12);
    check_end("xyz", (AttnGenerateOptions){.n_tokens = 14, .shift = true}, 0, "xyzxyzxyzxyzxy",
              ATTN_END_LIMIT, 11);
    check_end("xyz", (AttnGenerateOptions){0}, 3, "xyz", ATTN_END_CALLER, 2 + 2);
    check_end("SSTOP", stop, 1, "S", ATTN_END_CALLER, 2 + 1); /* and the S that was held back is not shown */
}

/* A token that ends the text is heard; so is one of which no text can be shown yet. A callback that says false ends it. */
static void test_tokens_of_ends(void) {
    const AttnGenerateOptions stop = {.stop = (const char *[]){"STOP"}, .n_stop = 1};
    static const struct {
        const char *script, *text;
        size_t most, n;
        AttnEnd end;
    } cases[] = {{"xyz.", "xyz", 0, 4, ATTN_END_TOKEN},
                 {"xSTOPz", "x", 0, 5, ATTN_END_STOP},
                 {"SSTOP", "", 1, 1, ATTN_END_CALLER},
                 {"xyz", "x", 2, 2, ATTN_END_CALLER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Script script = {.text = cases[i].script};
        Heard heard = {.most = cases[i].most};
        AttnGenerateOptions options = stop;
        options.token = hear_token, options.text = hear_text, options.user = &heard;
        World world = open_world(GPT2, &(AttnSessionOptions){.probe = {&script, script_wants, script_visit}});
        AttnEnd end = (AttnEnd)-1;
        CHECK(attn_generate(world.session, "ab", &options, &end, NULL), "cannot generate");
        CHECK(heard.n == cases[i].n && end == cases[i].end, "%s: %zu tokens, end %d", cases[i].script,
              heard.n, (int)end);
        CHECK(strcmp(heard.text.bytes, cases[i].text) == 0, "%s: '%s'", cases[i].script, heard.text.bytes);
        for (size_t j = 0; j < heard.n; j++) /* one logit is 1, the others are 0 */
            CHECK_NEAR(heard.logprobs[j], 1 - log(exp(1) + (double)world.n_vocab - 1), 1e-6);
        CHECK(heard.tokens[0] == cases[i].script[0] - '!', "token %d", (int)heard.tokens[0]);
        close_world(&world);
    }
}

static void test_an_empty_prompt_is_what_begins_a_text(void) {
    for (size_t i = 0; i < N_MODELS; i++) {
        World world = open_world(models[i], NULL);
        int32_t bos = attn_token_bos(world.model);
        CHECK(attn_generate(world.session, "", &(AttnGenerateOptions){.n_tokens = 1}, NULL, NULL),
              "cannot generate");
        CHECK(holds(world.session, &bos, 1), "%s: not the token %d", models[i], (int)bos);
        close_world(&world);
    }
}

/* A thread's text, token by token, and the logits after each token. */
typedef struct Runner {
    const AttnModel *model;
    const char *prompt;
    Text text;
    float logits[24 * MAX_VOCAB];
    bool ok;
} Runner;

static void *run_one(void *argument) {
    Runner *runner = argument;
    AttnSession *session = attn_session_new(runner->model, &(AttnSessionOptions){.n_threads = 2}, NULL);
    AttnSampling sampling = {.temperature = 1, .seed = 5};
    AttnGenerateOptions options = {
        .sampling = sampling, .n_tokens = 20, .text = keep_text, .user = &runner->text};
    size_t n, n_vocab = attn_model_shape(runner->model).n_vocab;
    runner->ok = attn_generate(session, runner->prompt, &options, NULL, NULL);
    const int32_t *held = attn_session_tokens(session, &n);
    int32_t tokens[24];
    n = n < 24 ? n : 24;
    memcpy(tokens, held, n * sizeof *tokens);
    attn_rewind(session, 0);
    for (size_t i = 0; i < n; i++)
        runner->ok &= attn_feed(session, tokens + i, 1, runner->logits + i * n_vocab, 1, NULL);
    attn_session_free(session);
    return NULL;
}

static void test_two_threads_on_one_model(void) {
    static Runner alone[2], together[2];
    AttnModel *model = attn_model_open(LLAMA_Q8, NULL, NULL);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        alone[i].model = together[i].model = model;
        alone[i].prompt = together[i].prompt = i ? "One two three" : "The sea was";
        run_one(&alone[i]);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, run_one, &together[i]) == 0, "no thread");
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(alone[i].ok && together[i].ok && alone[i].text.n > 0, "thread %d", i);
        CHECK(strcmp(alone[i].text.bytes, together[i].text.bytes) == 0, "'%s', not '%s'",
              together[i].text.bytes, alone[i].text.bytes);
        CHECK(memcmp(alone[i].logits, together[i].logits, sizeof alone[i].logits) == 0, "other logits");
    }
    attn_model_close(model);
}

/* Callers round as they like, and trap what they like: the numbers are the same, and theirs stays as it was. */
static void test_floats_of_callers(void) {
    static float usual[MAX_VOCAB], under[MAX_VOCAB];
    for (unsigned n_threads = 1; n_threads <= 2; n_threads++) {
        World world = open_world(models[0], &(AttnSessionOptions){.n_threads = n_threads});
        int32_t tokens[MAX_TOKENS];
        size_t n = tokens_of(world.model, story, tokens);
        CHECK(attn_feed(world.session, tokens, n, usual, 1, NULL), "cannot feed");
        attn_rewind(world.session, 0);
        fesetround(FE_UPWARD);
        feclearexcept(FE_ALL_EXCEPT);
        bool ok = attn_feed(world.session, tokens, n, under, 1, NULL);
        int rounding = fegetround(), raised = fetestexcept(FE_ALL_EXCEPT);
        fesetround(FE_TONEAREST);
        CHECK(ok && memcmp(usual, under, world.n_vocab * sizeof *usual) == 0, "%u threads", n_threads);
        CHECK(rounding == FE_UPWARD && raised == 0, "%d, %d", rounding, raised);
        close_world(&world);
    }
}

enum { MAX_ROW = 60000 };

/* A program's numbers of a model that it opens, feeds, reads and lets write, all in one rounding. */
typedef struct Life {
    float logits[MAX_ROW], unembedded[MAX_ROW], weights[MAX_ROW], hidden[MAX_ROW];
    double logprobs[4][40];
    size_t n[4];
} Life;

typedef struct Written {
    double *logprobs;
    size_t n;
} Written;

static bool note_logprob(void *user, int32_t token, double logprob) {
    Written *written = user;
    (void)token;
    written->logprobs[written->n++] = logprob;
    return true;
}

static void live(Life *life, const char *path, int rounding) {
    *life = (Life){.n = {0}};
    fesetround(rounding);
    AttnModel *model = attn_model_open(path, NULL, NULL);
    AttnSession *session = attn_session_new(model, NULL, NULL);
    const AttnShape shape = attn_model_shape(model);
    bool ok = shape.n_vocab <= MAX_ROW && shape.d_model <= MAX_ROW &&
              attn_feed(session, (int32_t[]){5, 6, 7, 8, 9}, 5, life->logits, 1, NULL) &&
              attn_weight(model, ATTN_W_Q, 0, 0, 1, life->weights, NULL, NULL) &&
              attn_unembed(session, life->weights, 1, life->unembedded) &&
              attn_hidden(session, (int32_t[]){5, 6, 7}, 3, life->hidden, NULL);
    for (size_t i = 0; ok && i < 4 && attn_token_bos(model) >= 0; i++) {
        Written written = {life->logprobs[i], 0};
        AttnGenerateOptions options = {.sampling = {.temperature = 1, .seed = i + 1},
                                       .n_tokens = 40,
                                       .token = note_logprob,
                                       .user = &written};
        ok = attn_generate(session, "The", &options, NULL, NULL);
        life->n[i] = written.n;
    }
    CHECK(ok && fegetround() == rounding, "%s, rounding %d", path, rounding);
    fesetround(FE_TONEAREST);
    attn_session_free(session);
    attn_model_close(model);
}

/* A program that rounds otherwise has the same numbers from beginning to end. */
static void test_lives_of_callers(void) {
    static const char *const paths[] = {"weights/model.gguf", "tests/data/reference/llama-f32.gguf",
                                        "tests/data/reference/llama-yarn.gguf",
                                        "tests/data/reference/gpt-oss-mxfp4.gguf"};
    static const int roundings[] = {FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    static Life usual, life;
    size_t n_roundings = how_many(3, 3, 1);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        live(&usual, paths[i], FE_TONEAREST);
        for (size_t k = 0; k < n_roundings; k++) {
            live(&life, paths[i], roundings[k]);
            CHECK(memcmp(&life, &usual, sizeof life) == 0, "%s, rounding %d", paths[i], roundings[k]);
        }
    }
}

int main(void) {
    RUN(test_texts_are_the_programs);
    RUN(test_a_loop_of_ones_own);
    RUN(test_tokens_are_heard);
    RUN(test_ends);
    RUN(test_tokens_of_ends);
    RUN(test_an_empty_prompt_is_what_begins_a_text);
    RUN(test_two_threads_on_one_model);
    RUN(test_floats_of_callers);
    RUN(test_lives_of_callers);
    return test_end();
}
