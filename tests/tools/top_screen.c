/* SPDX-License-Identifier: MIT
 *
 * sluice top in a real terminal: tmux shows the screen and types keys, like a user.
 */
#include "kit.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/sluice.h>

#define PATIENCE 30 /* s */

/* ---- tmux ---- */

static char socket_path[256];
static struct child server;

static void tmux(const char *format, ...)
{
    char line[2048];
    size_t used = (size_t)snprintf(line, sizeof line, "tmux -u -S '%s' ", socket_path);
    va_list list;
    va_start(list, format);
    vsnprintf(line + used, sizeof line - used, format, list);
    va_end(list);
    if (system(line) != 0)
        FAIL("%s", line);
}

/* The output of tmux; valid until the next call. */
static const char *ask_tmux(const char *arguments)
{
    static char text[65536];
    char line[512];
    snprintf(line, sizeof line, "tmux -u -S '%s' %s 2>&1", socket_path, arguments);
    FILE *answer = popen(line, "r");
    CHECK(answer != NULL);
    text[fread(text, 1, sizeof text - 1, answer)] = 0;
    pclose(answer);
    return text;
}

static const char *screen(void)
{
    return ask_tmux("capture-pane -p");
}

static bool seen(const char *text)
{
    return strstr(screen(), text) != NULL;
}

/* The value of a tmux format. */
static bool is_so(const char *format, const char *expected)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "display -p '%s'", format);
    const char *said = ask_tmux(arguments);
    size_t size = strlen(expected);
    return strncmp(said, expected, size) == 0 && strcmp(said + size, "\n") == 0;
}

static bool stands_above(const char *one, const char *other)
{
    const char *at = screen(), *above = strstr(at, one), *below = strstr(at, other);
    return above && below && above < below;
}

static void wait_for(const char *text)
{
    int64_t until = test_now() + (int64_t)(PATIENCE * test_slowness() * 1e9);
    while (!seen(text)) {
        if (test_now() > until)
            FAIL("not on the screen: '%s'\n%s", text, screen());
        test_nap(20000000);
    }
}

static void wait_until_gone(const char *text)
{
    int64_t until = test_now() + (int64_t)(PATIENCE * test_slowness() * 1e9);
    while (seen(text)) {
        if (test_now() > until)
            FAIL("still on the screen: '%s'\n%s", text, screen());
        test_nap(20000000);
    }
}

/* Starts a terminal with a shell; the server ends with this test. */
static void open_terminal(unsigned width, unsigned height)
{
    if (!has_program("tmux"))
        SKIP("tmux is not installed");
    if (!has_program("bash"))
        SKIP("bash is not installed");
    if (!getenv("SLUICE_COMMAND"))
        SKIP("SLUICE_COMMAND does not say where the command is");
    snprintf(socket_path, sizeof socket_path, "%s", in_dir("tmux"));
    setenv("LC_ALL", "C.UTF-8", 1);
    unsetenv("TMUX");
    unsetenv("NO_COLOR");
    FILE *profile = fopen(in_dir("profile"), "wb");
    CHECK(profile && fputs("PS1='ready$ '\n", profile) >= 0 && fclose(profile) == 0);
    server = child_start((const char *const[]){ "tmux", "-u", "-D", "-S", socket_path, "-f", "/dev/null", NULL });
    CHECK_SOON(access(socket_path, F_OK) == 0, PATIENCE);
    tmux("new-session -d -x %u -y %u 'exec bash --rcfile %s -i'", width, height, in_dir("profile"));
    wait_for("ready$");
}

static void type(const char *keys)
{
    tmux("send-keys %s", keys);
}

static void start_top(const char *arguments)
{
    type("'clear; echo was here' Enter");
    wait_for("was here");
    tmux("send-keys \"%s top %s " NATIVE_QUOTED " 2>%s\" Enter", getenv("SLUICE_COMMAND"), arguments, in_dir("errors"));
    wait_for("sluice top");
}

/* Checks that the previous screen is back, with a cursor and a working shell, and that nothing was printed to stderr,
 * for example by a sanitizer. */
