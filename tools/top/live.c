/* SPDX-License-Identifier: MIT
 *
 * The screen of sluice top. One thread queries the writers, this one draws and handles keys, so that a writer that does
 * not answer never delays a key.
 */
#include "top.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/args.h"
#include "../common/per_system.h"
#include "../common/term.h"
#include "../common/text.h"
#include "screen.h"

#define FIRST_INTERVAL (250 * SLUICE_MS) /* so that rates appear soon */

static const int64_t intervals[] = { SLUICE_S / 10, SLUICE_S / 5,  SLUICE_S / 2,  SLUICE_S,     2 * SLUICE_S,
                                     5 * SLUICE_S,  10 * SLUICE_S, 30 * SLUICE_S, 60 * SLUICE_S };
#define INTERVAL_COUNT (sizeof intervals / sizeof intervals[0])

enum page { PAGE_LIST, PAGE_CHANNEL, PAGE_HELP };

struct live {
    struct top *top;

    /* Shared by both threads, under the lock of `top`. */
    pthread_cond_t changed;
    int64_t interval;
    bool paused;
    atomic_bool stop;

    /* Used by the drawing thread only. */
    struct canvas canvas;
    struct top_grid channels, readers;
    enum page page, under_help;
    char opened[TOP_CELL];
    char filter[SLUICE_MAX_NAME + 1];
    bool typing, all;
    size_t help_first, help_count;
    size_t listed; /* number of rows in the grid that the keys act on */
};

/* ---- the querying thread ---- */

/* Waits until the next refresh is due, or for the end. Holds the lock. */
static void wait_for_next(struct live *live, int64_t start, bool first)
{
    while (!atomic_load(&live->stop)) {
        int64_t interval = first && live->interval > FIRST_INTERVAL ? FIRST_INTERVAL : live->interval;
        int64_t next = start + interval;
        struct timespec until = { .tv_sec = next / SLUICE_S, .tv_nsec = (long)(next % SLUICE_S) };
        if (live->paused)
            pthread_cond_wait(&live->changed, &live->top->lock);
        else if (now_ns() < next)
            pthread_cond_timedwait(&live->changed, &live->top->lock, &until);
        else
            break;
    }
}

static void *query_loop(void *context)
{
    struct live *live = context;
    for (bool first = true; !atomic_load(&live->stop); first = false) {
        int64_t start = now_ns();
        top_refresh(live->top, &live->stop);
        screen_news();
        pthread_mutex_lock(&live->top->lock);
        wait_for_next(live, start, first);
        pthread_mutex_unlock(&live->top->lock);
    }
    return NULL;
}

static bool start_queries(struct live *live, pthread_t *thread)
{
    pthread_condattr_t clock;
    sigset_t all, ours;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&live->changed, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &ours);
    int failed = pthread_create(thread, NULL, query_loop, live);
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    return !failed;
}

static void stop_queries(struct live *live, pthread_t thread)
{
    pthread_mutex_lock(&live->top->lock);
    atomic_store(&live->stop, true);
    pthread_cond_signal(&live->changed);
    pthread_mutex_unlock(&live->top->lock);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&live->changed);
}

/* ---- drawing ---- */

static bool is_shown(const struct live *live, const struct top_channel *channel)
{
    return (live->all || channel->was_live || !top_is_dead(channel)) &&
           top_matches(channel->entry.name, live->filter, true);
}

static void put_number(struct canvas *canvas, unsigned style, size_t number, const char *what)
{
    if (number == 0)
        return;
    canvas_put(canvas, STYLE_PLAIN, ", ");
    canvas_put(canvas, style, "%zu %s", number, what);
}

static void draw_title(struct live *live)
{
    struct canvas *canvas = &live->canvas;
    const struct top *top = live->top;
    size_t stuck = 0, dead = 0, other = 0, shown = 0;
    double fps = 0, bytes = 0;
    bool hidden = false;
    char text[TERM_TEXT];
    for (size_t i = 0; i < top->count; i++) {
        const struct top_channel *channel = top->list[i];
        bool live_one = strcmp(top_state(channel), "live") == 0;
        bool is_stuck = strcmp(top_state(channel), "stuck") == 0;
        stuck += is_stuck;
        dead += top_is_dead(channel);
        hidden = hidden || (top_is_dead(channel) && !channel->was_live && !live->all);
        other += !live_one && !is_stuck && !top_is_dead(channel);
        shown += live_one;
        fps += channel->fps > 0 ? channel->fps : 0;
        bytes += channel->bytes > 0 ? channel->bytes : 0;
    }
    canvas_put(canvas, STYLE_BOLD, "sluice top");
    if (live->paused)
        canvas_put(canvas, STYLE_YELLOW | STYLE_BOLD, "  PAUSED");
    else
        canvas_put(canvas, STYLE_PLAIN, "  every %g s", (double)live->interval / 1e9);
    canvas_put(canvas, STYLE_PLAIN, "  %zu live", shown);
    put_number(canvas, STYLE_YELLOW, stuck, "stuck");
    put_number(canvas, STYLE_RED, dead, hidden ? "dead (a shows them)" : "dead");
    put_number(canvas, STYLE_YELLOW, other, "not readable");
    canvas_put(canvas, STYLE_PLAIN, "  %.0f frames/s, %s/s", fps, text_bytes(text, (uint64_t)bytes));
    canvas_put(canvas, STYLE_DIM, "  %s", sluice_registry_folder());
    canvas_line(canvas);
}

