/* SPDX-License-Identifier: MIT
 *
 * The terminal: its modes, size and keys, and its signals.
 */
#include "screen.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "../common/term.h"

#define ESCAPE_TIMEOUT 50 /* ms; the rest of a key's escape sequence arrives sooner */

#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

static const int fatal[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGQUIT };
#define FATAL_COUNT (sizeof fatal / sizeof fatal[0])

static struct termios before;
static _Atomic bool entered, resized, suspended, continued; /* atomic: any thread may get a signal */
static int news[2];                                         /* a pipe; a byte means that there is something to draw */
static char typed[64];
static size_t typed_count;

bool screen_possible(const char **why)
{
    const char *term = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        *why = "not a terminal";
    else if (!term || !term[0] || strcmp(term, "dumb") == 0)
        *why = "TERM is not set, or \"dumb\"";
    else
        return true;
    return false;
}

bool screen_open(struct canvas *canvas)
{
    const char *none = getenv("NO_COLOR");
    setlocale(LC_CTYPE, "");
    canvas->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    canvas->colour = !none || !none[0];
    canvas->escapes = true;
    return pipe2(news, O_CLOEXEC | O_NONBLOCK) == 0;
}

void screen_close(void)
{
    close(news[0]);
    close(news[1]);
}

void screen_news(void)
{
    (void)!write(news[1], "", 1);
}

/* ---- signals ---- */

static void on_signal(int signal)
{
    if (signal == SIGWINCH)
        resized = true;
    else if (signal == SIGTSTP)
        suspended = true;
    else
        continued = true;
}

/* Restores the terminal; async-signal-safe. */
static void restore_terminal(void)
{
    if (!entered)
        return;
    entered = false;
    (void)!write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void on_fatal(int signal)
{
    restore_terminal();
    raise(signal); /* SA_RESETHAND restored its default action */
}

static void catch_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    struct sigaction last = { .sa_handler = on_fatal, .sa_flags = SA_RESETHAND | SA_NODEFER };
    sigaction(SIGWINCH, &action, NULL);
    sigaction(SIGTSTP, &action, NULL);
    sigaction(SIGCONT, &action, NULL);
    for (size_t i = 0; i < FATAL_COUNT; i++)
        sigaction(fatal[i], &last, NULL);
}

/* ---- entering and leaving ---- */

static void write_all(const char *bytes, size_t size)
{
    while (size && !stop_asked()) {
        ssize_t wrote = write(STDOUT_FILENO, bytes, size);
        if (wrote > 0) {
            bytes += wrote;
            size -= (size_t)wrote;
        } else if (wrote < 0 && errno == EAGAIN) {
            struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
            poll(&out, 1, 100);
        } else if (wrote < 0 && errno != EINTR) {
            return;
        }
    }
}

static bool take_terminal(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO); /* with ISIG, so that Ctrl-C and Ctrl-Z still send signals */
    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0)
        return false;
    entered = true;
    write_all(ENTER, sizeof ENTER - 1);
    return true;
}

bool screen_enter(void)
{
    static bool once;
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    if (!once)
        atexit(restore_terminal);
    once = true;
    stop_on_signals();
    catch_signals();
    return take_terminal();
}

void screen_leave(void)
{
    restore_terminal();
}

void screen_size(unsigned *width, unsigned *height)
{
    struct winsize size = { 0 };
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *width = size.ws_col ? size.ws_col : 80;
    *height = size.ws_row ? size.ws_row : 24;
}

void screen_show(const struct canvas *canvas)
{
    write_all(canvas->bytes, canvas->used);
}

/* Suspends the program as Ctrl-Z does by default, with the terminal restored. */
static void suspend(void)
{
    struct sigaction stop = { .sa_handler = SIG_DFL }, ours;
    sigset_t tstp;
    restore_terminal();
    sigemptyset(&tstp);
    sigaddset(&tstp, SIGTSTP);
    sigaction(SIGTSTP, &stop, &ours);
    raise(SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &tstp, NULL); /* stops here until SIGCONT */
    pthread_sigmask(SIG_BLOCK, &tstp, NULL);
    sigaction(SIGTSTP, &ours, NULL);
    tcgetattr(STDIN_FILENO, &before); /* the shell may have changed it */
}

