/* SPDX-License-Identifier: MIT */
#ifndef TOOLS_WIN32_FNMATCH_H
#define TOOLS_WIN32_FNMATCH_H

/* 0: it matches. Without flags. */
int fnmatch(const char *pattern, const char *text, int flags);

#endif
