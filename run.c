/*
 * The program that generates: options, load, encode the prompt, feed it, then token after token until
 * something ends the text. What looks inside the model is study's; tensors are touched nowhere here.
 */
#include "cli.h"
#include "info.h"
#include "model.h"
#include "npy.h"
#include "sampler.h"
#include "tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LOGITS_CHUNK = 32, SHIFT_KEEP = 4 };

static const char help[] =
    "usage: run MODEL [options]\n"
    "Generates text from a checkpoint (GGUF, or llama2.c's .bin with -z). The prompt is read from stdin\n"
    "unless -p or -f gives it.\n"
    "\n"
    "  -p, --prompt TEXT      the prompt                  --temp X              temperature, 0: greedy (0.8)\n"
    "  -f, --file FILE        the prompt, from a file     --top-k N             keep the N likeliest (0: all)\n"
    "  -n, --predict N        tokens to generate (256;    --top-p X             keep this mass (0.95; 0, 1: all)\n"
    "                         -1: until the text ends)    --min-p X             keep p >= X * the best p (0)\n"
    "  -c, --ctx-size N       context (the model's own)   --repeat-penalty X    of recent tokens (1: off)\n"
    "  -t, --threads N        (physical cores)            --presence-penalty X  (0: off)\n"
    "      --kv f16|f32       type of the KV cache (f16)  --frequency-penalty X (0: off)\n"
    "      --shift            context full: drop the      --repeat-last-n N     what is recent (64)\n"
    "                         oldest half and go on       -s, --seed N          (from the clock)\n"
    "      --stop TEXT        end before this text; may   -z, --tokenizer FILE  a vocabulary: GGUF, llama2.c\n"
    "                         be given several times      --special             read, show control tokens\n"
    "  -i, --interactive      go on with what is typed    --echo, --no-echo     repeat the prompt (yes)\n"
    "\n"
    "      --tokens           print the prompt's token ids and end (-v: id and piece, a line each)\n"
    "      --logits FILE.npy  write the logits of every prompt position, float32 [n_tokens][n_vocab]\n"
    "      --json             print one object: text, tokens, logprobs (nats), timings\n"
    "      --info             print what the checkpoint holds and end\n"
    "  -v, --verbose          timings on stderr           --version, -h, --help\n"
    "\n"
    "examples:\n"
    "  ./run gpt2.gguf -p \"The Eiffel\"\n"
    "  ./run stories260K.bin -z tok512.bin --temp 0 -n 100\n"
    "  echo 'Once upon a time' | ./run gpt2.gguf --temp 1 --top-p 0.9 -s 42 --json\n"
    "  ./run gpt2.gguf -p \"Hello world\" --tokens -v\n";

typedef struct Settings {
    const char *model, *prompt, *prompt_file, *tokenizer, *kv, *logits;
    int64_t n_predict, n_threads, n_ctx, top_k, repeat_last_n, seed;
    float temp, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    bool shift, special, echo, tokens, json, info, interactive, verbose, version, help;
    StringList stop;
} Settings;

static const Settings defaults = {
    .n_predict = 256,
    .repeat_last_n = 64,
    .seed = -1,
    .temp = 0.8f,
    .top_p = 0.95f,
    .repeat_penalty = 1,
    .kv = "f16",
    .echo = true,
};

