/*
 * serve: the page at an address of this machine, where the program answers what the page asks (page/ask.c). page/server.h
 * has the connections; here stands who may ask for what. docs/SECURITY.md tells what that rests on.
 */
#include "base/json.h"
#include "base/utf8.h"
#include "cli/output.h"
#include "cli/print.h"
#include "cli/process.h"
#include "page/ask.h"
#include "page/html.h"
#include "page/server.h"
#include "views/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOKEN_BYTES = 16, TOKEN_DIGITS = 2 * TOKEN_BYTES, MAX_WORDS = 64, TITLE_BYTES = 60 };

/* The page's own policy, in its <meta>, holds for scripts and styles, too. */
static const char page_policy[] = "connect-src 'self'; frame-ancestors 'none'";
static const char answer_policy[] = "default-src 'none'; frame-ancestors 'none'";

typedef struct Serve {
    size_t port;
    OpenModel opened;
    SubjectCache cache;
    char token[TOKEN_DIGITS + 1];
    char origins[2][40]; /* of the two names of the address; the host is what follows "http://" */
    char *page;
    size_t n_page;
} Serve;

/* ---- Who may ask ---- */

/* Whether a text is one of the two origins, from a character on. */
static bool is_ours(const Serve *serve, String text, size_t from) {
    return string_equals(text, serve->origins[0] + from) || string_equals(text, serve->origins[1] + from);
}

/* Takes a time that does not tell how much of the token is right. */
static bool has_token(const Serve *serve, String target) {
    unsigned char differs = 0;
    if (target.n < TOKEN_DIGITS + 2 || target.data[TOKEN_DIGITS + 1] != '/') return false;
    for (size_t i = 0; i < TOKEN_DIGITS; i++)
        differs |= (unsigned char)(target.data[1 + i] ^ serve->token[i]);
    return differs == 0;
}

/*
 * Whether the browser says that a page of this server asks. `needed`: it must say so, by Origin or by Sec-Fetch-Site
 * (Fetch Metadata); what it says must be right in any case.
 */
static bool comes_from_page(const Serve *serve, const HttpRequest *request, bool needed) {
    String origin, site;
    size_t origins = http_field(request, "origin", &origin),
           sites = http_field(request, "sec-fetch-site", &site);
    if (origins > 1 || (origins && !is_ours(serve, origin, 0))) return false;
    if (needed && sites && !string_equals(site, "same-origin")) return false;
    return !needed || origins || sites;
}

static void refuse(HttpAnswer *answer, int status) {
    const char *reason = http_reason(status);
    *answer = (HttpAnswer){status, "text/plain", answer_policy, reason, strlen(reason)};
}

static void route(void *user, const HttpRequest *request, HttpAnswer *answer) {
    const Serve *serve = user;
    String host, target = request->target;
    bool posts = string_equals(request->method, "POST"),
         gets = string_equals(request->method, "GET") || string_equals(request->method, "HEAD");
    bool its_host = http_field(request, "host", &host) == 1 && is_ours(serve, host, strlen("http://"));
    if (!its_host || !comes_from_page(serve, request, posts)) {
        refuse(answer, 403);
        return;
    }
    if (!has_token(serve, target)) {
        refuse(answer, 404);
        return;
    }
    target.data += TOKEN_DIGITS + 2, target.n -= TOKEN_DIGITS + 2;
    bool asks = string_equals(target, "ask");
    if (target.n && !asks)
        refuse(answer, 404);
    else if (asks ? !posts : !gets)
        refuse(answer, 405);
    else if (!asks)
        *answer = (HttpAnswer){200, "text/html", page_policy, serve->page, serve->n_page};
    answer->allow = asks ? "POST" : "GET, HEAD";
}

/* ---- Requests ---- */

/*
 * The words of {"argv": [...]}, each ended by a NUL, in one piece of memory: the caller frees it. NULL with an error.
 */
