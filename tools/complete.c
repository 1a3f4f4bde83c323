/* SPDX-License-Identifier: MIT
 *
 * Completion from the tables of options and arguments. The placeholder in --help (FILE, CHANNEL, N|max) determines the
 * candidates for an option or argument.
 */
#include "complete.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "common/cipd.h"
#include "common/describe.h"
#include "common/term.h"
#include "external.h"
#include "ls/ls.h"

#define MAX_CHANNELS 256
#define WORD         64

/* The command line so far. */
struct line {
    const struct command *command;
    const char *typed;                /* the word at the cursor */
    const struct args_option *option; /* the option whose value is typed, or NULL */
    bool ended;                       /* after "--": no more options */
    int arguments;                    /* number of complete arguments */
    const char *channel;              /* the argument CHANNEL or FROM, or NULL */
};

/* Prints a candidate if it starts with the typed word. `before` is the part of the word that precedes it, "--size=". */
static void offer(const char *typed, const char *before, const char *word, const char *what)
{
    size_t length = strlen(typed), first = strlen(before);
    size_t rest = length > first ? length - first : 0;
    if (strncmp(typed, before, length - rest) == 0 && strncmp(typed + length - rest, word, rest) == 0)
        printf("%s%s%s%s\n", before, word, what[0] ? "\t" : "", what);
}

static struct sluice_registry_entry entries[MAX_CHANNELS];

/* Lists the native channels; returns their number. */
static size_t list_entries(void)
{
    size_t count = 0;
    if (sluice_registry_list(NULL, entries, MAX_CHANNELS, &count) != SLUICE_OK)
        return 0;
    return count < MAX_CHANNELS ? count : MAX_CHANNELS;
}

static void offer_native_channels(const char *typed, const char *before)
{
    int64_t until = now_ns() + WRITER_TIMEOUT; /* for all of them together: the user is waiting */
    size_t count = list_entries();
    for (size_t i = 0; i < count; i++) {
        struct sluice_channel_info info = { .size = sizeof info };
        char format[FORMAT_TEXT];
        const char *what = "the writer died";
        if (entries[i].live)
            what = query_channel(entries[i].name, entries[i].pid, until, NULL, &info, NULL, 0) == SLUICE_OK
                       ? text_format(format, &info.format)
                       : "the writer does not answer";
        offer(typed, before, entries[i].name, what);
    }
}

static const char *describe_cipd(const struct cipd_row *row, char text[FORMAT_TEXT])
{
    if (row->result)
        return row->reason;
    return row->info.slot_count ? cipd_text_frame(text, &row->info) : row->info.why;
}

static void offer_cipd_channels(const char *typed, const char *before)
{
    struct cipd_rows rows;
    char name[sizeof rows.list->info.name + 8], text[FORMAT_TEXT];
    ls_cipd_list(&rows);
    for (size_t i = 0; i < rows.count; i++) {
        snprintf(name, sizeof name, "cipd:%s", rows.list[i].info.name);
        offer(typed, before, name, describe_cipd(&rows.list[i], text));
    }
    free(rows.list);
}

static void offer_channels(const char *typed, const char *before)
{
    offer_native_channels(typed, before);
    offer_cipd_channels(typed, before);
}

/* Finds the writer's pid in the list first: query_channel does not wait for a stopped writer. */
static int query_by_name(const char *channel, struct sluice_channel_info *info)
{
    size_t count = list_entries();
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, channel) == 0)
            return query_channel(entries[i].name, entries[i].pid, now_ns() + WRITER_TIMEOUT, NULL, info, NULL, 0);
    return sluice_channel_info(channel, WRITER_TIMEOUT, info, NULL, 0);
}

static void offer_arrays(const char *typed, const char *before, const char *channel)
{
    struct sluice_channel_info info = { .size = sizeof info };
    char text[FORMAT_TEXT];
    if (!channel || query_by_name(channel, &info) != SLUICE_OK)
        return;
    for (uint32_t i = 0; i < info.format.array_count; i++)
        offer(typed, before, info.format.arrays[i].name, text_array(text, &info.format.arrays[i]));
}

static void offer_formats(const char *typed, const char *before)
{
#define ENTRY(name, number, text) offer(typed, before, text, "pixel format");
    SLUICE_PIXEL_FORMATS(ENTRY)
#undef ENTRY
}

