/* SPDX-License-Identifier: MIT
 *
 * The pipelines of docs/gstreamer.md and docs/from-gstreamer-shm.md, as they stand there.
 */
#include <gst/gst.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gstreamer/kit.h"

/* ROLE: parses descriptions, a line each: "fine", "missing ...", "wrong ...". */
ROLE(parse)
{
    char *line;
    (void)argc;
    (void)argv;

    gst_init(NULL, NULL);
    while ((line = role_line())) {
        GError *error = NULL;
        GstElement *pipeline = gst_parse_launch_full(line, NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
        if (pipeline)
            role_say("fine");
        else
            role_say("%s %s", error->code == GST_PARSE_ERROR_NO_SUCH_ELEMENT ? "missing" : "wrong", error->message);
        g_clear_error(&error);
        if (pipeline)
            gst_object_unref(gst_object_ref_sink(pipeline));
    }
    return 0;
}

/* The next line of the page that runs gst-launch-1.0 and has `part`; NULL at its end. */
static char *next_command(FILE *page, const char *part, char line[2048])
{
    while (fgets(line, 2048, page))
        if (strncmp(line, "gst-launch-1.0 ", 15) == 0 && strstr(line, part)) {
            line[strcspn(line, "\n")] = '\0';
            return line;
        }
    return NULL;
}

static int check_page(const char *name)
{
    struct child parser = role_start("parse", NULL);
    char path[4096], line[2048];
    int count = 0;

    snprintf(path, sizeof path, "%s/%s", PAGES, name);
    FILE *page = fopen(path, "r");
    CHECK(page != NULL);
    while (next_command(page, "", line)) {
        char *start = line + 15, *pipe = strstr(line, " | ");
        if (pipe)
            *pipe = '\0';
        while (*start == '-')
            start = strchr(start, ' ') + 1;
        child_send(&parser, start);
        const char *answer = child_line(&parser, 60);
        if (strncmp(answer, "wrong", 5) == 0)
            FAIL("%s: %s", start, answer);
        count++;
    }
    fclose(page);
    role_stop(&parser);
    return count;
}

TEST(pipelines_of_the_pages_are_right)
{
    test_dir();
    gstreamer_environment();
    CHECK_GE(check_page("gstreamer.md"), 8);
    CHECK_GE(check_page("from-gstreamer-shm.md"), 2);
}

/* ---- some of them, run by a shell ---- */

static struct child run_command(const char *part)
{
    char line[2048], command[2200];
    FILE *page = fopen(PAGES "/gstreamer.md", "r");

    if (test_slowness() > 1)
        SKIP("gst-launch-1.0 cannot load a plug-in that is built with a sanitizer");

    CHECK(page != NULL && next_command(page, part, line));
    fclose(page);
    snprintf(command, sizeof command, "exec 2>&1; cd '%s' && exec %s", test_dir(), line);
    gstreamer_environment();
    unsetenv("GST_TRACERS");
    unsetenv("GST_DEBUG");
    return child_start((const char *const[]){ "sh", "-c", command, NULL });
}

static void need_program(const char *name)
{
    char command[128];

    snprintf(command, sizeof command, "command -v %s >/dev/null", name);
    if (system(command) != 0)
        SKIP("%s is not installed", name);
}

/* Writes pictures until the child has ended. */
static void play_until_end(sluice_writer *writer, struct child *child)
{
    for (uint32_t number = 1; !child_ended(child); number++) {
        image_commit(writer, number);
        test_nap(20 * SLUICE_MS);
    }
}

TEST_TIMEOUT(ffmpeg_gets_pictures_and_times_by_matroska, 60)
{
    need_program("gst-launch-1.0");
    need_program("ffmpeg");
    need_element("matroskamux");
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_YUV420P, 64, 48, 0);
    struct child child = run_command("ffmpeg");
    char command[4200], text[4096] = "";

    play_until_end(writer, &child);
    CHECK_OK(sluice_writer_close(&writer));
    snprintf(command, sizeof command, "ffprobe -v error -show_entries packet=pts -of csv=p=0 '%s' | sort -nu | wc -l",
             in_dir("camera.mkv"));
    FILE *probe = popen(command, "r");
    CHECK(probe && fgets(text, sizeof text, probe));
    pclose(probe);
    CHECK_GE(atoi(text), 59); /* packets of different times */
}

TEST_TIMEOUT(srt_carries_a_channel_to_another_one, 120)
{
    need_program("gst-launch-1.0");
    need_element("srtsink");
    need_element("x264enc");
    need_element("avdec_h264");
    struct sluice_frame frame;
    int r = SLUICE_NO_WRITER;
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 320, 240, 0);
    struct child sender = run_command("srtsink"), receiver = run_command("srtsrc");
    sluice_reader *reader = image_reader("far");

    for (uint32_t number = 1; r != 0; number++) {
        if (child_ended(&sender) || child_ended(&receiver)) /* the port is in use, or the network is not there */
            SKIP("SRT does not start here: %s", child_ended(&sender) ? "srtsink" : "srtsrc");
        image_commit(writer, number);
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame);
    }
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    child_kill(&receiver, SIGKILL);
    child_kill(&sender, SIGKILL);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}
