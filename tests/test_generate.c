/*
 * The text of ./run, against the library called step by step: every token here is drawn from the logits
 * of a session that was rewound to nothing and fed the whole text anew, so the program's cache, chunks and
 * shifts of the context must not show. That needs kernels that round nothing to 8 bits; the program's own choice is
 * for speed. The logits that it writes are compared with PyTorch's, by its own choice for those. How texts end, and how
 * they are shown, is tested with a model that is made to write a script.
 */
#include "generate.h"
#include "model.h"
#include "open.h"
#include "sampler.h"
#include "test.h"
#include "tokenizer.h"
#include "vocabulary.h"

#include <stdbool.h>
#include <unistd.h>

enum { MAX_TEXT = 1 << 16, MAX_TOKENS = 512 };

static char folder[] = "/tmp/attn-test-XXXXXX"; /* scratch */

/* A model of tests/data/reference, ready to be fed, and a text under construction. */
typedef struct World {
    const char *path;
    Model *model;
    Tokenizer *tokenizer;
    Threads *threads;
    Session *session;
    float *logits; /* [n_vocab] */
    size_t n_vocab;
    int32_t ids[MAX_TOKENS];
    size_t n;
} World;

static World open_world(const char *path) {
    Error error;
    World world = {.path = path, .model = model_open(path, &error)};
    if (!world.model) {
        printf("%s\n", error.message);
        exit(1);
    }
    world.tokenizer = tokenizer_new(model_checkpoint(world.model), &error);
    world.threads = threads_new(1, &error);
    SessionOptions options = {.kv_dtype = DTYPE_F32,
                              .compute = {.kernels = kernels_pick(NULL, &error), .threads = world.threads}};
    world.session = session_new(world.model, &options, &error);
    world.n_vocab = model_config(world.model)->n_vocab;
    world.logits = calloc(world.n_vocab, sizeof *world.logits);
    if (world.tokenizer && world.threads && world.session && world.logits) return world;
    printf("%s: %s\n", path, error.message);
    exit(1);
}

static void close_world(World *world) {
    free(world->logits);
    session_free(world->session);
    threads_free(world->threads);
    tokenizer_free(world->tokenizer);
    model_close(world->model);
}

static void encode(World *world, const char *text, unsigned flags) {
    Error error;
    Tokens tokens = {0};
    CHECK(tokenizer_encode(world->tokenizer, text, strlen(text), flags, &tokens, &error), "%s",
          error.message);
    for (size_t i = 0; i < tokens.n; i++) world->ids[world->n++] = tokens.ids[i];
    tokens_free(&tokens);
}

/* world->logits after the text so far. */
static void feed_anew(World *world) {
    Error error;
    session_rewind(world->session, 0);
    CHECK(session_feed(world->session, world->ids, world->n, world->logits, 1, &error), "%s", error.message);
}

static int32_t likeliest(const World *world) {
    int32_t best = 0;
    for (size_t i = 1; i < world->n_vocab; i++)
        if (world->logits[i] > world->logits[best]) best = (int32_t)i;
    return best;
}

/* ln softmax(world->logits)[id]. */
static double logprob(const World *world, int32_t id) {
    double sum = 0;
    for (size_t i = 0; i < world->n_vocab; i++)
        sum += exp((double)world->logits[i] - (double)world->logits[id]);
    return -log(sum);
}

/* Gives what the program prints for these arguments, NUL-terminated; it must end well and silently. */
static const char *output_of(const char *path, const char *arguments) {
    static char text[MAX_TEXT];
    char command[1024];
    snprintf(command, sizeof command, "\"${RUN:-./run}\" 2>&1 %s %s", path, arguments);
    FILE *pipe = popen(command, "r");
    size_t n = pipe ? fread(text, 1, sizeof text - 1, pipe) : 0;
    int status = pipe ? pclose(pipe) : -1;
    text[n] = '\0';
    CHECK(status == 0, "%s: status %d: %.200s", command, status, text);
    return text;
}

/* The numbers of a list in --json's object; returns how many. */
static size_t list_of(const char *json, const char *name, double values[MAX_TOKENS]) {
    char start[32];
    snprintf(start, sizeof start, "\"%s\": [", name);
    const char *at = strstr(json, start);
    size_t n = 0;
    CHECK(at != NULL, "no %s in %.200s", name, json);
    if (!at) return 0;
    for (at += strlen(start); *at != ']' && *at && n < MAX_TOKENS; at += *at == ',') {
        char *end;
        values[n++] = strtod(at, &end);
        if (end == at) return 0;
        at = end;
    }
    return n;
}