static void offer_devices(const char *typed, const char *before)
{
    glob_t found;
    if (glob("/dev/video*", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            offer(typed, before, found.gl_pathv[i], "camera");
        globfree(&found);
    }
}

/* From the device nodes: initialising CUDA would take too long. */
static void offer_gpus(const char *typed, const char *before)
{
    char word[WORD];
    glob_t found;
    if (glob("/dev/nvidia[0-9]*", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            snprintf(word, sizeof word, "cuda:%zu", i);
            offer(typed, before, word, "GPU");
        }
        globfree(&found);
    }
}

static void offer_words(const struct line *line, const char *before)
{
    const char *word;
    for (size_t i = 0; line->command->word && (word = line->command->word(i)); i++)
        offer(line->typed, before, word, "");
}

/* Candidates for one alternative of a placeholder. A word in lower case is itself the candidate. */
static void offer_kind(const struct line *line, const char *before, const char *kind)
{
    if (strcmp(kind, "CHANNEL") == 0 || strcmp(kind, "FROM") == 0)
        offer_channels(line->typed, before);
    else if (strcmp(kind, "ARRAY") == 0)
        offer_arrays(line->typed, before, line->channel);
    else if (strcmp(kind, "FORMAT") == 0)
        offer_formats(line->typed, before);
    else if (strcmp(kind, "COLUMN") == 0 || strcmp(kind, "ROW") == 0)
        offer_words(line, before);
    else if (strcmp(kind, "DEVICE") == 0)
        offer_devices(line->typed, before);
    else if (strcmp(kind, "GPU") == 0)
        offer_gpus(line->typed, before);
    else if (strcmp(kind, "FOLDER") == 0)
        printf(":folders\n");
    else if (strcmp(kind, "FILE") == 0 || strcmp(kind, "KERNEL.cu") == 0 || strcmp(kind, "PROGRAM") == 0 ||
             strncmp(kind, "OUT", 3) == 0)
        printf(":files\n");
    else if (islower((unsigned char)kind[0]))
        offer(line->typed, before, kind, line->option ? line->option->help : "");
}

/* Candidates for a placeholder such as "FILE|DEVICE|test". */
static void offer_values(const struct line *line, const char *before, const char *placeholder)
{
    char last[WORD] = "", kind[WORD];
    while (*placeholder) {
        size_t length = strcspn(placeholder, "|");
        snprintf(kind, sizeof kind, "%.*s", (int)length, placeholder);
        /* OUT.png|OUT.npy are both files: print :files once. */
        if (strncmp(kind, "OUT", 3) != 0 || strncmp(last, "OUT", 3) != 0)
            offer_kind(line, before, kind);
        snprintf(last, sizeof last, "%s", kind);
        placeholder += length + (placeholder[length] == '|');
    }
}

static void offer_options(const struct line *line)
{
    const struct args_option *option = line->command->options;
    for (; option && option->name; option++)
        offer(line->typed, "--", option->name, option->help);
    offer(line->typed, "--", "help", "options and examples");
}

/* The placeholder of the argument at `index`, without brackets and dots; false if there is none. */
static bool argument_at(const struct command *command, int index, char text[WORD])
{
    const char *at = command->arguments;
    for (;; index--) {
        at += strspn(at, " []");
        size_t length = strcspn(at, " []");
        if (length == 0)
            return false;
        size_t dots = length > 3 && strncmp(at + length - 3, "...", 3) == 0 ? 3 : 0;
        const char *behind = at + length + strspn(at + length, " ]");
        snprintf(text, WORD, "%.*s", (int)(length - dots), at);
        if (index == 0 || dots || strncmp(behind, "...", 3) == 0)
            return true;
        at += length;
    }
}

static const struct args_option *find_option(const struct command *command, char letter, const char *name,
                                             size_t length)
{
    const struct args_option *option = command->options;
    for (; option && option->name; option++)
        if (letter ? option->letter == letter
                   : strlen(option->name) == length && strncmp(option->name, name, length) == 0)
            return option;
    return NULL;
}

/* The option in a complete word that takes the next word as its value, or NULL. */
static const struct args_option *option_awaiting_value(const struct command *command, const char *word)
{
    if (word[1] == '-') {
        const struct args_option *option = find_option(command, 0, word + 2, strlen(word + 2));
        return option && option->value ? option : NULL;
    }
    for (word++; *word; word++) {
        const struct args_option *option = find_option(command, *word, NULL, 0);
        if (option && option->value)
            return word[1] ? NULL : option;
    }
    return NULL;
}

/* Advances over a complete word. */
static void advance(struct line *line, const char *word)
{
    char name[WORD];
    if (line->option) {
        line->option = NULL;
    } else if (!line->ended && strcmp(word, "--") == 0) {
        line->ended = true;
    } else if (!line->ended && word[0] == '-' && word[1]) {
        line->option = option_awaiting_value(line->command, word);
    } else {
        if (argument_at(line->command, line->arguments, name) &&
            (strcmp(name, "CHANNEL") == 0 || strcmp(name, "FROM") == 0))
            line->channel = word;
        line->arguments++;
    }
}

static void offer_next(struct line *line)
{
    const char *equals = strchr(line->typed, '=');
    char text[WORD];
    if (line->option) {
        offer_values(line, "", line->option->value);
    } else if (!line->ended && strncmp(line->typed, "--", 2) == 0 && equals) {
        size_t length = (size_t)(equals - line->typed);
        line->option = find_option(line->command, 0, line->typed + 2, length - 2);
        snprintf(text, sizeof text, "%.*s", (int)length + 1, line->typed);
        if (line->option && line->option->value)
            offer_values(line, text, line->option->value);
    } else if (!line->ended && line->typed[0] == '-') {
        offer_options(line);
    } else if (line->arguments < line->command->max_arguments && argument_at(line->command, line->arguments, text)) {
        offer_values(line, "", text);
    }
}

static void offer_commands(const struct command *const *commands, size_t count, const char *typed)
{
    for (size_t i = 0; i < count; i++)
        offer(typed, "", commands[i]->name, commands[i]->summary);
}

static void offer_external(const char *name, void *typed)
{
    offer(typed, "", name, "a program of its own");
}

void complete(const struct command *const *commands, size_t count, int word_count, char **words)
{
    if (word_count < 1)
        return;
    struct line line = { .typed = words[word_count - 1] };
    if (word_count == 1) {
        offer_commands(commands, count, line.typed);
        external_list(offer_external, words[0]);
        offer(line.typed, "", "help", "options and examples of a command");
        offer(line.typed, "", "--help", "list the commands");
        offer(line.typed, "", "--version", "print the versions of release, API and wire");
    } else if (word_count == 2 && strcmp(words[0], "help") == 0) {
        offer_commands(commands, count, line.typed);
    }
    for (size_t i = 0; i < count; i++)
        if (strcmp(commands[i]->name, words[0]) == 0)
            line.command = commands[i];
    if (word_count == 1)
        return;
    if (!line.command) {
        char path[PATH_MAX];
        if (external_find(words[0], path, sizeof path))
            printf(":files\n");
        return;
    }
    for (int i = 1; i < word_count - 1; i++)
        advance(&line, words[i]);
    offer_next(&line);
}
