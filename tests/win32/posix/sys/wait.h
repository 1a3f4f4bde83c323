/* SPDX-License-Identifier: MIT */
#define WIFEXITED(status)   (status)
#define WEXITSTATUS(status) (status)
