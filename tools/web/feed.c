/* SPDX-License-Identifier: MIT
 *
 * A feed's thread acquires the newest frame, lets each view take its picture, and releases it. Locks: first that of all
 * feeds, then that of one, then that of a stream.
 */
#include "feed.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/cipd.h"
#include "../common/readback.h"
#include "../common/term.h"
#include "view.h"

#define LINGER      (3 * SLUICE_S)   /* with its reader, after its last viewer */
#define PATIENCE    (50 * SLUICE_MS) /* for a frame, before the last one is looked at again */
#define REOPEN_TIME (200 * SLUICE_MS)
#define PAUSE       (300 * SLUICE_MS) /* after a failure */
#define JOB_TIME    (3 * SLUICE_S)

struct web_feed {
    struct web_feeds *feeds;
    char name[WEB_NAME];
    pthread_mutex_t lock;
    pthread_cond_t work; /* a viewer or a job was added */
    struct web_view *views;
    struct web_job *jobs;
    struct web_feed *next;

    /* used by its thread alone */
    sluice_reader *reader;
    struct readback readback;
    uint64_t frames; /* in all */
    uint64_t before; /* of them before the reader was opened */
    int64_t opened_ns;
    char problem[160];
};

/* ---- what there is to do ---- */

/* Fails the jobs that have waited too long; all of them when everything ends. Holds the lock. */
static void expire_jobs(struct web_feed *feed, bool all)
{
    struct web_job **at = &feed->jobs;
    while (*at) {
        struct web_job *job = *at;
        if (!all && now_ns() < job->deadline) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        web_job_fail(job, 504, feed->problem[0] ? feed->problem : "No frame came in time.");
        job->done = true;
        MHD_resume_connection(job->connection);
    }
}

/* Frees the views that had no viewer for a while. True if any viewer is left. Holds the lock. */
static bool trim_views(struct web_feed *feed)
{
    bool viewed = false;
    struct web_view **at = &feed->views;
    while (*at) {
        struct web_view *view = *at;
        bool idle = web_stream_viewers(&view->stream) == 0;
        viewed = viewed || !idle;
        if (idle && !view->idle_ns)
            view->idle_ns = now_ns();
        if (!idle)
            view->idle_ns = 0;
        if (idle && now_ns() - view->idle_ns > LINGER) {
            *at = view->next;
            atomic_fetch_sub(&feed->feeds->encoders, view->video);
            web_view_free(view);
        } else {
            at = &view->next;
        }
    }
    return viewed;
}

static void wait_for_work(struct web_feed *feed, int64_t time)
{
    int64_t until = now_ns() + time;
    struct timespec end = { .tv_sec = until / SLUICE_S, .tv_nsec = until % SLUICE_S };
    pthread_cond_timedwait(&feed->work, &feed->lock, &end);
}

/* ---- frames ---- */

static bool open_feed_reader(struct web_feed *feed)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_cipd_reader_params cipd;
    params.name = feed->name;
    params.open_timeout_ns = SLUICE_LATER;
    feed->opened_ns = now_ns();
    feed->before = feed->frames;
    if (cipd_init_reader("web", &params, &cipd, 0) == 0 && sluice_reader_open(&feed->reader, &params) == SLUICE_OK)
        return true;
    snprintf(feed->problem, sizeof feed->problem, "%s", sluice_last_error());
    return false;
}

static uint32_t list_arrays(struct web_feed *feed, const struct sluice_frame *frame, struct sluice_array *arrays)
{
    uint32_t count = 0;
    if (readback_fetch(&feed->readback, feed->reader, frame) != SLUICE_OK) {
        snprintf(feed->problem, sizeof feed->problem, "%s", sluice_last_error());
        return 0;
    }
    for (uint32_t i = 0; i < frame->array_count && i < SLUICE_MAX_ARRAYS; i++)
        if (sluice_frame_array_at(frame, i, &arrays[count]) == SLUICE_OK)
            readback_map(&feed->readback, &arrays[count++]);
    return count;
}

static void run_jobs(struct web_feed *feed, const struct sluice_array *arrays, uint32_t count)
{
    pthread_mutex_lock(&feed->lock);
    struct web_job *job = feed->jobs;
    feed->jobs = NULL;
    pthread_mutex_unlock(&feed->lock);
    while (job) {
        struct web_job *next = job->next;
        web_job_run(job, arrays, count);
        job->done = true;
        MHD_resume_connection(job->connection);
        job = next;
    }
}

