/*
 * The program that generates: load, encode the prompt, and a Generator (generate.h) that writes on, with this program showing
 * what it says. What looks inside the model is study's; tensors are touched nowhere here.
 */
#include "attn.h"
#include "batch/batch.h"
#include "cli/chat.h"
#include "cli/directions.h"
#include "cli/info.h"
#include "cli/input.h"
#include "cli/llamacpp.h"
#include "cli/notes.h"
#include "cli/npy.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/process.h"
#include "cli/run_options.h"
#include "cli/summary.h"
#include "cli/talk.h"
#include "generate.h"
#include "open.h"
#include "sampling.h"
#include "vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Run {
    const RunOptions *options;
    Model *model;
    Checkpoint *vocabulary; /* of -z, or NULL */
    Tokenizer *tokenizer;
    Threads *threads;
    Steer *steer; /* of --steer, or NULL */
    Session *session;
    Generator *generator;
    SamplingFields sampling; /* what holds, where anything is drawn */

    Summary summary; /* tokens and text are kept for --json alone */
    TextEnd end;
    Shown shown;
    Error error; /* of all functions here: what each is given */
} Run;

static bool open_model(Run *run, Error *error) {
    const RunOptions *s = run->options;
    run->model = model_open_with(s->model, progress_or_stop, NULL, error);
    if (!run->model) return false;
    run->threads = threads_new(s->n_threads ? (unsigned)s->n_threads : threads_physical_cores(), error);
    if (!run->threads) return false;
    run->tokenizer = vocabulary_open(run->model, s->tokenizer, run->threads, &run->vocabulary, error);
    return run->tokenizer;
}

/* The files that no output may replace. */
static Inputs inputs_of(const Run *run) {
    const RunOptions *s = run->options;
    return (Inputs){model_checkpoint(run->model), run->vocabulary, s->prompt_file, s->template,
                    steer_file(run->steer)};
}

static bool stop_run(void *user) {
    (void)user;
    return interrupted();
}

static const Kernels *kernels_of(const RunOptions *s, Error *error) {
    const char *name = getenv("ATTN_KERNEL");
    bool any = (!name || !*name) && !s->logits; /* logits are written to be compared */
    return any ? kernels_fastest() : kernels_pick(name, error);
}

/* How --batch and all others open a session. */
static SessionOptions session_options(const Run *run, const Kernels *kernels) {
    return (SessionOptions){.n_ctx = (size_t)run->options->n_ctx,
                            .kv_dtype = run->options->kv_dtype,
                            .compute = {.kernels = kernels, .threads = run->threads},
                            .probe = steer_probe(run->steer),
                            .stop = stop_run};
}

static bool open_generator(Run *run, Error *error) {
    const RunOptions *s = run->options;
    const Config *config = model_config(run->model);
    const Kernels *kernels = kernels_of(s, error);
    if (!kernels || !steer_open(&run->steer, s->steer, run->model, error)) return false;
    const SessionOptions session = session_options(run, kernels);
    run->session = session_new(run->model, &session, error);
    if (!run->session) return false;
    steer_note(run->steer);
    if (session_n_ctx(run->session) > config->n_ctx)
        fprintf(stderr, "run: note: the model was trained on %zu positions; further ones may make no sense\n",
                config->n_ctx);
    GeneratorOptions options = s->generator;
    if (!s->n_predict) /* nothing is drawn, so what the file asks for stops nobody */
        sampling_leave_out(&options.sampling);
    else if (!sampling_settle(&options.sampling, model_checkpoint(run->model), &run->sampling, error))
        return false;
    if (!s->verbose) note_not_done("run", &run->sampling); /* -v says so with the rest */
    options.sampling.seed = run->summary.seed = s->seed >= 0 ? (uint64_t)s->seed : clock_seed();
    options.stop = s->stop.items;
    options.n_stop = s->stop.n;
    run->generator = generator_new(run->model, run->tokenizer, run->session, &options, error);
    return run->generator;
}

static void close_run(Run *run) {
    generator_free(run->generator);
    session_free(run->session);
    steer_free(run->steer);
    threads_free(run->threads);
    tokenizer_free(run->tokenizer);
    checkpoint_close(run->vocabulary);
    model_close(run->model);
    summary_free(&run->summary);
}

