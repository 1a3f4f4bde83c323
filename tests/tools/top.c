/* SPDX-License-Identifier: MIT
 *
 * sluice top without a screen: measuring, sorting, fitting and printing; with live, stopped, dead, refusing and invalid
 * writers.
 */
#include "kit.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "tools/common/text.h"
#include "tools/top/top.h"

/* ---- measurements ---- */

static struct top_channel *answered(uint64_t committed, int64_t now, struct sluice_reader_info *reader)
{
    static struct top_channel channel;
    struct sluice_channel_info info = { .size = sizeof info, .session = 7, .now_ns = now };
    channel.entry.live = 1;
    snprintf(channel.entry.name, sizeof channel.entry.name, "camera");
    info.committed = committed;
    info.bytes = committed * 1000;
    info.readers = reader != NULL;
    top_update(&channel, SLUICE_OK, "", &info, reader);
    return &channel;
}

TEST(rates_between_two_answers)
{
    struct sluice_reader_info reader = { .pid = 5, .taken = 100, .latency_total_ns = 5000 };
    struct top_channel *channel = answered(1000, SLUICE_S, &reader);
    CHECK(isnan(channel->fps) && isnan(channel->latency_ns));
    reader.taken += 10;
    reader.missed = 3;
    reader.latency_total_ns += 20000;
    reader.latency_max_ns = 9000;
    reader.lease_mean_ns = 70;
    channel = answered(1050, SLUICE_S * 3 / 2, &reader);
    CHECK_NEAR(channel->fps, 100, 1e-6);
    CHECK_NEAR(channel->bytes, 100000, 1e-6);
    CHECK_NEAR(channel->latency_ns, 2000, 1e-6);
    CHECK_NEAR(channel->longest_ns, 9000, 1e-6);
    CHECK_NEAR(channel->lease_ns, 70, 1e-6);
    CHECK_NEAR(channel->readers[0].fps, 20, 1e-6);
    CHECK_EQ(channel->new_missed, 3);
    CHECK_NEAR(channel->history[TOP_HISTORY - 1], 100, 1e-3);
    free(channel->readers);
}

TEST(numbers_that_make_no_sense_are_not_known)
{
    struct sluice_reader_info reader = { .pid = 5, .taken = 100, .latency_total_ns = 5000 };
    answered(1000, SLUICE_S, &reader);
    reader.taken = 3; /* readers write their own numbers */
    reader.missed = UINT64_MAX;
    reader.lag = UINT64_MAX;
    reader.held_ns = INT64_MIN;
    struct top_channel *channel = answered(900, 2 * SLUICE_S, &reader);
    CHECK(isnan(channel->fps) && isnan(channel->latency_ns) && isnan(channel->longest_ns));
    reader.taken = 4;
    reader.latency_total_ns = UINT64_MAX / 3;
    reader.latency_max_ns = UINT64_MAX;
    reader.lease_mean_ns = UINT64_MAX;
    channel = answered(901, 3 * SLUICE_S, &reader);
    CHECK_NEAR(channel->fps, 1, 1e-6);
    CHECK(isnan(channel->latency_ns) && isnan(channel->longest_ns) && isnan(channel->lease_ns));
    for (size_t c = 0; c < top_channels.count; c++) {
        struct top_cell cell;
        top_channels.cell(channel, c, &cell);
        CHECK(cell.text[0] != 0 && strlen(cell.text) < 40);
        if (c < top_readers.count)
            top_readers.cell(&channel->readers[0], c, &cell);
    }
    channel = answered(901, 3 * SLUICE_S, NULL); /* a stopped clock */
    CHECK(isnan(channel->fps));
    free(channel->readers);
}

TEST(reader_of_an_older_release_says_its_last_latency)
{
    struct sluice_reader_info reader = { .pid = 5, .taken = 100, .latency_ns = 400 };
    answered(1, SLUICE_S, &reader);
    reader.taken++;
    struct top_channel *channel = answered(2, 2 * SLUICE_S, &reader);
    CHECK_NEAR(channel->latency_ns, 400, 1e-6);
    CHECK(isnan(channel->lease_ns));
    free(channel->readers);
}

