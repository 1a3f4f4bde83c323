/* SPDX-License-Identifier: MIT
 *
 * The columns of sluice top: one table of channels, one of a channel's readers.
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

static void say_text(struct top_cell *cell, const char *text)
{
    snprintf(cell->text, sizeof cell->text, "%s", text);
}

static void say_count(struct top_cell *cell, double number)
{
    cell->number = number;
    if (isfinite(number))
        top_count(cell->text, sizeof cell->text, number);
}

/* A count that must not grow: told apart while it does. */
static void say_loss(struct top_cell *cell, uint64_t number, uint64_t more)
{
    say_count(cell, (double)number);
    cell->style = more ? STYLE_YELLOW | STYLE_BOLD : number ? STYLE_YELLOW : STYLE_PLAIN;
}

static void say_rate(struct top_cell *cell, double rate)
{
    cell->number = rate;
    if (rate >= 0)
        snprintf(cell->text, sizeof cell->text, rate < 99999.95 ? "%.1f" : "%.2e", rate);
}

static void say_time(struct top_cell *cell, double ns)
{
    char text[TERM_TEXT];
    cell->number = ns;
    if (isfinite(ns))
        say_text(cell, text_duration(text, (int64_t)ns));
}

static void say_bytes(struct top_cell *cell, double bytes)
{
    char text[TERM_TEXT];
    cell->number = bytes;
    if (bytes >= 0)
        say_text(cell, text_bytes(text, (uint64_t)bytes));
}

/* A lease that lasts may be what a writer is waiting for. */
static void say_lease_age(struct top_cell *cell, uint64_t leases, int64_t age)
{
    say_time(cell, leases ? (double)age : NAN);
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
    [NAME] = { "name", "CHANNEL", "its name", 8, 0, true },
    [STATE] = { "state", "STATE", "live, stuck, unfinished, dead, refused, version or odd: see sluice ls", 7, 1,
                true },
    [FPS] = { "fps", "FPS", "frames committed a second", 7, 2, false },
    [LATENCY] = { "latency", "LATENCY", "commit to acquire, average of all readers", 8, 3, false },
    [LONGEST] = { "longest", "LONGEST", "the longest of these in the last one to two seconds", 8, 8,
                  false },
    [HELD] = { "held", "HELD", "acquire to release, average of the last few leases", 8, 9, false },
    [DROPS] = { "drops", "DROPS", "frames that found no slot; bold while it grows", 6, 4, false },
    [MISSED] = { "missed", "MISSED", "frames that readers did not get; bold while it grows", 6, 5,
                 false },
    [LAG] = { "lag", "LAG", "frames that the last of the readers is behind", 4, 6, false },
    [LEASES] = { "leases", "LEASES", "frames that readers hold now", 6, 10, false },
    [OLDEST] = { "oldest", "OLDEST", "for how long the oldest of these is held", 8, 12, false },
    [READERS] = { "readers", "READERS", "that are connected", 7, 7, false },
    [BYTES] = { "bytes", "BYTES/S", "committed a second", 8, 11, false },
    [FORMAT] = { "format", "FORMAT", "of its first array, and how many more", 6, 13, true },
    [DEVICE] = { "device", "DEVICE", "where its frames lie, as its writer calls it", 6, 16, true },
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
        say_text(cell, channel->entry.name);
    } else if (column == STATE) {
        say_text(cell, top_state(channel));
        cell->style = live ? STYLE_GREEN : top_is_dead(channel) ? STYLE_RED : STYLE_YELLOW;
    } else if (column == WRITER && !live) {
        if (channel->entry.pid)
            snprintf(cell->text, sizeof cell->text, "[%u]", channel->entry.pid);
    }
    if (!live)
        return;
    switch (column) {
    case FPS: say_rate(cell, channel->fps); break;
    case LATENCY: say_time(cell, channel->latency_ns); break;
    case LONGEST: say_time(cell, channel->longest_ns); break;
    case HELD: say_time(cell, channel->lease_ns); break;
    case DROPS: say_loss(cell, info->dropped, channel->new_drops); break;
    case MISSED: say_loss(cell, channel->missed, channel->new_missed); break;
    case LAG: say_count(cell, (double)channel->lag); break;
    case LEASES: say_count(cell, (double)channel->leases); break;
    case OLDEST: say_lease_age(cell, channel->leases, channel->oldest_ns); break;
    case READERS: say_count(cell, info->readers); break;
    case BYTES: say_bytes(cell, channel->bytes); break;
    case FORMAT: say_text(cell, text_format(format, &info->format)); break;
    case DEVICE: say_text(cell, info->device[0] ? info->device : "-"); break;
    case WRITER: snprintf(cell->text, sizeof cell->text, "%s[%u]", info->program, info->pid); break;
    case AGE:
        say_time(cell, info->last_commit_ns ? (double)(info->now_ns - info->last_commit_ns) : NAN);
        break;
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
        say_text(cell, "its writer died; the name is free to take");
    else
        say_text(cell, channel->reason);
    return true;
}

