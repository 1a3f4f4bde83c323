/* SPDX-License-Identifier: MIT
 *
 * No other programs are started here, so `play` has its test picture only.
 */
#include "../media/media.h"

#include <string.h>

#include "../common/args.h"
#include "../common/child.h"
#include "../common/term.h"
#include "../media/source.h"

bool child_find(const char *program, char *path, size_t size)
{
    (void)program;
    (void)path;
    (void)size;
    return false;
}

int media_decode(struct media_decoder *decoder, const struct source *source)
{
    (void)decoder;
    (void)source;
    return EXIT_FAILED;
}

bool media_next(struct media_decoder *decoder)
{
    (void)decoder;
    return false;
}

bool media_pixels(struct media_decoder *decoder, const struct sluice_array *image)
{
    (void)decoder;
    (void)image;
    return false;
}

int media_end(struct media_decoder *decoder, bool whole)
{
    (void)decoder;
    (void)whole;
    return EXIT_FAILED;
}

int source_open(struct source *source)
{
    source->name = source->path;
    source->head.fd = -1;
    source->kind = SOURCE_TEST;
    if (strcmp(source->path, "test") == 0)
        return EXIT_DONE;
    say_error(source->command, "%s: only 'test' is played on Windows so far.", source->path);
    return EXIT_FAILED;
}

FILE *source_recording(struct source *source)
{
    (void)source;
    return NULL;
}

void source_close(struct source *source)
{
    (void)source;
}
