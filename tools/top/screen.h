/* SPDX-License-Identifier: MIT
 *
 * A full-screen terminal: its size, its keys, and restoring it on every way out. It uses escape sequences that all
 * current terminals support, and needs a terminal whose TERM is not "dumb".
 */
#ifndef TOOLS_SCREEN_H
#define TOOLS_SCREEN_H

#include <stdbool.h>

#include "canvas.h"

/* False with the reason in *why if there can be no screen. */
bool screen_possible(const char **why);

/* Sets colour and UTF-8 from the environment, and makes screen_news() possible. */
bool screen_open(struct canvas *canvas);
void screen_close(void);

/* Switches to unbuffered keys, the alternate screen and a hidden cursor. screen_leave restores the terminal, and so
 * does every signal that ends the program. */
bool screen_enter(void);
void screen_leave(void);
void screen_size(unsigned *width, unsigned *height);
void screen_show(const struct canvas *canvas);

enum key {
    KEY_NONE = 0,
    /* 32 to 126: the ASCII character */
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
    KEY_NEWS,   /* screen_news() */
    KEY_REDRAW, /* the size changed, or another program had the terminal */
    KEY_STOP,   /* a signal stops the command, or the terminal is gone */
};

/* Waits for a key. Ctrl-Z suspends the program in here. */
int screen_key(void);

/* Wakes screen_key(), from any thread: there is something to draw. */
void screen_news(void);

#endif