/* ---- rows ---- */

/* Channels that answered twice, with these frame rates. */
static void fill_top(struct top *top, const char *const *names, const uint64_t *fps, size_t count)
{
    struct top_entry entries[8] = { 0 };
    for (size_t i = 0; i < count; i++) {
        snprintf(entries[i].name, sizeof entries[i].name, "%s", names[i]);
        entries[i].live = 1;
    }
    CHECK(top_list(top, entries, count));
    for (size_t i = 0; i < top->count; i++)
        for (int64_t k = 1; k <= 2; k++) {
            struct sluice_channel_info info = { .size = sizeof info, .session = 1, .now_ns = k * SLUICE_S };
            info.committed = (uint64_t)k * fps[i];
            top_update(top->list[i], fps[i] ? SLUICE_OK : SLUICE_TIMEOUT, "it is stopped", &info, NULL);
        }
}

static const char *order(const struct top *top, const char *column, bool reverse)
{
    static char text[256];
    struct top_sorted sorted[8];
    text[0] = 0;
    for (size_t i = 0; i < top->count; i++)
        sorted[i].row = top->list[i];
    top_sort(&top_channels, sorted, top->count, top_column_of(&top_channels, column), reverse);
    for (size_t i = 0; i < top->count; i++)
        strcat(strcat(text, ((const struct top_channel *)sorted[i].row)->entry.name), " ");
    return text;
}

static const char *const names[] = { "a", "b", "camera-of-the-house-with-a-long-name", "d" };
static const uint64_t speeds[] = { 30, 0, 60, 10 };

TEST(rows_are_sorted_and_unknown_ones_come_last)
{
    struct top top = { 0 };
    fill_top(&top, names, speeds, 4);
    CHECK_STR(order(&top, "name", false), "a b camera-of-the-house-with-a-long-name d ");
    CHECK_STR(order(&top, "name", true), "d camera-of-the-house-with-a-long-name b a ");
    CHECK_STR(order(&top, "fps", false), "camera-of-the-house-with-a-long-name a d b ");
    CHECK_STR(order(&top, "fps", true), "d a camera-of-the-house-with-a-long-name b ");
    CHECK_STR(order(&top, "lag", false), "a camera-of-the-house-with-a-long-name d b ");
    top_free(&top);
}

TEST(rows_come_and_go_with_their_names)
{
    struct top top = { 0 };
    fill_top(&top, names, speeds, 4);
    const struct top_channel *last = top.list[3];
    struct top_entry entries[2] = { { .name = "c" }, { .name = "d", .live = 1 } };
    CHECK(top_list(&top, entries, 2));
    CHECK_EQ(top.count, 2);
    CHECK(top.list[1] == last && top.list[1]->answered); /* its data is kept */
    CHECK(top_is_dead(top.list[0]) && !top.list[0]->was_live);
    top_free(&top);
}

static void draw_at(struct canvas *canvas, struct top_grid *grid, const struct top *top, unsigned width)
{
    const void *rows[8];
    for (size_t i = 0; i < top->count; i++)
        rows[i] = top->list[i];
    canvas_begin(canvas, width, 6);
    top_grid_draw(grid, canvas, rows, top->count, 6);
}

TEST(table_fits_every_width)
{
    struct top top = { 0 };
    struct canvas canvas = { .utf8 = true };
    struct top_grid grid = { .table = &top_channels, .selects = true };
    fill_top(&top, names, speeds, 4);
    grid.sort = top_column_of(&top_channels, "age");
    for (unsigned width = 1; width < 260; width++) {
        draw_at(&canvas, &grid, &top, width);
        char *line = strtok(canvas.bytes, "\n");
        if (width > 40) { /* the sort column is always shown */
            CHECK_HAS(line, "CHANNEL");
            CHECK_HAS(line, "AGE");
        }
        for (; line; line = strtok(NULL, "\n"))
            CHECK_LE(text_width(line), width);
    }
    CHECK_EQ(grid.at, 0);
    canvas_free(&canvas);
    top_free(&top);
}

