/* SPDX-License-Identifier: MIT */
#pragma GCC system_header
#define POLLIN 1
struct pollfd {
    int fd;
    short events, revents;
};
int poll(struct pollfd *input, unsigned count, int ms); /* standard input's, without a wait */