static void check_restored(void)
{
    wait_until_gone("CHANNEL");
    wait_for("was here");
    CHECK_SOON(is_so("#{pane_current_command}", "bash"), PATIENCE);
    CHECK_SOON(is_so("#{alternate_on} #{cursor_flag} #{wrap_flag}", "0 1 1"), PATIENCE);
    type("'stty -a' Enter");
    wait_for(" icanon");
    wait_for(" echo ");
    CHECK(!seen("-icanon") && !seen("-echo ") && !seen("-isig") && !seen("-ixon ") && !seen("-icrnl"));
    char *errors = read_all(in_dir("errors"), NULL);
    CHECK_STR(errors, "");
    free(errors);
}

/* The process of sluice top: the only child of the shell in the terminal. */
static pid_t top_pid(void)
{
    char path[64];
    int shell = atoi(ask_tmux("display -p '#{pane_pid}'"));
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", shell, shell);
    char *text = read_all(path, NULL);
    pid_t pid = atoi(text);
    free(text);
    CHECK_GE(pid, 2);
    return pid;
}

/* ---- keys and pages ---- */

TEST_TIMEOUT(screen_sorts_filters_and_opens, 120)
{
    static struct program fast, slow;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;
    char pid[32];
    player_start(&slow, "alpha", "--pattern", "--size", "64x48", "--fps", "5");
    player_start(&fast, "beta", "--pattern", "--size", "32x32", "--fps", "50");
    params.name = "beta";
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = PATIENCE * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, PATIENCE * SLUICE_S, &frame));
    open_terminal(160, 24);
    start_top("--interval 0.2");
    wait_for("2 live");
    wait_for("▇");
    CHECK(seen("CHANNEL▲") && stands_above("alpha", "beta"));
    type("'>' '>'");
    wait_for("FPS▼");
    CHECK_SOON(stands_above("beta", "alpha"), PATIENCE); /* a delayed writer may have any rate for a moment */
    type("r");
    wait_for("FPS▲");
    CHECK_SOON(stands_above("alpha", "beta"), PATIENCE);
    type("/ e t a");
    wait_for("filter: eta_");
    wait_until_gone("alpha");
    type("Enter");
    wait_for("filter 'eta'");
    type("Home Enter"); /* beta */
    wait_for("session");
    snprintf(pid, sizeof pid, "%d  in order", (int)getpid());
    wait_for(pid);
    wait_for("32x32 rgba");
    wait_for("leased: ");
    wait_for("1 of at most 64");
    type("'?'");
    wait_for("columns: channels");
    type("x Escape"); /* closes the help, then the channel */
    wait_for("filter 'eta'");
    type("Escape");
    wait_for("alpha");
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    sluice_reader_close(&reader);
    type("q");
    check_restored();
    child_kill(&server, SIGKILL);
    CHECK_EQ(program_end(&slow, SIGTERM), 0);
    CHECK_EQ(program_end(&fast, SIGTERM), 0);
}

/* The words on the screen, without line breaks. */
static bool says(const char *words)
{
    static char text[65536];
    size_t used = 0;
    for (const char *at = screen(); *at && used + 1 < sizeof text; at++)
        if (!strchr(" \n", *at) || (used && text[used - 1] != ' '))
            text[used++] = *at == '\n' ? ' ' : *at;
    text[used] = 0;
    return strstr(text, words) != NULL;
}

TEST_TIMEOUT(screen_help_is_whole_however_narrow, 120)
{
    static const unsigned widths[] = { 80, 40 };
    test_dir();
    open_terminal(100, 60);
    start_top("--interval 0.2");
    wait_for("no channels");
    type("'?'");
    wait_for("keys");
    for (int i = 0; i < 2; i++) {
        tmux("resize-window -x %u -y 60", widths[i]);
        CHECK_SOON(says("reverse the order / show only names that contain a text or match a pattern such as cam*; Esc "
                        "shows all a show"),
                   PATIENCE);
        CHECK_SOON(says("up, down, pages, Home, End choose a channel, or scroll its readers Enter open"), PATIENCE);
    }
    type("x q");
    wait_for("ready$"); /* the narrower terminal keeps no more of the previous screen */
    child_kill(&server, SIGKILL);
}

