/* SPDX-License-Identifier: MIT
 *
 * What a source includes from folders of the program, so that compiled code is not taken from the cache once a header
 * has changed. Each file counts that any #include could mean, also one that is in a comment or passed over by an #if.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cache.h"
#include "os/os.h"

#define MOST_FILES 4096
#define MOST_PATH  4096

struct text {
    const char *at, *end;
};

struct include {
    struct text name;
    bool quoted; /* "name", else <name> */
};

struct search {
    struct text *folders; /* of the options and the environment */
    size_t folder_count;
    struct sl_os_file files[MOST_FILES]; /* found so far */
    char *paths[MOST_FILES];
    uint32_t count, scanned;
    char *lines; /* the result */
    size_t size, room;
    bool failed;
};

/* ---- directives ---- */

static bool skip(struct text *text, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0)
        return false;
    text->at += length;
    return true;
}

static void skip_blanks(struct text *text)
{
    while (text->at < text->end && strchr(" \t\r\f\v", *text->at) && *text->at)
        text->at++;
}

static const char *line_end(const struct text *text)
{
    const char *end = memchr(text->at, '\n', (size_t)(text->end - text->at));

    return end ? end : text->end;
}

/* Finds the next #include. Its name is empty if a macro or a comment stands there. False at the end. */
static bool next_include(struct text *text, struct include *include)
{
    while (text->at < text->end) {
        struct text line = { text->at, line_end(text) };
        text->at = line.end < text->end ? line.end + 1 : line.end;
        skip_blanks(&line);
        if (!skip(&line, "#") && !skip(&line, "%:"))
            continue;
        skip_blanks(&line);
        if (!skip(&line, "include"))
            continue;
        skip(&line, "_next");
        skip_blanks(&line);
        include->quoted = line.at < line.end && *line.at == '"';
        include->name = (struct text){ line.at, line.at };
        if (include->quoted || skip(&line, "<")) {
            line.at += include->quoted;
            const char *end = memchr(line.at, include->quoted ? '"' : '>', (size_t)(line.end - line.at));
            include->name = (struct text){ line.at, end ? end : line.at };
        }
        return true;
    }
    return false;
}

/* ---- files ---- */

static void add_line(struct search *search, const char *path, const char *bytes, size_t size)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    size_t length = strlen(path) + 48;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x100000001b3);
    if (search->room - search->size < length) {
        size_t room = 2 * search->room + length;
        char *more = realloc(search->lines, room);
        if (!more) {
            search->failed = true;
            return;
        }
        search->lines = more;
        search->room = room;
    }
    search->size += (size_t)snprintf(search->lines + search->size, search->room - search->size,
                                     "%s %zu %016" PRIx64 "\n", path, size, hash);
}

static bool is_known(const struct search *search, const struct sl_os_file *file)
{
    for (uint32_t i = 0; i < search->count; i++)
        if (search->files[i].inode == file->inode && search->files[i].device == file->device)
            return true;
    return false;
}

static void consider(struct search *search, struct text folder, struct text name)
{
    char path[MOST_PATH];
    struct sl_os_file file;
    int length = snprintf(path, sizeof path, "%.*s%s%.*s", (int)(folder.end - folder.at), folder.at,
                          folder.at < folder.end ? "/" : "", (int)(name.end - name.at), name.at);

    if (length < 0 || (size_t)length >= sizeof path || !sl_os_file_at(-1, path, &file) || is_known(search, &file))
        return;
    char *copy = search->count < MOST_FILES ? strdup(path) : NULL;
    if (!copy) {
        search->failed = true;
        return;
    }
    search->files[search->count] = file;
    search->paths[search->count++] = copy;
}

/* `folder`: the folder of the file that includes it. */
static void consider_all(struct search *search, const struct include *include, struct text folder)
{
    struct text none = { "", "" };

    if (include->name.at == include->name.end) {
        search->failed = true;
        return;
    }
    if (*include->name.at == '/') {
        consider(search, none, include->name);
        return;
    }
    if (include->quoted) {
        consider(search, folder, include->name);
        consider(search, none, include->name);
    }
    for (size_t i = 0; i < search->folder_count && !search->failed; i++)
        consider(search, search->folders[i], include->name);
}

