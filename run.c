/*
 * The program that generates: options, load, encode the prompt, and a Generator (generate.h) that writes on, with this
 * program showing what it says. What looks inside the model is study's; tensors are touched nowhere here.
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
#include "cli/options.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/process.h"
#include "cli/summary.h"
#include "cli/talk.h"
#include "generate.h"
#include "open.h"
#include "sampling.h"
#include "vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char help[] =
    "usage: run [MODEL] [options]\n"
    "Generates text from a checkpoint (GGUF, or llama2.c's .bin with -z): MODEL, or, with options alone,\n"
    "./model.bin or the installed one. The prompt is read from stdin unless -p or -f gives it; on a terminal,\n"
    "where nobody has given one, lines are read as with -i.\n"
    "\n"
    "  -p, --prompt TEXT      the prompt                  --temp X              temperature, 0: greedy (0.8)\n"
    "  -f, --file FILE        the prompt, from a file     --top-k N             keep the N likeliest (0: all)\n"
    "  -n, --predict N        tokens to generate (256;    --top-p X             keep this mass (0.95; 0, 1: all)\n"
    "                         -1: until the text ends)    --min-p X             keep p >= X * the best p (0)\n"
    "  -c, --ctx-size N       context (the model's own)   --repeat-penalty X    of recent tokens (1: off)\n"
    "  -t, --threads N        (physical cores)            --presence-penalty X  (0: off)\n"
    "      --kv f32|f16|q8_0  type of the KV cache (f16)  --frequency-penalty X (0: off)\n"
    "      --shift            context full: drop the      --repeat-last-n N     what is recent (64)\n"
    "                         oldest half and go on       -s, --seed N          (from the clock)\n"
    "  -e, --escape           \\n, \\t … in typed texts     -m, --model FILE      MODEL, as an option\n"
    "      --stop TEXT        end before this text; may   -z, --tokenizer FILE  a vocabulary: GGUF, llama2.c\n"
    "                         be given several times      --special             read, show control tokens\n"
    "  -i, --interactive      go on with lines typed      --echo, --no-echo     repeat the prompt (yes)\n"
    "      --chat             talk: each line is a turn   --system, -sys TEXT   what comes before the turns\n"
    "                         (on a terminal: /help)      --chat-template FILE  in place of the model's own\n"
    "\n"
    "      --tokens           print the prompt's token ids and end (-v: id and piece, a line each)\n"
    "      --logits FILE.npy  write the logits of every prompt position, float32 [n_tokens][n_vocab]\n"
    "      --steer FILE[:X]   add a control vector, X times (study steer makes some)\n"
    "      --json             print one object: text, tokens, logprobs (nats), timings\n"
    "      --batch FILE.jsonl answer requests, a line each (-: stdin), in OpenAI's form or {\"id\", \"prompt\", …}\n"
    "  -o, --output FILE      of --batch, go on with it   --in-order            answers as the requests stand\n"
    "      --parallel N       texts at once (8)           --speculate auto|on|off  guess tokens, check them\n"
    "      --info             print what the checkpoint holds and end\n"
    "      --samplers LIST    steps and their order (penalties;top_k;top_p;min_p;temperature)\n"
    "  -co, --color [auto|on|off]  of what was typed (auto: on a terminal, without NO_COLOR)\n"
    "  -v, --verbose          timings on stderr           --version, -h, --help\n"
    "\n"
    "examples:\n"
    "  ./run model.bin -p \"The Eiffel\"\n"
    "  echo 'Once upon a time' | ./run model.bin --temp 1 --top-p 0.9 -s 42 --json\n"
    "  ./run model.bin -p \"Hello world\" --tokens -v\n"
    "  ./run qwen3.gguf --chat -sys \"Answer in one sentence.\"\n";

typedef struct Settings {
    const char *model, *prompt, *prompt_file, *tokenizer, *kv, *logits, *system, *template, *colour_name,
        *steer, *batch, *output, *speculate;
    DType kv_dtype;
    int64_t n_predict, n_threads, n_ctx, seed, n_parallel;
    GeneratorOptions generator;
    StringList stop, idle; /* idle: options of llama.cpp that are not needed */
    Colour colour;
    bool escape, echo, tokens, json, info, interactive, chat, in_order, verbose, version, help;
    bool waits; /* as with -i, for a prompt that nobody has given */
} Settings;

