#include "cli/chat.h"

#include "cli/input.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/process.h"
#include "cli/talk.h"
#include "conversation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Message {
    const char *role;
    TextBuffer text, thoughts; /* the second of an answer that keeps them apart */
} Message;

/* Where the text belongs that the model writes. */
typedef enum Part {
    PART_TEXT,
    PART_HEADER, /* OpenAI's harmony: the name of a channel, between two control tokens */
    PART_THOUGHTS,
} Part;

typedef struct Chat {
    const ChatSetup *setup;
    Template *template;
    Message *messages; /* [n] */
    size_t n, capacity;

    /* The state of the answer under way, which is the last message. */
    Part part;
    TextBuffer header;
    TextBuffer held; /* what may begin a tag of thoughts */
    bool thinks;     /* between such tags */
    bool is_dim;     /* the terminal, now */
    bool on_terminal, colour;
} Chat;

/* ---- Messages ---- */

static bool no_memory(Error *error) { return error_set(error, "not enough memory for the conversation"); }

static bool add_message(Chat *chat, const char *role, const char *text, size_t n, Error *error) {
    Message message = {.role = role};
    if (chat->n == chat->capacity) {
        Message *larger = grow(chat->messages, sizeof *larger, chat->n + 1, &chat->capacity);
        if (!larger) return no_memory(error);
        chat->messages = larger;
    }
    if (!text_append(&message.text, text, n)) return no_memory(error);
    chat->messages[chat->n++] = message;
    return true;
}

/* Takes n messages away, from message `at` on. */
static void remove_messages(Chat *chat, size_t at, size_t n) {
    for (size_t i = at; i < at + n; i++) {
        free(chat->messages[i].text.data);
        free(chat->messages[i].thoughts.data);
    }
    chat->n -= n;
    if (chat->n > at)
        memmove(&chat->messages[at], &chat->messages[at + n], (chat->n - at) * sizeof *chat->messages);
}

static bool begin(Chat *chat, const char *system, size_t n, Error *error) {
    remove_messages(chat, 0, chat->n);
    return !system || add_message(chat, "system", system, n, error);
}

/* The messages as a JSON array. */
static bool print_messages(const Chat *chat, FILE *file) {
    putc('[', file);
    for (size_t i = 0; i < chat->n; i++) {
        const Message *message = &chat->messages[i];
        const TextBuffer *texts[] = {&message->text, &message->thoughts};
        static const char *const names[] = {"content", "thinking"};
        fprintf(file, "%s{\"role\": \"%s\"", i ? ",\n" : "\n", message->role);
        for (size_t k = 0; k < 2; k++) {
            if (k > 0 && texts[k]->n == 0) break;
            fprintf(file, ", \"%s\": ", names[k]);
            print_json_string(file, text_string(texts[k]).data, texts[k]->n);
        }
        putc('}', file);
    }
    fputs("\n]", file);
    return !ferror(file);
}

/* ---- The template ---- */

static bool load_template(Chat *chat, Error *error) {
    const ChatSetup *setup = chat->setup;
    TextBuffer text = {0};
    Error why;
    if (!setup->template_file)
        return (chat->template = conversation_template(model_checkpoint(setup->model), NULL, error));
    if (!read_text(setup->template_file, TEMPLATE_MAX_BYTES, &text, error)) return free(text.data), false;
    const String source = text_string(&text);
    chat->template = conversation_template(model_checkpoint(setup->model), &source, &why);
    free(text.data);
    return chat->template || error_set(error, "%s: %s", setup->template_file, why.message);
}

/* The conversation as tokens, up to where the answer begins. */
static bool encode_conversation(Chat *chat, Tokens *tokens, Error *error) {
    ChatMessage *messages = malloc((chat->n + 1) * sizeof *messages);
    if (!messages) return no_memory(error);
    for (size_t i = 0; i < chat->n; i++) {
        const Message *message = &chat->messages[i];
        messages[i] = (ChatMessage){string_from(message->role), text_string(&message->text),
                                    text_string(&message->thoughts)};
    }
    bool ok = conversation_encode(chat->template, chat->setup->tokenizer, messages, chat->n,
                                  chat->setup->variables, true, tokens, &chat->thinks, error);
    free(messages);
    return ok;
}

/* ---- The answer ---- */

/* Whether there is no more to print. */
static bool is_over(const Chat *chat) { return chat->setup->shown->failed || chat->setup->shown->piped_out; }

static bool no_room(const Chat *chat) {
    return shown_fail(chat->setup->shown, "cannot keep the text", "not enough memory");
}

static void print(Chat *chat, const char *text, size_t n, bool dim) {
    if (is_over(chat)) return;
    if (chat->colour && dim != chat->is_dim) fputs(dim ? "\033[2m" : "\033[0m", stdout);
    chat->is_dim = dim;
    shown_write(chat->setup->shown, text, n);
}