static void scan(struct search *search, struct text text, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct text folder = { path, slash ? slash : path };
    struct include include;

    while (!search->failed && next_include(&text, &include))
        consider_all(search, &include, folder);
}

/* Files that are found on the way are added at the end of the list. The compiler reports files that cannot be read. */
static void scan_files(struct search *search)
{
    void *bytes;
    size_t size;

    for (; search->scanned < search->count && !search->failed; search->scanned++) {
        const char *path = search->paths[search->scanned];
        if (sl_os_file_read(path, &bytes, &size) != 0)
            continue;
        add_line(search, path, bytes, size);
        scan(search, (struct text){ bytes, (const char *)bytes + size }, path);
        free(bytes);
    }
}

/* ---- folders ---- */

static struct text whole(const char *text)
{
    return (struct text){ text, text + strlen(text) };
}

/* Reads the value of an option, which may be the next word. False if it is another option. */
static bool read_option(const struct sl_source *source, uint32_t *at, const char *name, const char **value)
{
    const char *option = source->options[*at];
    size_t length = strlen(name);

    if (strncmp(option, name, length) != 0)
        return false;
    *value = option + length + (option[length] == '=');
    if (!**value && *at + 1 < source->option_count)
        *value = source->options[++*at];
    return true;
}

/* Reads folders, and files that are included before the source. */
static void read_options(struct search *search, const struct sl_source *source, bool files)
{
    const char *value;

    for (uint32_t i = 0; i < source->option_count; i++) {
        bool file = read_option(source, &i, "-include", &value) || read_option(source, &i, "--pre-include", &value);
        struct include include = { .quoted = true };
        if (!file && !read_option(source, &i, "-I", &value) && !read_option(source, &i, "--include-path", &value))
            continue;
        include.name = whole(value);
        if (file && files)
            consider_all(search, &include, whole(""));
        else if (!file && !files)
            search->folders[search->folder_count++] = whole(value);
    }
}

static size_t count_folders(const char *list)
{
    size_t count = list != NULL;

    for (; list && *list; list++)
        count += *list == ':';
    return count;
}

/* Reads folders separated by colons, as in CPATH. */
static void add_folders(struct search *search, const char *list)
{
    while (list) {
        const char *end = strchr(list, ':');
        search->folders[search->folder_count++] = (struct text){ list, end ? end : list + strlen(list) };
        list = end ? end + 1 : NULL;
    }
}

static bool find_folders(struct search *search, const struct sl_source *source)
{
    const char *first = getenv("CPATH"), *second = getenv("CPLUS_INCLUDE_PATH");
    size_t count = source->option_count + count_folders(first) + count_folders(second);

    search->folders = malloc((count + 1) * sizeof *search->folders);
    if (!search->folders)
        return false;
    read_options(search, source, false);
    add_folders(search, first);
    add_folders(search, second);
    return true;
}

static bool has_none(const struct sl_source *source)
{
    struct text text = { source->text, source->text + source->bytes };
    struct include include;

    return source->option_count == 0 && !next_include(&text, &include);
}

char *sl_source_includes(const struct sl_source *source)
{
    struct search *search = has_none(source) ? NULL : calloc(1, sizeof *search);
    char *lines = NULL;

    if (!search)
        return has_none(source) ? strdup("") : NULL;
    search->lines = calloc(search->room = 1, 1);
    if (search->lines && find_folders(search, source)) {
        read_options(search, source, true);
        scan(search, (struct text){ source->text, source->text + source->bytes }, "");
        scan_files(search);
    }
    if (search->lines && search->folders && !search->failed) {
        lines = search->lines;
        search->lines = NULL;
    }
    for (uint32_t i = 0; i < search->count; i++)
        free(search->paths[i]);
    free(search->folders);
    free(search->lines);
    free(search);
    return lines;
}