static const Settings defaults = {
    .kv_dtype = DTYPE_F16,
    .n_predict = 256,
    .seed = -1,
    .generator.sampling = SAMPLING_UNSET,
    .echo = true,
};

#define AT(member) offsetof(Settings, member)

static const Option known_options[] = {
    {"--model", "-m", OPTION_ONCE, AT(model)},
    {"--prompt", "-p", OPTION_ONCE, AT(prompt), .escape = true},
    {"--escape", "-e", OPTION_ON, AT(escape)},
    {"--no-escape", NULL, OPTION_OFF, AT(escape)},
    {"--file", "-f", OPTION_ONCE, AT(prompt_file)},
    {"--predict", "-n", OPTION_INT, AT(n_predict), -1, 1e9},
    {"--threads", "-t", OPTION_INT, AT(n_threads), 1, 1024},
    {"--ctx-size", "-c", OPTION_INT, AT(n_ctx), 1, 1e9},
    SAMPLING_OPTIONS(Settings, generator.sampling),
    {"--seed", "-s", OPTION_INT, AT(seed), -1, 9e15},
    {"--tokenizer", "-z", OPTION_TEXT, AT(tokenizer)},
    {"--kv", NULL, OPTION_TEXT, AT(kv)},
    {"--shift", NULL, OPTION_ON, AT(generator.shift)},
    {"--special", NULL, OPTION_ON, AT(generator.special)},
    {"--stop", NULL, OPTION_LIST, AT(stop), .escape = true},
    {"--echo", NULL, OPTION_ON, AT(echo)},
    {"--no-echo", NULL, OPTION_OFF, AT(echo)},
    {"--tokens", NULL, OPTION_ON, AT(tokens)},
    {"--logits", NULL, OPTION_TEXT, AT(logits)},
    {"--steer", NULL, OPTION_ONCE, AT(steer)},
    {"--speculate", NULL, OPTION_TEXT, AT(speculate)},
    {"--json", NULL, OPTION_ON, AT(json)},
    {"--info", NULL, OPTION_ON, AT(info)},
    {"--interactive", "-i", OPTION_ON, AT(interactive)},
    {"--chat", NULL, OPTION_ON, AT(chat)},
    {"--system", "-sys", OPTION_TEXT, AT(system), .escape = true},
    {"--chat-template", NULL, OPTION_TEXT, AT(template)},
    {"--batch", NULL, OPTION_ONCE, AT(batch), .file = true},
    {"--output", "-o", OPTION_ONCE, AT(output), .file = true},
    {"--parallel", "-np", OPTION_INT, AT(n_parallel), 1, BATCH_MAX_PARALLEL},
    {"--in-order", NULL, OPTION_ON, AT(in_order)},
    {"--color", "-co", OPTION_SWITCH, AT(colour_name)},
    {"--verbose", "-v", OPTION_ON, AT(verbose)},
    {"--version", NULL, OPTION_ON, AT(version)},
    {"--help", "-h", OPTION_ON, AT(help)},
};

static Options options_of(Settings *s) {
    size_t n = sizeof known_options / sizeof *known_options;
    return (Options){known_options, n, s, .foreign = &llamacpp_options, .idle = &s->idle};
}

/* The choice that --speculate names; of no value (NULL) auto. */
static bool parse_speculate(const char *value, Speculate *speculate, Error *error) {
    static const char *const names[] = {"auto", "on", "off"}; /* as in Speculate */
    size_t choice;
    if (!parse_choice("--speculate", value, names, 3, &choice, error)) return false;
    *speculate = (Speculate)choice;
    return true;
}