static char *read_words(String body, char *words[MAX_WORDS + 1], size_t *n_words, Error *error) {
    Json *json = json_parse(body.data, body.n, error);
    const Json *argv = json_get(json, "argv");
    char *bytes = NULL, *at;
    bool ok = json;
    if (ok && (!argv || argv->kind != JSON_ARRAY || json->n != 1))
        ok = error_set(error, "an ask is {\"argv\": [\"next\", …]} and no more");
    if (ok && argv->n > MAX_WORDS)
        ok = error_set(error, "an ask has %d words at most, not %u", MAX_WORDS, argv->n);
    for (size_t i = 0; ok && i < argv->n; i++) {
        String word = json_string(&argv->items[i]);
        if (argv->items[i].kind != JSON_TEXT)
            ok = error_set(error, "word %zu of argv is no text", i);
        else if (word.n && memchr(word.data, '\0', word.n))
            ok = error_set(error, "word %zu of argv has a NUL, which no command line can have", i);
    }
    if (ok && !(bytes = at = malloc(body.n + MAX_WORDS))) error_set(error, "not enough memory");
    for (size_t i = 0; bytes && i < argv->n; i++) {
        String word = json_string(&argv->items[i]);
        words[i] = at;
        if (word.n) memcpy(at, word.data, word.n);
        at += word.n;
        *at++ = '\0';
        *n_words = i + 1;
    }
    words[*n_words] = NULL;
    json_free(json);
    return bytes;
}

static bool is_stopped(void *user) {
    const atomic_bool *stop = user;
    return atomic_load(stop);
}

/* Carries out a view, whose JSON is then at *text: the caller frees it. Returns its exit code, with an error if it is not 0. */
static int ask_view(Serve *serve, const View *view, int argc, char **argv, const atomic_bool *stop,
                    char **text, size_t *n, Error *error) {
    OpenModel *opened = &serve->opened;
    opened->out = open_memstream(text, n);
    if (!opened->out) {
        error_set(error, "not enough memory");
        return EXIT_BAD_INPUT;
    }
    opened->stop = stop ? is_stopped : NULL;
    opened->stop_user = (void *)(uintptr_t)stop;
    int code = view ? view_command(view, opened, argc, argv, error) : view_ask(opened, argc, argv, error);
    bool whole = !ferror(opened->out);
    whole = fclose(opened->out) == 0 && whole && *text; /* fclose may end well without memory for the text */
    if (!whole && code == EXIT_SUCCESS) {
        error_set(error, "not enough memory for the answer");
        code = EXIT_BAD_INPUT;
    }
    opened->out = NULL;
    return code;
}

/* {"error": …} in place of what the view has printed. */
static void put_error(char **text, size_t *n, const Error *error) {
    free(*text);
    *text = NULL, *n = 0;
    FILE *file = open_memstream(text, n);
    if (!file) return;
    fputs("{\"error\": ", file);
    print_json_string(file, error->message, strlen(error->message));
    fputs("}\n", file);
    fclose(file);
}

static void answer_ask(void *user, const HttpRequest *request, const atomic_bool *stop, HttpAnswer *answer) {
    Serve *serve = user;
    char *words[MAX_WORDS + 1], *text = NULL;
    size_t n_words = 0, n = 0;
    Error error;
    int code = EXIT_USAGE;
    char *bytes = read_words(request->body, words, &n_words, &error);
    if (bytes) code = ask_view(serve, NULL, (int)n_words, words, stop, &text, &n, &error);
    free(bytes);
    if (code != EXIT_SUCCESS) put_error(&text, &n, &error);
    int status = code == EXIT_SUCCESS ? 200 : code == EXIT_USAGE ? 400 : 422;
    *answer = (HttpAnswer){text ? status : 500, "application/json", answer_policy, text, n, .owned = text};
}

/* ---- The page ---- */

typedef struct PageNumbers {
    const char *text; /* NULL: there are none */
    size_t n;
} PageNumbers;

static void write_numbers(void *user, FILE *file) {
    const PageNumbers *numbers = user;
    if (numbers->text)
        fwrite(numbers->text, 1, numbers->n, file);
    else
        fputs("null", file);
}

