/* SPDX-License-Identifier: MIT
 *
 * A terminal as a whole screen: its size, its keys, and what was there before put back on every way
 * out. Escapes are those that every terminal of today knows; where TERM is "dumb" or there is no
 * terminal, there is no screen.
 */
#ifndef TOOLS_SCREEN_H
#define TOOLS_SCREEN_H

#include <stdbool.h>

#include "canvas.h"

/* Can there be a screen? If not, says why. */
bool screen_possible(const char **why);

/* Colours, UTF-8? As the environment says. */
void screen_describe(struct canvas *canvas);

/* Takes the terminal: keys at once, another page, no cursor. screen_leave puts all back; so does
 * every signal that ends the program. */
bool screen_enter(void);
void screen_leave(void);
void screen_size(unsigned *width, unsigned *height);
void screen_show(const struct canvas *canvas);

enum key {
    KEY_NONE = 0,
    /* 32 to 126: what was typed */
    KEY_ENTER = 13,
    KEY_ESCAPE = 27,
    KEY_BACKSPACE = 127,
    KEY_UP = 256,
    KEY_DOWN,
    KEY_LEFT,
    KEY_RIGHT,
    KEY_HOME,
    KEY_END,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_NEWS,   /* `fd` is readable */
    KEY_REDRAW, /* the size changed, or another program had the terminal */
    KEY_STOP,   /* a signal asked for the end, or the terminal went away */
};

/* Waits for a key, or for something to read from `fd`. Ctrl-Z stops the program here. */
int screen_key(int fd);

#endif