/* Acts on the signals received so far, while they are blocked; KEY_NONE if there were none. */
static int handle_signals(void)
{
    if (stop_asked())
        return KEY_STOP;
    if (suspended) {
        suspended = false;
        suspend();
        continued = true;
    }
    if (continued) {
        continued = false;
        return take_terminal() ? KEY_REDRAW : KEY_STOP;
    }
    if (resized) {
        resized = false;
        return KEY_REDRAW;
    }
    return KEY_NONE;
}

/* ---- keys ---- */

static const struct {
    const char *bytes;
    int key;
} sequences[] = {
    { "[A", KEY_UP },    { "OA", KEY_UP },       { "[B", KEY_DOWN },       { "OB", KEY_DOWN }, { "[C", KEY_RIGHT },
    { "OC", KEY_RIGHT }, { "[D", KEY_LEFT },     { "OD", KEY_LEFT },       { "[H", KEY_HOME }, { "OH", KEY_HOME },
    { "[1~", KEY_HOME }, { "[7~", KEY_HOME },    { "[F", KEY_END },        { "OF", KEY_END },  { "[4~", KEY_END },
    { "[8~", KEY_END },  { "[5~", KEY_PAGE_UP }, { "[6~", KEY_PAGE_DOWN }, { "OP", '?' },      { "[11~", '?' }, /* F1 */
};

/* The length of the sequence after an escape character; 0: incomplete. */
static size_t sequence_length(const char *bytes, size_t count)
{
    if (count < 2)
        return 0;
    if (bytes[0] == 'O')
        return 2;
    for (size_t i = 1; i < count; i++)
        if (bytes[i] >= 0x40 && bytes[i] <= 0x7e)
            return i + 1;
    return 0;
}

static void drop_typed(size_t count)
{
    typed_count -= count;
    memmove(typed, typed + count, typed_count);
}

/* The next key in the buffer; KEY_NONE: none, or incomplete. `timed_out`: the rest of a sequence will not arrive. */
static int typed_key(bool timed_out)
{
    if (typed_count == 0)
        return KEY_NONE;
    if (typed[0] != KEY_ESCAPE || (typed_count > 1 && typed[1] != '[' && typed[1] != 'O') ||
        (typed_count == 1 && timed_out)) {
        int key = (unsigned char)typed[0];
        drop_typed(1);
        return key == '\n' ? KEY_ENTER : key == '\b' ? KEY_BACKSPACE : key;
    }
    size_t length = sequence_length(typed + 1, typed_count - 1);
    if (length == 0 && (timed_out || typed_count == sizeof typed)) {
        typed_count = 0;
        return KEY_ESCAPE;
    }
    int key = KEY_NONE;
    for (size_t i = 0; length && i < sizeof sequences / sizeof sequences[0]; i++)
        if (strlen(sequences[i].bytes) == length && memcmp(sequences[i].bytes, typed + 1, length) == 0)
            key = sequences[i].key;
    if (length)
        drop_typed(length + 1);
    return key || !length ? key : typed_key(timed_out); /* skips an unknown key */
}

static bool read_typed(void)
{
    ssize_t got = read(STDIN_FILENO, typed + typed_count, sizeof typed - typed_count);
    if (got > 0)
        typed_count += (size_t)got;
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

static void take_news(void)
{
    char bytes[64];
    while (read(news[0], bytes, sizeof bytes) > 0)
        continue;
}

static void block_signals(sigset_t *previous)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    sigaddset(&blocked, SIGTSTP);
    sigaddset(&blocked, SIGCONT);
    sigaddset(&blocked, SIGWINCH);
    pthread_sigmask(SIG_BLOCK, &blocked, previous);
}

int screen_key(void)
{
    static const struct timespec escape_timeout = { .tv_nsec = ESCAPE_TIMEOUT * SLUICE_MS };
    for (;;) {
        int key = typed_key(false);
        if (key != KEY_NONE)
            return key;
        struct pollfd from[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = news[0], .events = POLLIN } };
        sigset_t previous;
        block_signals(&previous); /* so that none arrives between handle_signals and ppoll */
        key = handle_signals();
        int ready = key ? 0 : ppoll(from, 2, typed_count ? &escape_timeout : NULL, &previous);
        pthread_sigmask(SIG_SETMASK, &previous, NULL);
        if (key != KEY_NONE)
            return key;
        if (ready == 0 && (key = typed_key(true)) != KEY_NONE)
            return key;
        if (ready > 0 && from[0].revents && !read_typed())
            return KEY_STOP;
        if (ready > 0 && from[1].revents) {
            take_news();
            return KEY_NEWS;
        }
    }
}
