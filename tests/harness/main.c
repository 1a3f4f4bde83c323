/* SPDX-License-Identifier: MIT
 *
 * The main program of every test binary: selects tests, and runs them one by one or in parallel.
 */
#include <fnmatch.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/harness.h"

struct test_entry *harness_tests;
struct role_entry *harness_roles;

static const char usage[] =
    "usage: %s [--list] [--verbose] [--no-fork] [--jobs=N] [PATTERN...]\n"
    "  PATTERN    a test's name, its file, or FILE.NAME; * and ? stand for anything; !PATTERN leaves out\n"
    "  --list     prints the names\n"
    "  --verbose  shows what tests print, also when they pass\n"
    "  --jobs=N   runs N tests at a time, those that may take long first; default SLUICE_TEST_JOBS, or 1\n"
    "  --no-fork  runs the one test named in this process, for a debugger: no time limit\n";

void harness_id(const char *file, const char *label, char *id, size_t size)
{
    const char *slash = strrchr(file, '/');
    const char *base = slash ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    int length = dot ? (int)(dot - base) : (int)strlen(base);
    snprintf(id, size, "%.*s.%s", length, base, label);
}

/* Sorted by file and line, as the order of constructors is the linker's choice. */
void test_register(struct test_entry *entry)
{
    struct test_entry **at = &harness_tests;
    for (; *at; at = &(*at)->next) {
        int order = strcmp((*at)->file, entry->file);
        if (order > 0 || (order == 0 && (*at)->line > entry->line))
            break;
    }
    entry->next = *at;
    *at = entry;
}

void role_register(struct role_entry *entry)
{
    entry->next = harness_roles;
    harness_roles = entry;
}

static bool matches(const struct test_entry *entry, const char *pattern)
{
    char id[256];
    harness_id(entry->file, entry->label, id, sizeof id);
    if (!fnmatch(pattern, id, 0) || !fnmatch(pattern, entry->label, 0))
        return true;
    *strchr(id, '.') = 0; /* the file alone */
    return !fnmatch(pattern, id, 0);
}

static bool chosen(const struct test_entry *entry, char **patterns, int count)
{
    bool wanted = count == 0 || patterns[0][0] == '!'; /* all that no pattern excludes */

    for (int i = 0; i < count; i++) {
        bool out = patterns[i][0] == '!';
        if (matches(entry, patterns[i] + out))
            wanted = !out;
    }
    return wanted;
}

/* Each pattern must match a test, so that a mistyped name fails. */
static bool all_match(char **patterns, int count)
{
    for (int i = 0; i < count; i++) {
        const struct test_entry *entry = harness_tests;
        while (entry && !matches(entry, patterns[i] + (patterns[i][0] == '!')))
            entry = entry->next;
        if (!entry) {
            fprintf(stderr, "no test matches '%s'; --list shows the names\n", patterns[i]);
            return false;
        }
    }
    return true;
}

/* Inserts after tests with the same limit, which keep their order. */
static void insert(const struct test_entry **tests, int count, const struct test_entry *entry, bool longest_first)
{
    int at = count;
    for (; longest_first && at > 0 && tests[at - 1]->seconds < entry->seconds; at--)
        tests[at] = tests[at - 1];
    tests[at] = entry;
}

static int run_all(char **patterns, int count, int jobs, bool verbose)
{
    int total = 0, taken = 0;
    for (const struct test_entry *e = harness_tests; e; e = e->next)
        total += chosen(e, patterns, count);
    const struct test_entry **tests = calloc((size_t)total + 1, sizeof *tests);
    if (!total || !tests) {
        fprintf(stderr, total ? "no memory\n" : "this binary has no tests\n");
        free(tests);
        return 2;
    }
    for (const struct test_entry *e = harness_tests; e; e = e->next)
        if (chosen(e, patterns, count))
            insert(tests, taken++, e, jobs > 1);
    printf("TAP version 13\n1..%d\n", total);
    int failed = harness_run(tests, total, jobs, verbose);
    if (failed)
        printf("# %d of %d failed\n", failed, total);
    free(tests);
    return failed ? 1 : 0;
}

/* 0 if it is not a number of jobs. */
static int read_jobs(const char *text)
{
    char *end;
    long jobs = text && *text ? strtol(text, &end, 10) : 1;
    if (text && *text && *end)
        return 0;
    return jobs < 1 ? 0 : jobs > HARNESS_JOBS ? HARNESS_JOBS : (int)jobs;
}

static int list(char **patterns, int count)
{
    for (const struct test_entry *e = harness_tests; e; e = e->next) {
        char id[256];
        harness_id(e->file, e->label, id, sizeof id);
        if (chosen(e, patterns, count))
            puts(id);
    }
    return 0;
}

/* The test with exactly this id, else the first that the pattern matches. */
static const struct test_entry *one(const char *name)
{
    const struct test_entry *found = NULL;
    for (const struct test_entry *e = harness_tests; e; e = e->next) {
        char id[256];
        harness_id(e->file, e->label, id, sizeof id);
        if (!strcmp(id, name))
            return e;
        if (!found && matches(e, name))
            found = e;
    }
    return found;
}

static int inside(const char *name, int report)
{
    const struct test_entry *entry = one(name);
    if (!entry) {
        fprintf(stderr, "no test matches '%s'; --list shows the names\n", name);
        return 2;
    }
    harness_test_process(entry, report);
}

int main(int argc, char **argv)
{
    bool listing = false, verbose = false, no_fork = false;
    int jobs = read_jobs(getenv("SLUICE_TEST_JOBS"));

    if (argc >= 3 && !strcmp(argv[1], "--role"))
        return harness_role(argc - 2, argv + 2);
    if (argc == 4 && !strcmp(argv[1], "--inside")) /* how runner.c starts a test */
        return inside(argv[2], atoi(argv[3]));

    int at = 1;
    for (; at < argc && !strncmp(argv[at], "--", 2); at++) {
        if (!strcmp(argv[at], "--list")) {
            listing = true;
        } else if (!strcmp(argv[at], "--verbose")) {
            verbose = true;
        } else if (!strncmp(argv[at], "--jobs=", 7)) {
            jobs = read_jobs(argv[at] + 7);
        } else if (!strcmp(argv[at], "--no-fork")) {
            no_fork = true;
        } else {
            bool help = !strcmp(argv[at], "--help");
            fprintf(help ? stdout : stderr, usage, basename(argv[0]));
            return help ? 0 : 2;
        }
    }
    if (no_fork)
        return argc - at == 1 ? inside(argv[at], -1) : (fprintf(stderr, "--no-fork wants one name\n"), 2);
    if (!jobs)
        fprintf(stderr, "--jobs and SLUICE_TEST_JOBS take a number from 1\n");
    if (!jobs || !all_match(argv + at, argc - at))
        return 2;
    return listing ? list(argv + at, argc - at) : run_all(argv + at, argc - at, jobs, verbose);
}
