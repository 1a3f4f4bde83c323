/* SPDX-License-Identifier: MIT
 *
 * Looks at a source before ffmpeg reads it.
 */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/child.h"
#include "../common/term.h"
#include "ebml.h"
#include "media.h"
#include "nut.h"
#include "recording.h"

#define VIDEO4LINUX 81 /* the device number of cameras */

/* ---- the head ---- */

/* ffmpeg's own decoders of VP8 and VP9 leave alpha out. */
static void choose_decoder(struct source *source, const struct ebml_video *video)
{
    if (video->alpha && strcmp(video->codec, "V_VP9") == 0)
        source->decoder = "libvpx-vp9";
    else if (video->alpha && strcmp(video->codec, "V_VP8") == 0)
        source->decoder = "libvpx";
}

/* True if the head must be longer to tell. */
static bool look_at_head(struct source *source)
{
    struct feed *head = &source->head;
    struct ebml_video video;
    static const uint8_t magic[] = RECORDING_MAGIC;
    size_t part = head->size < RECORDING_MAGIC_SIZE ? head->size : RECORDING_MAGIC_SIZE;
    if (memcmp(head->bytes, magic, part) == 0) {
        source->recording = head->size >= RECORDING_MAGIC_SIZE;
        return !source->recording;
    }
    part = head->size < sizeof NUT_ID ? head->size : sizeof NUT_ID;
    if (memcmp(head->bytes, NUT_ID, part) == 0) {
        struct feed_bytes bytes = { head->bytes, head->size };
        struct nut_reader nut = { .read = feed_read_bytes, .from = &bytes };
        enum nut_result result = nut_open(&nut);
        source->colours = result == NUT_OK ? nut.video.colours : 0;
        return result != NUT_OK && bytes.left == 0;
    }
    enum ebml_result result = ebml_video(head->bytes, head->size, &video);
    if (result == EBML_DONE)
        choose_decoder(source, &video);
    return result == EBML_MORE;
}

static void read_head(struct source *source)
{
    source->head.keep = true;
    while (feed_more(&source->head, NULL) && look_at_head(source) && source->head.size < FEED_BYTES)
        continue;
    source->head.keep = false;
}

/* ---- opening ---- */

static int open_stream(struct source *source, int fd)
{
    struct feed *head = &source->head;
    source->kind = SOURCE_STREAM;
    head->fd = fd;
    head->command = source->command;
    head->deadline = now_ns() + MEDIA_OPEN_TIME;
    if (source->loop) {
        say_error(source->command, "--loop needs a file: %s can be read only once.", source->name);
        return EXIT_USAGE;
    }
    if (isatty(fd)) {
        say_error(source->command, "standard input is a terminal; send a video into it, as in: sluice record A - | "
                                   "sluice play - B");
        return EXIT_USAGE;
    }
    read_head(source);
    head->deadline = 0;
    if (stop_asked())
        return EXIT_DONE;
    if (head->timed_out && !head->size)
        say_error(source->command, "nothing came from %s within 20 s; is its writer running?", source->name);
    else if (!head->size)
        say_error(source->command, "%s is empty: it ended before the first byte.", source->name);
    return head->size ? EXIT_DONE : EXIT_FAILED;
}

static int open_file(struct source *source, const struct stat *status)
{
    int fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return EXIT_DONE; /* ffmpeg will say why */
    if (S_ISFIFO(status->st_mode)) {
        fcntl(fd, F_SETFL, 0); /* its writer may open it later: poll waits for that */
        return open_stream(source, fd);
    }
    source->head.fd = fd;
    if (S_ISREG(status->st_mode))
        read_head(source);
    close(fd);
    source->head.fd = -1;
    return EXIT_DONE;
}

static int refuse(const struct source *source, int error)
{
    if (error == EACCES && source->kind == SOURCE_CAMERA)
        say_error(source->command, "no permission to read %s; join its group (often 'video').", source->name);
    else if (error == ENOENT)
        say_error(source->command, "there is no file %s.", source->name);
    else
        say_error(source->command, "cannot read %s: %s.", source->name, strerror(error));
    return EXIT_FAILED;
}

int source_open(struct source *source)
{
    struct stat status;
    source->name = source->path;
    source->head.fd = -1;
    if (strcmp(source->path, "test") == 0) {
        source->kind = SOURCE_TEST;
        return EXIT_DONE;
    }
    if (strcmp(source->path, "-") == 0) {
        source->name = "standard input";
        bool file = fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode);
        if (!file)
            return open_stream(source, STDIN_FILENO);
        source->path = "/proc/self/fd/0";
    }
    if (strstr(source->path, "://"))
        return EXIT_DONE;
    if (stat(source->path, &status) < 0)
        return refuse(source, errno);
    if (S_ISCHR(status.st_mode) && major(status.st_rdev) == VIDEO4LINUX)
        source->kind = SOURCE_CAMERA;
    if (access(source->path, R_OK) < 0)
        return refuse(source, errno);
    if (S_ISDIR(status.st_mode))
        return refuse(source, EISDIR);
    source->empty = S_ISREG(status.st_mode) && status.st_size == 0;
    return source->kind == SOURCE_CAMERA ? EXIT_DONE : open_file(source, &status);
}

FILE *source_recording(struct source *source)
{
    struct child pump;
    int ends[2];
    FILE *file = NULL;
    if (source->kind == SOURCE_FILE)
        file = fopen(source->path, "rbe");
    else if (pipe2(ends, O_CLOEXEC) == 0 &&
             child_pump(&pump, source->head.bytes, source->head.size, source->head.fd, ends[1]) == 0) {
        source->head.fd = -1; /* the process that reads it ends with it, or with this one */
        file = fdopen(ends[0], "rb");
    }
    if (!file)
        refuse(source, errno);
    return file;
}

void source_close(struct source *source)
{
    if (source->head.fd > STDIN_FILENO)
        close(source->head.fd);
    source->head.fd = -1;
    feed_free(&source->head);
}
