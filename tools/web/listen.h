/* SPDX-License-Identifier: MIT
 *
 * The address of the server.
 */
#ifndef TOOLS_WEB_LISTEN_H
#define TOOLS_WEB_LISTEN_H

#include "web.h"

/* Returns a socket that listens; or -1 after a message, and stores an exit code. */
int web_listen(const struct web_settings *settings, int *code);

unsigned web_port(int fd);

/* Prints the address for a browser, with a token that was generated. `name` is that of this machine. */
void web_say_address(const struct web_settings *settings, const char *name, unsigned port);

#endif