static bool parse_settings(Settings *s, int argc, char **argv, Error *error) {
    const double huge = 1e9;
    const Option options[] = {
        {"--prompt", "-p", OPTION_TEXT, &s->prompt, 0, 0},
        {"--file", "-f", OPTION_TEXT, &s->prompt_file, 0, 0},
        {"--predict", "-n", OPTION_INT, &s->n_predict, -1, huge},
        {"--threads", "-t", OPTION_INT, &s->n_threads, 1, 1024},
        {"--ctx-size", "-c", OPTION_INT, &s->n_ctx, 1, huge},
        {"--temp", NULL, OPTION_REAL, &s->temp, 0, huge},
        {"--top-k", NULL, OPTION_INT, &s->top_k, 0, huge},
        {"--top-p", NULL, OPTION_REAL, &s->top_p, 0, 1},
        {"--min-p", NULL, OPTION_REAL, &s->min_p, 0, 1},
        {"--repeat-penalty", NULL, OPTION_REAL, &s->repeat_penalty, 0.01, 100},
        {"--repeat-last-n", NULL, OPTION_INT, &s->repeat_last_n, 0, huge},
        {"--presence-penalty", NULL, OPTION_REAL, &s->presence_penalty, -1000, 1000},
        {"--frequency-penalty", NULL, OPTION_REAL, &s->frequency_penalty, -1000, 1000},
        {"--seed", "-s", OPTION_INT, &s->seed, 0, 9e15},
        {"--tokenizer", "-z", OPTION_TEXT, &s->tokenizer, 0, 0},
        {"--kv", NULL, OPTION_TEXT, &s->kv, 0, 0},
        {"--shift", NULL, OPTION_ON, &s->shift, 0, 0},
        {"--special", NULL, OPTION_ON, &s->special, 0, 0},
        {"--stop", NULL, OPTION_LIST, &s->stop, 0, 0},
        {"--echo", NULL, OPTION_ON, &s->echo, 0, 0},
        {"--no-echo", NULL, OPTION_OFF, &s->echo, 0, 0},
        {"--tokens", NULL, OPTION_ON, &s->tokens, 0, 0},
        {"--logits", NULL, OPTION_TEXT, &s->logits, 0, 0},
        {"--json", NULL, OPTION_ON, &s->json, 0, 0},
        {"--info", NULL, OPTION_ON, &s->info, 0, 0},
        {"--interactive", "-i", OPTION_ON, &s->interactive, 0, 0},
        {"--verbose", "-v", OPTION_ON, &s->verbose, 0, 0},
        {"--version", NULL, OPTION_ON, &s->version, 0, 0},
        {"--help", "-h", OPTION_ON, &s->help, 0, 0},
    };
    if (!options_parse(options, sizeof options / sizeof *options, argc, argv, &s->model, 1, error))
        return false;
    if (s->help || s->version) return true;
    if (!s->model) return error_set(error, "no model is named: ./run MODEL -p PROMPT (see ./run --help)");
    if (s->prompt && s->prompt_file) return error_set(error, "-p and -f both give a prompt; choose one");
    if (strcmp(s->kv, "f16") != 0 && strcmp(s->kv, "f32") != 0)
        return error_set(error, "--kv takes f16 or f32, not '%s'", s->kv);
    if (s->interactive && s->json)
        return error_set(error, "--json prints one object a run; it does not go with -i");
    bool only_tells = s->info || s->tokens; /* and generates nothing */
    if ((s->info && s->tokens) || (only_tells && (s->logits || s->json || s->interactive)))
        return error_set(error, "--info and --tokens go alone, without --logits, --json, -i");
    for (size_t i = 0; i < s->stop.n; i++)
        if (!s->stop.items[i][0]) return error_set(error, "--stop needs some text");
    return true;
}

/* Why a text ended. */
typedef enum Stop { STOP_LIMIT, STOP_END, STOP_TEXT, STOP_CONTEXT, STOP_INTERRUPTED, STOP_PIPE } Stop;

static const char *const stop_names[] = {"limit", "end", "stop", "context", "interrupted", "pipe"};

typedef struct Run {
    const Settings *settings;
    Model *model;
    Checkpoint *vocabulary; /* of -z, or NULL */
    Tokenizer *tokenizer;
    Threads *threads;
    Session *session;
    Sampler *sampler;

    Tokens context;   /* the tokens that the session holds */
    int32_t next;     /* sampled but not yet fed, or −1 */
    float *logits;    /* [n_vocab] after the last token of context */
    size_t n_prompt;  /* tokens */
    Tokens generated; /* kept for --json */
    double *logprobs; /* of generated */
    size_t n_predicted;
    Detokenizer detokenizer;
    TextBuffer text; /* generated and not yet shown; all that was generated with --json */
    size_t shown;    /* bytes of text in which no stop text can begin any more */
    Stop stop;
    uint64_t seed;
    double load_ms, prompt_ms, predicted_ms;
} Run;