/* Prints what is held up to n bytes. */
static void print_held(Chat *chat, size_t n) {
    print(chat, chat->held.data, n, chat->thinks);
    memmove(chat->held.data, chat->held.data + n, chat->held.n - n);
    chat->held.n -= n;
}

/* Prints text in which tags may begin and end thoughts; what may be half a tag waits, until the answer is `over`. */
static void print_thoughts(Chat *chat, const char *text, size_t n, bool over) {
    static const char *const tags[] = {"<think>", "</think>"};
    if (!text_append(&chat->held, text, n)) no_room(chat);
    for (size_t at = 0; at < chat->held.n && !chat->setup->shown->failed;) {
        const char *tag = tags[chat->thinks];
        size_t size = strlen(tag), left = chat->held.n - at;
        if (memcmp(chat->held.data + at, tag, left < size ? left : size) != 0) {
            at++;
            continue;
        }
        if (left < size) {
            print_held(chat, at);
            break;
        }
        print_held(chat, chat->thinks ? at + size : at); /* the tags belong to the thoughts */
        chat->thinks = !chat->thinks;
        at = chat->thinks ? size : 0;
    }
    const char *tag = tags[chat->thinks];
    bool is_half =
        chat->held.n > 0 && chat->held.n < strlen(tag) && memcmp(chat->held.data, tag, chat->held.n) == 0;
    if (chat->held.n > 0 && (over || !is_half)) print_held(chat, chat->held.n);
}

/* Control tokens of harmony, which tell what the next text is. */
static void take_control(Chat *chat, String name) {
    if (string_equals(name, "<|start|>") || string_equals(name, "<|channel|>")) {
        chat->part = PART_HEADER;
        chat->header.n = 0;
    } else if (string_equals(name, "<|message|>") && chat->part == PART_HEADER) {
        bool thinks = string_begins(text_string(&chat->header), "analysis");
        chat->part = thinks ? PART_THOUGHTS : PART_TEXT;
    }
}

static bool show_piece(void *user, int32_t id, const char *text, size_t n) {
    Chat *chat = user;
    const Tokenizer *tokenizer = chat->setup->tokenizer;
    Message *answer = &chat->messages[chat->n - 1];
    TextBuffer *to = chat->part == PART_TEXT       ? &answer->text
                     : chat->part == PART_THOUGHTS ? &answer->thoughts
                                                   : &chat->header;
    if (!text_append(to, text, n)) return no_room(chat);
    if (chat->part == PART_THOUGHTS && chat->on_terminal) print(chat, text, n, true);
    if (chat->part == PART_TEXT) print_thoughts(chat, text, n, false);
    chat->setup->summary->n_predicted += id >= 0;
    if (id >= 0 && tokenizer_piece(tokenizer, id, false).n == 0)
        take_control(chat, tokenizer_piece(tokenizer, id, true));
    return !is_over(chat) && !interrupted();
}

/* Whether the model can do with a longer context than the session has. */
static bool may_grow(const ChatSetup *setup) {
    return session_n_ctx(setup->session) < model_config(setup->model)->n_ctx;
}

/* Has the model answer, as the last message. What Ctrl-C cuts short stays as far as it goes. */
static bool answer(Chat *chat, const Tokens *tokens, Error *error) {
    const ChatSetup *setup = chat->setup;
    const Feed feed = {.progress = progress_or_stop};
    TextEnd end = END_LIMIT;
    double start = now_ms();
    size_t n_new = tokens->n - session_common(setup->session, tokens->ids, tokens->n - 1);
    if (!generator_sync(setup->generator, tokens->ids, tokens->n, &feed, error)) return false;
    setup->summary->n_prompt += n_new;
    setup->summary->prompt_ms += now_ms() - start;
    start = now_ms();
    chat->part = PART_TEXT;
    chat->held.n = 0;
    if (!add_message(chat, "assistant", "", 0, error)) return false;
    bool ok =
        generator_run(setup->generator, setup->n_predict, show_piece, chat, &end, error) || interrupted();
    print_thoughts(chat, "", 0, true);
    print(chat, "\n", 1, false);
    setup->summary->predicted_ms += now_ms() - start;
    if (ok && end == END_CONTEXT)
        fprintf(stderr, "run: note: the context of %zu is full; /reset begins anew%s\n",
                session_n_ctx(setup->session), may_grow(setup) ? ", -c makes more room" : "");
    if (ok && end == END_LIMIT && isatty(STDERR_FILENO) && !interrupted())
        fprintf(stderr, "run: note: -n ends answers after %zu tokens; -n -1 does not\n", setup->n_predict);
    return ok && !setup->shown->failed;
}

