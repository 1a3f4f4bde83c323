/* SPDX-License-Identifier: MIT
 *
 * What a source includes from folders of the program, so that compiled code is not taken from the cache once a header
 * has changed. Each file counts that any #include could mean, also one that is in a comment or passed over by an #if:
 * a change of one that it does not mean costs no more than a compilation.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cache.h"
#include "os/os.h"
#include "util/hash.h"

#define MOST_FILES 4096

struct text {
    const char *at, *end;
};

struct search {
    const struct sl_source *source;
    struct sl_os_file files[MOST_FILES]; /* found so far */
    char *paths[MOST_FILES];
    uint32_t count;
    bool failed;
};

static struct text whole(const char *text)
{
    return (struct text){ text, text + strlen(text) };
}

/* ---- directives ---- */

/* Skips blanks, and then the word if it is there. */
static bool skip(struct text *line, const char *word)
{
    size_t length = strlen(word);

    while (line->at < line->end && strchr(" \t\r\f\v", *line->at) && *line->at)
        line->at++;
    if ((size_t)(line->end - line->at) < length || memcmp(line->at, word, length) != 0)
        return false;
    line->at += length;
    return true;
}

/* Finds what the next #include names; nothing if a macro or a comment stands there. False at the end. */
static bool next_include(struct text *text, struct text *name)
{
    while (text->at < text->end) {
        const char *end = memchr(text->at, '\n', (size_t)(text->end - text->at)), *close = NULL;
        struct text line = { text->at, end ? end : text->end };
        text->at = end ? end + 1 : text->end;
        if (!(skip(&line, "#") || skip(&line, "%:")) || !skip(&line, "include"))
            continue;
        skip(&line, "_next");
        if (skip(&line, "\""))
            close = memchr(line.at, '"', (size_t)(line.end - line.at));
        else if (skip(&line, "<"))
            close = memchr(line.at, '>', (size_t)(line.end - line.at));
        *name = (struct text){ line.at, close ? close : line.at };
        return true;
    }
    return false;
}

/* ---- files ---- */

static bool is_known(const struct search *search, const struct sl_os_file *file)
{
    for (uint32_t i = 0; i < search->count; i++)
        if (search->files[i].inode == file->inode && search->files[i].device == file->device)
            return true;
    return false;
}

/* Adds a file to the list, if there is one. `folder` may be empty. */
static void consider(struct search *search, struct text folder, struct text name)
{
    struct sl_os_file file;
    char *path;

    if (asprintf(&path, "%.*s%s%.*s", (int)(folder.end - folder.at), folder.at, folder.at < folder.end ? "/" : "",
                 (int)(name.end - name.at), name.at) < 0) {
        search->failed = true;
        return;
    }
    bool found = sl_os_file_at(-1, path, &file) && !is_known(search, &file);
    if (found && search->count < MOST_FILES) {
        search->files[search->count] = file;
        search->paths[search->count++] = path;
        return;
    }
    search->failed = search->failed || found;
    free(path);
}

/* `list`: folders separated by colons. */
static void consider_list(struct search *search, const char *list, struct text name)
{
    while (list) {
        const char *end = strchrnul(list, ':');
        consider(search, (struct text){ list, end }, name);
        list = *end ? end + 1 : NULL;
    }
}

/* `folder`: of the file that includes it. */
static void consider_all(struct search *search, struct text name, struct text folder)
{
    const char *value;

    search->failed = search->failed || name.at == name.end;
    consider(search, folder, name);
    consider(search, whole(""), name);
    for (uint32_t i = 0; i < search->source->option_count; i++)
        if (sl_source_option(search->source, &i, &value) == 'I')
            consider(search, whole(value), name);
    consider_list(search, getenv("CPATH"), name);
    consider_list(search, getenv("CPLUS_INCLUDE_PATH"), name);
}

static void scan(struct search *search, struct text text, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct text folder = { path, slash ? slash : path }, name;

    while (!search->failed && next_include(&text, &name))
        consider_all(search, name, folder);
}

static void scan_source(struct search *search)
{
    const struct sl_source *source = search->source;
    const char *value;

    for (uint32_t i = 0; i < source->option_count; i++)
        if (sl_source_option(source, &i, &value) == 'i')
            consider_all(search, whole(value), whole(""));
    scan(search, (struct text){ source->text, source->text + source->bytes }, "");
}

/* Files that are found on the way are added at the end of the list. The compiler reports files that cannot be read. */
static void scan_files(struct search *search, FILE *lines)
{
    void *bytes;
    size_t size;

    for (uint32_t i = 0; i < search->count && !search->failed; i++) {
        const char *path = search->paths[i];
        if (sl_os_file_read(path, &bytes, &size) != 0)
            continue;
        fprintf(lines, "%s %zu %016" PRIx64 "\n", path, size, sl_hash(size, bytes, size));
        scan(search, (struct text){ bytes, (const char *)bytes + size }, path);
        free(bytes);
    }
}

char *sl_source_includes(const struct sl_source *source)
{
    struct search *search = calloc(1, sizeof *search);
    char *text = NULL;
    size_t size;
    FILE *lines = search ? open_memstream(&text, &size) : NULL;

    if (lines) {
        search->source = source;
        scan_source(search);
        scan_files(search, lines);
        if (fclose(lines) != 0 || search->failed) {
            free(text);
            text = NULL;
        }
    }
    for (uint32_t i = 0; search && i < search->count; i++)
        free(search->paths[i]);
    free(search);
    return text;
}