/* The prompt of -p, -f or stdin as tokens; stdin is left alone if it is a terminal, and by -i. */
static bool read_prompt(const Run *run, Tokens *tokens, Error *error) {
    const RunOptions *s = run->options;
    TextBuffer text = {0};
    const char *bytes = s->prompt;
    size_t n = bytes ? strlen(bytes) : 0;
    bool reads = !bytes && (s->prompt_file || (!isatty(STDIN_FILENO) && !s->interactive));
    bool ok = !reads || read_prompt_text(s->prompt_file, &text, error);
    if (reads) bytes = text.data, n = text.n;
    unsigned flags = ENCODE_ENDS | (s->generator.special ? ENCODE_SPECIAL : 0);
    ok = ok && tokenizer_encode(run->tokenizer, bytes ? bytes : "", n, flags, tokens, error);
    free(text.data);
    return ok;
}

/* Prints what was generated, or the prompt (id −1) where it is echoed. */
static bool show_piece(void *user, int32_t id, const char *text, size_t n) {
    Run *run = user;
    run->summary.n_predicted += id >= 0;
    if (!run->options->json) return shown_write(&run->shown, text, n) && !interrupted();
    size_t n_vocab = model_config(run->model)->n_vocab;
    const float *logits = generator_logits(run->generator);
    bool ok = text_append(&run->summary.text, text, n) &&
              (id < 0 || summary_add(&run->summary, id, sampler_logprob(logits, n_vocab, id)));
    return (ok || shown_fail(&run->shown, "cannot keep the text", "not enough memory")) && !interrupted();
}

/* A row of --logits. */
static bool write_logits(void *user, const float *logits, size_t n_vocab, Error *error) {
    return npy_write(user, logits, n_vocab, error);
}

/*
 * Feeds the prompt and shows it, as the tokens say it, if it is to be echoed; --logits writes those of all positions.
 */
static bool begin_text(Run *run, const Tokens *prompt, Error *error) {
    if (prompt->n == 0)
        return error_set(
            error, "the prompt is empty and the vocabulary has no token to begin with; give one with -p");
    const RunOptions *s = run->options;
    size_t n_vocab = model_config(run->model)->n_vocab;
    double start = now_ms();
    bool echo = s->echo && !s->json;
    const Inputs inputs = inputs_of(run);
    NpyWriter *file = s->logits ? npy_create(s->logits, &inputs, prompt->n, n_vocab, error) : NULL;
    if (s->logits && !file) return false;
    Feed feed = {.progress = progress_or_stop, .sink = file ? write_logits : NULL, .user = file};
    bool fits, ok = generator_add(run->generator, prompt->ids, prompt->n, &feed, &fits, error);
    if (ok && !fits)
        ok = error_set(error, "the prompt has %zu tokens, more than the context of %zu; %sshorten it",
                       prompt->n, session_n_ctx(run->session),
                       session_n_ctx(run->session) < model_config(run->model)->n_ctx ? "raise -c or " : "");
    if (ok && file)
        ok = npy_finish(file, error);
    else
        npy_abandon(file);
    run->summary.n_prompt = prompt->n;
    run->summary.prompt_ms = now_ms() - start;
    bool colour = echo && shows_colour(s->colour, STDOUT_FILENO);
    if (colour) fputs(TYPED_BEGIN, stdout);
    ok = ok && generator_echo(run->generator, prompt->ids, prompt->n, echo ? show_piece : NULL, run, error);
    if (colour) fputs(TYPED_END, stdout);
    return ok;
}

/* Generates and shows tokens until something ends the text. */
static bool generate(Run *run, Error *error) {
    int64_t n = run->options->n_predict;
    double start = now_ms();
    if (run->shown.piped_out) return true;
    bool ok = generator_run(run->generator, n < 0 ? SIZE_MAX : (size_t)n, show_piece, run, &run->end, error);
    if (!ok && interrupted()) ok = true, run->end = END_CALLER; /* within a token, which is given up */
    run->summary.predicted_ms += now_ms() - start;
    run->summary.end = text_end_name(run->end);
    return ok && !run->shown.failed;
}