/* cipd: names may be longer than Sluice's: the other columns stay visible. Two names with the same start are two rows.
 * */
TEST(long_names_are_cut_in_sight)
{
    struct top top = { 0 };
    struct canvas canvas = { .utf8 = false };
    struct top_grid grid = { .table = &top_channels, .selects = true, .at = 1 };
    char long_names[2][240];
    for (int i = 0; i < 2; i++)
        snprintf(long_names[i], sizeof long_names[i], "cipd:%0232d-%d", 7, i);
    fill_top(&top, (const char *[]){ long_names[0], long_names[1] }, speeds, 2);
    draw_at(&canvas, &grid, &top, 250);
    CHECK_HAS(canvas.bytes, "cipd:0000");
    CHECK_HAS(canvas.bytes, "00~  ");
    CHECK(!strstr(canvas.bytes, "7-0"));
    CHECK_HAS(canvas.bytes, "WRITER");
    CHECK_STR(grid.selected, long_names[1]);
    CHECK_EQ(grid.at, 1);
    draw_at(&canvas, &grid, &top, 250);
    CHECK_EQ(grid.at, 1); /* found by its full name */
    canvas_free(&canvas);
    top_free(&top);
}

TEST(narrow_tables_leave_out_what_matters_least)
{
    struct top top = { 0 };
    struct canvas canvas = { .utf8 = false };
    struct top_grid grid = { .table = &top_channels };
    fill_top(&top, names, speeds, 4);
    draw_at(&canvas, &grid, &top, 250);
    CHECK_HAS(canvas.bytes, "FPS HISTORY");
    CHECK_HAS(canvas.bytes, "WRITER");
    CHECK_HAS(canvas.bytes, "camera-of-the-house-with-a-long-name");
    draw_at(&canvas, &grid, &top, 90);
    CHECK(!strstr(canvas.bytes, "WRITER") && !strstr(canvas.bytes, "FPS HISTORY"));
    CHECK_HAS(canvas.bytes, "DROPS");
    CHECK_HAS(canvas.bytes, "it is stopped"); /* in the row of "b" */
    CHECK_HAS(canvas.bytes, "camera-of-the-house~");
    draw_at(&canvas, &grid, &top, 45);
    CHECK(!strstr(canvas.bytes, "DROPS"));
    CHECK_HAS(canvas.bytes, "FPS");
    canvas_free(&canvas);
    top_free(&top);
}

TEST(counts_are_short)
{
    char text[32];
    CHECK_STR(top_count(text, sizeof text, 0), "0");
    CHECK_STR(top_count(text, sizeof text, 999999), "999999");
    CHECK_STR(top_count(text, sizeof text, 1e6), "1.0M");
    CHECK_STR(top_count(text, sizeof text, 999.99e6), "1.0G");
    CHECK_STR(top_count(text, sizeof text, 1.8446744073709552e19), "18.4E");
}

TEST(sparks_are_as_high_as_their_values)
{
    static const float values[] = { 0, 30, 60, NAN, 60 };
    struct canvas canvas = { .utf8 = true };
    canvas_begin(&canvas, 20, 1);
    canvas_sparkline(&canvas, STYLE_PLAIN, values, 5, 7);
    CHECK_STR(canvas.bytes, "  ▁▄▇ ▇");
    canvas.utf8 = false;
    canvas_begin(&canvas, 20, 1);
    canvas_sparkline(&canvas, STYLE_CYAN, values, 5, 3);
    CHECK_STR(canvas.bytes, "* *");
    canvas_free(&canvas);
}

