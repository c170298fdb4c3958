#include "cli/run_options.h"

#include "cli/input.h"
#include "cli/llamacpp.h"
#include "conversation.h"
#include "sampling.h"

#include <stdlib.h>
#include <unistd.h>

enum { MAX_PARALLEL = 256 /* texts of --batch at once */ };

const char run_help[] =
    "usage: run [MODEL] [options]\n"
    "Generates text from MODEL (GGUF, a folder, a .bin of llama2.c or llm.c with -z) or, with options alone,\n"
    "from ./model.bin or the installed one. The prompt is read from stdin unless -p or -f gives it; on a terminal,\n"
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
    "      --chat-template-kwargs JSON                    its variables, as {\"enable_thinking\": false}\n"
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

static const RunOptions defaults = {
    .kv_dtype = DTYPE_F16,
    .n_predict = 256,
    .seed = -1,
    .generator.sampling = SAMPLING_UNSET,
    .echo = true,
};

#define AT(member) offsetof(RunOptions, member)

static const Option known_options[] = {
    {"--model", "-m", OPTION_ONCE, AT(model), .file = true},
    {"--prompt", "-p", OPTION_ONCE, AT(prompt), .escape = true},
    {"--escape", "-e", OPTION_ON, AT(escape)},
    {"--no-escape", NULL, OPTION_OFF, AT(escape)},
    {"--file", "-f", OPTION_ONCE, AT(prompt_file), .file = true},
    {"--predict", "-n", OPTION_INT, AT(n_predict), -1, 1e9},
    {"--threads", "-t", OPTION_INT, AT(n_threads), 1, 1024},
    {"--ctx-size", "-c", OPTION_INT, AT(n_ctx), 1, 1e9},
    SAMPLING_OPTIONS(RunOptions, generator.sampling),
    {"--seed", "-s", OPTION_INT, AT(seed), -1, 9e15},
    {"--tokenizer", "-z", OPTION_ONCE, AT(tokenizer), .file = true},
    {"--kv", NULL, OPTION_TEXT, AT(kv)},
    {"--shift", NULL, OPTION_ON, AT(generator.shift)},
    {"--special", NULL, OPTION_ON, AT(generator.special)},
    {"--stop", NULL, OPTION_LIST, AT(stop), .escape = true},
    {"--echo", NULL, OPTION_ON, AT(echo)},
    {"--no-echo", NULL, OPTION_OFF, AT(echo)},
    {"--tokens", NULL, OPTION_ON, AT(tokens)},
    {"--logits", NULL, OPTION_ONCE, AT(logits), .file = true},
    {"--steer", NULL, OPTION_ONCE, AT(steer), .file = true},
    {"--speculate", NULL, OPTION_TEXT, AT(speculate)},
    {"--json", NULL, OPTION_ON, AT(json)},
    {"--info", NULL, OPTION_ON, AT(info)},
    {"--interactive", "-i", OPTION_ON, AT(interactive)},
    {"--chat", NULL, OPTION_ON, AT(chat)},
    {"--system", "-sys", OPTION_ONCE, AT(system), .escape = true},
    {"--chat-template", NULL, OPTION_ONCE, AT(template), .file = true},
    {"--chat-template-kwargs", NULL, OPTION_ONCE, AT(kwargs)},
    {"--batch", NULL, OPTION_ONCE, AT(batch), .file = true},
    {"--output", "-o", OPTION_ONCE, AT(output), .file = true},
    {"--parallel", "-np", OPTION_INT, AT(n_parallel), 1, MAX_PARALLEL},
    {"--in-order", NULL, OPTION_ON, AT(in_order)},
    {"--color", "-co", OPTION_SWITCH, AT(colour_name)},
    {"--verbose", "-v", OPTION_ON, AT(verbose)},
    {"--version", NULL, OPTION_ON, AT(version)},
    {"--help", "-h", OPTION_ON, AT(help)},
};