static void draw_list(struct live *live, unsigned until)
{
    struct canvas *canvas = &live->canvas;
    const struct top *top = live->top;
    const void **rows = calloc(top->count ? top->count : 1, sizeof(const void *));
    live->listed = 0;
    for (size_t i = 0; rows && i < top->count; i++)
        if (is_shown(live, top->list[i]))
            rows[live->listed++] = top->list[i];
    if (rows)
        top_grid_draw(&live->channels, canvas, rows, live->listed, until);
    free(rows);
    if (live->listed)
        return;
    if (top->result)
        canvas_put(canvas, STYLE_RED, "%s", top->reason);
    else if (!top->listed)
        canvas_put(canvas, STYLE_DIM, "loading");
    else if (live->filter[0])
        canvas_put(canvas, STYLE_PLAIN, "no channel matches '%s'", live->filter);
    else
        canvas_put(canvas, STYLE_PLAIN,
                   "no channels; to create one: sluice play test " PER_SYSTEM("camera", "cipd:camera"));
    canvas_line(canvas);
}

static void draw_opened(struct live *live, unsigned until)
{
    const struct top_channel *channel = NULL;
    for (size_t i = 0; i < live->top->count; i++)
        if (strcmp(live->top->list[i]->entry.name, live->opened) == 0)
            channel = live->top->list[i];
    live->listed = channel ? channel->reader_count : 0;
    if (channel) {
        top_draw_channel(&live->canvas, live->top, channel, &live->readers, until);
        return;
    }
    canvas_put(&live->canvas, STYLE_BOLD, "%s", live->opened);
    canvas_put(&live->canvas, STYLE_PLAIN, "  closed by its writer; it may open again");
    canvas_line(&live->canvas);
}

/* Prints as many hints as fit. */
static void put_hints(struct canvas *canvas, const char *const *hints)
{
    canvas->base = STYLE_REVERSE;
    for (size_t i = 0; hints[i]; i += 2) {
        if (canvas->column + text_width(hints[i]) + text_width(hints[i + 1]) + 3 > canvas->width)
            break;
        canvas_put(canvas, STYLE_BOLD, " %s", hints[i]);
        canvas_put(canvas, STYLE_PLAIN, " %s ", hints[i + 1]);
    }
}

static void draw_footer(struct live *live)
{
    static const char *const list[] = { "q", "quit",    "?", "help",  "Enter", "open", "< >", "sort",     "/", "filter",
                                        "r", "reverse", "p", "pause", "a",     "dead", "+ -", "interval", NULL };
    static const char *const channel[] = { "q",   "quit",  "?",       "help",     "Esc", "back",
                                           "< >", "sort",  "up down", "scroll",   "r",   "reverse",
                                           "p",   "pause", "+ -",     "interval", NULL };
    static const char *const help[] = { "Esc", "back", "up down", "scroll", NULL };
    struct canvas *canvas = &live->canvas;
    canvas_skip_to(canvas, canvas->height - 1);
    if (live->typing)
        canvas_put(canvas, STYLE_BOLD, "filter: %s_", live->filter);
    else if (live->page == PAGE_LIST && live->filter[0])
        canvas_put(canvas, STYLE_YELLOW, "filter '%s' (Esc: clear) ", live->filter);
    if (!live->typing)
        put_hints(canvas, live->page == PAGE_LIST ? list : live->page == PAGE_CHANNEL ? channel : help);
    canvas_line(canvas);
}

static void draw(struct live *live)
{
    unsigned width, height;
    screen_size(&width, &height);
    canvas_begin(&live->canvas, width, height);
    pthread_mutex_lock(&live->top->lock);
    if (live->page != PAGE_HELP)
        draw_title(live);
    if (live->page == PAGE_LIST) {
        top_draw_gpus(&live->canvas, live->top);
        draw_list(live, height - 1);
    } else if (live->page == PAGE_CHANNEL) {
        draw_opened(live, height - 1);
    } else {
        live->help_count = top_draw_help(&live->canvas, live->help_first, height - 1);
    }
    draw_footer(live);
    pthread_mutex_unlock(&live->top->lock);
    screen_show(&live->canvas);
}

/* ---- keys ---- */

