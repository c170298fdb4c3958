#include "cli/talk.h"

#include "cli/editor.h"
#include "cli/input.h"
#include "cli/print.h"
#include "cli/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <termios.h>
#include <unistd.h>

static const char prompt[] = "> ";

struct Talk {
    TalkSetup setup;
    bool on_terminal; /* stdin is one */
    Editor *editor;   /* NULL: lines are not edited */
    char keys[4096];  /* what was typed, and is not yet in the line */
    size_t n_keys, at;
    size_t n_ahead; /* bytes that were typed before keys came one by one, and are not yet read */
    size_t columns, rows;
    sigset_t mask; /* that was, while a line is edited */
};

/* ---- The terminal ---- */

static struct termios usual; /* as it is while nobody edits a line */
static pthread_t reader;
static volatile sig_atomic_t continued;

static void write_screen(const char *bytes, size_t n) {
    for (ssize_t written; n > 0; bytes += written, n -= (size_t)written) {
        written = write(STDERR_FILENO, bytes, n);
        if (written < 0 && errno != EINTR) return;
        if (written < 0) written = 0;
    }
}

/* Bracketed paste, xterm's mode 2004. */
#define PASTES_BEGIN "\033[?2004h"
#define PASTES_END "\033[?2004l"

/* Runs also at a signal that ends the process. */
static void restore(void) {
    static const char end[] = TYPED_END PASTES_END "\r\n";
    tcsetattr(STDIN_FILENO, TCSANOW, &usual);
    write_screen(end, sizeof end - 1);
}

static bool set_modes(const struct termios *modes) {
    int result;
    while ((result = tcsetattr(STDIN_FILENO, TCSADRAIN, modes)) != 0 && errno == EINTR) continue;
    return result == 0;
}

/* Keys come one by one, as they are; what was typed before stays. */
static bool begin_keys(Talk *talk) {
    struct termios modes = usual;
    int n_ahead = 0;
    modes.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | IGNCR | INLCR | INPCK | ISTRIP | IXON);
    modes.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    before_end(restore);
    if (!set_modes(&modes)) {
        before_end(NULL);
        return false;
    }
    if (ioctl(STDIN_FILENO, FIONREAD, &n_ahead) == 0 && n_ahead > 0) talk->n_ahead = (size_t)n_ahead;
    write_screen(PASTES_BEGIN, sizeof PASTES_BEGIN - 1);
    return true;
}

static void end_keys(void) {
    write_screen(PASTES_END, sizeof PASTES_END - 1);
    set_modes(&usual);
    before_end(NULL);
}

/* SIGWINCH, and SIGCONT where somebody else has stopped the process: the thread that reads draws the line again. */
static void on_signal(int signal_number) {
    int before = errno;
    if (!pthread_equal(pthread_self(), reader))
        pthread_kill(reader, signal_number);
    else if (signal_number == SIGCONT)
        continued = 1;
    errno = before;
}

/* Between two keys alone these signals come. */
static void listen(Talk *talk, bool on) {
    static const int signals[] = {SIGWINCH, SIGCONT};
    static struct sigaction before[2];
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t both;
    sigemptyset(&both);
    reader = pthread_self();
    for (size_t i = 0; i < 2; i++) sigaddset(&both, signals[i]);
    if (on) pthread_sigmask(SIG_BLOCK, &both, &talk->mask);
    for (size_t i = 0; i < 2; i++) sigaction(signals[i], on ? &action : &before[i], on ? &before[i] : NULL);
    if (!on) pthread_sigmask(SIG_SETMASK, &talk->mask, NULL);
}

static void find_size(Talk *talk) {
    struct winsize size = {0};
    ioctl(STDERR_FILENO, TIOCGWINSZ, &size);
    talk->columns = size.ws_col ? size.ws_col : 80;
    talk->rows = size.ws_row ? size.ws_row : 24;
}