static bool open_model(Run *run, Error *error) {
    const Settings *s = run->settings;
    run->model = model_open(s->model, error);
    if (!run->model) return false;
    const Checkpoint *own = model_checkpoint(run->model);
    if (s->info && !s->tokenizer && !checkpoint_has(own, "tokenizer.ggml.model")) return true;
    run->tokenizer = open_vocabulary(s->tokenizer, own, &run->vocabulary, error);
    return run->tokenizer && check_vocabulary(run->model, run->tokenizer, s->tokenizer, error);
}

/* Below 2^53, so that readers of JSON who know doubles only can give it back to -s. */
static uint64_t clock_seed(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) & (((uint64_t)1 << 53) - 1);
}

static bool open_session(Run *run, Error *error) {
    const Settings *s = run->settings;
    const Config *config = model_config(run->model);
    const char *name = getenv("ATTN_KERNEL");
    bool any = (!name || !*name) && !s->logits; /* logits are written to be compared */
    const Kernels *kernels = any ? kernels_fastest() : kernels_pick(name, error);
    if (!kernels) return false;
    run->threads = threads_new(s->n_threads ? (unsigned)s->n_threads : threads_physical_cores(), error);
    if (!run->threads) return false;
    SessionOptions options = {.n_ctx = (size_t)s->n_ctx,
                              .kv_dtype = strcmp(s->kv, "f32") == 0 ? DTYPE_F32 : DTYPE_F16,
                              .compute = {.kernels = kernels, .threads = run->threads}};
    run->session = session_new(run->model, &options, error);
    if (!run->session) return false;
    if (session_n_ctx(run->session) > config->n_ctx)
        fprintf(stderr, "run: note: the model was trained on %zu positions; further ones may make no sense\n",
                config->n_ctx);
    run->seed = s->seed >= 0 ? (uint64_t)s->seed : clock_seed();
    SamplerOptions sampling = {.temperature = s->temp,
                               .top_k = (size_t)s->top_k,
                               .top_p = s->top_p,
                               .min_p = s->min_p,
                               .repeat_penalty = s->repeat_penalty,
                               .presence_penalty = s->presence_penalty,
                               .frequency_penalty = s->frequency_penalty,
                               .penalty_window = (size_t)s->repeat_last_n,
                               .seed = run->seed};
    run->sampler = sampler_new(&sampling, config->n_vocab, error);
    run->logits = calloc(config->n_vocab, sizeof *run->logits);
    if (!run->sampler) return false;
    if (!run->logits) return error_set(error, "not enough memory for the logits");
    run->next = -1;
    run->detokenizer = detokenizer_begin(run->tokenizer, s->special);
    return true;
}

static void close_run(Run *run) {
    sampler_free(run->sampler);
    session_free(run->session);
    threads_free(run->threads);
    tokenizer_free(run->tokenizer);
    checkpoint_close(run->vocabulary);
    model_close(run->model);
    tokens_free(&run->context);
    tokens_free(&run->generated);
    free(run->logits);
    free(run->logprobs);
    free(run->text.data);
}

/* The prompt of -p, -f or stdin as tokens; stdin is left alone if it is a terminal, and by -i. */
static bool encode_prompt(const Run *run, Tokens *tokens, Error *error) {
    const Settings *s = run->settings;
    TextBuffer text = {0};
    const char *bytes = s->prompt;
    size_t n = bytes ? strlen(bytes) : 0;
    if (!bytes && (s->prompt_file || (!isatty(STDIN_FILENO) && !s->interactive))) {
        if (!read_text(s->prompt_file ? s->prompt_file : "-", &text, error)) {
            free(text.data);
            return false;
        }
        bytes = text.data, n = text.n;
    }
    unsigned flags = ENCODE_ENDS | (s->special ? ENCODE_SPECIAL : 0);
    bool ok = interrupted() || tokenizer_encode(run->tokenizer, bytes ? bytes : "", n, flags, tokens, error);
    free(text.data);
    return ok;
}

static void print_tokens(const Run *run, const Tokens *tokens) {
    for (size_t i = 0; i < tokens->n; i++) {
        String piece = tokenizer_piece(run->tokenizer, tokens->ids[i], true);
        if (!run->settings->verbose) {
            printf("%s%" PRId32, i ? " " : "", tokens->ids[i]);
            continue;
        }
        printf("%6" PRId32 " ", tokens->ids[i]);
        print_json_string(stdout, piece.data, piece.n);
        putchar('\n');
    }
    if (!run->settings->verbose) putchar('\n');
}