static void check_greedy(const char *path) {
    double ids[MAX_TOKENS], logprobs[MAX_TOKENS];
    World world = open_world(path);
    const char *json = output_of(path, "-p 'The sea' --temp 0 -n 60 --kv f32 --json");
    size_t n = list_of(json, "tokens", ids);
    CHECK(n == 60 && list_of(json, "logprobs", logprobs) == n, "%s: %zu tokens", path, n);
    encode(&world, "The sea", ENCODE_ENDS);
    for (size_t i = 0; i < n && !test_broken; i++) {
        feed_anew(&world);
        int32_t id = likeliest(&world);
        CHECK(ids[i] == id, "%s: token %zu is %.0f, not %d", path, i, ids[i], (int)id);
        CHECK_NEAR(logprobs[i], logprob(&world, id), 1e-5);
        world.ids[world.n++] = id;
    }
    close_world(&world);
}

static void test_greedy_tokens_and_their_logprobs(void) {
    check_greedy("tests/data/reference/gpt2-f32.gguf");
    check_greedy("tests/data/reference/llama-f32.gguf");
    check_greedy("tests/data/reference/gpt2-q4_0.gguf");
}

/* The context is full: the first 4 tokens stay, and the newer half of the others. */
static void drop_older_half(World *world) {
    size_t others = world->n - 4;
    memmove(world->ids + 4, world->ids + 4 + others / 2, others / 2 * sizeof *world->ids);
    world->n = 4 + others / 2;
}

static void check_shift(const char *path, size_t n_ctx) {
    char arguments[128];
    double ids[MAX_TOKENS];
    World world = open_world(path);
    snprintf(arguments, sizeof arguments, "-p 'One two' --temp 0 -n 100 --kv f32 --json --shift -c %zu",
             n_ctx);
    size_t n = list_of(output_of(path, arguments), "tokens", ids);
    CHECK(n == 100, "%s: %zu tokens", path, n);
    encode(&world, "One two", ENCODE_ENDS);
    for (size_t i = 0; i < n && !test_broken; i++) {
        feed_anew(&world);
        int32_t id = likeliest(&world);
        CHECK(ids[i] == id, "%s: context %zu: token %zu is %.0f, not %d", path, n_ctx, i, ids[i], (int)id);
        if (world.n == n_ctx) drop_older_half(&world);
        world.ids[world.n++] = id;
    }
    close_world(&world);
}

static void test_a_shifted_context_is_the_kept_text_fed_anew(void) {
    check_shift("tests/data/reference/gpt2-f32.gguf", 16);
    check_shift("tests/data/reference/gpt2-f32.gguf", 70);
    check_shift("tests/data/reference/llama-f32.gguf", 16);
    check_shift("tests/data/reference/llama-f32.gguf", 64);
}

/* The prompt counts as recent, and so does every token drawn, once. */
static void test_draws_are_the_samplers(void) {
    double ids[MAX_TOKENS];
    World world = open_world("tests/data/reference/gpt2-f32.gguf");
    const char *arguments =
        "-p 'a b a' -n 80 --kv f32 --json --temp 1.2 --top-k 100 --top-p 0.9 --min-p 0.01 "
        "--repeat-penalty 1.3 --presence-penalty 0.5 --frequency-penalty 0.25 "
        "--repeat-last-n 20 -s 99";
    SamplerOptions options = {1.2f, 100, 0.9f, 0.01f, 1.3f, 0.5f, 0.25f, 20, 99};
    Error error;
    Sampler *sampler = sampler_new(&options, world.n_vocab, &error);
    size_t n = list_of(output_of(world.path, arguments), "tokens", ids);
    CHECK(sampler && n == 80, "%zu tokens", n);
    encode(&world, "a b a", ENCODE_ENDS);
    for (size_t i = 0; i < world.n; i++) sampler_accept(sampler, world.ids[i]);
    for (size_t i = 0; i < n && !test_broken; i++) {
        feed_anew(&world);
        int32_t id = sampler_next(sampler, world.logits);
        CHECK(ids[i] == id, "token %zu is %.0f, not %d", i, ids[i], (int)id);
        sampler_accept(sampler, id);
        world.ids[world.n++] = id;
    }
    sampler_free(sampler);
    close_world(&world);
}