static void change_interval(struct live *live, bool longer)
{
    size_t i = 0;
    pthread_mutex_lock(&live->top->lock);
    if (longer) {
        while (i + 1 < INTERVAL_COUNT && intervals[i] <= live->interval)
            i++;
    } else {
        i = INTERVAL_COUNT - 1;
        while (i > 0 && intervals[i] >= live->interval)
            i--;
    }
    live->interval = intervals[i];
    pthread_cond_signal(&live->changed);
    pthread_mutex_unlock(&live->top->lock);
}

static void toggle_pause(struct live *live)
{
    pthread_mutex_lock(&live->top->lock);
    live->paused = !live->paused;
    pthread_cond_signal(&live->changed);
    pthread_mutex_unlock(&live->top->lock);
}

static void type_filter(struct live *live, int key)
{
    size_t length = strlen(live->filter);
    if (key == KEY_ENTER || key == KEY_ESCAPE)
        live->typing = false;
    if (key == KEY_ESCAPE)
        live->filter[0] = 0;
    if (key == KEY_BACKSPACE && length)
        live->filter[length - 1] = 0;
    if (key > ' ' && key < KEY_BACKSPACE && length + 1 < sizeof live->filter) {
        live->filter[length] = (char)key;
        live->filter[length + 1] = 0;
    }
    if (key >= KEY_UP)
        top_grid_key(&live->channels, key, live->listed);
}

static void help_key(struct live *live, int key)
{
    if (key == KEY_UP && live->help_first)
        live->help_first--;
    else if (key == KEY_DOWN && live->help_first + 1 < live->help_count)
        live->help_first++;
    else if (key == KEY_PAGE_DOWN || key == KEY_PAGE_UP || key == KEY_UP || key == KEY_DOWN)
        live->help_first = key != KEY_PAGE_DOWN                       ? 0
                           : live->help_first + 10 < live->help_count ? live->help_first + 10
                                                                      : live->help_first;
    else
        live->page = live->under_help;
}

/* False if the key quits. */
static bool list_key(struct live *live, int key)
{
    switch (key) {
    case 'q': return false;
    case '?':
    case 'h':
        live->under_help = live->page;
        live->page = PAGE_HELP;
        live->help_first = 0;
        return true;
    case 'p':
    case ' ': toggle_pause(live); return true;
    case '+':
    case '=': change_interval(live, true); return true;
    case '-': change_interval(live, false); return true;
    default: break;
    }
    if (live->page == PAGE_CHANNEL) {
        if (key == KEY_ESCAPE || key == KEY_BACKSPACE || key == KEY_LEFT)
            live->page = PAGE_LIST;
        else
            top_grid_key(&live->readers, key, live->listed);
        return true;
    }
    if (key == KEY_ESCAPE)
        live->filter[0] = 0;
    else if (key == '/')
        live->typing = true;
    else if (key == 'a')
        live->all = !live->all;
    else if ((key == KEY_ENTER || key == KEY_RIGHT) && live->listed) {
        snprintf(live->opened, sizeof live->opened, "%s", live->channels.selected);
        live->page = PAGE_CHANNEL;
        live->readers.first = 0;
    } else {
        top_grid_key(&live->channels, key, live->listed);
    }
    return true;
}

static bool handle_key(struct live *live, int key)
{
    if (key == KEY_NEWS || key == KEY_REDRAW)
        return true;
    if (live->typing)
        type_filter(live, key);
    else if (live->page == PAGE_HELP)
        help_key(live, key);
    else
        return list_key(live, key);
    return true;
}

/* ---- the command ---- */

static void discard_log(void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    (void)level;
    (void)text;
}

int top_live(struct top *top, const struct top_options *options)
{
    struct live live = { .top = top, .interval = options->interval_ns, .all = options->all };
    pthread_t thread;
    int key;
    live.channels = (struct top_grid){ .table = &top_channels, .selects = true };
    live.channels.sort = top_column_of(&top_channels, options->sort);
    live.channels.reverse = options->reverse;
    live.readers = (struct top_grid){ .table = &top_readers };
    if (!screen_open(&live.canvas)) {
        say_error("top", "cannot set up the terminal: %s.", strerror(errno));
        return EXIT_FAILED;
    }
    sluice_log_set(discard_log, NULL, SLUICE_LOG_ERROR); /* messages would garble the screen */
    if (!start_queries(&live, &thread)) {
        say_error("top", "cannot start a thread: %s.", strerror(errno));
        screen_close();
        return EXIT_FAILED;
    }
    bool entered = screen_enter();
    if (entered) {
        do
            draw(&live);
        while ((key = screen_key()) != KEY_STOP && handle_key(&live, key));
        screen_leave();
    } else {
        say_error("top", "cannot set up the terminal: %s.", strerror(errno));
    }
    stop_queries(&live, thread);
    screen_close();
    canvas_free(&live.canvas);
    sluice_log_set(NULL, NULL, SLUICE_LOG_WARN);
    return entered ? EXIT_DONE : EXIT_FAILED;
}
