/*
 * Typing, on a terminal: keys and what the model then gets, lines that come back, commands, Ctrl-C, Ctrl-Z, colours, and the
 * terminal's modes, which are as they were whatever ends the program.
 */
#include "chain.h"

#define CHAT "--chat", "--temp", "0", "-t", "1"
#define GO_ON "-i", "--temp", "0", "-t", "1"
static const char model[] = "weights/model.gguf"; /* whose answers are text */

static const char *text_of(const char *path) {
    static char texts[2][1 << 16];
    static int last;
    char *text = texts[last = !last];
    FILE *from = fopen(path, "rb");
    size_t n = from ? fread(text, 1, sizeof texts[0] - 1, from) : 0;
    if (from) fclose(from);
    text[n] = '\0';
    return text;
}

static bool ends_well(pid_t pid) {
    int status = finish(pid);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The terminal's modes, and whether keys come one by one. */
static struct termios modes(void) {
    struct termios now = {0};
    CHECK(tcgetattr(master, &now) == 0, "no modes");
    return now;
}
static bool is_raw(void) { return !(modes().c_lflag & ICANON); }

/* ---- The model's input ---- */

/* Types into a chat, saves it, and compares what was said with the contents of that JSON. */
static void check_said(const char *keys, const char *const *said) {
    write_chain("<|im_start|>");
    const char *saved = scratch_file("saved");
    char command[400];
    unlink(saved);
    pid_t pid = start((const char *[]){"run", scratch_path(), CHAT, NULL});
    await("> ", 0);
    type(keys);
    snprintf(command, sizeof command, "/save %s\r/exit\r", saved);
    type(command);
    CHECK(ends_well(pid), "%s", keys);
    const char *text = text_of(saved);
    for (; *said; said++) {
        char content[200];
        snprintf(content, sizeof content, "\"role\": \"user\", \"content\": \"%s\"", *said);
        const char *found = strstr(text, content);
        CHECK(found, "no '%s' in %s", content, text_of(saved));
        if (!found) return;
        text = found + strlen(content);
    }
    CHECK(!strstr(text, "\"user\""), "more is said: %s", text);
}

static void test_lines(void) {
    check_said("helo\033[Dl\r", (const char *[]){"hello", NULL});
    check_said("two words\x17\x01\x19 \x05\x7f\r", (const char *[]){"words two", NULL});
    check_said("\xe6\x97\xa5\xe6\x9c\xac\x7f\xe8\xaa\x9e\r",
               (const char *[]){"\xe6\x97\xa5\xe8\xaa\x9e", NULL});
    check_said("one\rtwo\r\033[A\033[A!\r\033[A?\r", (const char *[]){"one", "two", "one!", "one!?", NULL});
    check_said("\033[200~a\r\nb\r\n\033[201~c\r", (const char *[]){"a\\nb\\nc", NULL});
    check_said("a\033\rb  \r", (const char *[]){"a\\nb", NULL});
    check_said("\r  \rlost\003kept\r", (const char *[]){"kept", NULL});
    check_said("\033[200~\033]0;x\x07\033[201~\r", (const char *[]){"\\u001b]0;x\\u0007", NULL});
}

/* -i goes on with an edited line as with a piped one. */
static void test_goes_on(void) {
    char command[400];
    const char *out = scratch_file("out"), *wanted = scratch_file("wanted");
    snprintf(command, sizeof command, "printf 'The Eiffel\\n and\\n' | %s %s -i --temp 0 -t 1 -n 6 >%s",
             run_path(), model, wanted);
    CHECK(system(command) == 0, "%s", command);
    pid_t pid = start_with(run_path(), (const char *[]){"run", model, GO_ON, "-n", "6", NULL}, out);
    await("> ", 0);
    type("Eiffel\x01The \r");
    await("> ", await("\r\n", n_seen));
    type(" adn\x7f\x7fnd\r");
    await("> ", await("\r\n", n_seen));
    type("\004");
    CHECK(ends_well(pid), "Ctrl-D");
    CHECK(strlen(text_of(wanted)) > 20 && strcmp(text_of(out), text_of(wanted)) == 0, "'%s', not '%s'",
          text_of(out), text_of(wanted));
}

/* ---- Commands ---- */

static void test_commands(void) {
    static const char *const ends[] = {"/exit", "/bye", "/quit"};
    for (size_t i = 0; i < COUNT(ends); i++)
        for (int chats = 0; chats < 2; chats++) {
            write_chain("<|im_start|>");
            pid_t pid = start(chats ? (const char *[]){"run", scratch_path(), CHAT, NULL}
                                    : (const char *[]){"run", scratch_path(), GO_ON, NULL});
            size_t at = await("> ", 0);
            type("/help\r");
            at = await("/exit", at);
            at = await("> ", await("a line that begins with a space is no command\r\n", at));
            type("/halp me\r");
            at = await(
                chats ? "run: note: there is no command /halp; there are /help, /reset, /system, /save, /exit"
                      : "run: note: there is no command /halp; there are /help, /exit",
                at);
            at = await("> ", at);
            type(ends[i]);
            type("\r");
            CHECK(ends_well(pid), "%s", ends[i]);
        }
    check_said("/nothing\r/\r/usr/bin x\r /help\r//\r/x1\r",
               (const char *[]){"/", "/usr/bin x", " /help", "//", "/x1", NULL});
    check_said("/save\r/save /nowhere/x\rb\r/reset now\rc\r", (const char *[]){"c", NULL});
    check_said("b\r/system  Be brief \rc\r", (const char *[]){"c", NULL});
    CHECK(strstr(text_of(scratch_file("saved")), "\"role\": \"system\", \"content\": \"Be brief\""), "%s",
          text_of(scratch_file("saved")));
    check_said("/reset\rb\r/reset\rc\r", (const char *[]){"c", NULL});
    check_said("/system x\rb\r/reset\rc\r", (const char *[]){"c", NULL});
    CHECK(strstr(text_of(scratch_file("saved")), "\"role\": \"system\", \"content\": \"x\""), "%s",
          text_of(scratch_file("saved")));
    check_said("/system x\r/system\rc\r", (const char *[]){"c", NULL});
    CHECK(!strstr(text_of(scratch_file("saved")), "system"), "%s", text_of(scratch_file("saved")));
}

/* Thoughts that a model keeps apart are saved apart, and shown where somebody sees them alone. */
static void test_saves_thoughts(void) {
    const char *saved = scratch_file("saved"), *out = scratch_file("out");
    char command[400];
    unlink(saved);
    write_chain("z"); /* which is unknown */
    pid_t pid = start_with(run_path(), (const char *[]){"run", scratch_path(), CHAT, NULL}, out);
    await("> ", 0);
    type("b\r");
    snprintf(command, sizeof command, "/save %s\r/exit\r", saved);
    type(command);
    CHECK(ends_well(pid), "/exit");
    CHECK(strstr(text_of(saved), "{\"role\": \"assistant\", \"content\": \"\", \"thinking\": \"mull\"}"),
          "%s", text_of(saved));
    CHECK(strcmp(text_of(out), "\n") == 0, "'%s'", text_of(out));
}

/* Commands fail with a note that says why, and the talk goes on; what the model reads is spared. */
static void test_save_fails(void) {
    write_chain("<|im_start|>");
    char command[400], words[9000]; /* more than a stream holds back */
    memset(words, 's', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    pid_t pid = start((const char *[]){"run", scratch_path(), CHAT, "--system", words, "-c", "20000", NULL});
    size_t at = await("> ", 0);
    type("/save /dev/full\r");
    at = await("> ", await("run: note: /dev/full: cannot write: No space left on device", at));
    type("/save\r");
    at = await("> ", await("run: note: /save needs the name of a file", at));
    type("/save /nowhere/x\r");
    at = await("> ", await("run: note: /nowhere/x: cannot write", at));
    snprintf(command, sizeof command, "/save %s\r", scratch_path());
    type(command);
    at = await("> ", await("run: note: ", at));
    type("b\r");
    await("yes\r\n", at);
    type("/exit\r");
    CHECK(ends_well(pid), "/exit");
}

/* ---- A model alone, and nothing at all ---- */

static void test_waits(void) {
    char folder[300], here[300];
    CHECK(getcwd(here, sizeof here), "no folder");
    char *run = realpath(run_path(), NULL), *file_of_model = realpath(model, NULL);
    snprintf(folder, sizeof folder, "%s", scratch_file("folder"));
    mkdir(folder, 0700);
    CHECK(chdir(folder) == 0 && symlink(file_of_model, "model.bin") == 0, "no folder");
    pid_t pid = start_with(run, (const char *[]){"run", NULL}, NULL);
    size_t at = await(
        "run: note: no model is named; taking model.bin, and what is typed (-i; /help tells more)\r\n", 0);
    CHECK(strncmp(seen, "run: note", 9) == 0, "%s", seen);
    at = await("> ", at);
    type("The Eiffel\r");
    at = await("> ", await(" Tower", at));
    type("\004");
    CHECK(ends_well(pid), "run alone");
    pid = start_with(run, (const char *[]){"run", "model.bin", "-n", "2", "--temp", "0", NULL}, NULL);
    at = await("> ", 0);
    CHECK(!strstr(seen, "note"), "%s", seen);
    type("The Eiffel\r");
    at = await("> ", await(" Tower", at));
    type("/bye\r");
    CHECK(ends_well(pid), "a model alone");
    pid = start_with(run, (const char *[]){"run", "model.bin", "--tokens", NULL}, NULL);
    CHECK(ends_well(pid), "--tokens waits for nothing");
    CHECK(unlink("model.bin") == 0 && chdir(here) == 0 && rmdir(folder) == 0, "no way back");
    free(run);
    free(file_of_model);
}

/* ---- Ctrl-C ---- */

static bool is_interrupted(pid_t pid) {
    int status = finish(pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
}

/* In -i one ends the answer, and two end the program, during an answer as at the prompt. */
static void test_interrupts(void) {
    write_chain("on");
    pid_t pid = start((const char *[]){"run", scratch_path(), GO_ON, "-n", "-1", "-p", "on", NULL});
    size_t at = await("ononon", 0);
    for (int i = 0; i < 2; i++) {
        type("\003");
        at = await("> ", await("\r\n", at));
        CHECK(is_raw(), "the prompt");
        type("on\r");
        at = await("ononon", at);
        CHECK(!is_raw(), "an answer");
    }
    type("\003");
    at = await("> ", await("\r\n", at));
    type("typed");
    at = await("typed", at);
    type("\003"); /* takes the line */
    at = await("\033[J> \033[1;32m\033[0m", at);
    type("\003");
    struct termios after = modes();
    CHECK(is_interrupted(pid), "Ctrl-C at the prompt");
    CHECK(at_first.c_lflag == after.c_lflag || (after.c_lflag & ICANON) == 0, "modes");

    pid = start((const char *[]){"run", scratch_path(), GO_ON, "-n", "-1", "-p", "on", NULL});
    await("ononon", 0);
    int status = 0, ended = 0; /* two at once are one to a process that is not running */
    for (int i = 0; i < 100 && !ended; i++, poll(NULL, 0, 20), ended = waitpid(pid, &status, WNOHANG))
        type("\003");
    CHECK(ended == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "%d, %x", ended, status);
    close(master);
}

/* Ctrl-D ends the talk also where it was typed while the model spoke; what else was, is the next line. */
static void test_typed_ahead(void) {
    write_chain("on");
    for (int i = 0; i < 2; i++) {
        pid_t pid = start((const char *[]){"run", scratch_path(), GO_ON, "-n", "-1", NULL});
        size_t at = await("> ", 0);
        type("on\r");
        at = await("ononon", at);
        CHECK(!is_raw(), "keys come while it speaks");
        type(i ? "/help\r\004" : "\004");
        kill(pid, SIGINT); /* the key would forget what was typed */
        if (i) await("Ctrl-D do", at);
        CHECK(ends_well(pid), "case %d", i);
    }
}

/* A line that is cut short while it is read is not part of the text, and the talk goes on; however slowly Ctrl-C is noticed. */
static void test_interrupted_reading(void) {
    static char keys[100000];
    write_chain("on");
    pid_t pid = start((const char *[]){"run", scratch_path(), GO_ON, "-n", "3", NULL});
    size_t at = await("> ", 0);
    type("on\r");
    at = await("> ", await("ononon\r\n", at));
    for (size_t i = 0; i < sizeof keys; i += 2) memcpy(keys + i, "on", 2);
    type("\033[200~");
    for (size_t n = 0; n < sizeof keys; n += 1000) { /* as fast as it is read */
        struct pollfd ready = {.fd = master, .events = POLLOUT};
        CHECK(poll(&ready, 1, 10000) == 1 && write(master, keys + n, 1000) == 1000, "cannot paste");
    }
    type("\033[201~");
    at = await("onon", at);
    type("\r");
    at = await("prompt ", at); /* its progress */
    type("\003");
    at = await("> ", at);
    type("on\r");
    at = await("> ", await("ononon\r\n", at));
    type("/exit\r");
    CHECK(ends_well(pid), "/exit");
}

/* ---- The terminal ---- */

/* Whatever ends the program, modes are as they were, pastes come without brackets, and the colour is off. */
static void test_modes(void) {
    static const struct {
        const char *keys;
        int sent, status; /* a signal, or 0; and what it ends by */
    } ends[] = {{"abc\x01\x0b\x04", 0, 0}, {"/exit\r", 0, 0},         {"abc\003\003", 0, SIGINT},
                {"abc\x1c", 0, SIGQUIT},   {"abc", SIGTERM, SIGTERM}, {"abc", SIGINT, SIGINT},
                {"abc", SIGHUP, SIGHUP},   {"abc", SIGQUIT, SIGQUIT}};
    write_chain("on");
    for (size_t i = 0; i < COUNT(ends); i++) {
        pid_t pid = start((const char *[]){"run", scratch_path(), GO_ON, NULL});
        int slave = open(ptsname(master), O_RDWR | O_NOCTTY); /* keeps the modes */
        struct termios after;
        size_t at = await("> ", 0);
        CHECK(is_raw() && strstr(seen, "\033[?2004h"), "%zu: %s", i, seen);
        type(ends[i].keys);
        if (ends[i].sent) {
            await("abc", at);
            kill(pid, ends[i].sent);
        }
        at = await("\033[?2004l", at);
        int status;
        alarm(300); /* ends this test where the program does not end */
        CHECK(waitpid(pid, &status, 0) == pid, "no end");
        alarm(0);
        CHECK(ends[i].status ? WIFSIGNALED(status) && WTERMSIG(status) == ends[i].status : status == 0,
              "%zu: %x", i, status);
        CHECK(tcgetattr(slave, &after) == 0 && after.c_lflag == at_first.c_lflag &&
                  after.c_iflag == at_first.c_iflag && after.c_oflag == at_first.c_oflag &&
                  memcmp(after.c_cc, at_first.c_cc, sizeof after.c_cc) == 0,
              "case %zu: other modes", i);
        close(slave);
        close(master);
    }
}

/* A terminal that goes away ends the program. */
static void test_hangup(void) {
    write_chain("on");
    pid_t pid = start((const char *[]){"run", scratch_path(), CHAT, NULL});
    await("> ", 0);
    close(master);
    int status = 0, ended = 0;
    for (int i = 0; i < 1000 && !ended; i++, poll(NULL, 0, 10)) ended = waitpid(pid, &status, WNOHANG);
    CHECK(ended == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP, "%d, %x", ended, status);
    if (ended != pid) kill(pid, SIGKILL);
    master = -1;
}

/* Ctrl-Z gives the shell its modes, and fg the line as it was. */
static void test_suspend(void) {
    char script[600];
    write_chain("on");
    snprintf(script, sizeof script,
             "set -m; %s %s -i -n 3 --temp 0; stty -a | tr ' ' '\\n' | grep -x -e '.*icanon'; fg", run_path(),
             scratch_path());
    pid_t pid = start_with("/bin/sh", (const char *[]){"sh", "-c", script, NULL}, NULL);
    size_t at = await("> ", 0);
    type("xon\x02\x02\x1a");
    at = await("icanon\r\n", at);
    CHECK(!strstr(seen, "-icanon"), "the shell has other modes");
    at = await("> ", at);
    CHECK(is_raw(), "fg");
    type("\x01\x04\r"); /* x goes */
    at = await("> ", await("ononon\r\n", at));
    type("\004");
    int status = finish(pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

/* Ctrl-Z where it is not to stop anything; a stop by somebody else; and a terminal that goes while nobody is to hear of it. */
static void test_ignored(void) {
    write_chain("on");
    signal(SIGTSTP, SIG_IGN), signal(SIGHUP, SIG_IGN);
    pid_t pid = start((const char *[]){"run", scratch_path(), CHAT, "--color", "off", NULL});
    signal(SIGTSTP, SIG_DFL), signal(SIGHUP, SIG_DFL);
    size_t at = await("> ", 0);
    type("abc");
    at = await("> abc", at);
    type("\x1a");
    at = await("> abc\r> abc", await("\033[?2004l", at));
    kill(pid, SIGCONT);
    at = await("> abc\r> abc", await("\033[?2004h", at));
    CHECK(is_raw(), "SIGCONT");
    close(master);
    int status = 0, ended = 0;
    for (int i = 0; i < 1000 && !ended; i++, poll(NULL, 0, 10)) ended = waitpid(pid, &status, WNOHANG);
    CHECK(ended == pid && WIFEXITED(status), "%d, %x", ended, status);
    if (ended != pid) kill(pid, SIGKILL);
}

/* Where stderr is no terminal lines are as the terminal has them, and nothing asks for them. */
static void test_stderr_elsewhere(void) {
    char script[600];
    write_chain("<|im_start|>");
    snprintf(script, sizeof script, "%s %s --chat --temp 0 -t 1 2>%s", run_path(), scratch_path(),
             scratch_file("err"));
    pid_t pid = start_with("/bin/sh", (const char *[]){"sh", "-c", script, NULL}, NULL);
    CHECK(!strstr(seen, "> "), "%s", seen);
    type("b\r");
    await("\033[2m<think>hmm</think>\033[0myes\r\n", 0);
    type("\004");
    CHECK(ends_well(pid), "Ctrl-D");
    CHECK(!*text_of(scratch_file("err")), "%s", text_of(scratch_file("err")));
}

/* Another size draws the line anew. */
static void test_resize(void) {
    struct winsize size = {.ws_row = 20, .ws_col = 12};
    write_chain("on");
    pid_t pid = start((const char *[]){"run", scratch_path(), "--chat", "-t", "2", "--color", "off", NULL});
    size_t at = await("> ", 0);
    type("abcdefghijklmn");
    at = await("> abcdefghijklmn\r> abcdefghijklmn", at);
    CHECK(ioctl(master, TIOCSWINSZ, &size) == 0, "no size");
    at = await("\033[1A\r\033[J> abcdefghij\r\r\nklmn\rklmn", at);
    kill(pid, SIGWINCH); /* which the pool's threads do not take away from the one that reads */
    at = await("\033[1A\r\033[J> abcdefghij\r\r\nklmn\rklmn", at);
    type("\003\003");
    CHECK(is_interrupted(pid), "Ctrl-C");
}

/* Without a terminal that can, lines are as the terminal has them, and commands are commands. */
static void test_dumb(void) {
    static const char *const names[] = {"dumb", "", NULL};
    for (size_t i = 0; i < COUNT(names); i++) {
        write_chain("<|im_start|>");
        if (names[i])
            setenv("TERM", names[i], 1);
        else
            unsetenv("TERM");
        pid_t pid = start((const char *[]){"run", scratch_path(), CHAT, "--color", "off", NULL});
        size_t at = await("> ", 0);
        CHECK(!is_raw(), "keys one by one");
        type("bc\x7f\r");
        at = await("> ", await("yes\r\n", at));
        type("/halp\n");
        at = await("> ", await("there is no command /halp", at));
        type("/bye\n");
        at = await("/bye", at);
        CHECK(ends_well(pid), "/bye");
        CHECK(!memchr(seen, '\033', n_seen), "%s", seen);
    }
    setenv("TERM", "xterm", 1);
}

/* Typed text has a colour, where colours are wanted; what goes into a file has none. */
static void test_colours(void) {
    static const struct {
        const char *variable, *option;
        bool coloured;
    } cases[] = {{NULL, NULL, true}, {"1", NULL, false},   {"", NULL, true},     {NULL, "off", false},
                 {"1", "on", true},  {NULL, "auto", true}, {"1", "--echo", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].variable) setenv("NO_COLOR", cases[i].variable, 1);
        const char *arguments[] = {
            "run",           model, GO_ON, "-n", "2", "-p", "The Eiffel", cases[i].option ? "--color" : NULL,
            cases[i].option, NULL};
        pid_t pid = start(arguments);
        size_t at = await("Tower", 0);
        CHECK((strstr(seen, "\033[1;32mThe Eiffel\033[0m Tower") != NULL) == cases[i].coloured, "%zu: %s", i,
              seen);
        at = await("> ", at);
        type("x");
        await(cases[i].coloured ? "> \033[1;32mx\033[0m" : "> x", at);
        type("\003\003");
        finish(pid);
        pid = start_with(run_path(), arguments, scratch_file("out"));
        await("> ", 0);
        type("\004");
        CHECK(ends_well(pid), "case %zu", i);
        bool forced = cases[i].coloured && cases[i].option && strcmp(cases[i].option, "auto") != 0;
        CHECK((strchr(text_of(scratch_file("out")), '\033') != NULL) == forced, "%zu: %s", i,
              text_of(scratch_file("out")));
        unsetenv("NO_COLOR");
    }
    write_chain("<|im_start|>");
    pid_t pid = start((const char *[]){"run", scratch_path(), CHAT, "--color", "off", "-p", "b", NULL});
    await("<think>hmm</think>yes\r\n", 0);
    CHECK(ends_well(pid), "--chat");
}

int main(void) {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    scratch_begin();
    RUN(test_lines);
    RUN(test_goes_on);
    RUN(test_commands);
    RUN(test_saves_thoughts);
    RUN(test_save_fails);
    RUN(test_waits);
    RUN(test_interrupts);
    RUN(test_typed_ahead);
    RUN(test_interrupted_reading);
    RUN(test_modes);
    RUN(test_hangup);
    RUN(test_suspend);
    RUN(test_ignored);
    RUN(test_stderr_elsewhere);
    RUN(test_resize);
    RUN(test_dumb);
    RUN(test_colours);
    scratch_end();
    return test_end();
}
