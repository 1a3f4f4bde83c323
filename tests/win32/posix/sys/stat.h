/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#include "../posix.h"
#include_next <sys/stat.h>
