/* SPDX-License-Identifier: MIT
 *
 * The columns of sluice top: the table of channels, and the table of a channel's readers.
 */
#include "top.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../common/describe.h"
#include "../common/term.h"

#define LONG_LEASE SLUICE_S

size_t top_column_of(const struct top_table *table, const char *key)
{
    size_t i = 0;
    while (i < table->count && strcmp(table->columns[i].key, key) != 0)
        i++;
    return i;
}

char *top_count(char *text, size_t size, double number)
{
    static const char units[] = " kMGTPE";
    size_t unit = 0;
    if (number < 1e6) {
        snprintf(text, size, "%.0f", number);
        return text;
    }
    while (number >= 999.95 && unit + 1 < sizeof units - 1) {
        number /= 1000;
        unit++;
    }
    snprintf(text, size, "%.1f%c", number, units[unit]);
    return text;
}

/* ---- cells ---- */

static void set_text(struct top_cell *cell, const char *text)
{
    snprintf(cell->text, sizeof cell->text, "%s", text);
}

static void set_count(struct top_cell *cell, double number)
{
    cell->number = number;
    if (isfinite(number))
        top_count(cell->text, sizeof cell->text, number);
}

/* A count of losses: highlighted while it grows. */
static void set_loss(struct top_cell *cell, uint64_t number, uint64_t more)
{
    set_count(cell, (double)number);
    cell->style = more ? STYLE_YELLOW | STYLE_BOLD : number ? STYLE_YELLOW : STYLE_PLAIN;
}

static void set_rate(struct top_cell *cell, double rate)
{
    cell->number = rate;
    if (rate >= 0)
        snprintf(cell->text, sizeof cell->text, rate < 99999.95 ? "%.1f" : "%.2e", rate);
}

static void set_time(struct top_cell *cell, double ns)
{
    char text[TERM_TEXT];
    cell->number = ns;
    if (isfinite(ns))
        set_text(cell, text_duration(text, (int64_t)ns));
}

static void set_bytes(struct top_cell *cell, double bytes)
{
    char text[TERM_TEXT];
    cell->number = bytes;
    if (bytes >= 0)
        set_text(cell, text_bytes(text, (uint64_t)bytes));
}

/* A long lease may block a waiting writer. */
static void set_lease_age(struct top_cell *cell, uint64_t leases, int64_t age)
{
    set_time(cell, leases ? (double)age : NAN);
    cell->style = leases && age > LONG_LEASE ? STYLE_YELLOW : STYLE_PLAIN;
}

/* ---- channels ---- */

enum {
    NAME,
    STATE,
    FPS,
    LATENCY,
    LONGEST,
    HELD,
    DROPS,
    MISSED,
    LAG,
    LEASES,
    OLDEST,
    READERS,
    BYTES,
    FORMAT,
    DEVICE,
    WRITER,
    AGE,
};

static const struct top_column channel_columns[] = {
    [NAME] = { "name", "CHANNEL", "name", 8, 0, true },
    [STATE] = { "state", "STATE", "live, stuck, unfinished, dead, refused, version or odd: see sluice ls", 7, 1, true },
    [FPS] = { "fps", "FPS", "frames committed per second", 7, 2, false },
    [LATENCY] = { "latency", "LATENCY", "commit to acquire, average of all readers", 8, 3, false },
    [LONGEST] = { "longest", "LONGEST", "the longest latency in the last one to two seconds", 8, 8, false },
    [HELD] = { "held", "HELD", "acquire to release, average of the last few leases", 8, 9, false },
    [DROPS] = { "drops", "DROPS", "frames dropped without a free slot; bold while it grows", 6, 4, false },
    [MISSED] = { "missed", "MISSED", "frames that readers missed; bold while it grows", 6, 5, false },
    [LAG] = { "lag", "LAG", "frames that the slowest reader is behind", 4, 6, false },
    [LEASES] = { "leases", "LEASES", "frames that readers hold now", 6, 10, false },
    [OLDEST] = { "oldest", "OLDEST", "age of the oldest lease", 8, 12, false },
    [READERS] = { "readers", "READERS", "connected readers", 7, 7, false },
    [BYTES] = { "bytes", "BYTES/S", "bytes committed per second", 8, 11, false },
    [FORMAT] = { "format", "FORMAT", "of the first array, and the number of others", 6, 13, true },
    [DEVICE] = { "device", "DEVICE", "memory of the frames, as the writer names it", 6, 16, true },
    [WRITER] = { "writer", "WRITER", "program and process", 6, 14, true },
    [AGE] = { "age", "AGE", "time since the last frame", 8, 15, false },
};

