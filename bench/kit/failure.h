/* SPDX-License-Identifier: MIT
 *
 * Why a bench cannot go on. A process that fails leaves its reason in memory that all of them share
 * and ends; the process that started it reports the reason.
 */
#ifndef BENCH_KIT_FAILURE_H
#define BENCH_KIT_FAILURE_H

#include <stdbool.h>

#define EXIT_MISSING 77 /* this system lacks what the bench needs */

/* Makes the shared memory. Until then die() writes to standard error. False: there is none. */
bool failure_open(void);

/* The first reason since failure_clear; "" if there is none. */
const char *failure_text(void);
bool failure_is_missing(void);
void failure_clear(void);
void failure_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Leaves the reason and ends the process: with status 1; with errno's text; with EXIT_MISSING. */
_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die_errno(const char *what);
_Noreturn void die_missing(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
