/* SPDX-License-Identifier: MIT
 *
 * What the files of the harness share.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <stdbool.h>

#include "harness/test.h"

/* Exit status of a skipped test; the reason is in its report. */
#define HARNESS_SKIPPED 77

/* The environment variable that passes the test's folder to its process and its roles. */
#define HARNESS_FOLDER "SLUICE_TEST_FOLDER"

/* The full name of a test or role, "ring.reuses_oldest_first": the file without its extension, then the label. */
void harness_id(const char *file, const char *label, char *id, size_t size);

/* How long threads may take to end, and to close what they opened. */
#define END_TIME (10 * INT64_C(1000000000))

extern struct test_entry *harness_tests;
extern struct role_entry *harness_roles;

#define HARNESS_JOBS 16

/* runner.c: runs each test in a process of its own, at most `jobs` (up to HARNESS_JOBS) at a time, and prints TAP lines
 * as they end. Returns the number of failures. */
int harness_run(const struct test_entry *const *tests, int count, int jobs, bool verbose);

/* test_process.c: runs the test in this process, then checks for leaks. `report` is -1 if nobody reads the report. */
_Noreturn void harness_test_process(const struct test_entry *entry, int report);

/* Ends the process at once, without exit handlers. */
_Noreturn void harness_leave(int status);

/* role.c */
int harness_role(int argc, char **argv); /* argv[0]: the role's name or id */
void harness_end_children(void);

/* folder.c */
bool harness_folder_make(char *path, size_t size);
void harness_folder_remove(const char *path);

#endif
