/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_WIN32_CONSOLE_H
#define TOOLS_WIN32_CONSOLE_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

/* An event that Ctrl-C signals, after stop_on_signals(). */
HANDLE console_stop(void);

#endif