static const float *channel_spark(const void *row)
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
    .spark = channel_spark,
    .spark_rank = 8,
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
    [R_PROGRAM] = { "program", "READER", "its program", 8, 0, true },
    [R_PID] = { "pid", "PID", "its process", 7, 1, false },
    [R_MODE] = { "mode", "MODE", "newest, or in order", 8, 6, true },
    [R_FPS] = { "fps", "FPS", "frames that it takes a second", 7, 2, false },
    [R_LATENCY] = { "latency", "LATENCY", "commit to acquire, average", 8, 3, false },
    [R_LONGEST] = { "longest", "LONGEST", "the longest in the last one to two seconds", 8, 10,
                    false },
    [R_HELD] = { "held", "HELD", "acquire to release, average of the last few", 8, 7, false },
    [R_LEASES] = { "leases", "LEASES", "frames that it holds now", 6, 8, false },
    [R_OLDEST] = { "oldest", "OLDEST", "for how long the oldest of these", 8, 9, false },
    [R_PARKED] = { "parked", "PARKED", "streams that wait on its GPU for frames ahead of them", 6,
                   17, false },
    [R_LAG] = { "lag", "LAG", "frames that it is behind", 4, 4, false },
    [R_TAKEN] = { "taken", "TAKEN", "frames", 7, 11, false },
    [R_MISSED] = { "missed", "MISSED", "frames that it did not get", 6, 5, false },
    [R_DEPTH] = { "depth", "DEPTH", "unread frames that are kept for it", 5, 14, false },
    [R_HOLD] = { "hold", "HOLD", "frames that it may hold at once", 4, 15, false },
    [R_EVERY] = { "every", "EVERY", "it takes each n-th frame", 5, 16, false },
    [R_SLOTS] = { "slots", "SLOTS", "that it holds", 5, 12, true },
    [R_PATH] = { "path", "PATH", "how frames reach it, and why any are copied", 6, 13, true },
};

static void say_slots(struct top_cell *cell, uint64_t slots)
{
    size_t used = 0;
    for (unsigned slot = 0; slot < 64 && used < sizeof cell->text - 8; slot++)
        if (slots >> slot & 1)
            used += (size_t)snprintf(cell->text + used, sizeof cell->text - used, "%s%u",
                                     used ? "," : "", slot);
}

static void reader_cell(const void *row, size_t column, struct top_cell *cell)
{
    const struct top_reader *reader = row;
    const struct sluice_reader_info *info = &reader->info;
    *cell = (struct top_cell){ .text = "-", .number = NAN };
    switch (column) {
    case R_PROGRAM: say_text(cell, info->program); break;
    case R_PID: /* whole */
        cell->number = info->pid;
        snprintf(cell->text, sizeof cell->text, "%u", info->pid);
        break;
    case R_MODE:
        snprintf(cell->text, sizeof cell->text, "%s%s%s", mode_name(info->mode),
                 info->writable ? ", writes" : "", info->ahead ? ", ahead" : "");
        break;
    case R_FPS: say_rate(cell, reader->fps); break;
    case R_LATENCY: say_time(cell, reader->latency_ns); break;
    case R_LONGEST: say_time(cell, reader->longest_ns); break;
    case R_HELD: say_time(cell, reader->lease_ns); break;
    case R_LEASES: say_count(cell, info->held); break;
    case R_OLDEST: say_lease_age(cell, info->held, info->held_ns); break;
    case R_PARKED: say_count(cell, info->ahead ? (double)info->parked : NAN); break;
    case R_LAG: say_count(cell, (double)info->lag); break;
    case R_TAKEN: say_count(cell, (double)info->taken); break;
    case R_MISSED: say_loss(cell, info->missed, reader->new_missed); break;
    case R_DEPTH: say_count(cell, info->depth); break;
    case R_HOLD: say_count(cell, info->hold); break;
    case R_EVERY: say_count(cell, info->every); break;
    case R_SLOTS: say_slots(cell, info->held_slots); break;
    case R_PATH:
        snprintf(cell->text, sizeof cell->text, "%s%s%s", info->path,
                 info->copy_reason[0] ? "; copied: " : "", info->copy_reason);
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
