/* SPDX-License-Identifier: MIT
 *
 * An NVTX tool that records its calls, and access to the record. To be set up before the first channel is opened.
 */
#ifndef TRACE_KIT_H
#define TRACE_KIT_H

#include <stdbool.h>

#include "harness/test.h"

/* This process and its roles use the tool from now on, with SLUICE_NVTX=level; `act` as in tool.c. */
void tool_use(const char *level, const char *act);

/* The record so far, of all processes; "" if there is none. Valid until the next call. */
const char *tool_record(void);

/* The nested ranges in it, a line for each thread: "acquire(wait_frame()map())release()". Fails the test if a range has
 * no end, an end no beginning, or if the tool found something wrong. */
const char *tool_tree(void);

/* Catches messages of the log from now on, of all levels up to this one. */
void log_catch(int level);
int log_count(void);
const char *log_last(void);

#endif
