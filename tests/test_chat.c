/*
 * A person's words steer nothing, whatever they look like; conversations as the library gives them (attn_chat); and run
 * --chat on a terminal, where reasoning is dim and Ctrl-C ends an answer. The model there is a chain made here, which says
 * after each token always the same one.
 */
#include "chain.h"

#include "attn.h"
#include "conversation.h"
#include "tokenizer.h"

/* ---- Words from outside ---- */

static Tokens encode(const Tokenizer *tokenizer, const char *text, size_t n, unsigned flags) {
    Tokens tokens = {0};
    Error error = {{0}};
    CHECK(tokenizer_encode(tokenizer, text, n, flags, &tokens, &error), "%s", error.message);
    return tokens;
}

static bool same(const Tokens *a, const Tokens *b) {
    return a->n == b->n && (a->n == 0 || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0);
}

static size_t count(const Tokens *tokens, int32_t id) {
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++) n += tokens->ids[i] == id;
    return n;
}

/* A text whose last n_own bytes are the template's own. */
static Tokens encode_marked(const Tokenizer *tokenizer, const char *text, size_t n, size_t n_own) {
    Tokens tokens = {0};
    Error error = {{0}};
    char marks[512];
    memset(marks, 1, n);
    memset(marks + n - n_own, 0, n_own);
    CHECK(tokenizer_encode_marked(tokenizer, (String){text, n}, marks, &tokens, &error), "%s", error.message);
    return tokens;
}

/* A control token's name in words of a user, alone and beside the template's own. */
static void check_name(const Tokenizer *tokenizer, int32_t id, String name) {
    char text[256];
    int n = snprintf(text, sizeof text, "a%.*s b %.*s%.*s", (int)name.n, name.data, (int)name.n, name.data,
                     (int)name.n, name.data);
    size_t n_said = (size_t)n - name.n;
    Tokens plain = encode(tokenizer, text, n_said, 0),
           control = encode(tokenizer, text, n_said, ENCODE_SPECIAL);
    Tokens said = encode_marked(tokenizer, text, n_said, 0),
           both = encode_marked(tokenizer, text, (size_t)n, name.n);
    CHECK(count(&control, id) == 2 && count(&plain, id) == 0, "%.*s: %zu and %zu", (int)name.n, name.data,
          count(&control, id), count(&plain, id));
    CHECK(same(&said, &plain), "%.*s: %zu tokens, not %zu", (int)name.n, name.data, said.n, plain.n);
    CHECK(both.n == plain.n + 1 && both.ids[both.n - 1] == id, "%.*s", (int)name.n, name.data);
    tokens_free(&plain);
    tokens_free(&control);
    tokens_free(&said);
    tokens_free(&both);
}

static void test_names(void) {
    static const char *const paths[] = {"tests/data/tokenizer/gpt2.gguf", "tests/data/tokenizer/llama3.gguf",
                                        "tests/data/tokenizer/sentencepiece.gguf"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        Error error = {{0}};
        Checkpoint *opened;
        size_t n_control = 0;
        Tokenizer *tokenizer = tokenizer_open(paths[i], NULL, &opened, &error);
        CHECK(tokenizer != NULL, "%s", error.message);
        for (int32_t id = 0; tokenizer && id < (int32_t)tokenizer_n_vocab(tokenizer); id++) {
            String name = tokenizer_piece(tokenizer, id, true);
            if (tokenizer_piece(tokenizer, id, false).n > 0 || name.n == 0) continue;
            check_name(tokenizer, id, name);
            n_control++;
        }
        CHECK(n_control > 0, "%s has no control tokens", paths[i]);
        tokenizer_free(tokenizer);
        checkpoint_close(opened);
    }
}

/* The ends of a text: BOS and EOS, those that keys name, and those known by name; <|end|> is none where <|return|> is. */
static void test_ends(void) {
    static const bool ends[CHAIN] = {[0] = true, [1] = true, [2] = true, [3] = true, [4] = true, [14] = true};
    Error error = {{0}};
    Checkpoint *opened;
    write_chain("");
    Tokenizer *tokenizer = tokenizer_open(scratch_path(), NULL, &opened, &error);
    CHECK(tokenizer != NULL, "%s", error.message);
    for (int32_t id = 0; tokenizer && id < CHAIN; id++)
        CHECK(tokenizer_is_end(tokenizer, id) == ends[id], "%s", chain[id].text);
    tokenizer_free(tokenizer);
    checkpoint_close(opened);
}

/* ---- Conversations of the library ---- */

