/* SPDX-License-Identifier: MIT
 *
 * The queries of sluice top. The folder is listed when it changed, cipd: channels at every refresh, and each writer is
 * queried once per refresh, several at a time. A writer that does not answer is queried less and less often, because
 * queries fill the queue of connections that readers need; a stopped writer is not queried at all.
 */
#include "top.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/cipd.h"
#include "../common/describe.h"
#include "../common/term.h"

#define RETRY_TIMEOUT       (250 * SLUICE_MS) /* for a writer that did not answer before */
#define MAX_RETRY_INTERVAL  (8 * SLUICE_S)
#define MAX_THREADS         8
#define CHANNELS_PER_THREAD 4

/* True if the pattern could match a name that starts with "cipd:". */
static bool may_be_cipd(const char *pattern)
{
    size_t plain = strcspn(pattern, "*?[\\");
    return strncmp(pattern, "cipd:", plain < 5 ? plain : 5) == 0 && (plain >= 5 || pattern[plain]);
}

void top_open(struct top *top, char **patterns, int pattern_count)
{
    *top = (struct top){ .patterns = patterns, .pattern_count = pattern_count, .cipd = pattern_count == 0 };
    for (int i = 0; i < pattern_count; i++)
        top->cipd = top->cipd || may_be_cipd(patterns[i]);
    pthread_mutex_init(&top->lock, NULL);
    (void)sluice_registry_watch_open(&top->watch, NULL); /* may fail: the folder is then listed every time */
}

void top_close(struct top *top)
{
    sluice_registry_watch_close(&top->watch);
    nvml_close();
    top_free(top);
    free(top->folder);
    pthread_mutex_destroy(&top->lock);
}

/* ---- names ---- */

/* Lists the folder if it changed; false if it did not. */
static bool list_folder(struct top *top)
{
    /* Clear the watch before listing, so that a change in the meantime is seen by the next call. */
    bool changed = !top->watch || sluice_registry_watch_next(top->watch, 0) == SLUICE_OK;
    if (top->listed && !changed)
        return false;
    free(top->folder);
    top->folder = NULL;
    top->folder_count = 0;
    int result = list_channels(&top->folder, &top->folder_count);
    pthread_mutex_lock(&top->lock);
    top->result = result;
    top->reason[0] = 0;
    if (result)
        snprintf(top->reason, sizeof top->reason, "%s", sluice_last_error());
    pthread_mutex_unlock(&top->lock);
    return true;
}

struct names {
    struct top_entry *list;
    size_t count;
};

static int add_name(struct names *names, struct top_entry entry)
{
    struct top_entry *more = realloc(names->list, (names->count + 1) * sizeof *more);
    if (!more)
        return 1;
    names->list = more;
    more[names->count++] = entry;
    return 0;
}

static int add_cipd_name(void *names, const char *name)
{
    struct top_entry entry = { .live = true, .uid = (uint32_t)getuid() };
    snprintf(entry.name, sizeof entry.name, "cipd:%s", name);
    return add_name(names, entry);
}

static int compare_names(const void *a, const void *b)
{
    const struct top_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void refresh_list(struct top *top)
{
    struct names names = { .list = NULL };
    if (!list_folder(top) && !top->cipd)
        return;
    for (size_t i = 0; i < top->folder_count; i++) {
        const struct sluice_registry_entry *channel = &top->folder[i];
        struct top_entry entry = { .live = channel->live, .uid = channel->uid, .pid = channel->pid };
        snprintf(entry.name, sizeof entry.name, "%s", channel->name);
        add_name(&names, entry);
    }
    if (top->cipd) /* these cannot be watched; errors are ignored */
        (void)sluice_cipd_list(add_cipd_name, &names);
    if (names.count)
        qsort(names.list, names.count, sizeof *names.list, compare_names);
    pthread_mutex_lock(&top->lock);
    top->listed = top->result == SLUICE_OK && top_list(top, names.list, names.count);
    pthread_mutex_unlock(&top->lock);
    free(names.list);
}

/* ---- writers ---- */

static void query_writer(struct top *top, struct top_channel *channel, const atomic_bool *stop)
{
    struct sluice_reader_info readers[SLUICE_MAX_READERS];
    struct sluice_channel_info info = { .size = sizeof info };
    char reason[TOP_REASON] = "";
    int result = SLUICE_TIMEOUT;
    if (!channel->entry.live)
        return;
    if (channel->timeouts && process_is_stopped(channel->entry.pid)) {
        snprintf(reason, sizeof reason, "its writer, process %u, is stopped", channel->entry.pid);
        channel->next_query_ns = 0; /* query it as soon as it continues */
    } else if (now_ns() < channel->next_query_ns) {
        snprintf(reason, sizeof reason, "%s", channel->reason);
    } else {
        if (is_cipd(channel->entry.name))
            result = cipd_channel_info(channel->entry.name, RETRY_TIMEOUT, &info, reason, sizeof reason);
        else if ((result = query_channel(channel->entry.name, channel->entry.pid,
                                         now_ns() + (channel->timeouts ? RETRY_TIMEOUT : WRITER_TIMEOUT), stop, &info,
                                         readers, SLUICE_MAX_READERS)))
            snprintf(reason, sizeof reason, "%s", sluice_last_error());
        int64_t interval = SLUICE_S << (channel->timeouts < 4 ? channel->timeouts : 4);
        channel->timeouts = result == SLUICE_TIMEOUT ? channel->timeouts + 1 : 0;
        channel->next_query_ns =
            channel->timeouts ? now_ns() + (interval < MAX_RETRY_INTERVAL ? interval : MAX_RETRY_INTERVAL) : 0;
    }
    pthread_mutex_lock(&top->lock);
    top_update(channel, result, reason, &info, readers);
    pthread_mutex_unlock(&top->lock);
}

struct round {
    struct top *top;
    const atomic_bool *stop;
    atomic_size_t next;
};

static void *query_thread(void *context)
{
    struct round *round = context;
    size_t i;
    /* The list does not change meanwhile. */
    while (!atomic_load(round->stop) && (i = atomic_fetch_add(&round->next, 1)) < round->top->count)
        query_writer(round->top, round->top->list[i], round->stop);
    return NULL;
}

void top_refresh(struct top *top, const atomic_bool *stop)
{
    struct round round = { .top = top, .stop = stop };
    pthread_t threads[MAX_THREADS];
    size_t count = 0;
    sigset_t all, ours;
    refresh_list(top);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &ours); /* only the screen's thread handles signals */
    while (count + 1 < MAX_THREADS && top->count / CHANNELS_PER_THREAD > count &&
           pthread_create(&threads[count], NULL, query_thread, &round) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    query_thread(&round);
    while (count)
        pthread_join(threads[--count], NULL);
    top_refresh_gpus(top);
}