/* A typed line continues the text: all that came before it stays, except the token that ended the text. */
static void check_conversation(const char *path, size_t n_predict) {
    static const char *const lines[] = {"The sea", "one", "", "three"};
    char arguments[128];
    World world = open_world(path);
    snprintf(arguments, sizeof arguments,
             "-i --temp 0 -n %zu --kv f32 -p '%s' --no-echo <<'END'\n%s\n%s\n%s\nEND", n_predict, lines[0],
             lines[1], lines[2], lines[3]);
    const char *output = output_of(path, arguments);
    Detokenizer detokenizer = detokenizer_begin(world.tokenizer, false);
    TextBuffer text = {0};
    encode(&world, lines[0], ENCODE_ENDS);
    for (size_t i = 0; i < world.n; i++) detokenizer_push(&detokenizer, world.ids[i], &text);
    for (size_t line = 0; line < 4; line++) {
        if (line > 0) encode(&world, lines[line], 0);
        text.n = 0;
        for (size_t i = 0; i < n_predict; i++) {
            feed_anew(&world);
            int32_t id = likeliest(&world);
            if (tokenizer_is_end(world.tokenizer, id)) break;
            world.ids[world.n++] = id;
            CHECK(detokenizer_push(&detokenizer, id, &text), "no memory");
        }
        CHECK(detokenizer_end(&detokenizer, &text), "no memory");
        size_t n = text.n < strlen(output) ? text.n : strlen(output);
        CHECK(memcmp(text.data, output, n) == 0 && output[n] == '\n', "%s: after line %zu", path, line);
        output += output[n] ? n + 1 : n;
    }
    CHECK(*output == '\0', "%s: more: %.100s", path, output);
    free(text.data);
    close_world(&world);
}

static void test_a_conversation_is_one_text(void) {
    check_conversation("tests/data/reference/gpt2-f32.gguf", 4);
    check_conversation("tests/data/reference/llama-q8_0.gguf", 10); /* ends before that */
}

/* PyTorch's tokens as the bytes that they stand for, in a file of that name. */
static bool write_prompt(const World *world, const Tensor *tokens, const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file) return false;
    for (size_t i = 0; i < tokens->dims[0]; i++) {
        String piece = tokenizer_piece(world->tokenizer, (int32_t)((const float *)tokens->data)[i], true);
        fwrite(piece.data, 1, piece.n, file);
    }
    return fclose(file) == 0;
}

static void check_written_logits(const char *path, const char *expected_path, double bound) {
    Error error;
    char prompt[64], npy[64], arguments[256];
    World world = open_world(path);
    Checkpoint *expected = checkpoint_open(expected_path, &error);
    const Tensor *tokens = checkpoint_find(expected, "tokens"), *logits = checkpoint_find(expected, "logits");
    size_t n = (size_t)tokens->dims[0] * world.n_vocab;
    snprintf(prompt, sizeof prompt, "%s/prompt", folder);
    snprintf(npy, sizeof npy, "%s/logits.npy", folder);
    snprintf(arguments, sizeof arguments, "-f %s --special --kv f32 -n 0 --logits %s", prompt, npy);
    CHECK(write_prompt(&world, tokens, prompt), "cannot write %s", prompt);
    output_of(world.path, arguments);

    float *values = calloc(n + 1, sizeof *values);
    FILE *file = fopen(npy, "rb");
    CHECK(file && fseek(file, 128, SEEK_SET) == 0 && fread(values, sizeof *values, n + 1, file) == n,
          "%s has not %zu values", npy, n);
    double worst = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double wanted = (double)((const float *)logits->data)[i];
        double off = fabs((double)values[i] - wanted);
        if (!(off <= worst)) worst = off; /* a NaN stays, and fails below */
        if (fabs(wanted) > largest) largest = fabs(wanted);
    }
    CHECK(worst < bound * largest, "%s: off by %g of %g", path, worst, largest);
    if (file) fclose(file);
    remove(npy);
    remove(prompt);
    free(values);
    checkpoint_close(expected);
    close_world(&world);
}

static void test_written_logits_are_pytorchs(void) { /* with test_reference.c's bounds */
    check_written_logits("tests/data/reference/gpt2-f32.gguf", "tests/data/reference/gpt2-f32.expected.gguf",
                         1e-5);
    check_written_logits("tests/data/reference/gpt2-q4_0.gguf",
                         "tests/data/reference/gpt2-q4_0.expected.gguf", 3e-4);
}

