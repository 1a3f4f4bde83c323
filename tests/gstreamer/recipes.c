/* SPDX-License-Identifier: MIT
 *
 * The recipes of docs/gstreamer.md, as they stand there, run by a shell: recordings, servers, other programs.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gstreamer/kit.h"

static void find_command(const char *part, char line[2048])
{
    FILE *page = page_open("gstreamer.md");

    CHECK(page_command(page, part, line) != NULL);
    fclose(page);
}

static struct child run_shell(const char *line)
{
    char command[2200];

    if (test_slowness() > 1)
        SKIP("gst-launch-1.0 cannot load a plug-in that is built with a sanitizer");
    snprintf(command, sizeof command, "exec 2>&1; cd '%s' && exec %s", test_dir(), line);
    gstreamer_environment();
    unsetenv("GST_TRACERS");
    unsetenv("GST_DEBUG");
    return child_start((const char *const[]){ "sh", "-c", command, NULL });
}

static struct child run_command(const char *part)
{
    char line[2048];

    find_command(part, line);
    return run_shell(line);
}

static void need_program(const char *name)
{
    char command[128];

    snprintf(command, sizeof command, "command -v %s >/dev/null", name);
    if (system(command) != 0)
        SKIP("%s is not installed", name);
}

static void need_elements(const char *const *names)
{
    need_program("gst-launch-1.0");
    for (; *names; names++)
        need_element(*names);
}

/* What a command prints, as a number. */
static int number_of(const char *command)
{
    char text[256] = "";
    FILE *output = popen(command, "r");

    CHECK(output && fgets(text, sizeof text, output));
    pclose(output);
    return atoi(text);
}

/* How many packets of different times the file has, and how many different pauses there are between them. */
static int packets_of(const char *file)
{
    char command[4300];

    snprintf(command, sizeof command,
             "ffprobe -v error -show_entries packet=pts -of csv=p=0 '%s' | tr -d , | sort -nu | wc -l", file);
    return number_of(command);
}

static int pauses_of(const char *file)
{
    char command[4300];

    snprintf(command, sizeof command,
             "ffprobe -v error -show_entries packet=pts -of csv=p=0 '%s' | tr -d , | sort -n | "
             "awk 'NR > 1 { print $1 - last } { last = $1 }' | sort -u | wc -l",
             file);
    return number_of(command);
}

/* Pictures are written until the child ends; pauses are not even. */
static void play_until_end(sluice_writer *writer, struct child *child)
{
    for (uint32_t number = 1; !child_ended(child); number++) {
        image_commit(writer, number);
        test_nap((int64_t)(10 + number % 3 * 5) * SLUICE_MS);
    }
}

static bool is_open(const char *table, int port)
{
    char line[512], address[16];
    bool found = false;
    FILE *file = fopen(table, "r");

    snprintf(address, sizeof address, ":%04X 0000", (unsigned)port);
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, address) != NULL; /* a local one, without a peer */
    if (file)
        fclose(file);
    return found;
}

/* A client that comes too early gives up, or worse. */
static void wait_for_server(struct child *server, const char *protocol, int port)
{
    char table[64];

    snprintf(table, sizeof table, "/proc/net/%s", protocol);
    CHECK_SOON(is_open(table, port) || child_ended(server), 30);
    if (child_ended(server))
        SKIP("the server does not start here: is port %d in use?", port);
}

/* Pictures are written until one arrives in `channel`. */
static void play_until_frame(sluice_writer *writer, const char *channel, struct child *server, struct child *client)
{
    sluice_reader *reader = image_reader(channel);
    struct sluice_frame frame;
    int r = SLUICE_NO_WRITER;

    for (uint32_t number = 1; r != 0; number++) {
        CHECK(!child_ended(server) && !child_ended(client));
        image_commit(writer, number);
        r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_MS, &frame);
    }
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    child_kill(client, SIGKILL);
    child_kill(server, SIGKILL);
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_writer_close(&writer));
}

TEST_TIMEOUT(ffmpeg_gets_pictures_and_times_by_matroska, 60)
{
    need_program("ffmpeg");
    need_elements((const char *const[]){ "matroskamux", NULL });
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_YUV420P, 64, 48, 0);
    struct child child = run_command("ffmpeg");

    play_until_end(writer, &child);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_GE(packets_of(in_dir("camera.mkv")), 59);
}

TEST_TIMEOUT(a_recording_has_the_times_of_frames, 60)
{
    char line[2048], command[2100];
    struct sluice_frame frame;
    char *source;

    need_program("ffmpeg");
    need_elements((const char *const[]){ "x264enc", "mp4mux", NULL });
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 64, 48, 0);
    find_command("mp4mux", line); /* the page's, and an end */
    CHECK((source = strstr(line, "channel=camera")) != NULL);
    snprintf(command, sizeof command, "%.*s num-buffers=90 %s", (int)(source + 14 - line), line, source + 14);
    struct child child = run_shell(command);
    play_until_end(writer, &child);
    CHECK_OK(sluice_writer_close(&writer));
    CHECK_EQ(packets_of(in_dir("camera.mp4")), 90);
    CHECK_GE(pauses_of(in_dir("camera.mp4")), 3);

    need_elements((const char *const[]){ "qtdemux", "avdec_h264", NULL }); /* and back into a channel */
    sluice_reader *reader = image_reader("film");
    struct child film = run_command("filesrc location=camera.mp4");
    uint64_t frames = 0;
    int r;
    while ((r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 30 * SLUICE_S, &frame)) != SLUICE_CLOSED) {
        CHECK(r == 0 || r == SLUICE_NO_WRITER || r == SLUICE_AGAIN);
        if (r == 0) {
            frames++;
            CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        }
    }
    CHECK_GE(frames, 1);
    CHECK_EQ(child_wait(&film, 30), 0);
    CHECK_OK(sluice_reader_close(&reader));
}