static void channel_cell(const void *row, size_t column, struct top_cell *cell)
{
    const struct top_channel *channel = row;
    const struct sluice_channel_info *info = &channel->info;
    bool live = channel->result == SLUICE_OK && channel->entry.live && channel->answered;
    char format[FORMAT_TEXT];
    *cell = (struct top_cell){ .text = "-", .number = NAN };
    if (column == NAME) {
        set_text(cell, channel->entry.name);
    } else if (column == STATE) {
        set_text(cell, top_state(channel));
        cell->style = live ? STYLE_GREEN : top_is_dead(channel) ? STYLE_RED : STYLE_YELLOW;
    } else if (column == WRITER && !live) {
        if (channel->entry.pid)
            snprintf(cell->text, sizeof cell->text, "[%u]", channel->entry.pid);
    }
    if (!live)
        return;
    switch (column) {
    case FPS: set_rate(cell, channel->fps); break;
    case LATENCY: set_time(cell, channel->latency_ns); break;
    case LONGEST: set_time(cell, channel->longest_ns); break;
    case HELD: set_time(cell, channel->lease_ns); break;
    case DROPS: set_loss(cell, info->dropped, channel->new_drops); break;
    case MISSED: set_loss(cell, channel->missed, channel->new_missed); break;
    case LAG: set_count(cell, (double)channel->lag); break;
    case LEASES: set_count(cell, (double)channel->leases); break;
    case OLDEST: set_lease_age(cell, channel->leases, channel->oldest_ns); break;
    case READERS: set_count(cell, info->readers); break;
    case BYTES: set_bytes(cell, channel->bytes); break;
    case FORMAT: set_text(cell, text_format(format, &info->format)); break;
    case DEVICE: set_text(cell, info->device[0] ? info->device : "-"); break;
    case WRITER: snprintf(cell->text, sizeof cell->text, "%s[%u]", info->program, info->pid); break;
    case AGE: set_time(cell, info->last_commit_ns ? (double)(info->now_ns - info->last_commit_ns) : NAN); break;
    default: break;
    }
}

static void channel_name(const void *row, char name[TOP_CELL])
{
    snprintf(name, TOP_CELL, "%s", ((const struct top_channel *)row)->entry.name);
}

static bool channel_note(const void *row, struct top_cell *cell)
{
    const struct top_channel *channel = row;
    *cell = (struct top_cell){ .style = STYLE_DIM };
    if (channel->result == SLUICE_OK && channel->entry.live)
        return false;
    if (top_is_dead(channel))
        set_text(cell, "the writer died; the name may be reused");
    else
        set_text(cell, channel->reason);
    return true;
}

static const float *channel_history(const void *row)
{
    const struct top_channel *channel = row;
    return channel->history;
}

const struct top_table top_channels = {
    .columns = channel_columns,
    .count = sizeof channel_columns / sizeof channel_columns[0],
    .cell = channel_cell,
    .name = channel_name,
    .note = channel_note,
    .note_from = FPS,
    .sparkline = channel_history,
    .sparkline_rank = 8,
};

/* ---- readers ---- */

enum {
    R_PROGRAM,
    R_PID,
    R_MODE,
    R_FPS,
    R_LATENCY,
    R_LONGEST,
    R_HELD,
    R_LEASES,
    R_OLDEST,
    R_PARKED,
    R_LAG,
    R_TAKEN,
    R_MISSED,
    R_DEPTH,
    R_HOLD,
    R_EVERY,
    R_SLOTS,
    R_PATH,
};