/*
 * A Generator whose model is made to write a script, by a probe that replaces the logits: so it is known what it
 * says, byte for byte, since each byte is a token of gpt2-f32.gguf.
 */
typedef struct Play {
    Model *model;
    Tokenizer *tokenizer;
    Threads *threads;
    Session *session;
    Generator *generator;
    Tokens script;
    size_t next, n_fed; /* tokens of the script sampled, and any fed */
    char pieces[MAX_TEXT];
    size_t n_pieces, n_text, n_tokens,
        most; /* pieces: what was shown, each with a '|' behind; most: text is cut after these */
} Play;

static bool wants_logits(void *user, ProbeSite site, size_t layer, size_t head) {
    (void)user, (void)layer, (void)head;
    return site == PROBE_LOGITS || (site == PROBE_RESID_PRE && layer == 0);
}

static void prompt_next(void *user, const Activation *seen) {
    Play *play = user;
    if (seen->site == PROBE_RESID_PRE) {
        play->n_fed += seen->n_rows;
        return;
    }
    for (size_t i = 0; i < seen->n_cols; i++) seen->data[i] = 0;
    seen->data[play->script.ids[play->next++ % play->script.n]] = 1;
}

static Play *play_begin(const char *script, GeneratorOptions options) {
    static Play play;
    static Probe probe = {&play, wants_logits, prompt_next};
    Error error;
    play = (Play){.most = SIZE_MAX, .model = model_open("tests/data/reference/gpt2-f32.gguf", &error)};
    play.tokenizer = tokenizer_new(model_checkpoint(play.model), &error);
    play.threads = threads_new(1, &error);
    SessionOptions session = {.n_ctx = 16,
                              .kv_dtype = DTYPE_F32,
                              .compute = {.kernels = kernels_pick(NULL, &error), .threads = play.threads},
                              .probe = &probe};
    play.session = session_new(play.model, &session, &error);
    options.sampling.repeat_penalty = 1;
    play.generator = generator_new(play.model, play.tokenizer, play.session, &options, &error);
    tokenizer_encode(play.tokenizer, script, strlen(script), ENCODE_SPECIAL, &play.script, &error);
    return &play;
}

static void play_end(Play *play) {
    generator_free(play->generator);
    session_free(play->session);
    threads_free(play->threads);
    tokens_free(&play->script);
    tokenizer_free(play->tokenizer);
    model_close(play->model);
}

static bool keep_piece(void *user, int32_t id, const char *text, size_t n) {
    Play *play = user;
    memcpy(play->pieces + play->n_text, text, n);
    play->n_text += n;
    if (n > 0) play->pieces[play->n_text++] = '|';
    play->pieces[play->n_text] = '\0';
    play->n_tokens += id >= 0;
    return ++play->n_pieces < play->most;
}

/* Feeds "abc", generates up to n tokens and checks what is shown and why it ends. */
static Play *act(const char *script, size_t n, GeneratorOptions options, const char *pieces, TextEnd wanted) {
    static const int32_t abc[] = {64, 65, 66}; /* GPT-2's order of the bytes */
    Play *play = play_begin(script, options);
    Error error = {""};
    TextEnd end = END_CALLER;
    bool fits, ok = generator_add(play->generator, abc, 3, &(Feed){0}, &fits, &error) && fits &&
                    generator_run(play->generator, n, keep_piece, play, &end, &error);
    CHECK(ok, "%s", error.message);
    CHECK(end == wanted, "%s: ended for reason %d, not %d", script, (int)end, (int)wanted);
    CHECK(strcmp(play->pieces, pieces) == 0, "%s: '%s', not '%s'", script, play->pieces, pieces);
    return play;
}

static void check_act(const char *script, size_t n, GeneratorOptions options, const char *pieces,
                      TextEnd wanted) {
    play_end(act(script, n, options, pieces, wanted));
}