/* Prints what comes behind a text: its line's end, or the object of --json; and a note if only the context has ended it. */
static bool end_text(Run *run) {
    if (run->options->json)
        summary_print_json(&run->summary);
    else if (!shown_write(&run->shown, "\n", 1) && !run->shown.piped_out)
        return false;
    if (run->end == END_CONTEXT)
        fprintf(stderr, "run: note: the context of %zu is full; --shift goes on without the oldest half\n",
                session_n_ctx(run->session));
    return true;
}

/* Feeds one typed line after what was generated; *fits is false when the context has no room for it. */
static bool feed_line(Run *run, const char *line, size_t n, bool *fits, Error *error) {
    Tokens typed = {0};
    Feed feed = {.progress = progress_or_stop};
    unsigned flags = run->options->generator.special ? ENCODE_SPECIAL : 0;
    if (session_position(run->session) == 0) flags |= ENCODE_ENDS; /* the first line is the prompt */
    double start = now_ms();
    bool ok = tokenizer_encode(run->tokenizer, line, n, flags, &typed, error) &&
              generator_add(run->generator, typed.ids, typed.n, &feed, fits, error) &&
              (!*fits || generator_echo(run->generator, typed.ids, typed.n, NULL, NULL, error));
    if (ok && *fits) {
        run->summary.n_prompt += typed.n;
        run->summary.prompt_ms += now_ms() - start;
    }
    tokens_free(&typed);
    return ok;
}

/* Feeds the prompt, and generates and shows what follows it. */
static bool answer_prompt(Run *run, Error *error) {
    Tokens prompt = {0};
    bool ok = read_prompt(run, &prompt, error) && prompt_or_bos(run->tokenizer, &prompt, error) &&
              begin_text(run, &prompt, error) && generate(run, error);
    tokens_free(&prompt);
    if (ok && interrupted()) last_words();
    return ok && end_text(run);
}

/*
 * -i: behind the prompt, if there is one, what is typed is fed after what was generated, and the text goes on, until the input
 * ends. Ctrl-C ends what is generated; a line that is cut short by it is not read.
 */
static bool converse(Run *run, Error *error) {
    const RunOptions *s = run->options;
    TextBuffer line = {0};
    const TalkSetup setup = {.colour = shows_colour(s->colour, STDERR_FILENO)};
    Talk *typed = talk_new(&setup, error);
    bool first_line_is_prompt = !s->prompt && !s->prompt_file && !s->logits, ends = false;
    bool ok = typed && (first_line_is_prompt || answer_prompt(run, error));
    while (ok && !run->shown.piped_out) {
        bool fits = false;
        ok = talk_read(typed, &line, &ends, error);
        if (!ok || ends) break;
        ok = feed_line(run, line.data, line.n, &fits, error);
        if (!ok && interrupted()) {
            ok = true;
            continue;
        }
        if (ok && !fits) {
            fprintf(stderr, "run: note: the context of %zu has no room for that line%s\n",
                    session_n_ctx(run->session), s->generator.shift ? "" : "; --shift makes some");
            continue;
        }
        if (session_position(run->session) == 0) continue; /* nobody has said anything yet */
        ok = ok && generate(run, error) && end_text(run);
    }
    talk_free(typed);
    free(line.data);
    return ok && (!interrupted() || error_set(error, "interrupted"));
}

/* --chat. A file is one question, as -p is. */
static bool talk(Run *run, Error *error) {
    const RunOptions *s = run->options;
    TextBuffer text = {0};
    const Inputs inputs = inputs_of(run);
    ChatSetup setup = {.template_file = s->template,
                       .variables = s->variables,
                       .system = s->system,
                       .inputs = &inputs,
                       .prompt = {s->prompt, s->prompt ? strlen(s->prompt) : 0},
                       .n_predict = s->n_predict < 0 ? SIZE_MAX : (size_t)s->n_predict,
                       .shift = s->generator.shift,
                       .colour = s->colour,
                       .model = run->model,
                       .tokenizer = run->tokenizer,
                       .session = run->session,
                       .generator = run->generator,
                       .summary = &run->summary,
                       .shown = &run->shown};
    bool ok = !s->prompt_file || read_prompt_text(s->prompt_file, &text, error);
    if (ok && s->prompt_file) setup.prompt = text_string(&text);
    ok = ok && chat_run(&setup, error);
    free(text.data);
    return ok;
}

