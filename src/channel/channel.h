/* SPDX-License-Identifier: MIT
 *
 * A channel's backend: the table of functions behind the public calls on its writers and readers. channel.c
 * lists them all.
 */
#ifndef SL_CHANNEL_CHANNEL_H
#define SL_CHANNEL_CHANNEL_H

#include <sluice/reader.h>
#include <sluice/registry.h>
#include <sluice/writer.h>

#include "channel/frame_streams.h"
#include "channel/frame_view.h"
#include "device/device.h"
#include "os/os.h"
#include "util/atomic.h"

/* A folder whose channels are watched. */
struct sl_registry_watch {
    char folder[256];
    struct sl_os_file watched;
    int fd; /* readable when a channel came or went */
};

#define SL_CHANNEL_NAME 256 /* bytes of a name without its scheme, in any backend */

/* What all writers begin with. */
struct sluice_writer {
    struct sl_object object;
    const struct sl_channel_ops *ops;
    char name[SL_CHANNEL_NAME];
    sl_word32 busy; /* a call is inside; debug builds find a second one (protocol 2.6) */
    struct sl_frame_streams streams;
};

struct sl_fetch_copier;
struct sl_fetch_pin;

/* What all readers begin with. */
struct sluice_reader {
    struct sl_object object;
    const struct sl_channel_ops *ops;
    char name[SL_CHANNEL_NAME];
    sl_word32 busy; /* as in a writer, for acquire */
    struct sl_frame_streams streams;
    sl_mutex copier_lock; /* guards the members below; held while a copier is made, which may wait for the driver */
    struct sl_fetch_copier *copiers;
    struct sl_fetch_pin *fetch_pins; /* of fetches that were given up */
};

/* Results and messages are those that the public calls promise. The API has checked for all: handles; pointers that may
 * not be NULL; time-outs; that no frame is committed behind the wait for one that is still to come. A writer's calls
 * come from one thread at a time, except stats and view; a reader's from any thread, except acquire. */
struct sl_channel_ops {
    const char *scheme;
    size_t writer_bytes, reader_bytes; /* of the structs that begin with the ones above */
    bool counts_readers;               /* in a writer's stats */

    int (*check_name)(const char *name); /* SLUICE_E_NAME with a message */
    int (*info)(const char *name, int64_t timeout_ns, struct sluice_channel_info *info,
                struct sluice_reader_info *readers, uint32_t capacity);

    /* The registry; NULL for channels that it does not list. `folder`: NULL for this process's own. */
    const char *(*registry_folder)(void);
    int (*registry_list)(const char *folder, struct sluice_registry_entry *entries, size_t capacity, size_t *count);
    int (*registry_watch)(const char *folder, struct sl_registry_watch *watch);
    /* Was its folder removed or replaced? Then the one that has the path now is watched, and the answer is true. */
    bool (*registry_watch_again)(struct sl_registry_watch *watch);

    /* Opens a zeroed writer that has its ops and name. Strings and structs that `params` points to do not outlive the
     * call. Sets object.finish before it can fail; that ends the writer, however far it was opened. */
    int (*writer_open)(struct sluice_writer *writer, const struct sluice_writer_params *params);
    int (*begin)(struct sluice_writer *writer, int64_t timeout_ns, struct sluice_frame *frame);
    int (*wait)(struct sluice_writer *writer, int64_t timeout_ns);
    int (*commit)(struct sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream);
    int (*cancel)(struct sluice_writer *writer, struct sluice_frame *frame, struct sluice_stream stream);
    int (*send)(struct sluice_writer *writer, struct sluice_frame *header, const struct sluice_array *arrays,
                uint32_t count, struct sluice_stream stream, struct sluice_ticket *ticket);
    int (*reformat)(struct sluice_writer *writer, const struct sluice_format *format); /* complete */
    int (*writer_format)(struct sluice_writer *writer, struct sluice_format *format);
    void (*writer_stats)(struct sluice_writer *writer, struct sluice_writer_stats *stats);
    int (*writer_pin)(struct sluice_writer *writer, const struct sluice_frame *frame, sluice_pin **pin);
    int (*writer_view)(struct sluice_writer *writer, const struct sluice_frame *frame, struct sl_view *view);

    /* As writer_open. */
    int (*reader_open)(struct sluice_reader *reader, const struct sluice_reader_params *params);
    int (*acquire)(struct sluice_reader *reader, struct sluice_stream stream, int64_t timeout_ns,
                   struct sluice_frame *frame);
    int (*release)(struct sluice_reader *reader, struct sluice_frame *frame, struct sluice_stream stream);
    int (*check)(struct sluice_reader *reader, const struct sluice_frame *frame);
    int (*check_fetched)(
        struct sluice_reader *reader,
        const struct sluice_frame *frame); /* is it whole, after a fetch that is done? NULL: leases see to that */
    int (*reader_format)(struct sluice_reader *reader, struct sluice_format *format);
    void (*reader_device)(struct sluice_reader *reader, char name[SL_DEVICE_NAME]); /* "": not known yet */
    int (*reader_fd)(struct sluice_reader *reader);
    void (*reader_stats)(struct sluice_reader *reader, struct sluice_reader_stats *stats);
    void (*reader_stop)(struct sluice_reader *reader);
    void (*reader_stopped)(
        struct sluice_reader *reader); /* by close, after stop: waits for what still uses the reader */
    int (*reader_pin)(struct sluice_reader *reader, const struct sluice_frame *frame, sluice_pin **pin);
    int (*reader_view)(struct sluice_reader *reader, const struct sluice_frame *frame, struct sl_view *view);
};

/* The backend of a channel's name, by its scheme if it has one; *name is what follows the scheme. SLUICE_E_NAME, with a
 * message, for an invalid name. */
int sl_channel_of(const char *channel, const struct sl_channel_ops **ops, const char **name);

/* The backend whose channels have no scheme, which the registry lists. */
const struct sl_channel_ops *sl_channel_standard(void);

/* SLUICE_E_INVALID if parameters that only one backend takes are given to another. */
int sl_channel_check_writer_params(const struct sl_channel_ops *ops, const char *name,
                                   const struct sluice_writer_params *params);
int sl_channel_check_reader_params(const struct sl_channel_ops *ops, const char *name,
                                   const struct sluice_reader_params *params);

/* The writer or reader behind a handle, kept alive until sl_object_drop. */
int sl_writer_hold(sluice_writer *handle, struct sluice_writer **writer);
int sl_reader_hold(sluice_reader *handle, struct sluice_reader **reader);

/* Behind sluice_writer_wait_readers. */
int sl_writer_wait_readers(sluice_writer *handle, uint32_t count, int64_t timeout_ns);

/* The same for a writer's calls that one thread at a time may make. SLUICE_E_BUSY in debug builds. */
int sl_writer_enter(sluice_writer *handle, struct sluice_writer **writer);
void sl_writer_leave(struct sluice_writer *writer);

/* The same for acquire, on a reader that is held. */
int sl_reader_enter(struct sluice_reader *reader);
void sl_reader_leave(struct sluice_reader *reader);

#endif