/* Writes n bytes at once; a reader who has gone away ends the text, and is no error. */
static bool write_text(Run *run, const char *text, size_t n, Error *error) {
    if ((n == 0 || fwrite(text, 1, n, stdout) == n) && fflush(stdout) == 0) return true;
    if (errno != EPIPE) return error_set(error, "cannot write the text: %s", strerror(errno));
    run->stop = STOP_PIPE;
    return true;
}

/* Where a stop text stands in text[begin, n), or begins without an end to it; n when there is none. */
static size_t find_stop(const StringList *stops, const TextBuffer *text, size_t begin, bool *complete) {
    size_t beginning = text->n;
    *complete = false;
    for (size_t at = begin; at < text->n; at++)
        for (size_t i = 0; i < stops->n; i++) {
            size_t n = strlen(stops->items[i]), left = text->n - at;
            if (memcmp(text->data + at, stops->items[i], n < left ? n : left) != 0) continue;
            *complete = n <= left;
            if (*complete) return at;
            if (at < beginning) beginning = at;
        }
    return beginning;
}

/* Shows the text that cannot be the beginning of a stop text, or all of it once the text is `over`. */
static bool show_text(Run *run, bool over, Error *error) {
    TextBuffer *text = &run->text;
    bool complete, ok = true;
    size_t end = find_stop(&run->settings->stop, text, run->shown, &complete);
    if (complete) {
        run->stop = STOP_TEXT;
        text->n = end;
    } else if (over) {
        end = text->n;
    }
    if (!run->settings->json) {
        ok = write_text(run, text->data, end, error);
        if (end > 0) memmove(text->data, text->data + end, text->n - end);
        text->n -= end;
        end = 0;
    }
    run->shown = end;
    return ok;
}

/* Feeds tokens to the session and remembers them; the logits of the last n_logits go to `logits`. */
static bool feed(Run *run, const int32_t *ids, size_t n, float *logits, size_t n_logits, Error *error) {
    if (!session_feed(run->session, ids, n, logits, n_logits, error)) return false;
    for (size_t i = 0; i < n; i++)
        if (!tokens_push(&run->context, ids[i], error)) return false;
    return true;
}

/*
 * Feeds a prompt in chunks, with progress and an ear for Ctrl-C; the logits of its last token go to
 * run->logits, and those of every position to `array` if that is not NULL.
 */
static bool feed_prompt(Run *run, const Tokens *prompt, NpyWriter *array, Error *error) {
    size_t n_vocab = model_config(run->model)->n_vocab, chunk = array ? LOGITS_CHUNK : SESSION_CHUNK;
    float *rows = array ? calloc(chunk, n_vocab * sizeof *rows) : run->logits;
    bool ok = rows || error_set(error, "not enough memory for the logits of %zu tokens", chunk);
    for (size_t done = 0, n; ok && done < prompt->n && !interrupted(); done += n) {
        n = prompt->n - done < chunk ? prompt->n - done : chunk;
        size_t n_rows = array ? n : done + n == prompt->n; /* whose logits are wanted */
        if (prompt->n > chunk) show_progress("prompt", done, prompt->n);
        ok = feed(run, prompt->ids + done, n, rows, n_rows, error);
        if (ok && array) ok = npy_write(array, rows, n * n_vocab, error);
        if (ok && array) memcpy(run->logits, rows + (n - 1) * n_vocab, n_vocab * sizeof *rows);
    }
    if (prompt->n > chunk) show_progress("prompt", prompt->n, prompt->n);
    if (array) free(rows);
    return ok;
}