TEST(patterns_of_names)
{
    CHECK(top_matches("camera", "camera", false) && !top_matches("camera", "cam", false));
    CHECK(top_matches("camera", "cam*", false) && !top_matches("a-camera", "cam*", true));
    CHECK(top_matches("camera", "mer", true) && top_matches("camera", "", true));
}

/* ---- with writers and readers ---- */

static const char *second_look(void)
{
    static struct program p;
    CHECK_EQ(sluice_run(&p, "top", "--batch", "2", "--json", "--interval", "0.3", "--sort", "fps", NATIVE), 0);
    char *second = strchr(p.out, '\n');
    CHECK(second && second[1] == '{');
    return second + 1;
}

TEST(once_says_what_goes_on)
{
    static struct program p, player, reader;
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "100");
    player_start(&reader, "other", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.3", "cam*"), 0);
    CHECK_HAS(p.out, "camera");
    CHECK_HAS(p.out, "live");
    CHECK_HAS(p.out, "64x48 rgba");
    CHECK(!strstr(p.out, "other") && !strchr(p.out, '\033'));
    CHECK_SOON(json_says(second_look(), "[c['name'] for c in d['channels']] == ['camera', 'other'] and "
                                        "50 < d['channels'][0]['fps'] < 200 and d['channels'][0]['readers'] == []"),
               20);
    /* Nothing else is affected. */
    struct sluice_channel_info info = { .size = sizeof info };
    CHECK_OK(sluice_channel_info("camera", 20 * SLUICE_S, &info, NULL, 0));
    CHECK_EQ(info.refused + info.evicted + info.died + info.readers, 0);
    CHECK_EQ(program_end(&reader, SIGTERM), 0);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* The upper bound, by clocks read before and after. */
struct most {
    int64_t latency, latencies, lease;
};

/* Holds each frame for 20 ms. */
static struct most hold_frames(sluice_reader *reader, int count)
{
    struct most most = { 0 };
    struct sluice_frame frame;
    for (int i = 0; i < count; i++) {
        int64_t began = test_now();
        CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
        most.latency = test_now() - frame.commit_ns;
        most.latencies += most.latency;
        test_nap(20000000);
        CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
        int64_t lease = test_now() - began;
        most.lease = lease > most.lease ? lease : most.lease;
    }
    return most;
}

TEST(leases_and_latencies_are_timed)
{
    static struct program p, player;
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_channel_info info = { .size = sizeof info };
    struct sluice_reader_info readers[4];
    struct sluice_frame frame;
    sluice_reader *reader;
    player_start(&player, "camera", "--pattern", "--size", "64x48", "--fps", "30");
    params.name = "camera";
    params.open_timeout_ns = 20 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    struct most most = hold_frames(reader, 5);
    CHECK_OK(sluice_channel_info("camera", 20 * SLUICE_S, &info, readers, 4));
    CHECK_EQ(readers[0].taken, 5);
    CHECK_GE(readers[0].lease_mean_ns, 20 * SLUICE_MS);
    CHECK_LE(readers[0].lease_mean_ns, most.lease);
    CHECK_GE(readers[0].latency_total_ns, readers[0].latency_max_ns);
    CHECK_LE(readers[0].latency_total_ns, most.latencies);
    CHECK_GE(readers[0].latency_max_ns, readers[0].latency_ns);
    CHECK_GE(readers[0].latency_ns, 1);
    CHECK_LE(readers[0].latency_ns, most.latency);
    /* A long lease is counted when it ends. */
    CHECK_OK(sluice_reader_acquire(reader, SLUICE_ON_CPU, 20 * SLUICE_S, &frame));
    test_nap(400000000);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.1"), 0);
    check_json(p.out, "d['channels'][0]['leases'] == 1 and d['channels'][0]['oldest_ns'] > 4e8 and "
                      "len(d['channels'][0]['readers'][0]['slots']) == 1");
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    CHECK_OK(sluice_channel_info("camera", 20 * SLUICE_S, &info, readers, 4));
    CHECK_GE(readers[0].lease_mean_ns, 60 * SLUICE_MS);
    sluice_reader_close(&reader);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* A socket in the folder that refuses every request with a result, or for 0 sends garbage. */
ROLE(fake)
{
    struct {
        uint32_t type, size;
        int32_t result;
        uint32_t version_min, version_max, reserved;
        char text[256];
    } refuse = { 3, sizeof refuse, atoi(argv[2]), 77, 77, 0, "no\033[2J\nsuch luck" };
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%.60s/%.30s", getenv("SLUICE_DIR"), argv[1]);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 8) != 0)
        return 1;
    role_say("here");
    for (;;) {
        char asked[4096];
        int peer = accept(fd, NULL, NULL);
        if (peer < 0)
            return 1;
        (void)!write(peer, &refuse, refuse.result ? sizeof refuse : 11);
        while (read(peer, asked, sizeof asked) >
               0) /* until it hangs up: closing first, or with unread data, would discard the answer */
            continue;
        close(peer);
    }
}

TEST(rows_that_cannot_be_read_say_why)
{
    static struct program p, player, victim;
    test_dir();
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    player_start(&victim, "victim", "--pattern", "--size", "64x48");
    struct child refused = role_start("fake", "refused", "-10", NULL);
    struct child version = role_start("fake", "version", "-11", NULL);
    struct child odd = role_start("fake", "odd", "0", NULL);
    child_expect(&refused, "here", 5);
    child_expect(&version, "here", 5);
    child_expect(&odd, "here", 5);
    CHECK_EQ(program_end(&victim, SIGKILL), -SIGKILL);
    int status;
    kill(player.pid, SIGSTOP);
    CHECK_EQ(waitpid(player.pid, &status, WUNTRACED), player.pid);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.1", "--all", NATIVE), 0);
    check_json(p.out, "{c['name']: c['state'] for c in d['channels']} == {'camera': 'stuck', 'odd': 'odd', "
                      "'refused': 'refused', 'version': 'version', 'victim': 'dead'}");
    check_json(p.out, "all(c['reason'] for c in d['channels'])");
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.1", NATIVE), 0);
    CHECK_HAS(p.out, "camera: its writer, process");
    CHECK_HAS(p.out, "refused: no?[2J?such luck");
    CHECK(!strstr(p.out, "victim"));
    kill(player.pid, SIGCONT);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.1", "camera"), 0);
    CHECK_HAS(p.out, "live");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(top_of_an_empty_folder_and_of_none)
{
    static struct program p;
    CHECK_EQ(sluice_run(&p, "top", "--once", NATIVE, "--interval", "0.05"), 0);
    CHECK_HAS(p.out, "no channels in");
    CHECK_EQ(sluice_run(&p, "top", "--once", "nobody", "--interval", "0.05"), 3); /* a name is no pattern */
    CHECK_HAS(p.err, "no channel 'nobody'");
    setenv("SLUICE_DIR", "/proc/none/such", 1);
    CHECK_EQ(sluice_run(&p, "top", "--once", NATIVE, "--interval", "0.05", "--json"), 0);
    check_json(p.out, "d['channels'] == []");
    FILE *file = fopen(in_dir("file"), "wb");
    fclose(file);
    setenv("SLUICE_DIR", in_dir("file"), 1);
    CHECK_EQ(sluice_run(&p, "top", "--once", NATIVE, "--interval", "0.05"), 1);
    CHECK_HAS(p.err, "sluice: top: ");
    CHECK_EQ(sluice_run(&p, "top", "--sort", "latncy"), 2);
    CHECK_HAS(p.err, "did you mean 'latency'?");
    CHECK_EQ(sluice_run(&p, "top", "--sort", "zzzzzz"), 2);
    CHECK_HAS(p.err, "columns are name, state, fps");
    CHECK_EQ(sluice_run(&p, "top", "--interval", "0"), 2);
}