static bool parse_settings(Settings *s, int argc, char **argv, Error *error) {
    const Options table = options_of(s);
    if (!options_parse(&table, 1, argc, argv, &s->model, 1, error)) return false;
    if (s->help || s->version) return true;
    if (argc == 1 && !isatty(STDIN_FILENO))
        return error_set(error, "no model is named: ./run MODEL -p PROMPT (see ./run --help)");
    if (s->prompt && s->prompt_file) return error_set(error, "-p and -f both give a prompt; choose one");
    if (!parse_kv(s->kv, &s->kv_dtype, error) || !parse_colour(s->colour_name, &s->colour, error) ||
        !parse_speculate(s->speculate, &s->generator.speculate, error))
        return false;
    if (s->interactive && s->json)
        return error_set(error, "--json prints one object a run; it does not go with -i");
    bool only_tells = s->info || s->tokens; /* and generates nothing */
    if ((s->info && s->tokens) || (only_tells && (s->logits || s->json || s->interactive)))
        return error_set(error, "--info and --tokens go alone, without --logits, --json, -i");
    if (s->chat && (only_tells || s->interactive || s->json || s->logits))
        return error_set(error, "--chat goes alone, without -i, --json, --logits, --info, --tokens");
    if (!s->chat && (s->system || (s->template && !s->batch)))
        return error_set(error, "--system and --chat-template are for --chat, the second for --batch, too");
    if (s->batch && (only_tells || s->interactive || s->chat || s->json || s->logits || s->steer ||
                     s->prompt || s->prompt_file || s->stop.n || s->generator.shift || s->speculate))
        return error_set(error,
                         "--batch goes without a prompt, -i, --chat, --json, --info, --tokens, --logits, "
                         "--steer, --stop, --shift and --speculate");
    if (!s->batch && (s->output || s->n_parallel || s->in_order))
        return error_set(error, "-o, --parallel and --in-order are for --batch");
    for (size_t i = 0; i < s->stop.n; i++)
        if (!s->stop.items[i][0]) return error_set(error, "--stop needs some text");
    bool has_prompt = s->prompt || s->prompt_file || s->interactive || s->chat || s->batch;
    s->waits = !has_prompt && !only_tells && !s->logits && !s->json && isatty(STDIN_FILENO);
    s->interactive = s->interactive || s->waits;
    return true;
}

/* With options alone the default model does, and is named. */
static bool find_model(Settings *s, char *path, size_t size, Error *error) {
    if (s->help || s->version) return true;
    if (s->model) return s->prompt || s->batch || s->prompt_file || is_model_name(s->model, error);
    s->model = default_model("run", s->waits ? ", and what is typed (-i; /help tells more)" : "", path, size);
    return s->model || error_set(error, "no model is named, here is no ./model.bin, and none is installed: "
                                        "./run MODEL -p PROMPT (see ./run --help)");
}

typedef struct Run {
    const Settings *settings;
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
    const Settings *s = run->settings;
    run->model = model_open_with(s->model, progress_or_stop, NULL, error);
    if (!run->model) return false;
    run->threads = threads_new(s->n_threads ? (unsigned)s->n_threads : threads_physical_cores(), error);
    if (!run->threads) return false;
    run->tokenizer = vocabulary_open(run->model, s->tokenizer, run->threads, &run->vocabulary, error);
    return run->tokenizer;
}

/* The files that no output may replace. */
static Inputs inputs_of(const Run *run) {
    const Settings *s = run->settings;
    return (Inputs){model_checkpoint(run->model), run->vocabulary, s->prompt_file, s->template,
                    steer_file(run->steer)};
}

static bool stop_run(void *user) {
    (void)user;
    return interrupted();
}

static const Kernels *kernels_of(const Settings *s, Error *error) {
    const char *name = getenv("ATTN_KERNEL");
    bool any = (!name || !*name) && !s->logits; /* logits are written to be compared */
    return any ? kernels_fastest() : kernels_pick(name, error);
}

/* How --batch and all others open a session. */
static SessionOptions session_options(const Run *run, const Kernels *kernels) {
    return (SessionOptions){.n_ctx = (size_t)run->settings->n_ctx,
                            .kv_dtype = run->settings->kv_dtype,
                            .compute = {.kernels = kernels, .threads = run->threads},
                            .probe = steer_probe(run->steer),
                            .stop = stop_run};
}