/* Feeds the prompt, then shows it, as the tokens say it, if it is to be echoed. */
static bool begin_text(Run *run, const Tokens *prompt, Error *error) {
    const Settings *s = run->settings;
    size_t n_ctx = session_n_ctx(run->session), n_vocab = model_config(run->model)->n_vocab;
    if (prompt->n > n_ctx)
        return error_set(error,
                         "the prompt has %zu tokens, more than the context of %zu; raise -c or shorten it",
                         prompt->n, n_ctx);
    double start = now_ms();
    NpyWriter *logits = NULL;
    if (s->logits && !(logits = npy_create(s->logits, prompt->n, n_vocab, error))) return false;
    bool ok = feed_prompt(run, prompt, logits, error);
    if (!ok || interrupted())
        npy_abandon(logits);
    else if (logits)
        ok = npy_finish(logits, error);
    run->n_prompt = prompt->n;
    run->prompt_ms = now_ms() - start;

    for (size_t i = 0; i < prompt->n && ok; i++) {
        sampler_accept(run->sampler, prompt->ids[i]);
        ok = detokenizer_push(&run->detokenizer, prompt->ids[i], &run->text) ||
             error_set(error, "not enough memory");
    }
    if (ok && s->echo && !s->json) ok = write_text(run, run->text.data, run->text.n, error);
    run->text.n = 0;
    return ok;
}

/*
 * The context is full: keeps its first tokens, where attention likes to rest (Xiao et al. 2023,
 * arXiv:2309.17453), drops the older half of the others and recomputes the rest at its new positions.
 */
static bool shift_context(Run *run, Error *error) {
    Tokens *context = &run->context;
    size_t keep = context->n > 2 * SHIFT_KEEP ? SHIFT_KEEP : 0, drop = (context->n - keep + 1) / 2;
    Tokens rest = {0};
    bool ok = true;
    for (size_t i = keep + drop; i < context->n && ok; i++) ok = tokens_push(&rest, context->ids[i], error);
    context->n = keep;
    session_rewind(run->session, keep);
    ok = ok && (rest.n == 0 || feed(run, rest.ids, rest.n, NULL, 0, error));
    tokens_free(&rest);
    return ok;
}

static bool record(Run *run, int32_t id, Error *error) {
    size_t n_vocab = model_config(run->model)->n_vocab, n = run->generated.n;
    if (!run->settings->json) return true;
    double *logprobs = realloc(run->logprobs, (n + 1) * sizeof *logprobs);
    if (!logprobs) return error_set(error, "not enough memory");
    run->logprobs = logprobs;
    run->logprobs[n] = sampler_logprob(run->logits, n_vocab, id);
    return tokens_push(&run->generated, id, error);
}

/* Generates and shows tokens until something ends the text; run->stop says what. */
static bool generate(Run *run, Error *error) {
    const Settings *s = run->settings;
    double start = now_ms();
    bool ok = true;
    if (run->stop == STOP_PIPE) return true;
    run->stop = STOP_LIMIT;
    /* Round after round: feed what was sampled last, sample the next, show it. */
    for (int64_t i = 0; (s->n_predict < 0 || i < s->n_predict) && ok && run->stop == STOP_LIMIT; i++) {
        if (interrupted()) {
            run->stop = STOP_INTERRUPTED;
            break;
        }
        if (run->next >= 0) {
            if (session_position(run->session) == session_n_ctx(run->session)) {
                if (!s->shift) {
                    run->stop = STOP_CONTEXT;
                    break;
                }
                if (!shift_context(run, error)) return false;
            }
            if (!feed(run, &run->next, 1, run->logits, 1, error)) return false;
        }
        int32_t id = run->next = sampler_next(run->sampler, run->logits);
        run->n_predicted++;
        sampler_accept(run->sampler, id);
        ok = record(run, id, error);
        bool end = tokenizer_is_end(run->tokenizer, id);
        if (end) run->stop = STOP_END, run->next = -1;
        if (ok && (!end || s->special))
            ok = detokenizer_push(&run->detokenizer, id, &run->text) || error_set(error, "not enough memory");
        ok = ok && show_text(run, false, error);
    }
    run->predicted_ms += now_ms() - start;
    if (!ok || run->stop == STOP_TEXT || run->stop == STOP_PIPE) return ok;
    return (detokenizer_end(&run->detokenizer, &run->text) || error_set(error, "not enough memory")) &&
           show_text(run, true, error);
}

/* A note after a text that only the context has ended. */
static void note_end(const Run *run) {
    if (run->stop == STOP_CONTEXT)
        fprintf(stderr, "run: note: the context of %zu is full; --shift goes on without the oldest half\n",
                session_n_ctx(run->session));
}