static Options options_of(RunOptions *s) {
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

/* --chat-template-kwargs, llama.cpp's name of it. */
static bool parse_variables(RunOptions *s, Error *error) {
    if (!s->kwargs) return true;
    if (!s->chat)
        return error_set(error,
                         "--chat-template-kwargs is for --chat; lines of --batch have chat_template_kwargs");
    s->variables = conversation_variables(s->kwargs, "--chat-template-kwargs", error);
    return s->variables != NULL;
}

static bool parse(RunOptions *s, int argc, char **argv, Error *error) {
    const Options table = options_of(s);
    if (!options_parse(&table, 1, argc, argv, &s->model, 1, error)) return false;
    if (s->help || s->version) return true;
    if (argc == 1 && !isatty(STDIN_FILENO))
        return error_set(error, "no model is named: ./run MODEL -p PROMPT (see ./run --help)");
    if (s->prompt && s->prompt_file) return error_set(error, "-p and -f both give a prompt; choose one");
    if (!parse_kv(s->kv, &s->kv_dtype, error) || !parse_colour(s->colour_name, &s->colour, error) ||
        !parse_speculate(s->speculate, &s->generator.speculate, error) || !parse_variables(s, error))
        return false;
    if (s->interactive && s->json)
        return error_set(error, "--json prints one object a run; it does not go with -i");
    bool only_tells = s->info || s->tokens; /* and generates nothing */
    if ((s->info && s->tokens) || (only_tells && (s->logits || s->json || s->interactive || s->steer ||
                                                  s->stop.n || s->generator.shift || s->speculate)))
        return error_set(error,
                         "--info and --tokens go alone, without --logits, --json, -i, --steer, --stop, "
                         "--shift and --speculate");
    if (s->chat && (only_tells || s->interactive || s->json || s->logits))
        return error_set(error, "--chat goes alone, without -i, --json, --logits, --info, --tokens");
    if (!s->chat && (s->system || (s->template && !s->batch)))
        return error_set(error, "--system and --chat-template are for --chat, the second for --batch, too");
    if (s->batch &&
        (only_tells || s->interactive || s->chat || s->json || s->logits || s->steer || s->prompt ||
         s->prompt_file || s->stop.n || s->generator.shift || s->speculate || s->verbose))
        return error_set(error,
                         "--batch goes without a prompt, -i, --chat, --json, --info, --tokens, --logits, "
                         "--steer, --stop, --shift, --speculate and -v");
    if (!s->batch && (s->output || s->n_parallel || s->in_order))
        return error_set(error, "-o, --parallel and --in-order are for --batch");
    for (size_t i = 0; i < s->stop.n; i++)
        if (!s->stop.items[i][0]) return error_set(error, "--stop needs some text");
    bool has_prompt = s->prompt || s->prompt_file || s->interactive || s->chat || s->batch;
    s->waits = !has_prompt && !only_tells && !s->logits && !s->json && isatty(STDIN_FILENO);
    s->interactive = s->interactive || s->waits;
    return true;
}

/* Where options alone are given, the default model answers, and is named. */
static bool find_model(RunOptions *s, Error *error) {
    if (s->help || s->version) return true;
    if (s->model) return s->prompt || s->batch || s->prompt_file || is_model_name(s->model, error);
    s->model = default_model("run", s->waits ? ", and what is typed (-i; /help tells more)" : "", s->path,
                             sizeof s->path);
    return s->model || error_set(error, "no model is named, here is no ./model.bin, and none is installed: "
                                        "./run MODEL -p PROMPT (see ./run --help)");
}

bool run_options_read(RunOptions *options, int argc, char **argv, Error *error) {
    *options = defaults;
    return parse(options, argc, argv, error) && find_model(options, error);
}

bool run_options_unescape(RunOptions *options, Error *error) {
    const Options table = options_of(options);
    return !options->escape || options_unescape(&table, &options->texts, error);
}

void run_options_free(RunOptions *options) {
    json_free(options->variables);
    free(options->texts);
}