/* A vocabulary that is opened while other threads touch the weights is the same, or the same error. */
static void test_vocabulary_beside_weights(void) {
    Error error = {{0}};
    Checkpoint *file = NULL;
    Model *model = model_open("tests/data/reference/gpt2-f32.gguf", &error);
    for (unsigned n_threads = 1; model && n_threads <= 4; n_threads++) {
        Threads *threads = threads_new(n_threads, &error);
        Tokenizer *tokenizer = vocabulary_open(model, NULL, threads, &file, &error);
        CHECK(tokenizer && !file && tokenizer_n_vocab(tokenizer) == model_config(model)->n_vocab, "%s",
              error.message);
        tokenizer_free(tokenizer);
        tokenizer = vocabulary_open(model, "tests/data/tokenizer/none.gguf", threads, &file, &error);
        CHECK(!tokenizer && !file && strstr(error.message, "none.gguf: cannot open"), "%s", error.message);
        tokenizer = vocabulary_open(model, "tests/data/tokenizer/gpt2.gguf", threads, &file, &error);
        CHECK(!tokenizer && file &&
                  strstr(error.message, "but the vocabulary of tests/data/tokenizer/gpt2.gguf has"),
              "%s", error.message);
        checkpoint_close(file);
        threads_free(threads);
    }
    model_close(model);
}

/* Each letter is a token: all of these texts begin and end between tokens' borders. */
static void test_stop_texts(void) {
    GeneratorOptions stop = {.stop = (const char *[]){"STOP", "end"}, .n_stop = 2};
    check_act("a STOP", 12, stop, "a| |", END_STOP);
    check_act("STO STOP", 12, stop, "STO |", END_STOP);
    check_act("SSTOP", 12, stop, "S|", END_STOP);
    check_act("STenSTOP", 12, stop, "ST|en|", END_STOP); /* what begins one stop text may break another */
    check_act("lend", 12, stop, "l|", END_STOP);
    check_act("a STOP", 5, stop, "a| |STO|", END_LIMIT); /* a beginning alone is text after all */
    check_act("a ST<|endoftext|>", 12, stop, "a| |ST|", END_TOKEN);
    GeneratorOptions twice = {.stop = (const char *[]){"ababX"}, .n_stop = 1};
    check_act("cabababX", 12, twice, "c|ab|",
              END_STOP); /* held back from its first beginning, not from its last */
    Play *play = act("STOP", 12, stop, "", END_STOP);
    CHECK(play->n_tokens == 4 && play->n_pieces == 4, "%zu tokens in %zu pieces", play->n_tokens,
          play->n_pieces);
    play_end(play);
}

static void test_characters_stay_whole(void) {
    GeneratorOptions none = {0};
    check_act("né€!", 7, none, "n|é|€|!|", END_LIMIT);
    check_act("né", 2, none, "n|\xef\xbf\xbd|", END_LIMIT); /* the first half of é */
    check_act("n\xc3?", 3, none, "n|\xef\xbf\xbd?|", END_LIMIT);
    check_act("n€<|endoftext|>", 12, none, "n|€|", END_TOKEN);
}

static void test_ends(void) {
    GeneratorOptions none = {0}, special = {.special = true}, shift = {.shift = true};
    check_act("xy", 0, none, "", END_LIMIT);
    check_act("xy", 4, none, "x|y|x|y|", END_LIMIT);
    check_act("xy<|endoftext|>z", 9, none, "x|y|", END_TOKEN);
    check_act("x<|endoftext|>z", 9, special, "x|<|endoftext|>|", END_TOKEN);
    /* 16 positions: 3 of the prompt, 13 fed, and one more is sampled after the last of them. */
    Play *play = act("xy", SIZE_MAX, none, "x|y|x|y|x|y|x|y|x|y|x|y|x|y|", END_CONTEXT);
    CHECK(session_position(play->session) == 16 && play->n_tokens == 14, "%zu tokens", play->n_tokens);
    play_end(play);
    play = act("x", 18, shift, "x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|", END_LIMIT);
    CHECK(session_position(play->session) == 14, "16 less 6 and 4 more are not %zu",
          session_position(play->session));
    CHECK(session_tokens(play->session)[0] == 64, "the first token is gone");
    play_end(play);
}

static void test_a_callback_ends_the_text(void) {
    Play *play = play_begin("xyz", (GeneratorOptions){0});
    Error error;
    TextEnd end;
    play->most = 2;
    bool fits;
    CHECK(generator_add(play->generator, &(int32_t){64}, 1, &(Feed){0}, &fits, &error) && fits,
          "cannot feed");
    CHECK(generator_run(play->generator, 9, keep_piece, play, &end, &error), "%s", error.message);
    CHECK(end == END_CALLER && strcmp(play->pieces, "x|y|") == 0, "%d: %s", (int)end, play->pieces);
    play_end(play);
}