/* The page, with the numbers of the text that -p or -f gave. */
static bool serve_page(Serve *serve, const char *text, Error *error) {
    char *argv[] = {"view", "--json", "-p", (char *)(uintptr_t)text, NULL}, *json = NULL;
    PageNumbers numbers = {NULL, 0};
    String title =
        text ? (String){text, strlen(text)} : (String){serve->opened.path, strlen(serve->opened.path)};
    bool ok = !text || ask_view(serve, &view_page, 4, argv, NULL, &json, &numbers.n, error) == EXIT_SUCCESS;
    FILE *file = ok ? open_memstream(&serve->page, &serve->n_page) : NULL;
    numbers.text = json;
    if (title.n > TITLE_BYTES) title.n = TITLE_BYTES;
    if (file)
        page_write(file, &(PageParts){
                             .source = PAGE_SERVER, .title = title, .data = write_numbers, .user = &numbers});
    if (ok && (!file || fclose(file) != 0 || !serve->page))
        ok = error_set(error, "not enough memory for the page");
    free(json);
    return ok;
}

/* ---- The command ---- */

static bool make_token(Serve *serve, Error *error) {
    unsigned char noise[TOKEN_BYTES];
    if (getentropy(noise, sizeof noise) != 0)
        return error_set(error, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < TOKEN_BYTES; i++) snprintf(serve->token + 2 * i, 3, "%02x", noise[i]);
    return true;
}

static void name_address(Serve *serve, unsigned port) {
    static const char *const names[] = {"127.0.0.1", "localhost"};
    char behind[16] = ""; /* a browser leaves HTTP's own port out */
    if (port != 80) snprintf(behind, sizeof behind, ":%u", port);
    for (size_t i = 0; i < 2; i++)
        snprintf(serve->origins[i], sizeof serve->origins[i], "http://%s%s", names[i], behind);
}

static bool check(const StudyOptions *o, const void *view, Error *error) {
    (void)view;
    bool others = o->json || o->ascii || o->bos || o->no_bos || o->special || o->kv || o->ids || o->n_ctx ||
                  o->seed != 1;
    return !others ||
           error_set(error, "serve takes -p, -f, -z, -t and --port; all else is asked with each view");
}

static bool compute(Study *study, void *view, Error *error) {
    Serve *serve = view;
    TextBuffer *read = &study->text; /* of -f */
    unsigned port = (unsigned)serve->port;
    serve->opened = (OpenModel){.path = study->options->model,
                                .model = study->model,
                                .tokenizer = study->tokenizer,
                                .threads = study->threads};
    if (read->n && memchr(read->data, '\0', read->n))
        return error_set(error, "%s: has a NUL, which the page's text cannot have",
                         study->options->prompt_file);
    if (read->data && !text_append(read, "", 1)) return error_set(error, "not enough memory");
    const char *text = study->options->prompt ? study->options->prompt : read->data;
    if (!make_token(serve, error) || !serve_page(serve, text, error)) return false;
    serve->opened.cache = &serve->cache;
    int listener = server_listen(&port, error);
    if (listener < 0) return false;
    name_address(serve, port);
    printf("%s/%s/\n", *serve->origins, serve->token);
    Service service = {route, answer_ask, serve, serve->token};
    return end_output("address", error) && server_run(listener, &service, error);
}

static void free_serve(void *view) {
    Serve *serve = view;
    free(serve->page);
    subject_cache_free(&serve->cache);
}

static const Option options[] = {{"--port", NULL, OPTION_SIZE, offsetof(Serve, port), 0, 65535}};

const View view_serve = {
    .name = "serve",
    .summary = "the page of view at an address of this machine, with this program behind it",
    .usage = "[MODEL] [-p TEXT | -f FILE] [--port N]",
    .help =
        "Prints an address, http://127.0.0.1:PORT/TOKEN/, and answers what the page there asks, until Ctrl-C:\n"
        "for models that are too large for a browser. Only this machine reaches it, and only who knows the\n"
        "address may ask. Each request is a line on stderr.\n"
        "\n"
        "  --port N            the port (any that is free)\n"
        "  -p TEXT, -f FILE    the text that the page begins with\n"
        "  -z FILE, -t N       a vocabulary; threads\n"
        "\n"
        "  ./study serve model.bin -p \"The Eiffel\"\n",
    .needs = NEEDS_MODEL | NEEDS_TEXT | TEXT_IS_OPTIONAL | HELP_IS_WHOLE,
    VIEW_OPTIONS(options),
    .check = check,
    .size = sizeof(Serve),
    .compute = compute,
    .free = free_serve,
};