static const struct top_column reader_columns[] = {
    [R_PROGRAM] = { "program", "READER", "program", 8, 0, true },
    [R_PID] = { "pid", "PID", "process", 7, 1, false },
    [R_MODE] = { "mode", "MODE", "newest, or in order", 8, 6, true },
    [R_FPS] = { "fps", "FPS", "frames acquired per second", 7, 2, false },
    [R_LATENCY] = { "latency", "LATENCY", "commit to acquire, average", 8, 3, false },
    [R_LONGEST] = { "longest", "LONGEST", "the longest latency in the last one to two seconds", 8, 10, false },
    [R_HELD] = { "held", "HELD", "acquire to release, average of the last few leases", 8, 7, false },
    [R_LEASES] = { "leases", "LEASES", "frames that it holds now", 6, 8, false },
    [R_OLDEST] = { "oldest", "OLDEST", "age of its oldest lease", 8, 9, false },
    [R_PARKED] = { "parked", "PARKED", "GPU streams that wait for frames acquired ahead", 6, 17, false },
    [R_LAG] = { "lag", "LAG", "frames that it is behind", 4, 4, false },
    [R_TAKEN] = { "taken", "TAKEN", "frames acquired", 7, 11, false },
    [R_MISSED] = { "missed", "MISSED", "frames that it missed", 6, 5, false },
    [R_DEPTH] = { "depth", "DEPTH", "unread frames that the writer keeps for it", 5, 14, false },
    [R_HOLD] = { "hold", "HOLD", "frames that it may hold at once", 4, 15, false },
    [R_EVERY] = { "every", "EVERY", "it acquires every n-th frame", 5, 16, false },
    [R_SLOTS] = { "slots", "SLOTS", "slots that it holds", 5, 12, true },
    [R_PATH] = { "path", "PATH", "how frames reach it, and why any are copied", 6, 13, true },
};

static void set_slots(struct top_cell *cell, uint64_t slots)
{
    size_t used = 0;
    for (unsigned slot = 0; slot < 64 && used < sizeof cell->text - 8; slot++)
        if (slots >> slot & 1)
            used += (size_t)snprintf(cell->text + used, sizeof cell->text - used, "%s%u", used ? "," : "", slot);
}

static void reader_cell(const void *row, size_t column, struct top_cell *cell)
{
    const struct top_reader *reader = row;
    const struct sluice_reader_info *info = &reader->info;
    *cell = (struct top_cell){ .text = "-", .number = NAN };
    switch (column) {
    case R_PROGRAM: set_text(cell, info->program); break;
    case R_PID: /* never abbreviated */
        cell->number = info->pid;
        snprintf(cell->text, sizeof cell->text, "%u", info->pid);
        break;
    case R_MODE:
        snprintf(cell->text, sizeof cell->text, "%s%s%s", mode_name(info->mode), info->writable ? ", writes" : "",
                 info->ahead ? ", ahead" : "");
        break;
    case R_FPS: set_rate(cell, reader->fps); break;
    case R_LATENCY: set_time(cell, reader->latency_ns); break;
    case R_LONGEST: set_time(cell, reader->longest_ns); break;
    case R_HELD: set_time(cell, reader->lease_ns); break;
    case R_LEASES: set_count(cell, info->held); break;
    case R_OLDEST: set_lease_age(cell, info->held, info->held_ns); break;
    case R_PARKED: set_count(cell, info->ahead ? (double)info->parked : NAN); break;
    case R_LAG: set_count(cell, (double)info->lag); break;
    case R_TAKEN: set_count(cell, (double)info->taken); break;
    case R_MISSED: set_loss(cell, info->missed, reader->new_missed); break;
    case R_DEPTH: set_count(cell, info->depth); break;
    case R_HOLD: set_count(cell, info->hold); break;
    case R_EVERY: set_count(cell, info->every); break;
    case R_SLOTS: set_slots(cell, info->held_slots); break;
    case R_PATH:
        snprintf(cell->text, sizeof cell->text, "%s%s%s", info->path, info->copy_reason[0] ? "; copied: " : "",
                 info->copy_reason);
        break;
    default: break;
    }
}

static void reader_name(const void *row, char name[TOP_CELL])
{
    const struct sluice_reader_info *info = &((const struct top_reader *)row)->info;
    snprintf(name, TOP_CELL, "%u %" PRId64, info->pid, info->joined_ns);
}

const struct top_table top_readers = {
    .columns = reader_columns,
    .count = sizeof reader_columns / sizeof reader_columns[0],
    .cell = reader_cell,
    .name = reader_name,
};