TEST_TIMEOUT(screen_shows_what_happens_to_writers, 120)
{
    static struct program victim, again, stuck;
    player_start(&victim, "victim", "--pattern", "--size", "64x48");
    player_start(&stuck, "stopped", "--pattern", "--size", "64x48");
    open_terminal(120, 24);
    start_top("--interval 0.2");
    wait_for("2 live");
    CHECK_EQ(program_end(&victim, SIGKILL), -SIGKILL);
    wait_for("the writer died; the name may be reused");
    int status;
    kill(stuck.pid, SIGSTOP);
    CHECK_EQ(waitpid(stuck.pid, &status, WUNTRACED), stuck.pid);
    wait_for("is stopped");
    wait_for("0 live, 1 stuck, 1 dead");
    type("Home Enter");
    wait_for("below is its last answer");
    kill(stuck.pid, SIGCONT);
    wait_until_gone("what follows");
    type("Escape");
    player_start(&again, "victim", "--pattern", "--size", "32x32");
    wait_for("2 live");
    CHECK_EQ(program_end(&again, SIGTERM), 0); /* closes: the row disappears */
    wait_until_gone("victim");
    type("Enter");
    wait_for("wire version");
    CHECK_EQ(program_end(&stuck, SIGTERM), 0);
    wait_for("closed by its writer");
    type("Escape");
    wait_for("no channels");
    type("C-c");
    check_restored();
    child_kill(&server, SIGKILL);
}

TEST_TIMEOUT(screen_follows_its_size, 120)
{
    static struct program player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    open_terminal(170, 24);
    start_top("--interval 0.5");
    wait_for("WRITER");
    wait_for("FPS HISTORY");
    tmux("resize-window -x 60 -y 8");
    wait_until_gone("WRITER");
    wait_for("DROPS");
    wait_until_gone("FPS HISTORY");
    tmux("resize-window -x 20 -y 4");
    wait_until_gone("DROPS");
    wait_for("camera");
    tmux("resize-window -x 5 -y 1");
    wait_until_gone("camera");
    tmux("resize-window -x 170 -y 24");
    wait_for("WRITER");
    wait_for("live");
    type("q");
    check_restored();
    child_kill(&server, SIGKILL);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST_TIMEOUT(screen_pauses_and_changes_its_interval, 120)
{
    static struct program player;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    open_terminal(120, 10);
    start_top("");
    wait_for("every 1 s");
    type("+");
    wait_for("every 2 s");
    type("- - -");
    wait_for("every 0.2 s");
    wait_for("camera");
    type("p");
    wait_for("PAUSED");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    test_nap(1000000000);
    CHECK(seen("camera"));
    type("p");
    wait_for("no channels");
    child_kill(&server, SIGKILL);
}

/* ---- every way out ---- */

TEST_TIMEOUT(screen_is_put_back_on_every_way_out, 120)
{
    static const int signals[] = { SIGTERM, SIGHUP, SIGSEGV, SIGABRT, SIGQUIT };
    open_terminal(120, 30);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        start_top("");
        wait_for("no channels");
        kill(top_pid(), signals[i]);
        check_restored();
    }
    child_kill(&server, SIGKILL);
}

TEST_TIMEOUT(screen_stops_and_goes_on, 120)
{
    open_terminal(120, 30);
    start_top("");
    wait_for("no channels");
    type("C-z");
    wait_for("Stopped");
    check_restored();
    type("fg Enter");
    wait_for("no channels");
    pid_t pid = top_pid();
    kill(pid, SIGSTOP); /* cannot be caught: the terminal is set up again after fg */
    wait_for("Stopped");
    type("fg Enter");
    wait_for("no channels");
    type("q");
    check_restored();
    child_kill(&server, SIGKILL);
}

