/* SPDX-License-Identifier: MIT
 *
 * Between the files of the harness.
 */
#ifndef HARNESS_H
#define HARNESS_H

#include <stdbool.h>

#include "harness/test.h"

/* Exit status of a test that was skipped; its reason went through the report. */
#define HARNESS_SKIPPED 77

/* The environment variable that names the test's folder to its process and to its roles. */
#define HARNESS_FOLDER "SLUICE_TEST_FOLDER"

/* A test's or role's full name, "ring.reuses_oldest_first": the file without its ending, then the label. */
void harness_id(const char *file, const char *label, char *id, size_t size);

/* For threads that are about to end, and to close what they have. */
#define END_TIME (10 * INT64_C(1000000000))

extern struct test_entry *harness_tests;
extern struct role_entry *harness_roles;

#define HARNESS_JOBS 16

/* runner.c: runs each test in a process of its own, up to `jobs` (HARNESS_JOBS at most) at a time, and prints its TAP lines as
 * it ends. Returns how many failed. */
int harness_run(const struct test_entry *const *tests, int count, int jobs, bool verbose);

/* test_process.c: runs the test in this process, then looks it over. `report` -1: nobody listens. */
_Noreturn void harness_inside(const struct test_entry *entry, int report);

/* Ends the process at once, without what exit() would do. */
_Noreturn void harness_leave(int status);

/* role.c */
int harness_role(int argc, char **argv); /* argv[0]: the role's name or id */
void harness_end_children(void);

/* folder.c */
bool harness_folder_make(char *path, size_t size);
void harness_folder_remove(const char *path);

#endif
