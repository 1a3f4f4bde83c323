/* SPDX-License-Identifier: MIT
 *
 * A tool that writes down what it is told, and what it wrote. Before the first channel is opened.
 */
#ifndef TRACE_KIT_H
#define TRACE_KIT_H

#include <stdbool.h>

#include "harness/test.h"

/* This process and its roles have the tool from now on, with SLUICE_NVTX=level; `act` as tool.c says. */
void tool_use(const char *level, const char *act);

/* What it wrote down so far, by all processes; "" if nothing. Valid until the next call. */
const char *tool_record(void);

/* The nested ranges in it, a line for each thread: "acquire(wait_frame()map())release()". Fails the test where
 * a range has no end, an end no beginning, or where the tool found something wrong. */
const char *tool_tree(void);

/* Messages of the log from now on, of all levels up to this one. */
void log_catch(int level);
int log_count(void);
const char *log_last(void);

#endif