TEST_TIMEOUT(screen_without_colours_and_utf8, 60)
{
    static struct program player, other;
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    player_start(&other, "depth", "--pattern", "--size", "64x48"); /* not selected, so in colours */
    open_terminal(120, 10);
    start_top("--interval 0.2");
    wait_for("depth");
    wait_for("▇");
    CHECK_SOON(strstr(ask_tmux("capture-pane -p -e"), "\033[32m"), PATIENCE);
    type("q");
    check_restored();
    type("'export NO_COLOR=1 LC_ALL=C' Enter");
    start_top("--interval 0.2");
    wait_for("+");
    CHECK(seen("CHANNEL^") && !seen("▇"));
    const char *text = ask_tmux("capture-pane -p -e");
    CHECK(!strstr(text, "\033[32m") && strstr(text, ";7m"));
    type("q");
    check_restored();
    type("'export TERM=dumb' Enter");
    tmux("send-keys \"clear; %s top --interval 0.1 " NATIVE_QUOTED "\" Enter", getenv("SLUICE_COMMAND"));
    wait_for("WRITER"); /* prints tables */
    CHECK(is_so("#{alternate_on}", "0"));
    type("C-c");
    child_kill(&server, SIGKILL);
    CHECK_EQ(program_end(&other, SIGTERM), 0);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* ---- many ---- */

#define MANY 200

static void raise_limit(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

ROLE(many_writers)
{
    static sluice_writer *writers[MANY];
    struct sluice_format format = SLUICE_FORMAT_INIT;
    const int64_t shape[1] = { 64 };
    char name[32];
    raise_limit();
    CHECK_OK(sluice_format_add_tensor(&format, "x", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, shape));
    for (int i = 0; i < MANY; i++) {
        struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
        snprintf(name, sizeof name, "many-%03d", i);
        params.name = name;
        params.format = &format;
        if (sluice_writer_open(&writers[i], &params) != SLUICE_OK) {
            role_say("%s", sluice_last_error());
            return 1;
        }
    }
    role_say("here");
    for (;;) {
        for (int i = 0; i < MANY; i++) {
            struct sluice_frame frame;
            if (sluice_writer_begin(writers[i], 0, &frame) == SLUICE_OK)
                sluice_writer_commit(writers[i], &frame, SLUICE_ON_CPU);
        }
        test_nap(50000000);
    }
}

ROLE(many_readers)
{
    sluice_reader *readers[SLUICE_MAX_READERS];
    struct sluice_frame frame;
    raise_limit();
    for (int i = 0; i < SLUICE_MAX_READERS; i++) {
        struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
        params.name = "many-000";
        params.mode = i % 2 ? SLUICE_IN_ORDER : SLUICE_NEWEST;
        if (sluice_reader_open(&readers[i], &params) != SLUICE_OK) {
            role_say("%s", sluice_last_error());
            return 1;
        }
    }
    role_say("here");
    for (;;) {
        for (int i = 0; i < SLUICE_MAX_READERS; i++)
            if (sluice_reader_acquire(readers[i], SLUICE_ON_CPU, 0, &frame) == SLUICE_OK)
                sluice_reader_release(readers[i], &frame, SLUICE_ON_CPU);
        test_nap(10000000);
    }
}

static int times_seen(const char *text)
{
    int times = 0;
    for (const char *at = screen(); (at = strstr(at, text)) != NULL; at++)
        times++;
    return times;
}

/* A command that writes many.json. */
static bool look_says(const char *command, const char *expression)
{
    CHECK_EQ(system(command), 0);
    char *text = read_all(in_dir("many.json"), NULL);
    bool says = json_says(text, expression);
    free(text);
    return says;
}

TEST_TIMEOUT(screen_of_many_channels_and_readers, 180)
{
    char line[1024];
    struct rlimit limit;
    test_dir();
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 4096)
        SKIP("only %lu descriptors are allowed", (unsigned long)limit.rlim_max);
    struct child writers = role_start("many_writers", NULL);
    child_expect(&writers, "here", 30);
    struct child readers = role_start("many_readers", NULL);
    child_expect(&readers, "here", 30);
    open_terminal(150, 80);
    snprintf(line, sizeof line, "%s top --once --json " NATIVE_QUOTED " > %s", getenv("SLUICE_COMMAND"),
             in_dir("many.json"));
    CHECK_SOON(look_says(line, "[c['name'] for c in d['channels']] == ['many-%03d' % i for i in range(200)] and "
                               "all(c['state'] == 'live' and c['fps'] > 0 for c in d['channels']) and "
                               "[len(c['readers']) for c in d['channels']] == [64] + 199 * [0] and "
                               "all(r['fps'] > 0 for r in d['channels'][0]['readers'])"),
               20);
    start_top("");
    wait_for("200 live");
    type("End");
    wait_for("many-199");
    CHECK(!seen("many-000"));
    type("Home Enter");
    wait_for("64 of at most 64");
    snprintf(line, sizeof line, "%d", (int)readers.pid);
    CHECK_SOON(times_seen(line) == 64, PATIENCE); /* the terminal draws the rows one by one */
    type("q");
    check_restored();
    child_kill(&server, SIGKILL);
    child_kill(&readers, SIGKILL);
    child_kill(&writers, SIGKILL);
}
