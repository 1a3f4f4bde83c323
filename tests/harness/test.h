/* SPDX-License-Identifier: MIT
 *
 * How tests are written. A folder of tests is one binary; each test runs in a process of its own with
 * a time limit, and the binary writes TAP. After a test its process is looked over: no descriptor and
 * no thread may be left.
 *
 *     TEST(ring_reuses_oldest_first) { ... CHECK(...); }
 *     TEST_TIMEOUT(storm, 120) { ... }
 *     ROLE(writer) { ... return 0; }
 *
 * A check that fails ends the process at once, so that what follows it may rely on it. Run one test
 * under a debugger by `gdb --args BINARY --no-fork NAME`.
 */
#ifndef TEST_H
#define TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <sluice/base.h>

/* ---- tests ---- */

#define TEST_SECONDS 20 /* the limit of TEST; three times as much is given, as of all limits here: see test_patience */

#define TEST(name) TEST_TIMEOUT(name, TEST_SECONDS)

#define TEST_TIMEOUT(name, limit) \
    static void test_##name(void); \
    static struct test_entry test_entry_##name = { \
        .label = #name, .file = __FILE__, .line = __LINE__, .seconds = (limit), .run = test_##name \
    }; \
    __attribute__((constructor)) static void test_register_##name(void) \
    { \
        test_register(&test_entry_##name); \
    } \
    static void test_##name(void)

/* In a test: it may end with descriptors that it did not begin with, or without some that it did. */
#define TEST_KEEPS_FDS() test_keeps_fds()

/* In a test: what its process has now counts as there before it. */
#define TEST_BEGINS_HERE() test_begins_here()

/* In a test: ends it, neither passed nor failed; printf's arguments. */
#define SKIP(...) test_skip(__VA_ARGS__)

/* ---- checks, for the test and for its roles ---- */

#define CHECK(condition) \
    ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "%s is false", #condition))
#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* Integers and pointers of any two types. */
#define CHECK_EQ(a, b) TEST_COMPARE(a, b, '=')
#define CHECK_NE(a, b) TEST_COMPARE(a, b, '!')
#define CHECK_LE(a, b) TEST_COMPARE(a, b, '<')
#define CHECK_GE(a, b) TEST_COMPARE(a, b, '>')
#define CHECK_NEAR(a, b, tolerance) \
    test_check_near(__FILE__, __LINE__, #a, (double)(a), #b, (double)(b), (double)(tolerance))

#define CHECK_STR(a, b) test_check_str(__FILE__, __LINE__, #a, (a), #b, (b))
#define CHECK_HAS(text, part) test_check_has(__FILE__, __LINE__, #text, (text), (part))
#define CHECK_MEM(a, b, size) test_check_mem(__FILE__, __LINE__, #a, (a), #b, (b), (size))

/* Results of Sluice. CHECK_SAYS also asks for a word in the sentence. */
#define CHECK_OK(call) CHECK_RESULT(call, 0)
#define CHECK_RESULT(call, expected) test_check_result(__FILE__, __LINE__, #call, (call), (expected), NULL)
#define CHECK_SAYS(call, expected, word) \
    test_check_result(__FILE__, __LINE__, #call, (call), (expected), (word))

/* ---- where ---- */

/* A fresh folder of this test's, and SLUICE_DIR from now on; removed after the test, whatever became
 * of it. The same one on each call; a role gets its test's. Before the first call SLUICE_DIR is not set
 * and XDG_RUNTIME_DIR lies inside, so no test sees channels of the user's. */
const char *test_dir(void);

/* This binary's path, for a command line that starts it: `BINARY --role NAME ARGS`. */
const char *test_program(void);

/* Mounts a tmpfs over a folder, with options as "size=64k,nr_inodes=4,mode=700": seen by this process and
 * those it starts, gone with them. Before the test makes threads. Skips the test where it may not be. */
void test_small_disk(const char *folder, const char *options);

/* Memory that the test and all its roles share, zero at first; all ask for the same size. */
void *test_board(size_t size);

/* ---- how much, how fast ---- */

/* `count` times SLUICE_TEST_SCALE (environment, 1 if not set), at least 1: for loops whose length is a
 * matter of patience. */
long test_scale(long count);

/* How much slower this build may be: 1, or 4 under a sanitizer. */
double test_slowness(void);

/* How many times a limit is given before something counts as hanging: 3, for what else the machine may do, and that many
 * times more in a slow build. */
double test_patience(void);

/* Waits until `condition` holds, looking every millisecond. */
#define CHECK_SOON(condition, seconds) \
    do { \
        int64_t test_until = test_now() + (int64_t)((seconds) * test_patience() * 1e9); \
        while (!(condition)) { \
            if (test_now() > test_until) \
                test_fail(__FILE__, __LINE__, "%s is still false after %g s", #condition, \
                          (double)(seconds) * test_patience()); \
            test_nap(1000000); \
        } \
    } while (0)

int64_t test_now(void); /* CLOCK_MONOTONIC, ns */
void test_nap(int64_t ns);

/* ---- records ---- */

/* Begins the JSON object of a long run, with what machine, commit (SLUICE_COMMIT) and command
 * (SLUICE_COMMAND) it is of, in the file that the environment's `variable` names; else it is printed. The
 * caller writes the rest, from a name on. */
FILE *test_record(const char *variable);
void test_record_end(FILE *file);

/* ---- other processes ---- */

/* What a role does: its own process, this binary started again. argv[0] is the role's name, argv[1] the
 * first argument given. Its stdout is read by the test, its stderr is the test's. A role may have the
 * name of one in another file. It is killed when the thread that started it ends. */
#define ROLE(name) \
    static int role_##name(int argc, char **argv); \
    static struct role_entry role_entry_##name = { .label = #name, .file = __FILE__, .run = role_##name }; \
    __attribute__((constructor)) static void role_register_##name(void) \
    { \
        role_register(&role_entry_##name); \
    } \
    static int role_##name(__attribute__((unused)) int argc, __attribute__((unused)) char **argv)

struct child {
    pid_t pid;   /* 0: ended, and waited for */
    int in, out; /* its stdin and stdout; -1: closed */
    int status;  /* once it ended: its exit status, or the number of the signal negated */
    char label[48];
    char text[2048]; /* what came and was not yet asked for */
    size_t text_size;
};

/* Starts a role with arguments, the last one NULL: role_start("writer", "camera", NULL). Children that
 * run at the end of the test are killed. */
#define role_start(...) role_start_at(__FILE__, __VA_ARGS__)

/* The same for any program; argv ends in NULL. */
struct child child_start(const char *const *argv);

/* A line to its stdin. Fails the test if the child is gone. */
void child_send(struct child *child, const char *line);

/* The next line of its stdout must be `line`, and come in time. */
#define child_expect(child, line, seconds) child_expect_at(__FILE__, __LINE__, (child), (line), (seconds))

/* The next line of its stdout, valid until the next call for this child; NULL at the end. Fails the
 * test if neither comes in time. */
#define child_line(child, seconds) child_line_at(__FILE__, __LINE__, (child), (seconds))

/* Sends a signal; after SIGKILL also waits for the end. */
void child_kill(struct child *child, int signal_number);

/* Waits for the end and returns its status (see struct child). Fails the test if it does not come. */
#define child_wait(child, seconds) child_wait_at(__FILE__, __LINE__, (child), (seconds))

/* Has it ended? Then child->status is set. */
bool child_ended(struct child *child);

/* Closes its stdin, waits for the end, and wants status 0: what a role does that reads lines until
 * there are none. */
#define role_stop(child) role_stop_at(__FILE__, __LINE__, (child))

/* In a role: the next line of stdin, NULL at the end; and a line to stdout. */
char *role_line(void);
void role_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- what the macros call ---- */

struct test_entry {
    const char *label, *file;
    int line, seconds;
    void (*run)(void);
    struct test_entry *next;
};

struct role_entry {
    const char *label, *file;
    int (*run)(int argc, char **argv);
    struct role_entry *next;
};

#define TEST_COMPARE(a, b, how) \
    test_check_int(__FILE__, __LINE__, #a, TEST_INTEGER(a), #b, TEST_INTEGER(b), (how))
/* Fractions would be cut off in silence, so they do not compile; CHECK_NEAR is for them. */
#define TEST_INTEGER(x) \
    _Generic((x), float: (void)0, double: (void)0, long double: (void)0, default: (intmax_t)(x))

void test_register(struct test_entry *entry);
void role_register(struct role_entry *entry);
void test_keeps_fds(void);
void test_begins_here(void);
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void test_check_int(const char *file, int line, const char *a_text, intmax_t a, const char *b_text,
                    intmax_t b, char how);
void test_check_near(const char *file, int line, const char *a_text, double a, const char *b_text, double b,
                     double tolerance);
void test_check_str(const char *file, int line, const char *a_text, const char *a, const char *b_text,
                    const char *b);
void test_check_has(const char *file, int line, const char *what, const char *text, const char *part);
void test_check_mem(const char *file, int line, const char *a_text, const void *a, const char *b_text,
                    const void *b, size_t size);
void test_check_result(const char *file, int line, const char *call, int result, int expected,
                       const char *word);
struct child role_start_at(const char *file, const char *role, ...) __attribute__((sentinel));
void child_expect_at(const char *file, int line, struct child *child, const char *text, double seconds);
const char *child_line_at(const char *file, int line, struct child *child, double seconds);
int child_wait_at(const char *file, int line, struct child *child, double seconds);
void role_stop_at(const char *file, int line, struct child *child);

#endif