static void draw(Talk *talk) {
    TextBuffer screen = {0};
    find_size(talk);
    editor_draw(talk->editor, talk->columns, talk->rows, &screen);
    write_screen(screen.data, screen.n);
    free(screen.data);
}

static void leave(Talk *talk) {
    TextBuffer screen = {0};
    editor_leave(talk->editor, &screen);
    write_screen(screen.data, screen.n);
    free(screen.data);
}

/* Ctrl-Z, for all that the terminal would have stopped. */
static void suspend(Talk *talk) {
    struct sigaction before;
    leave(talk);
    end_keys();
    listen(talk, false);
    sigaction(SIGTSTP, NULL, &before);
    if (before.sa_handler != SIG_IGN) {
        signal(SIGTSTP, SIG_IGN);
        kill(0, SIGTSTP);
        sigaction(SIGTSTP, &before, NULL);
        raise(SIGTSTP);
    }
    listen(talk, true);
    begin_keys(talk);
    draw(talk);
}

/* A Ctrl-D among keys that were typed while lines came whole: Linux keeps it as a zero. */
static void read_ends(Talk *talk) {
    for (size_t i = 0; i < talk->n_keys && talk->n_ahead > 0; i++, talk->n_ahead--)
        if (talk->keys[i] == '\0') talk->keys[i] = '\4';
}

/* Waits for keys; false where none will come. */
static bool read_keys(Talk *talk) {
    for (;;) {
        fd_set files;
        FD_ZERO(&files);
        FD_SET(STDIN_FILENO, &files);
        int ready = pselect(STDIN_FILENO + 1, &files, NULL, NULL, NULL, &talk->mask);
        if (interrupted() || (ready < 0 && errno != EINTR)) return false;
        if (continued) {
            continued = 0;
            begin_keys(talk);
            leave(talk);
        }
        size_t columns = talk->columns;
        find_size(talk);
        if (ready < 0 || columns != talk->columns) draw(talk);
        if (ready <= 0) continue;
        ssize_t n = read(STDIN_FILENO, talk->keys, sizeof talk->keys);
        if (n < 0 && errno == EINTR) continue;
        talk->n_keys = n > 0 ? (size_t)n : 0;
        talk->at = 0;
        read_ends(talk);
        return n > 0;
    }
}

static EditorEvent press_keys(Talk *talk) {
    EditorEvent event = EDITOR_GOES_ON;
    while (event == EDITOR_GOES_ON) {
        if (talk->at == talk->n_keys && !read_keys(talk)) return EDITOR_END;
        while (event == EDITOR_GOES_ON && talk->at < talk->n_keys)
            event = editor_press(talk->editor, talk->keys[talk->at++]);
        draw(talk);
        if (event != EDITOR_SUSPEND) continue;
        suspend(talk);
        event = EDITOR_GOES_ON;
    }
    return event;
}

/* Reads as read_line does (input.h). */
static bool edit_line(Talk *talk, TextBuffer *line, bool *ends, Error *error) {
    bool ok = true;
    fflush(stdout);
    line->n = 0;
    if (tcgetattr(STDIN_FILENO, &usual) != 0 || !begin_keys(talk))
        return error_set(error, "stdin: cannot set the terminal: %s", strerror(errno));
    listen(talk, true);
    draw(talk);
    EditorEvent event = press_keys(talk);
    leave(talk);
    end_keys();
    listen(talk, false);
    if (event == EDITOR_INTERRUPT) raise(SIGINT);
    if (event == EDITOR_QUIT) raise(SIGQUIT);
    *ends = event != EDITOR_LINE;
    const TextBuffer *typed = editor_line(talk->editor);
    if (!*ends && !text_append(line, typed->data, typed->n))
        ok = error_set(error, "stdin: not enough memory for a line of %zu bytes", typed->n);
    editor_next(talk->editor);
    return ok;
}

/* ---- Commands ---- */