static double per_second(size_t n, double ms) { return ms > 0 ? 1e3 * (double)n / ms : 0; }

static void print_json(const Run *run) {
    printf("{\"model\": ");
    print_json_string(stdout, run->settings->model, strlen(run->settings->model));
    printf(", \"text\": ");
    print_json_string(stdout, run->text.data, run->text.n);
    printf(", \"tokens\": [");
    for (size_t i = 0; i < run->generated.n; i++) printf("%s%" PRId32, i ? ", " : "", run->generated.ids[i]);
    printf("], \"logprobs\": [");
    for (size_t i = 0; i < run->generated.n; i++) printf("%s%.6f", i ? ", " : "", run->logprobs[i]);
    printf("], \"stop\": \"%s\", \"seed\": %" PRIu64, stop_names[run->stop], run->seed);
    printf(", \"timings\": {\"load_ms\": %.3f, \"prompt_n\": %zu, \"prompt_ms\": %.3f, "
           "\"prompt_per_second\": %.3f, "
           "\"predicted_n\": %zu, \"predicted_ms\": %.3f, \"predicted_per_second\": %.3f, "
           "\"peak_rss_bytes\": %" PRIu64 "}}\n",
           run->load_ms, run->n_prompt, run->prompt_ms, per_second(run->n_prompt, run->prompt_ms),
           run->n_predicted, run->predicted_ms, per_second(run->n_predicted, run->predicted_ms),
           peak_rss_bytes());
}

static void print_timings(const Run *run) {
    fprintf(stderr, "load       %8.1f ms\n", run->load_ms);
    fprintf(stderr, "prompt     %8.1f ms, %zu tokens, %.1f tokens/s\n", run->prompt_ms, run->n_prompt,
            per_second(run->n_prompt, run->prompt_ms));
    fprintf(stderr, "generated  %8.1f ms, %zu tokens, %.1f tokens/s\n", run->predicted_ms, run->n_predicted,
            per_second(run->n_predicted, run->predicted_ms));
    fprintf(stderr, "memory     %8.1f MiB at most\n", (double)peak_rss_bytes() / (1 << 20));
    fprintf(stderr, "seed       %8" PRIu64 "\n", run->seed);
}

/* Feeds one typed line after what was generated; *fits is false when the context has no room for it. */
static bool feed_line(Run *run, const char *line, size_t n, bool *fits, Error *error) {
    Tokens typed = {0};
    size_t n_pending = run->next >= 0, n_ctx = session_n_ctx(run->session);
    unsigned flags = run->settings->special ? ENCODE_SPECIAL : 0;
    if (run->context.n == 0) flags |= ENCODE_ENDS; /* the first line is the prompt */
    bool ok = n_pending == 0 || tokens_push(&typed, run->next, error);
    ok = ok && tokenizer_encode(run->tokenizer, line, n, flags, &typed, error);
    bool can_shift = run->settings->shift && typed.n + SHIFT_KEEP < n_ctx / 2; /* and have room afterwards */
    if (ok && can_shift && typed.n > n_ctx - session_position(run->session)) ok = shift_context(run, error);
    *fits = typed.n <= n_ctx - session_position(run->session);
    if (ok && *fits) {
        double start = now_ms();
        for (size_t i = n_pending; i < typed.n; i++) sampler_accept(run->sampler, typed.ids[i]);
        ok = typed.n == 0 || feed_prompt(run, &typed, NULL, error);
        run->next = -1;
        run->detokenizer.at_start = run->detokenizer.at_start && typed.n == 0;
        run->n_prompt += typed.n - n_pending;
        run->prompt_ms += now_ms() - start;
    }
    tokens_free(&typed);
    return ok;
}