/* --batch. */
static bool answer_data_set(Run *run, Error *error) {
    const RunOptions *s = run->options;
    Inputs inputs = inputs_of(run);
    inputs.text = strcmp(s->batch, "-") == 0 ? NULL : s->batch;
    const Kernels *kernels = kernels_of(s, error);
    const BatchSetup setup = {
        .program = "run",
        .requests = s->batch,
        .answers = s->output,
        .template_file = s->template,
        .model = run->model,
        .tokenizer = run->tokenizer,
        .session = session_options(run, kernels),
        .sampling = s->generator.sampling,
        .seed = s->seed < 0 ? 0 : (uint64_t)s->seed,
        .n_predict = s->n_predict,
        .n_parallel = s->n_parallel ? (size_t)s->n_parallel : 8,
        .in_order = s->in_order,
        .special = s->generator.special,
        .inputs = &inputs,
    };
    return kernels && batch_run(&setup, error);
}

/* Everything after the options. */
static bool run_model(Run *run, Error *error) {
    const RunOptions *s = run->options;
    double start = now_ms();
    if (s->info) return print_info(stdout, s->model, s->tokenizer, error);
    if (!open_model(run, error)) return false;
    if (s->batch) return answer_data_set(run, error);
    if (!open_generator(run, error)) return false;
    run->summary.model = s->model;
    run->summary.load_ms = now_ms() - start;

    bool ok = s->chat ? talk(run, error) : s->interactive ? converse(run, error) : answer_prompt(run, error);
    if (ok && s->verbose && s->n_predict) {
        fputs("sampling   ", stderr);
        print_sampling(stderr, &run->sampling);
        fputc('\n', stderr);
    }
    if (run->generator) run->summary.guessed = generator_guessed(run->generator);
    if (ok && s->verbose) summary_print_timings(&run->summary);
    return ok;
}

/* --tokens needs a vocabulary only. */
static bool run_tokens(Run *run, Error *error) {
    Tokens prompt = {0};
    Checkpoint *checkpoint =
        run->options->tokenizer ? NULL : checkpoint_open_vocabulary(run->options->model, error);
    if (checkpoint || run->options->tokenizer)
        run->tokenizer = tokenizer_open(run->options->tokenizer, checkpoint, &run->vocabulary, error);
    bool ok = run->tokenizer && read_prompt(run, &prompt, error);
    if (ok) print_tokens(run->tokenizer, &prompt, run->options->verbose);
    tokens_free(&prompt);
    tokenizer_free(run->tokenizer);
    run->tokenizer = NULL;
    checkpoint_close(checkpoint);
    return ok;
}

int main(int argc, char **argv) {
    RunOptions options;
    Run run = {.options = &options, .shown.error = &run.error};
    name_program(argc ? argv[0] : "", "run");
    if (!run_options_read(&options, argc, argv, &run.error)) {
        print_error("run", &run.error);
        run_options_free(&options);
        return EXIT_USAGE;
    }
    catch_signals("run");
    note_idle(&options.idle);
    bool ok = run_options_unescape(&options, &run.error);
    if (options.help)
        print_help(stdout, run_help);
    else if (options.version)
        puts("attn " ATTN_VERSION);
    else
        ok = ok && (options.tokens ? run_tokens(&run, &run.error) : run_model(&run, &run.error));
    note_changed("run", run.model);
    close_run(&run);
    run_options_free(&options);
    ok = ok && (run.shown.piped_out || end_output("text", &run.error));
    if (!ok && !interrupted()) print_error("run", &run.error);
    bool stopped = run.end == END_CALLER && interrupted();
    return end_program(ok && !stopped ? EXIT_SUCCESS : EXIT_BAD_INPUT);
}