static bool open_generator(Run *run, Error *error) {
    const Settings *s = run->settings;
    const Config *config = model_config(run->model);
    const Kernels *kernels = kernels_of(s, error);
    if (!kernels || !steer_open(&run->steer, s->steer, run->model, error)) return false;
    const SessionOptions session = session_options(run, kernels);
    run->session = session_new(run->model, &session, error);
    if (!run->session) return false;
    steer_note("run", run->steer);
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
    const Settings *s = run->settings;
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
    if (!run->settings->json) return shown_write(&run->shown, text, n) && !interrupted();
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
    const Settings *s = run->settings;
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

static const char *const end_names[] = {"limit", "end", "stop", "context", "interrupted"};

/* Generates and shows tokens until something ends the text. */
static bool generate(Run *run, Error *error) {
    int64_t n = run->settings->n_predict;
    double start = now_ms();
    if (run->shown.piped_out) return true;
    bool ok = generator_run(run->generator, n < 0 ? SIZE_MAX : (size_t)n, show_piece, run, &run->end, error);
    if (!ok && interrupted()) ok = true, run->end = END_CALLER; /* within a token, which is given up */
    run->summary.predicted_ms += now_ms() - start;
    run->summary.end = end_names[run->end];
    return ok && !run->shown.failed;
}

/* Prints what comes behind a text: its line's end, or the object of --json; and a note if only the context has ended it. */
static bool end_text(Run *run) {
    if (run->settings->json)
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
    unsigned flags = run->settings->generator.special ? ENCODE_SPECIAL : 0;
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
    const Settings *s = run->settings;
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
    const Settings *s = run->settings;
    TextBuffer text = {0};
    const Inputs inputs = inputs_of(run);
    ChatSetup setup = {.template_file = s->template,
                       .system = s->system,
                       .inputs = &inputs,
                       .prompt = s->prompt,
                       .n_predict = s->n_predict < 0 ? SIZE_MAX : (size_t)s->n_predict,
                       .shift = s->generator.shift,
                       .colour = s->colour,
                       .model = run->model,
                       .tokenizer = run->tokenizer,
                       .session = run->session,
                       .generator = run->generator,
                       .summary = &run->summary,
                       .shown = &run->shown};
    bool ok = !s->prompt_file || (read_prompt_text(s->prompt_file, &text, error) &&
                                  (text_append(&text, "", 1) || error_set(error, "not enough memory")));
    if (ok && s->prompt_file) setup.prompt = text.data;
    ok = ok && chat_run(&setup, error);
    free(text.data);
    return ok;
}

/* --batch. */
static bool answer_data_set(Run *run, Error *error) {
    const Settings *s = run->settings;
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
    const Settings *s = run->settings;
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
        run->settings->tokenizer ? NULL : checkpoint_open_vocabulary(run->settings->model, error);
    if (checkpoint || run->settings->tokenizer)
        run->tokenizer = tokenizer_open(run->settings->tokenizer, checkpoint, &run->vocabulary, error);
    bool ok = run->tokenizer && read_prompt(run, &prompt, error);
    if (ok) print_tokens(run->tokenizer, &prompt, run->settings->verbose);
    tokens_free(&prompt);
    tokenizer_free(run->tokenizer);
    run->tokenizer = NULL;
    checkpoint_close(checkpoint);
    return ok;
}

int main(int argc, char **argv) {
    Settings settings = defaults;
    Run run = {.settings = &settings, .shown.error = &run.error};
    char path[4096], *texts = NULL; /* of the default model; of -e */
    name_program(argc ? argv[0] : "", "run");
    if (!parse_settings(&settings, argc, argv, &run.error) ||
        !find_model(&settings, path, sizeof path, &run.error)) {
        print_error("run", &run.error);
        return EXIT_USAGE;
    }
    catch_signals("run");
    note_idle("run", &settings.idle);
    const Options options = options_of(&settings);
    bool ok = !settings.escape || options_unescape(&options, &texts, &run.error);
    if (settings.help)
        print_help(stdout, help);
    else if (settings.version)
        puts("attn " ATTN_VERSION);
    else
        ok = ok && (settings.tokens ? run_tokens(&run, &run.error) : run_model(&run, &run.error));
    note_changed("run", run.model);
    close_run(&run);
    free(texts);
    ok = ok && (run.shown.piped_out || end_output("text", &run.error));
    if (!ok && !interrupted()) print_error("run", &run.error);
    bool stopped = run.end == END_CALLER && interrupted();
    return end_program(ok && !stopped ? EXIT_SUCCESS : EXIT_BAD_INPUT);
}
