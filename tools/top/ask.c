/* SPDX-License-Identifier: MIT
 *
 * How sluice top asks: the folder when something changed in it, for channels of cuda-link's each look, each
 * writer once a look, several at a time. A writer that does not answer is left alone for longer and longer, so that what we ask
 * does not pile up where readers must come in; one that is stopped is not asked at all.
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

#define ASK_TIME    (250 * SLUICE_MS) /* of one that did not answer before */
#define LONGEST_GAP (8 * SLUICE_S)
#define MOST_ASKERS 8
#define EACH_ASKS   4 /* channels at least, before there is another one beside it */

/* Could it be the name of one of cuda-link's? As far as the pattern is plain. */
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
    (void)sluice_registry_watch_open(&top->watch, NULL); /* without one it is listed each time */
}

void top_close(struct top *top)
{
    sluice_registry_watch_close(&top->watch);
    nvml_close();
    top_free(top);
    free(top->folder);
    pthread_mutex_destroy(&top->lock);
}

/* ---- the names ---- */

/* The folder's names, if something changed there; false: nothing did. */
static bool list_folder(struct top *top)
{
    /* Drained first: what changes from here on is seen the next time. */
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

static int by_name(const void *a, const void *b)
{
    const struct top_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void list(struct top *top)
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
    if (top->cipd) /* of which nothing tells when they come and go; what cannot be listed is not there for us */
        (void)sluice_cipd_list(add_cipd_name, &names);
    if (names.count)
        qsort(names.list, names.count, sizeof *names.list, by_name);
    pthread_mutex_lock(&top->lock);
    top->listed = top->result == SLUICE_OK && top_list(top, names.list, names.count);
    pthread_mutex_unlock(&top->lock);
    free(names.list);
}

/* ---- the writers ---- */

static void ask(struct top *top, struct top_channel *channel, const atomic_bool *stop)
{
    struct sluice_reader_info readers[SLUICE_MAX_READERS];
    struct sluice_channel_info info = { .size = sizeof info };
    char reason[TOP_REASON] = "";
    int result = SLUICE_TIMEOUT;
    if (!channel->entry.live)
        return;
    if (channel->silent && process_is_stopped(channel->entry.pid)) {
        snprintf(reason, sizeof reason, "its writer, process %u, is stopped", channel->entry.pid);
        channel->ask_after = 0; /* as soon as it goes on */
    } else if (now_ns() < channel->ask_after) {
        snprintf(reason, sizeof reason, "%s", channel->reason);
    } else {
        if (is_cipd(channel->entry.name))
            result = cipd_channel_info(channel->entry.name, ASK_TIME, &info, reason, sizeof reason);
        else if ((result = query_channel(channel->entry.name, channel->entry.pid,
                                       now_ns() + (channel->silent ? ASK_TIME : WRITER_TIMEOUT), stop, &info, readers,
                                       SLUICE_MAX_READERS)))
            snprintf(reason, sizeof reason, "%s", sluice_last_error());
        int64_t gap = SLUICE_S << (channel->silent < 4 ? channel->silent : 4);
        channel->silent = result == SLUICE_TIMEOUT ? channel->silent + 1 : 0;
        channel->ask_after =
            channel->silent ? now_ns() + (gap < LONGEST_GAP ? gap : LONGEST_GAP) : 0;
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

static void *ask_some(void *context)
{
    struct round *round = context;
    size_t i;
    /* The list stands still meanwhile. */
    while (!atomic_load(round->stop) && (i = atomic_fetch_add(&round->next, 1)) < round->top->count)
        ask(round->top, round->top->list[i], round->stop);
    return NULL;
}

void top_refresh(struct top *top, const atomic_bool *stop)
{
    struct round round = { .top = top, .stop = stop };
    pthread_t askers[MOST_ASKERS];
    size_t count = 0;
    sigset_t all, ours;
    list(top);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &ours); /* signals are for the thread that waits for them */
    while (count + 1 < MOST_ASKERS && top->count / EACH_ASKS > count &&
           pthread_create(&askers[count], NULL, ask_some, &round) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    ask_some(&round);
    while (count)
        pthread_join(askers[--count], NULL);
    top_refresh_gpus(top);
}
