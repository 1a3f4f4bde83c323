/* SPDX-License-Identifier: MIT
 *
 * The console as the screen of `top`: it understands escape sequences, and reports keys and its size as events.
 */
#include "../top/screen.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdlib.h>

#include "../common/term.h"
#include "console.h"

#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

static HANDLE in, out, news;
static DWORD in_before, out_before;
static bool entered;

bool screen_possible(const char **why)
{
    DWORD mode;

    in = GetStdHandle(STD_INPUT_HANDLE);
    out = GetStdHandle(STD_OUTPUT_HANDLE);
    *why = "no console";
    return GetConsoleMode(in, &mode) && GetConsoleMode(out, &mode);
}

bool screen_open(struct canvas *canvas)
{
    const char *none = getenv("NO_COLOR");

    canvas->utf8 = true;
    canvas->colour = !none || !none[0];
    canvas->escapes = true;
    return (news = CreateEventW(NULL, FALSE, FALSE, NULL)) != NULL;
}

void screen_close(void)
{
    CloseHandle(news);
}

void screen_news(void)
{
    SetEvent(news);
}

/* ---- entering and leaving ---- */

static void write_all(const char *bytes, size_t size)
{
    DWORD wrote;

    while (size && WriteFile(out, bytes, size < 16384 ? (DWORD)size : 16384, &wrote, NULL) && wrote) {
        bytes += wrote;
        size -= wrote;
    }
}

void screen_leave(void)
{
    if (!entered)
        return;
    entered = false;
    write_all(LEAVE, sizeof LEAVE - 1);
    SetConsoleMode(in, in_before);
    SetConsoleMode(out, out_before);
}

bool screen_enter(void)
{
    stop_on_signals();
    if (!GetConsoleMode(in, &in_before) || !GetConsoleMode(out, &out_before) ||
        !SetConsoleMode(in, ENABLE_PROCESSED_INPUT | ENABLE_WINDOW_INPUT | ENABLE_EXTENDED_FLAGS) ||
        !SetConsoleMode(out, out_before | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING))
        return false;
    atexit(screen_leave);
    entered = true;
    write_all(ENTER, sizeof ENTER - 1);
    return true;
}

void screen_size(unsigned *width, unsigned *height)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    bool known = GetConsoleScreenBufferInfo(out, &info);

    *width = known ? (unsigned)(info.srWindow.Right - info.srWindow.Left + 1) : 80;
    *height = known ? (unsigned)(info.srWindow.Bottom - info.srWindow.Top + 1) : 24;
}

void screen_show(const struct canvas *canvas)
{
    write_all(canvas->bytes, canvas->used);
}

/* ---- keys ---- */

static int key_of(const KEY_EVENT_RECORD *event)
{
    static const struct {
        WORD code;
        int key;
    } keys[] = {
        { VK_UP, KEY_UP },        { VK_DOWN, KEY_DOWN },     { VK_LEFT, KEY_LEFT },      { VK_RIGHT, KEY_RIGHT },
        { VK_HOME, KEY_HOME },    { VK_END, KEY_END },       { VK_PRIOR, KEY_PAGE_UP },  { VK_NEXT, KEY_PAGE_DOWN },
        { VK_RETURN, KEY_ENTER }, { VK_ESCAPE, KEY_ESCAPE }, { VK_BACK, KEY_BACKSPACE }, { VK_F1, '?' },
    };
    wchar_t character = event->uChar.UnicodeChar;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (event->wVirtualKeyCode == keys[i].code)
            return keys[i].key;
    return character >= ' ' && character < KEY_BACKSPACE ? character : KEY_NONE;
}

static int next_event(void)
{
    INPUT_RECORD event;
    DWORD count;

    if (!ReadConsoleInputW(in, &event, 1, &count))
        return KEY_STOP;
    if (event.EventType == WINDOW_BUFFER_SIZE_EVENT)
        return KEY_REDRAW;
    return event.EventType == KEY_EVENT && event.Event.KeyEvent.bKeyDown ? key_of(&event.Event.KeyEvent) : KEY_NONE;
}

int screen_key(void)
{
    HANDLE all[] = { console_stop(), in, news };
    int key = KEY_NONE;

    while (key == KEY_NONE) {
        switch (WaitForMultipleObjects(3, all, FALSE, INFINITE)) {
        case WAIT_OBJECT_0 + 1: key = next_event(); break;
        case WAIT_OBJECT_0 + 2: key = KEY_NEWS; break;
        default: key = KEY_STOP; break;
        }
    }
    return key;
}