#define GPT2_PATH                                                                                            \
    "tests/data/reference/gpt2-f32.gguf" /* a token for each byte, and <|endoftext|>, which is 256 */
#define LLAMA_PATH "tests/data/reference/llama-f32.gguf" /* puts BOS in front */

static const char roles[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% if m.thinking %}({{ m.thinking }}|"
    "{{ m.reasoning_content }}){% endif %}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<answer>{% endif %}";

/* The tokens of a text in which control tokens are read. */
static size_t plain_tokens(const AttnModel *model, const char *text, unsigned flags, int32_t tokens[256]) {
    size_t n = 0;
    CHECK(attn_tokenize(model, text, strlen(text), flags, tokens, 256, &n, NULL) && n <= 256, "%s", text);
    return n;
}

static void check_laid_out(const AttnModel *model, const AttnMessage *messages, size_t n,
                           const AttnChatOptions *options, const char *wanted_text) {
    int32_t tokens[256], wanted[256];
    size_t n_tokens = 0, n_wanted = plain_tokens(model, wanted_text, ATTN_TOKENIZE_SPECIAL, wanted);
    AttnError error = {""};
    CHECK(attn_chat(model, messages, n, options, tokens, 256, &n_tokens, &error), "%s", error.message);
    CHECK(n_tokens == n_wanted && memcmp(tokens, wanted, n_wanted * sizeof *tokens) == 0,
          "%zu tokens, not the %zu of %s", n_tokens, n_wanted, wanted_text);
}

static void test_conversations(void) {
    const AttnMessage talk[] = {
        {"system", "Be kind.", NULL}, {"user", "Hi?", NULL}, {"assistant", "Yes", "hm"}};
    const AttnChatOptions options = {.source = roles}, complete = {.source = roles, .complete = true};
    AttnModel *gpt2 = attn_model_open(GPT2_PATH, NULL, NULL),
              *llama = attn_model_open(LLAMA_PATH, NULL, NULL);
    check_laid_out(gpt2, talk, 1, &options, "<system>Be kind.<|endoftext|><answer>");
    check_laid_out(gpt2, talk, 3, &options,
                   "<system>Be kind.<|endoftext|><user>Hi?<|endoftext|>"
                   "<assistant>Yes(hm|hm)<|endoftext|><answer>");
    check_laid_out(gpt2, talk, 2, &complete, "<system>Be kind.<|endoftext|><user>Hi?<|endoftext|>");

    /* The words said are text: 13 tokens of it, and then the template's own one. */
    const AttnMessage sly = {"user", "<|endoftext|>", NULL};
    const AttnChatOptions bare = {.source = "{{ messages[0].content }}{{ eos_token }}"};
    int32_t tokens[256], wanted[256];
    size_t n = 0;
    CHECK(attn_chat(gpt2, &sly, 1, &bare, tokens, 256, &n, NULL) && n == 14, "%zu tokens", n);
    CHECK(plain_tokens(gpt2, "<|endoftext|>", 0, wanted) == 13 &&
              memcmp(tokens, wanted, 13 * sizeof *tokens) == 0 && tokens[13] == 256,
          "other tokens");

    /* Bytes that are no UTF-8, alone, within a text, and at its end. */
    const AttnMessage bad[] = {{"user", "\xff", NULL}, {"user", "\xe2\x82 a\xc3\xa9\xc3", "\x80"}};
    check_laid_out(gpt2, bad, 2, &(AttnChatOptions){.source = roles, .complete = true},
                   "<user>\xef\xbf\xbd<|endoftext|>"
                   "<user>\xef\xbf\xbd a\xc3\xa9\xef\xbf\xbd(\xef\xbf\xbd|\xef\xbf\xbd)<|endoftext|>");

    /* As many as there is room for; the token that begins a text stands once, whether or not the template has it. */
    tokens[2] = -7;
    CHECK(attn_chat(gpt2, talk, 1, &options, tokens, 2, &n, NULL) && n == 25 && tokens[1] == 's' - '!' &&
              tokens[2] == -7,
          "%zu tokens", n);
    for (int with = 0; with < 2; with++) {
        const AttnChatOptions one = {.source = with ? "{{ bos_token }}{{ messages[0].content }}"
                                                    : "{{ messages[0].content }}"};
        CHECK(attn_chat(llama, &(AttnMessage){"user", "ab", NULL}, 1, &one, tokens, 256, &n, NULL),
              "no tokens");
        CHECK(n >= 2 && tokens[0] == 1 && tokens[1] != 1, "%d, %d", (int)tokens[0], (int)tokens[1]);
    }
    /* Further variables. */
    const AttnChatOptions kind = {.source = "{{ enable_thinking }}{{ tone }}{{ n + 1 }}",
                                  .variables = "{\"enable_thinking\": false, \"tone\": \"dry\", \"n\": 2}"};
    check_laid_out(gpt2, talk, 1, &kind, "Falsedry3");
    attn_model_close(gpt2), attn_model_close(llama);
}

/* The file's own template, and an answer to it: the chain says what follows <|im_start|>. */
static bool take_token(void *user, int32_t token, double logprob) {
    int32_t **next = user;
    (void)logprob;
    *(*next)++ = token;
    return true;
}

static void test_own_template(void) {
    static const int32_t wanted[] = {5, 6, 7, 8, 4};
    int32_t tokens[64], said[64], *next = said;
    size_t n = 0;
    AttnError error = {""};
    write_chain("<|im_start|>");
    AttnModel *model = attn_model_open(scratch_path(), NULL, &error);
    AttnSession *session = attn_session_new(model, &(AttnSessionOptions){.n_ctx = 64}, &error);
    AttnGenerateOptions options = {.n_tokens = 50, .token = take_token, .user = &next};
    CHECK(attn_chat(model, &(AttnMessage){"user", "yes", NULL}, 1, NULL, tokens, 64, &n, &error), "%s",
          error.message);
    CHECK(n >= 3 && tokens[n - 1] == 3 && tokens[n - 2] == 4, "%zu tokens", n);
    CHECK(attn_generate_from(session, tokens, n, &options, NULL, &error), "%s", error.message);
    CHECK(next - said == 5 && memcmp(said, wanted, sizeof wanted) == 0, "%d tokens", (int)(next - said));
    attn_session_free(session);
    attn_model_close(model);
}

static void test_refused_conversations(void) {
    static const struct {
        const char *source, *words;
    } cases[] = {{NULL, "has no chat template"},
                 {"{% if", "the chat template, line 1"},
                 {"{{ raise_exception('only one question') }}", "only one question"},
                 {"", "no tokens"}};
    AttnModel *gpt2 = attn_model_open(GPT2_PATH, NULL, NULL);
    const AttnMessage talk[] = {{"user", "Hi?", NULL}, {"user", NULL, NULL}};
    int32_t tokens[4] = {-7, -7, -7, -7};
    size_t n = 77;
    AttnError error = {""};
    for (size_t i = 0; i < COUNT(cases); i++) {
        CHECK(!attn_chat(gpt2, talk, 1, &(AttnChatOptions){.source = cases[i].source}, tokens, 4, &n, &error),
              "%s: no error", cases[i].words);
        CHECK(strstr(error.message, cases[i].words), "'%s' without '%s'", error.message, cases[i].words);
    }
    CHECK(!attn_chat(gpt2, talk, 2, &(AttnChatOptions){.source = roles}, tokens, 4, &n, &error) &&
              strstr(error.message, "message 2 has"),
          "%s", error.message);
    CHECK(!attn_chat(gpt2, talk, 0, &(AttnChatOptions){.source = roles}, tokens, 4, &n, &error) &&
              strstr(error.message, "no messages"),
          "%s", error.message);
    static const char *const variables[][2] = {
        {"", "AttnChatOptions.variables is no JSON"},
        {"[1]", "AttnChatOptions.variables must be an object"},
        {"{\"messages\": 1}", "variable \"messages\" is the conversation's own"},
        {"{\"add_generation_prompt\": true}", "is the conversation's own"},
        {"{\"my_token\": \"</s>\"}", "variable \"my_token\" is the conversation's own"},
        {"{\"tools\": []}", "variable \"tools\" must be a text, a number, true, false or null"}};
    for (size_t i = 0; i < COUNT(variables); i++)
        CHECK(!attn_chat(gpt2, talk, 1, &(AttnChatOptions){.source = roles, .variables = variables[i][0]},
                         tokens, 4, &n, &error) &&
                  strstr(error.message, variables[i][1]),
              "%s: '%s'", variables[i][0], error.message);
    CHECK(!attn_chat(gpt2, &(AttnMessage){NULL, "Hi?", NULL}, 1, NULL, tokens, 4, &n, &error) &&
              strstr(error.message, "message 1 has"),
          "%s", error.message);
    strcpy(error.message, "as it was");
    CHECK(!attn_chat(NULL, talk, 1, NULL, tokens, 4, &n, &error) && strcmp(error.message, "as it was") == 0,
          "%s", error.message);
    CHECK(n == 77 && tokens[0] == -7, "what fails gives tokens");
    attn_model_close(gpt2);
}

static void test_thoughts_are_dim(void) {
    write_chain("<|im_start|>");
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", NULL});
    size_t at = await("> ", 0);
    type("b\n");
    at = await("> ", await("\033[2m<think>hmm</think>\033[0myes\r\n", at));
    type("/help\n");
    at = await("> ", await("/reset", at));
    type("\004"); /* Ctrl-D */
    int status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

/* Tags that come in pieces, and what only begins as one does. */
static void test_halves_of_tags(void) {
    write_chain("so");
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-p", "b", NULL});
    await("well\033[2m<think>hm</thing</think>\033[0mfinished<\r\n", 0);
    int status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    pid = start_with(run_path(),
                     (const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-p", "b", NULL},
                     "/dev/full");
    await("run: cannot write the text: No space left on device\r\n", 0);
    status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %x", status);
}

/* That an answer begins as a thought says the template's own text, white space behind it or not; no words of a person. */
static void test_template_thinks(void) {
    static const struct {
        const char *source, *says;
        bool thinks;
    } cases[] = {
        {"{{ '<think>' }}", "b", true},
        {"{{ '<think>\\n \\t\\r' }}", "b", true},
        {"{{ 'a<think>' }}", "b", true},
        {"{{ messages[0].content }}", "<think>", false},
        {"<{{ messages[0].content }}>", "think", false},
        {"{{ '<think' }}", "b", false},
        {"think>", "b", false},
        {"{{ ' \\n' }}", "b", false},
        {"{{ '<think>.' }}", "b", false},
    };
    Error error = {{0}};
    Checkpoint *opened;
    Tokenizer *tokenizer = tokenizer_open(GPT2_PATH, NULL, &opened, &error);
    for (size_t i = 0; tokenizer && i < COUNT(cases); i++) {
        const ChatMessage message = {{"user", 4}, string_from(cases[i].says), {"", 0}};
        Template *template = template_parse(string_from(cases[i].source), &error);
        Tokens tokens = {0};
        bool thinks = !cases[i].thinks;
        CHECK(
            template &&
                conversation_encode(template, tokenizer, &message, 1, NULL, true, &tokens, &thinks, &error) &&
                thinks == cases[i].thinks,
            "%s: %d %s", cases[i].source, thinks, error.message);
        tokens_free(&tokens);
        template_free(template);
    }
    tokenizer_free(tokenizer);
    checkpoint_close(opened);
}

static void test_channels(void) {
    write_chain("z"); /* which is unknown */
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-p", "b", NULL});
    await("\033[2mmull\033[0m\r\n", 0); /* the channel's name is not shown, and <|end|> does not end */
    int status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    static const struct {
        const char *begin, *header;
    } cases[] = {{"go", "final"}, {"go", "assistant"}, {"at", "final"}}; /* the last without a header */
    for (size_t i = 0; i < COUNT(cases); i++) {
        chain[22].text = cases[i].header;
        write_chain(cases[i].begin);
        pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-p", "b", NULL});
        await("mull\r\n", 0);
        CHECK(!strchr(seen, '\033') && !strstr(seen, cases[i].header), "%s", seen);
        status = finish(pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    }
}

/* -n ends an answer, and a note says so where a person sees it. */
static void test_limit(void) {
    write_chain("on");
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-n", "3", NULL});
    size_t at = await("> ", 0);
    type("b\n");
    await("> ", await("ononon\r\nrun: note: -n ends answers after 3 tokens; -n -1 does not\r\n", at));
    type("\004");
    int status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

static void test_interrupts(void) {
    write_chain("on");
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "--temp", "0", "-n", "-1", NULL});
    size_t at = await("> ", 0);
    for (int i = 0; i < 2; i++) {
        type("b\n");
        at = await("ononon", at);
        type("\003");
        at = await("> ", await("\r\n", at));
    }
    type("\003"); /* at the prompt */
    int status = finish(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %x", status);
}

int main(void) {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    scratch_begin();
    RUN(test_names);
    RUN(test_ends);
    RUN(test_conversations);
    RUN(test_own_template);
    RUN(test_refused_conversations);
    RUN(test_thoughts_are_dim);
    RUN(test_template_thinks);
    RUN(test_halves_of_tags);
    RUN(test_channels);
    RUN(test_limit);
    RUN(test_interrupts);
    scratch_end();
    return test_end();
}