static const char *const endings[] = {"/exit", "/bye", "/quit"};

static void print_commands(const TalkSetup *setup) {
    fprintf(stderr, "  %-13s this text\n", "/help");
    for (size_t i = 0; i < setup->n_commands; i++) {
        const TalkCommand *command = &setup->commands[i];
        int n = fprintf(stderr, "  %s %s", command->name, command->value);
        fprintf(stderr, "%*s%s\n", 16 - n, "", command->help);
    }
    fputs("  /exit         end, as /bye, /quit and Ctrl-D do\n"
          "  Ctrl-C ends an answer, and here the program; Up brings back what was typed\n"
          "  a line that begins with a space is no command\n",
          stderr);
}

static void note_unknown(const TalkSetup *setup, const char *word, size_t n) {
    fprintf(stderr, "run: note: there is no command %.*s; there are /help, ", (int)n, word);
    for (size_t i = 0; i < setup->n_commands; i++) fprintf(stderr, "%s, ", setup->commands[i].name);
    fputs("/exit; a space in front makes it text\n", stderr);
}

static bool is_word(const char *line, size_t n, const char *word) {
    return strlen(word) == n && memcmp(line, word, n) == 0;
}

/* Does what a line says that begins with a slash and letters; false: it is no command. */
static bool obey(const Talk *talk, TextBuffer *line, bool *ends) {
    const TalkSetup *setup = &talk->setup;
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char *text = line->data, *end = text + line->n;
    size_t n = text[0] == '/' ? 1 + strspn(text + 1, letters) : 0;
    if (n < 2 || (text[n] && !strchr(" \t\r", text[n]))) return false;
    while (end > text + n && strchr(" \t\r", end[-1])) end--;
    *end = '\0';
    const char *value = text + n + strspn(text + n, " \t");
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (is_word(text, n, endings[i])) return *ends = true;
    if (is_word(text, n, "/help")) return print_commands(setup), true;
    for (size_t i = 0; i < setup->n_commands; i++) {
        Error why;
        if (!is_word(text, n, setup->commands[i].name)) continue;
        if (!setup->commands[i].obey(setup->user, value, &why))
            fprintf(stderr, "run: note: %s\n", why.message);
        return true;
    }
    note_unknown(setup, text, n);
    return true;
}

/* ---- Lines ---- */

Talk *talk_new(const TalkSetup *setup, Error *error) {
    const char *term = getenv("TERM");
    Talk *talk = calloc(1, sizeof *talk);
    bool edits = isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
    if (talk) *talk = (Talk){.setup = *setup, .on_terminal = isatty(STDIN_FILENO)};
    if (talk && edits) talk->editor = editor_new(prompt, setup->colour);
    if (!talk || (edits && !talk->editor)) {
        talk_free(talk);
        error_set(error, "not enough memory for a conversation");
        return NULL;
    }
    if (talk->on_terminal) expect_interrupt();
    return talk;
}

void talk_free(Talk *talk) {
    if (talk) editor_free(talk->editor);
    free(talk);
}

bool talk_read(Talk *talk, TextBuffer *line, bool *ends, Error *error) {
    bool ok = true;
    *ends = false;
    if (talk->on_terminal) forget_interrupt();
    do {
        bool asks = !talk->editor && isatty(STDERR_FILENO);
        if (asks) fputs(prompt, stderr);
        ok = talk->editor ? edit_line(talk, line, ends, error) : read_line(line, ends, error);
        if (asks && (!ok || *ends)) putc('\n', stderr);
        if (ok && !*ends && !text_append(line, "", 1))
            ok = error_set(error, "not enough memory for a line of %zu bytes", line->n);
        if (ok && !*ends) line->n--;
    } while (ok && !*ends && talk->on_terminal && obey(talk, line, ends) && !*ends);
    if (ok && !*ends && talk->on_terminal) expect_interrupt();
    return ok;
}