static void serve_frame(struct web_feed *feed, struct sluice_frame *frame, struct web_view *views)
{
    static _Thread_local struct sluice_array arrays[SLUICE_MAX_ARRAYS];
    feed->problem[0] = 0;
    uint32_t count = list_arrays(feed, frame, arrays);
    feed->frames++;
    for (struct web_view *view = views; view && count; view = view->next)
        if (web_view_wanted(view))
            web_view_take(view, arrays, count, feed->frames);
    if (count)
        run_jobs(feed, arrays, count);
    sluice_reader_release(feed->reader, frame, SLUICE_ON_CPU);
    for (struct web_view *view = views; view; view = view->next)
        web_view_push(view);
}

/* No new frame has come. The last one is the newest still; a reader that is opened again gets it again. */
static void serve_again(struct web_feed *feed, struct web_view *views, bool jobs)
{
    bool again = jobs;
    for (struct web_view *view = views; view; view = view->next) {
        if (view->frame && view->frame == feed->frames)
            web_stream_settle(&view->stream);
        else
            again = again || web_view_wanted(view);
    }
    if (again && feed->frames > feed->before && now_ns() - feed->opened_ns > REOPEN_TIME)
        sluice_reader_close(&feed->reader);
}

/* Returns how long to pause. */
static int64_t serve(struct web_feed *feed, struct web_view *views, bool jobs)
{
    struct sluice_frame frame;
    if (!feed->reader && !open_feed_reader(feed))
        return PAUSE;
    int result = sluice_reader_acquire(feed->reader, SLUICE_ON_CPU, PATIENCE, &frame);
    if (result == SLUICE_OK) {
        serve_frame(feed, &frame, views);
        return 0;
    }
    if (result == SLUICE_TIMEOUT)
        serve_again(feed, views, jobs);
    if (result == SLUICE_CLOSED || result == SLUICE_NO_WRITER)
        snprintf(feed->problem, sizeof feed->problem, "The channel has no writer at the moment.");
    if (result >= 0 || result == SLUICE_E_LOST)
        return result == SLUICE_CLOSED ? PATIENCE : 0;
    snprintf(feed->problem, sizeof feed->problem, "%s", sluice_last_error());
    sluice_reader_close(&feed->reader);
    return PAUSE;
}

/* ---- the thread ---- */

/* Removes the feed from the list if nobody needs it. */
static bool leave(struct web_feed *feed)
{
    struct web_feeds *feeds = feed->feeds;
    pthread_mutex_lock(&feeds->lock);
    pthread_mutex_lock(&feed->lock);
    bool done = !feed->views && !feed->jobs;
    pthread_mutex_unlock(&feed->lock);
    struct web_feed **at = &feeds->list;
    while (done && *at != feed)
        at = &(*at)->next;
    if (done)
        *at = feed->next;
    pthread_mutex_unlock(&feeds->lock);
    return done;
}

static void free_feed(struct web_feed *feed)
{
    while (feed->views) {
        struct web_view *view = feed->views;
        feed->views = view->next;
        web_view_free(view);
    }
    pthread_cond_destroy(&feed->work);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

static void end_thread(struct web_feeds *feeds)
{
    pthread_mutex_lock(&feeds->lock);
    feeds->count--;
    pthread_cond_signal(&feeds->left);
    pthread_mutex_unlock(&feeds->lock);
}

static void close_reader(struct web_feed *feed)
{
    sluice_reader_close(&feed->reader);
    readback_close(&feed->readback);
}

/* All ends: resumes every connection. The feed is freed by web_feeds_close. */
static void stop_feed(struct web_feed *feed)
{
    pthread_mutex_lock(&feed->lock);
    expire_jobs(feed, true);
    for (struct web_view *view = feed->views; view; view = view->next) {
        web_h264_close(&view->h264);
        web_stream_end(&view->stream);
    }
    pthread_mutex_unlock(&feed->lock);
    close_reader(feed);
    end_thread(feed->feeds);
}

static bool is_stopping(struct web_feeds *feeds)
{
    pthread_mutex_lock(&feeds->lock);
    bool stopping = feeds->stopping;
    pthread_mutex_unlock(&feeds->lock);
    return stopping;
}

static void *feed_loop(void *context)
{
    struct web_feed *feed = context;
    while (!is_stopping(feed->feeds)) {
        pthread_mutex_lock(&feed->lock);
        expire_jobs(feed, false);
        struct web_view *views = NULL;
        bool viewed = trim_views(feed), jobs = feed->jobs != NULL, used = feed->views || jobs;
        if (used && !viewed && !jobs)
            wait_for_work(feed, PAUSE);
        views = feed->views; /* others only add in front of it */
        jobs = feed->jobs != NULL;
        pthread_mutex_unlock(&feed->lock);
        if (!used && leave(feed)) {
            struct web_feeds *feeds = feed->feeds;
            close_reader(feed);
            free_feed(feed);
            end_thread(feeds);
            return NULL;
        }
        if (!viewed && !jobs)
            continue;
        int64_t pause = serve(feed, views, jobs);
        if (!pause)
            continue;
        pthread_mutex_lock(&feed->lock);
        wait_for_work(feed, pause);
        pthread_mutex_unlock(&feed->lock);
    }
    stop_feed(feed);
    return NULL;
}

/* ---- for the server's thread ---- */

static struct web_feed *new_feed(struct web_feeds *feeds, const char *name)
{
    struct web_feed *feed = calloc(1, sizeof *feed);
    pthread_condattr_t clock;
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, ours;
    if (!feed)
        return NULL;
    feed->feeds = feeds;
    snprintf(feed->name, sizeof feed->name, "%s", name);
    pthread_mutex_init(&feed->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&feed->work, &clock);
    pthread_condattr_destroy(&clock);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &ours);
    int failed = pthread_create(&thread, &attributes, feed_loop, feed);
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    pthread_attr_destroy(&attributes);
    if (failed) {
        free(feed);
        return NULL;
    }
    feed->next = feeds->list;
    feeds->list = feed;
    feeds->count++;
    return feed;
}