/* -i: what is typed is fed after what was generated, and the text goes on, until the input ends. */
static bool converse(Run *run, Error *error) {
    char *line = NULL;
    size_t capacity = 0;
    bool ok = true;
    while (ok && run->stop != STOP_INTERRUPTED && run->stop != STOP_PIPE) {
        if (isatty(STDERR_FILENO)) fputs("> ", stderr);
        ssize_t n = getline(&line, &capacity, stdin);
        if (n < 0) break;
        if (n > 0 && line[n - 1] == '\n') n--;
        bool fits = false;
        ok = feed_line(run, line, (size_t)n, &fits, error);
        if (ok && !fits) {
            fprintf(stderr, "run: note: the context of %zu has no room for that line%s\n",
                    session_n_ctx(run->session), run->settings->shift ? "" : "; --shift makes some");
            continue;
        }
        if (run->context.n == 0) continue; /* nobody has said anything yet */
        ok = ok && generate(run, error);
        if (ok && run->stop != STOP_PIPE) ok = write_text(run, "\n", 1, error);
        if (ok) note_end(run);
    }
    if (isatty(STDERR_FILENO)) fputc('\n', stderr);
    free(line);
    return ok;
}

/* The prompt's tokens; when there are none, the one that begins every text. */
static bool prepare_prompt(const Run *run, Tokens *prompt, Error *error) {
    if (!encode_prompt(run, prompt, error)) return false;
    int32_t bos = tokenizer_bos(run->tokenizer);
    if (prompt->n > 0) return true;
    if (bos >= 0) return tokens_push(prompt, bos, error);
    return error_set(error,
                     "the prompt is empty and the vocabulary has no token to begin with; give one with -p");
}

/* Feeds the prompt, and generates and shows what follows it. */
static bool answer_prompt(Run *run, Error *error) {
    Tokens prompt = {0};
    bool ok = prepare_prompt(run, &prompt, error) && begin_text(run, &prompt, error) && generate(run, error);
    tokens_free(&prompt);
    if (ok && run->settings->json) print_json(run);
    if (ok && !run->settings->json && run->stop != STOP_PIPE) ok = write_text(run, "\n", 1, error);
    if (ok) note_end(run);
    return ok;
}

/* Everything after the options. */
static bool run_model(Run *run, Error *error) {
    const Settings *s = run->settings;
    double start = now_ms();
    if (!open_model(run, error)) return false;
    if (s->info) {
        print_info(run->model, run->tokenizer);
        return true;
    }
    if (!open_session(run, error)) return false;
    run->load_ms = now_ms() - start;

    bool first_line_is_prompt = s->interactive && !s->prompt && !s->prompt_file && !s->logits;
    bool ok = first_line_is_prompt || answer_prompt(run, error);
    if (ok && s->interactive) ok = converse(run, error);
    if (ok && s->verbose) print_timings(run);
    return ok;
}

/* --tokens needs a vocabulary only. */
static bool run_tokens(Run *run, Error *error) {
    Tokens prompt = {0};
    Checkpoint *checkpoint = run->settings->tokenizer ? NULL : checkpoint_open(run->settings->model, error);
    if (checkpoint || run->settings->tokenizer)
        run->tokenizer = open_vocabulary(run->settings->tokenizer, checkpoint, &run->vocabulary, error);
    bool ok = run->tokenizer && encode_prompt(run, &prompt, error);
    if (ok) print_tokens(run, &prompt);
    tokens_free(&prompt);
    tokenizer_free(run->tokenizer);
    run->tokenizer = NULL;
    checkpoint_close(checkpoint);
    return ok;
}

int main(int argc, char **argv) {
    Settings settings = defaults;
    Run run = {.settings = &settings};
    Error error;
    if (!parse_settings(&settings, argc, argv, &error)) {
        fprintf(stderr, "run: %s\n", error.message);
        free(settings.stop.items);
        return EXIT_USAGE;
    }
    catch_signals("run");
    bool ok = true;
    if (settings.help)
        fputs(help, stdout);
    else if (settings.version)
        puts("attn " ATTN_VERSION);
    else
        ok = settings.tokens ? run_tokens(&run, &error) : run_model(&run, &error);
    close_run(&run);
    free(settings.stop.items);
    if (ok && run.stop != STOP_PIPE && (fflush(stdout) != 0 || ferror(stdout)) && errno != EPIPE)
        ok = error_set(&error, "cannot write the text: %s", strerror(errno));
    if (!ok && !interrupted()) fprintf(stderr, "run: %s\n", error.message);
    return interrupted() ? EXIT_INTERRUPTED : ok ? EXIT_SUCCESS : EXIT_BAD_INPUT;
}