/* *fits tells of what has no room, and nothing is fed. */
static void test_room(void) {
    static const int32_t many[17];
    Error error = {""};
    bool fits = true;
    Play *play = play_begin("x", (GeneratorOptions){.shift = true});
    Generator *generator = play->generator;
    CHECK(generator_add(generator, many, 17, &(Feed){0}, &fits, &error) && !fits, "17 fit 16");
    CHECK(play->n_fed == 0 && generator_add(generator, many, 16, &(Feed){0}, &fits, &error) && fits, "%s",
          error.message);
    CHECK(generator_add(generator, many, 3, &(Feed){0}, &fits, &error) && fits, "no shift for 3");
    CHECK(session_position(play->session) == 13, "4 first, 6 last and 3 new are not %zu",
          session_position(play->session));
    play_end(play);
}

/* session_sync feeds what is new, and the last token in any case. */
static void test_sync_feeds_what_is_new(void) {
    static const struct {
        const char *text;
        size_t n_fed;
    } steps[] = {{"abcdefgh", 8}, {"abcdefgh", 1}, {"abcdefghij", 2}, {"abcdeXYZ", 3}, {"abc", 1}, {"b", 1}};
    float logits[257];
    Error error = {""};
    Play *play = play_begin("x", (GeneratorOptions){0});
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        Tokens tokens = {0};
        size_t n = strlen(steps[i].text);
        play->n_fed = 0;
        CHECK(tokenizer_encode(play->tokenizer, steps[i].text, n, 0, &tokens, &error), "%s", error.message);
        CHECK(session_sync(play->session, tokens.ids, n, logits, &(Feed){0}, &error), "%s", error.message);
        CHECK(play->n_fed == steps[i].n_fed, "%s: %zu fed", steps[i].text, play->n_fed);
        CHECK(session_position(play->session) == n &&
                  memcmp(session_tokens(play->session), tokens.ids, n * sizeof *tokens.ids) == 0,
              "%s is not what the session holds", steps[i].text);
        tokens_free(&tokens);
    }
    play_end(play);
}

static bool keep_id(void *user, int32_t id, const char *text, size_t n) {
    Error error;
    (void)text, (void)n;
    return id < 0 || tokens_push(user, id, &error);
}

/* Penalties of a text that is begun again count its tokens once, and none of the text before. */
static void test_a_text_begun_again(void) {
    World world = open_world("tests/data/reference/gpt2-f32.gguf");
    const GeneratorOptions options = {
        .sampling = {
            .top_p = 1, .repeat_penalty = 1, .frequency_penalty = 0.3f, .penalty_window = 1000, .seed = 1}};
    Error error = {""};
    Generator *generator = generator_new(world.model, world.tokenizer, world.session, &options, &error);
    Tokens texts[3] = {{0}};
    encode(&world, "Hello, hello", 0);
    for (size_t i = 0; i < 3; i++) {
        TextEnd end;
        CHECK(generator && generator_sync(generator, world.ids, world.n, &(Feed){0}, &error) &&
                  generator_run(generator, 24, keep_id, &texts[i], &end, &error),
              "%s", error.message);
        CHECK(texts[i].n == 24 && memcmp(texts[i].ids, texts[0].ids, 24 * sizeof *texts[0].ids) == 0,
              "time %zu", i);
    }
    for (size_t i = 0; i < 3; i++) tokens_free(&texts[i]);
    generator_free(generator);
    close_world(&world);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    setenv("ATTN_KERNEL", kernels_pick(NULL, NULL)->name, 1);
    RUN(test_greedy_tokens_and_their_logprobs);
    RUN(test_a_shifted_context_is_the_kept_text_fed_anew);
    RUN(test_draws_are_the_samplers);
    RUN(test_a_conversation_is_one_text);
    unsetenv("ATTN_KERNEL");
    RUN(test_written_logits_are_pytorchs);
    RUN(test_vocabulary_beside_weights);
    RUN(test_stop_texts);
    RUN(test_characters_stay_whole);
    RUN(test_ends);
    RUN(test_a_callback_ends_the_text);
    RUN(test_room);
    RUN(test_sync_feeds_what_is_new);
    RUN(test_a_text_begun_again);
    rmdir(folder);
    return test_end();
}