static bool is_empty(const Message *message) { return message->text.n + message->thoughts.n == 0; }

/* A turn of the conversation. Where it does not fit, or nothing is answered, it is as if it had not been. */
static bool take_turn(Chat *chat, const char *text, size_t n, Error *error) {
    const size_t n_ctx = session_n_ctx(chat->setup->session);
    size_t before = chat->n;
    Tokens tokens = {0};
    bool ok = add_message(chat, "user", text, n, error) && encode_conversation(chat, &tokens, error);
    while (ok && tokens.n >= n_ctx && chat->setup->shift) {
        size_t first = strcmp(chat->messages[0].role, "system") == 0;
        if (chat->n < first + 3) break;
        remove_messages(chat, first, 2); /* a question and its answer */
        before -= 2;
        tokens.n = 0;
        ok = encode_conversation(chat, &tokens, error);
    }
    bool fits = tokens.n < n_ctx;
    if (ok && !fits && chat->setup->prompt.data)
        ok = error_set(error, "the conversation has %zu tokens, and the context room for %zu%s", tokens.n,
                       n_ctx, may_grow(chat->setup) ? "; -c makes more room" : "");
    else if (ok && !fits)
        fprintf(
            stderr,
            "run: note: the conversation has %zu tokens, and the context room for %zu; /reset begins anew%s\n",
            tokens.n, n_ctx,
            !chat->setup->shift     ? ", --shift drops the oldest turns"
            : may_grow(chat->setup) ? ", -c makes more room"
                                    : "");
    ok = ok && (!fits || answer(chat, &tokens, error));
    bool unanswered =
        chat->n == before + 1 || (chat->n == before + 2 && is_empty(&chat->messages[before + 1]));
    if (unanswered) remove_messages(chat, before, chat->n - before);
    tokens_free(&tokens);
    return ok || interrupted();
}

/* ---- Commands ---- */

static bool save(const Chat *chat, const char *path, Error *error) {
    OutputFile output = {0};
    bool ok = output_open(&output, path, chat->setup->inputs, error);
    if (ok) {
        fputs("{\"messages\": ", output.file);
        bool written = print_messages(chat, output.file);
        fputs("}\n", output.file);
        ok = written && !ferror(output.file) ? output_finish(&output, error) : output_failed(&output, error);
    }
    output_abandon(&output);
    return ok;
}

static bool obey_save(void *user, const char *path, Error *error) {
    return *path ? save(user, path, error) : error_set(error, "/save needs the name of a file");
}

static bool obey_system(void *user, const char *text, Error *error) {
    return begin(user, *text ? text : NULL, strlen(text), error);
}

static bool obey_reset(void *user, const char *value, Error *error) {
    Chat *chat = user;
    bool has_system = chat->n > 0 && strcmp(chat->messages[0].role, "system") == 0;
    (void)value, (void)error;
    remove_messages(chat, has_system, chat->n - has_system);
    return true;
}

static const TalkCommand commands[] = {
    {"/reset", "", "forget the conversation; --system stays", obey_reset},
    {"/system", "TEXT", "another system message, and a new conversation; without TEXT none", obey_system},
    {"/save", "FILE", "write the conversation as JSON", obey_save},
};

/* A turn for each line. */
static bool converse(Chat *chat, Error *error) {
    TextBuffer line = {0};
    const TalkSetup setup = {commands, sizeof commands / sizeof *commands, chat,
                             shows_colour(chat->setup->colour, STDERR_FILENO)};
    Talk *talk = talk_new(&setup, error);
    bool ok = talk, ends = false;
    while (ok && !chat->setup->shown->piped_out) {
        ok = talk_read(talk, &line, &ends, error);
        if (!ok || ends) break;
        while (line.n > 0 && strchr(" \t\r\n", line.data[line.n - 1])) line.n--;
        ok = line.n == 0 || take_turn(chat, line.data, line.n, error);
    }
    talk_free(talk);
    free(line.data);
    return ok;
}

bool chat_run(const ChatSetup *setup, Error *error) {
    Chat chat = {.setup = setup,
                 .on_terminal = isatty(STDOUT_FILENO),
                 .colour = shows_colour(setup->colour, STDOUT_FILENO)};
    bool ok = load_template(&chat, error) &&
              begin(&chat, setup->system, setup->system ? strlen(setup->system) : 0, error);
    if (ok)
        ok = setup->prompt.data ? take_turn(&chat, setup->prompt.data, setup->prompt.n, error)
                                : converse(&chat, error);
    if (ok && interrupted()) ok = error_set(error, "interrupted");
    remove_messages(&chat, 0, chat.n);
    free(chat.messages);
    free(chat.header.data);
    free(chat.held.data);
    template_free(chat.template);
    return ok;
}