TEST_TIMEOUT(srt_carries_a_channel_to_another_one, 120)
{
    need_elements((const char *const[]){ "srtsink", "mpegtsmux", "x264enc", "avdec_h264", NULL });
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 320, 240, 0);
    struct child sender = run_command("srtsink");

    wait_for_server(&sender, "udp", 7001);
    struct child receiver = run_command("srtsrc");
    play_until_frame(writer, "far", &sender, &receiver);
}

/* ffmpeg is the server: one that takes a stream, and records it. */
TEST_TIMEOUT(rtmp_carries_a_channel_to_a_server, 120)
{
    need_program("ffmpeg");
    need_elements((const char *const[]){ "rtmp2sink", "flvmux", "x264enc", NULL });
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 320, 240, 0);
    struct child server =
        run_shell("ffmpeg -y -loglevel error -listen 1 -analyzeduration 100000 -i rtmp://127.0.0.1/live/camera "
                  "-c copy -frames:v 20 live.mkv </dev/null");

    wait_for_server(&server, "tcp", 1935);
    struct child sender = run_command("rtmp2sink");
    play_until_end(writer, &server);
    CHECK_EQ(server.status, 0);
    CHECK_EQ(packets_of(in_dir("live.mkv")), 20);
    child_kill(&sender, SIGKILL);
    CHECK_OK(sluice_writer_close(&writer));
}

/* ---- RTSP: the server is the page's program ---- */

#define PYTHON "$(for p in python3 /usr/bin/python3; do $p -c 'import gi' 2>/dev/null && echo $p && break; done)"

static void need_rtsp_server(void)
{
    if (system(PYTHON " -c 'import gi; gi.require_version(\"GstRtspServer\", \"1.0\")' 2>/dev/null") != 0)
        SKIP("python3-gi and gir1.2-gst-rtsp-server-1.0 are not installed");
}

/* Copies the page's block in Python into a file. */
static void write_server(const char *path)
{
    char line[2048];
    bool inside = false;
    FILE *page = page_open("gstreamer.md"), *file = fopen(path, "w");

    CHECK(file != NULL);
    while (fgets(line, sizeof line, page) && !(inside && strncmp(line, "```", 3) == 0))
        if (inside)
            fputs(line, file);
        else
            inside = strcmp(line, "```python\n") == 0;
    CHECK(inside);
    fclose(file);
    fclose(page);
}

TEST_TIMEOUT(rtsp_serves_a_channel, 120)
{
    need_elements((const char *const[]){ "rtspsrc", "x264enc", "avdec_h264", "rtph264pay", NULL });
    need_rtsp_server();
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 320, 240, 0);
    write_server(in_dir("server.py"));
    struct child server = run_shell(PYTHON " server.py");

    wait_for_server(&server, "tcp", 8554);
    struct child client = run_command("rtspsrc");
    play_until_frame(writer, "door", &server, &client);
}

/* To a server that takes streams: the same program at another port, which records. */
TEST_TIMEOUT(rtsp_carries_a_channel_to_a_server, 120)
{
    need_elements((const char *const[]){ "rtspclientsink", "x264enc", "avdec_h264", "rtph264pay", NULL });
    need_rtsp_server();
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 320, 240, 0);
    char line[2048];

    write_server(in_dir("server.py"));
    struct child edit = run_shell("sed -i -e s/8554/8555/ -e 's/^factory.set_launch.*/"
                                  "factory.set_transport_mode(GstRtspServer.RTSPTransportMode.RECORD)\\n"
                                  "factory.set_launch(\"( rtph264depay name=depay0 ! h264parse ! avdec_h264 ! "
                                  "sluicesink channel=taken sync=false )\")/' server.py");
    CHECK_EQ(child_wait(&edit, 30), 0);
    struct child server = run_shell(PYTHON " server.py");
    wait_for_server(&server, "tcp", 8555);
    find_command("rtspclientsink", line);
    *(strstr(line, ":8554") + 4) = '5';
    struct child client = run_shell(line);
    play_until_frame(writer, "taken", &server, &client);
}

/* ---- what programs with pipelines of their own are given ---- */

static void shows_a_picture(const char *description)
{
    sluice_writer *writer = image_writer("camera", SLUICE_PIXEL_RGBA, 64, 48, 0);
    struct child pipeline = pipeline_start("%s", description);

    CHECK_SOON(reader_count("camera") == 1, 30);
    for (uint32_t i = 0; i < 12; i++) /* the rate is measured over the first of them */
        image_commit(writer, i);
    CHECK_OK(sluice_writer_close(&writer));
    pipeline_says(&pipeline, "buffer");
    pipeline_says(&pipeline, "eos");
    pipeline_stop(&pipeline);
}

/* The pipeline of a source for OBS ends in an element `video`, that of gscam in its caps; the programs add the rest. */
TEST_TIMEOUT(pipelines_for_obs_and_ros_give_pictures, 60)
{
    char text[2048], whole[2200];

    need_element("videoconvert");
    page_line("video.\n", text);
    snprintf(whole, sizeof whole,
             "videoconvert name=video ! video/x-raw,format={I420,NV12,BGRA,RGBA} ! identity name=look ! "
             "fakesink sync=false %s",
             text);
    shows_a_picture(whole);
    page_line("GSCAM_CONFIG=", text);
    text[strlen(text) - 1] = '\0'; /* what is quoted */
    snprintf(whole, sizeof whole, "%s ! identity name=look ! fakesink sync=false", strchr(text, '"') + 1);
    shows_a_picture(whole);
}