/* Finds or starts the feed of a channel, and locks it; NULL when everything ends, or without memory. Holds the lock of
 * all. */
static struct web_feed *lock_feed(struct web_feeds *feeds, const char *name)
{
    struct web_feed *feed = feeds->stopping ? NULL : feeds->list;
    while (feed && strcmp(feed->name, name) != 0)
        feed = feed->next;
    if (!feed && !feeds->stopping)
        feed = new_feed(feeds, name);
    if (feed)
        pthread_mutex_lock(&feed->lock);
    return feed;
}

static unsigned join(struct web_feed *feed, const struct web_look *look, bool video, struct web_viewer *viewer)
{
    struct web_view *view = feed->views;
    while (view && (view->video != video || memcmp(&view->look, look, sizeof *look) != 0))
        view = view->next;
    if (!view) {
        if (video && atomic_load(&feed->feeds->encoders) >= WEB_ENCODERS)
            return 503;
        if (!(view = web_view_new(feed->feeds->settings, look, video)))
            return 503;
        atomic_fetch_add(&feed->feeds->encoders, video);
        view->next = feed->views;
        feed->views = view;
    }
    view->idle_ns = 0;
    web_viewer_join(viewer, &view->stream);
    pthread_cond_signal(&feed->work);
    return 0;
}

unsigned web_feeds_view(struct web_feeds *feeds, const char *name, const struct web_look *look, bool video,
                        struct web_viewer *viewer)
{
    unsigned status = 503;
    pthread_mutex_lock(&feeds->lock);
    struct web_feed *feed = lock_feed(feeds, name);
    if (feed) {
        status = join(feed, look, video, viewer);
        pthread_mutex_unlock(&feed->lock);
    }
    pthread_mutex_unlock(&feeds->lock);
    return status;
}

bool web_feeds_run(struct web_feeds *feeds, struct web_job *job)
{
    pthread_mutex_lock(&feeds->lock);
    struct web_feed *feed = lock_feed(feeds, job->request->name);
    if (feed) {
        job->deadline = now_ns() + JOB_TIME;
        job->next = feed->jobs;
        feed->jobs = job;
        MHD_suspend_connection(job->connection);
        pthread_cond_signal(&feed->work);
        pthread_mutex_unlock(&feed->lock);
    }
    pthread_mutex_unlock(&feeds->lock);
    return feed != NULL;
}

void web_feeds_open(struct web_feeds *feeds, const struct web_settings *settings)
{
    *feeds = (struct web_feeds){ .settings = settings };
    pthread_mutex_init(&feeds->lock, NULL);
    pthread_cond_init(&feeds->left, NULL);
}

void web_feeds_stop(struct web_feeds *feeds)
{
    pthread_mutex_lock(&feeds->lock);
    feeds->stopping = true;
    while (feeds->count)
        pthread_cond_wait(&feeds->left, &feeds->lock);
    pthread_mutex_unlock(&feeds->lock);
}

void web_feeds_close(struct web_feeds *feeds)
{
    while (feeds->list) {
        struct web_feed *feed = feeds->list;
        feeds->list = feed->next;
        free_feed(feed);
    }
    pthread_cond_destroy(&feeds->left);
    pthread_mutex_destroy(&feeds->lock);
}
