/* SPDX-License-Identifier: MIT
 *
 * How to write tests. A folder of tests is one binary; each test runs in a process of its own with a time limit, and
 * the binary writes TAP. After a test its process is checked: no descriptor and no thread may be left.
 *
 *     TEST(ring_reuses_oldest_first) { ... CHECK(...); }
 *     TEST_TIMEOUT(storm, 120) { ... }
 *     ROLE(writer) { ... return 0; }
 *
 * A check that fails ends the process at once, so the lines after it may rely on it. To run one test under a debugger:
 * `gdb --args BINARY --no-fork NAME`.
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

#define TEST_SECONDS 20 /* the limit of TEST in seconds; the harness allows three times as much (see test_patience) */

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

/* In a test: its descriptors at the end may differ from those at the beginning. */
#define TEST_KEEPS_FDS() test_keeps_fds()

/* In a test: the process's resources at this point are the baseline for the leak check. */
#define TEST_BEGINS_HERE() test_begins_here()

/* In a test: ends it as skipped, with a reason; arguments as of printf. */
#define SKIP(...) test_skip(__VA_ARGS__)

/* ---- checks, for the test and for its roles ---- */

#define CHECK(condition) ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "%s is false", #condition))
#define FAIL(...)        test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* For integers and pointers of any two types. */
#define CHECK_EQ(a, b) TEST_COMPARE(a, b, '=')
#define CHECK_NE(a, b) TEST_COMPARE(a, b, '!')
#define CHECK_LE(a, b) TEST_COMPARE(a, b, '<')
#define CHECK_GE(a, b) TEST_COMPARE(a, b, '>')
#define CHECK_NEAR(a, b, tolerance) \
    test_check_near(__FILE__, __LINE__, #a, (double)(a), #b, (double)(b), (double)(tolerance))

#define CHECK_STR(a, b)       test_check_str(__FILE__, __LINE__, #a, (a), #b, (b))
#define CHECK_HAS(text, part) test_check_has(__FILE__, __LINE__, #text, (text), (part))
#define CHECK_MEM(a, b, size) test_check_mem(__FILE__, __LINE__, #a, (a), #b, (b), (size))

/* For results of Sluice. CHECK_SAYS also looks for a word in the error message. */
#define CHECK_OK(call)                   CHECK_RESULT(call, 0)
#define CHECK_RESULT(call, expected)     test_check_result(__FILE__, __LINE__, #call, (call), (expected), NULL)
#define CHECK_SAYS(call, expected, word) test_check_result(__FILE__, __LINE__, #call, (call), (expected), (word))

/* ---- where ---- */

/* A fresh folder for this test, removed after it. Sets SLUICE_DIR to it, and returns the same one on each call; a role
 * gets its test's folder. Before the first call SLUICE_DIR is not set and XDG_RUNTIME_DIR is inside the folder, so no
 * test sees the user's channels. SLUICE_CACHE is beside the binary, for all of its tests. */
const char *test_dir(void);

/* The path of this binary, for a command line that starts it: `BINARY --role NAME ARGS`. */
const char *test_program(void);

/* Mounts a tmpfs over a folder with options such as "size=64k,nr_inodes=4,mode=700", for this process and those that it
 * starts. Call it before the test has threads. Skips the test where mounting is not permitted. */
void test_small_disk(const char *folder, const char *options);

/* Memory shared by the test and all its roles, zeroed at first; each must ask for the same size. */
void *test_shared_memory(size_t size);

/* ---- how much, how fast ---- */

/* `count` times SLUICE_TEST_SCALE (default 1), at least 1: for loops whose length is a choice. */
long test_scale(long count);

/* How much slower this build may be: 1, or 4 with a sanitizer. */
double test_slowness(void);

/* The factor by which limits are extended before a test counts as hanging: 3, as the machine may be busy, times
 * test_slowness. */
double test_patience(void);

/* Waits until `condition` holds; checks it every millisecond. */
#define CHECK_SOON(condition, seconds) \
    do { \
        int64_t test_until = test_now() + (int64_t)((seconds)*test_patience() * 1e9); \
        while (!(condition)) { \
            if (test_now() > test_until) \
                test_fail(__FILE__, __LINE__, "%s is still false after %g s", #condition, \
                          (double)(seconds)*test_patience()); \
            test_nap(1000000); \
        } \
    } while (0)

int64_t test_now(void); /* CLOCK_MONOTONIC, ns */
void test_nap(int64_t ns);

/* ---- records ---- */

/* Opens the JSON object of a long run, in the file named by the environment variable `variable`, or on stdout. It
 * begins with the machine, the commit (SLUICE_COMMIT) and the command (SLUICE_COMMAND). The caller writes the rest,
 * beginning with a key. */
FILE *test_record(const char *variable);
void test_record_end(FILE *file);

/* ---- other processes ---- */

/* A role is a process of its own: this binary, started again. argv[0] is the role's name, argv[1] the first argument.
 * The test reads its stdout; its stderr is the test's. Roles of different files may have the same name. It is killed
 * when the thread that started it ends. */
#define ROLE(name) \
    static int role_##name(int argc, char **argv); \
    static struct role_entry role_entry_##name = { .label = #name, .file = __FILE__, .run = role_##name }; \
    __attribute__((constructor)) static void role_register_##name(void) \
    { \
        role_register(&role_entry_##name); \
    } \
    static int role_##name(__attribute__((unused)) int argc, __attribute__((unused)) char **argv)

struct child {
    pid_t pid;   /* 0: it has ended and was waited for */
    int in, out; /* its stdin and stdout; -1: closed */
    int status;  /* after its end: the exit status, or the negated signal number */
    char label[48];
    char text[2048]; /* output that was not read yet */
    size_t text_size;
};

/* Starts a role with arguments, the last one NULL: role_start("writer", "camera", NULL). Children that still run at the
 * end of the test are killed. */
#define role_start(...) role_start_at(__FILE__, __VA_ARGS__)

/* The same for any program; the last element of argv is NULL. */
struct child child_start(const char *const *argv);

/* Sends a line to its stdin. Fails the test if the child is gone. */
void child_send(struct child *child, const char *line);

/* The next line of its stdout must be `line`, and arrive in time. */
#define child_expect(child, line, seconds) child_expect_at(__FILE__, __LINE__, (child), (line), (seconds))

/* The next line of its stdout, valid until the next call for this child; NULL at the end of its output. Fails the test
 * at the time limit. */
#define child_line(child, seconds) child_line_at(__FILE__, __LINE__, (child), (seconds))

/* Sends a signal; after SIGKILL it also waits for the end. */
void child_kill(struct child *child, int signal_number);

/* Waits for the end and returns the status (see struct child). Fails the test at the time limit. */
#define child_wait(child, seconds) child_wait_at(__FILE__, __LINE__, (child), (seconds))

/* True if it has ended; child->status is then set. */
bool child_ended(struct child *child);

/* Closes its stdin, waits for the end and checks that the status is 0: for a role that reads lines until there are no
 * more. */
#define role_stop(child) role_stop_at(__FILE__, __LINE__, (child))

/* In a role: returns the next line of stdin, NULL at the end; prints a line to stdout. */
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

#define TEST_COMPARE(a, b, how) test_check_int(__FILE__, __LINE__, #a, TEST_INTEGER(a), #b, TEST_INTEGER(b), (how))
/* Fractions would be truncated silently, so they do not compile; use CHECK_NEAR. */
#define TEST_INTEGER(x) _Generic((x), float : (void)0, double : (void)0, long double : (void)0, default : (intmax_t)(x))

void test_register(struct test_entry *entry);
void role_register(struct role_entry *entry);
void test_keeps_fds(void);
void test_begins_here(void);
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
void test_check_int(const char *file, int line, const char *a_text, intmax_t a, const char *b_text, intmax_t b,
                    char how);
void test_check_near(const char *file, int line, const char *a_text, double a, const char *b_text, double b,
                     double tolerance);
void test_check_str(const char *file, int line, const char *a_text, const char *a, const char *b_text, const char *b);
void test_check_has(const char *file, int line, const char *what, const char *text, const char *part);
void test_check_mem(const char *file, int line, const char *a_text, const void *a, const char *b_text, const void *b,
                    size_t size);
void test_check_result(const char *file, int line, const char *call, int result, int expected, const char *word);
struct child role_start_at(const char *file, const char *role, ...) __attribute__((sentinel));
void child_expect_at(const char *file, int line, struct child *child, const char *text, double seconds);
const char *child_line_at(const char *file, int line, struct child *child, double seconds);
int child_wait_at(const char *file, int line, struct child *child, double seconds);
void role_stop_at(const char *file, int line, struct child *child);

#endif
