/* SPDX-License-Identifier: MIT
 *
 * ffprobe's output for any file. The input plays the child process.
 */
#include "fuzz.h"

#include "../../tools/common/term.h"
#include "../../tools/media/media.h"

static struct input answer;

void child_add(struct child_args *line, ...)
{
    line->count++;
}

int child_start(struct child *child, char *const argv[], unsigned flags)
{
    (void)argv;
    (void)flags;
    memset(child, 0, sizeof *child);
    return 0;
}

size_t child_read(struct child *child, void *to, size_t size)
{
    size_t n = size < answer.left ? size : answer.left;
    (void)child;
    take(&answer, to, n);
    return n;
}

bool child_finish(struct child *child, int64_t timeout_ns)
{
    (void)child;
    return timeout_ns > 0;
}

const char *child_last_line(struct child *child, char *text, size_t size)
{
    (void)child;
    snprintf(text, size, "nothing");
    return text;
}

bool stop_asked(void)
{
    return false;
}

void say_error(const char *command, const char *format, ...)
{
    (void)command;
    (void)format;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    answer = (struct input){ data, size };
    struct media_source source = { .kind = MEDIA_FILE,
                                   .path = "/dev/null",
                                   .format = (enum sluice_pixel_format)(take_byte(&answer) % 24) };
    if (media_probe(&source, "fuzz")) {
        REQUIRE(source.fps > 0 && source.fps <= 1000);
        REQUIRE(source.colour.matrix != 0 && source.colour.range != 0);
    }
    return 0;
}
