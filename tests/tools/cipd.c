/* SPDX-License-Identifier: MIT
 *
 * The command and channels of cuda-link's protocol: info, ls, top, doctor, play, record and snap, on the fake driver's
 * GPU.
 */
#include "kit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sluice/sluice.h>

#include "tools/doctor/doctor.h"
#include "tools/top/top.h"

static struct program player;
static char name[80], bare[64]; /* of a segment, unique on the machine */

static void begin(void)
{
    use_fake_gpu();
    setenv("SLUICE_NVML", "libno-such-nvml.so.1", 1);
    setenv("CUDALINK_ACTIVATION_BARRIER", "0", 1); /* other tests on this machine may set it */
    test_dir();
    snprintf(bare, sizeof bare, "tools looks>>%ld", (long)getpid());
    snprintf(name, sizeof name, "cipd:%s", bare);
}

static bool runs(const char *channel)
{
    struct sluice_cipd_info info = { .size = sizeof info };
    return sluice_cipd_look(channel, &info) == SLUICE_OK && info.state == SLUICE_CIPD_RUNNING && info.index > 4;
}

static bool has_frames(void)
{
    return runs(name);
}

static void play(const char *format)
{
    begin();
    sluice_start(&player, "play", "test", name, "--pattern", "--size", "64x48", "--fps", "50", "--quiet", "--format",
                 format);
    CHECK_SOON(has_frames(), 10);
}

/* ---- info, ls and top ---- */

TEST(info_of_one_of_cuda_links)
{
    static struct program p;
    char text[256];
    play("bgra");
    CHECK_EQ(sluice_run(&p, "info", name), 0);
    snprintf(text, sizeof text, "cipd:%s  running", bare);
    CHECK_HAS(p.out, text);
    snprintf(text, sizeof text, "segment    /dev/shm/%s, 4096 bytes", bare);
    CHECK_HAS(p.out, text);
    snprintf(text, sizeof text, "writer     Sluice, process %d", (int)player.pid);
    CHECK_HAS(p.out, text);
    CHECK_HAS(p.out, "48 rows of 64 pixels of 4 uint8, 12.0 KiB; flags 0x0004, BGRA");
    CHECK_HAS(p.out, "order      bgra, by its flags");
    CHECK_HAS(p.out, "slot 2");
    CHECK_HAS(p.out, ", the newest");
    CHECK_HAS(p.out, "; written next");
    CHECK(!strstr(p.out, "no memory handle"));
    CHECK(!strstr(p.out, "no event"));
    CHECK_HAS(p.out, "readers    unknown");
    CHECK_HAS(p.out, "leases");
    CHECK_HAS(p.out, "no waiting for readers");
    CHECK_HAS(p.out, "read-only");
    CHECK_EQ(sluice_run(&p, "info", name, "--json"), 0);
    check_json(p.out,
               "d['wire'] == 'cipd' and d['state'] == 'running' and d['order'] == 'bgra' and d['order_declared'] and "
               "d['width'] == 64 and d['components'] == 4 and d['dtype'] == 'uint8' and not d['leases'] and "
               "not d['waits_for_readers'] and not d['read_only'] and len(d['slots']) == 3 and "
               "sum(s['next'] for s in d['slots']) == 1 and "
               "sorted(s['frame'] for s in d['slots']) == [d['frames'] - 2, d['frames'] - 1, d['frames']] and "
               "all(s['memory'] and s['event'] for s in d['slots'])");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_EQ(sluice_run(&p, "info", name), 3);
    CHECK_HAS(p.err, bare);
}

TEST(info_of_an_order_that_nobody_told)
{
    static struct program p;
    play("rgba");
    CHECK_EQ(sluice_run(&p, "info", name), 0);
    CHECK_HAS(p.out, "order      not declared");
    CHECK_EQ(sluice_run(&p, "info", name, "--json"), 0);
    check_json(p.out, "d['order'] == 'unknown' and not d['order_declared']");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* Segments that other programs abandoned, or that are invalid. */
static void store(const void *bytes, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "/%s", bare);
    int fd = shm_open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_GE(fd, 0);
    CHECK_EQ(write(fd, bytes, size), size);
    close(fd);
}

TEST(info_of_what_makes_no_sense)
{
    static struct program p;
    static const unsigned char unfinished[433] = { 0x44, 0x50, 0x49, 0x43, 7 },
                               many[433] = { 0x44, 0x50, 0x49, 0x43, 7, [12] = 99, [16] = 3 };
    char path[128];
    begin();
    store(unfinished, sizeof unfinished);
    CHECK_EQ(sluice_run(&p, "info", name), 0);
    CHECK_HAS(p.out, "unfinished");
    CHECK(!strstr(p.out, "bytes") && !strstr(p.out, "\nwriter ") &&
          !strstr(p.out, "\nsession ")); /* unknown, so not printed */
    CHECK_HAS(p.out, "no slots");
    CHECK_EQ(sluice_run(&p, "ls"), 0);
    CHECK_HAS(p.out, bare);
    store(many, sizeof many);
    CHECK_EQ(sluice_run(&p, "info", name), 0);
    CHECK_HAS(p.out, "more slots than the protocol has");
    snprintf(path, sizeof path, "/%s", bare);
    CHECK_EQ(shm_unlink(path), 0);
}

/* The reasons that acquire gives. */
TEST(info_says_all_that_is_known_of_what_makes_no_sense)
{
    static const struct {
        unsigned char magic, slots, kind, bytes;
        size_t size;
        const char *says;
    } cases[] = {
        { 0x44, 3, 1, 16, 0, "has 0 bytes, its writer has not filled it yet" },
        { 0x44, 3, 1, 16, 19, "has 19 bytes, its writer has not filled it yet" },
        { 0x44, 3, 1, 16, 300, "it has 300 bytes, and 3 slots take 433" },
        { 0x44, 11, 1, 16, 433,
          "it announces 11 slots, more slots than the protocol has: its writer can have 10 at most" },
        { 0x43, 3, 1, 16, 433, "cuda-link 0.9: update it" },
        { 0x45, 3, 1, 16, 433, "take another name" },
        { 0x44, 3, 3, 16, 433, "kind 3, 8 bits, flags 0x0000; let it send float32" },
        { 0x44, 3, 1, 17, 433, "a frame of 2 x 2 with 4 components of uint8 has 17 bytes" },
    };
    static struct program p;
    char path[128];
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[433] = { cases[i].magic, 0x50, 0x49, 0x43, 7, [12] = cases[i].slots };
        memset(bytes + 20, 7, 3 * 128);
        unsigned char *metadata = bytes + 21 + 3 * 128;
        bytes[20 + 3 * 128] = 0;
        metadata[0] = metadata[4] = 2;
        metadata[8] = 4;
        metadata[12] = cases[i].kind;
        metadata[13] = 8;
        metadata[16] = cases[i].bytes;
        store(bytes, cases[i].size);
        CHECK_EQ(sluice_run(&p, "info", name), 0);
        CHECK_HAS(p.out, "unfinished");
        CHECK_HAS(p.out, cases[i].says);
    }
    snprintf(path, sizeof path, "/%s", bare);
    CHECK_EQ(shm_unlink(path), 0);
}

static size_t count_of(const struct top *top)
{
    size_t count = 0;
    for (size_t i = 0; i < top->count; i++)
        count += strcmp(top->list[i]->entry.name, name) == 0;
    return count;
}

TEST(ls_and_top_list_cuda_links)
{
    static struct program p;
    char expression[512];
    play("bgra");
    CHECK_EQ(sluice_run(&p, "ls", "--rate"), 0);
    CHECK_HAS(p.out, "no channels in");
    CHECK_HAS(p.out, "CUDA-LINK");
    CHECK_HAS(p.out, name);
    CHECK_HAS(p.out, "64x48x4 uint8 bgra");
    CHECK_EQ(sluice_run(&p, "ls", "--json", "--rate"), 0);
    snprintf(expression, sizeof expression,
             "d['channels'] == [] and [(c['state'], c['format'], c['slots'], c['pid'], c['fps'] > 1, c['age_ns'] is "
             "not None) "
             "for c in d['cuda_link'] if c['name'] == '%s'] == [('running', '64x48x4 uint8 bgra', 3, %d, True, True)]",
             name, (int)player.pid);
    check_json(p.out, expression);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.2", name), 0);
    snprintf(expression, sizeof expression,
             "[c['name'] for c in d['channels']] == ['%s'] and d['channels'][0]['state'] == 'live' and "
             "d['channels'][0]['fps'] > 1",
             name);
    check_json(p.out, expression);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.1"), 0);
    snprintf(expression, sizeof expression, "[c['state'] for c in d['channels'] if c['name'] == '%s'] == ['live']",
             name);
    check_json(p.out, expression);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.1", NATIVE), 0);
    check_json(p.out, "d['channels'] == []");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* The longest name that a writer may have. */
TEST(top_lists_those_with_long_names)
{
    static struct program p;
    char expression[512], longest[5 + 234 + 1];
    begin();
    snprintf(longest, sizeof longest, "cipd:%0234ld", (long)getpid());
    sluice_start(&player, "play", "test", longest, "--pattern", "--size", "64x48", "--fps", "50", "--quiet");
    CHECK_SOON(runs(longest), 10);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.2", longest), 0);
    snprintf(expression, sizeof expression,
             "[(c['name'], c['state'], c['fps'] > 1) for c in d['channels']] == [('%s', 'live', True)]", longest);
    check_json(p.out, expression);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.1", longest), 0);
    CHECK_HAS(p.out, longest);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

TEST(top_follows_cuda_links_as_they_come_and_go)
{
    struct top top;
    const atomic_bool stop = false;
    begin();
    top_open(&top, (char *[]){ "camera", "c*s>>*" }, 2);
    snprintf(bare, sizeof bare, "comes>>%ld", (long)getpid());
    snprintf(name, sizeof name, "cipd:%s", bare);
    top_refresh(&top, &stop);
    CHECK_EQ(count_of(&top), 0);
    sluice_start(&player, "play", "test", name, "--pattern", "--size", "64x48", "--fps", "50", "--quiet");
    CHECK_SOON(has_frames(), 10);
    top_refresh(&top, &stop); /* nothing changed in the folder of channels */
    CHECK_EQ(count_of(&top), 1);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    top_refresh(&top, &stop);
    CHECK_EQ(count_of(&top), 0);
    top_close(&top);
    top_open(&top, (char *[]){ "camera", "cip" }, 2);
    CHECK(!top.cipd); /* cipd: channels are not listed */
    top_close(&top);
}

/* Other files may be in that folder. */
TEST(top_and_shells_are_told_what_is_a_channel)
{
    static struct program p;
    static const unsigned char unfinished[433] = { 0x44, 0x50, 0x49, 0x43, 7 };
    char text[256];
    begin();
    store("something else", 14);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--all", "--interval", "0.05"), 0);
    CHECK(!strstr(p.out, bare));
    CHECK_EQ(sluice_run(&p, "__complete", "info", ""), 0);
    CHECK(!strstr(p.out, bare));
    store(unfinished, sizeof unfinished);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.05", name), 0);
    CHECK_HAS(p.out, "unfinished");
    CHECK_HAS(p.out, "no slots");
    CHECK_EQ(sluice_run(&p, "__complete", "info", "cipd:tools"), 0);
    snprintf(text, sizeof text, "%s\tthe writer announces no slots yet", name);
    CHECK_HAS(p.out, text);
    snprintf(text, sizeof text, "/%s", bare);
    CHECK_EQ(shm_unlink(text), 0);
    play("bgra");
    CHECK_EQ(sluice_run(&p, "__complete", "bridge", "cipd:tools"), 0);
    snprintf(text, sizeof text, "%s\t64x48x4 uint8 bgra\n", name);
    CHECK_HAS(p.out, text);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    CHECK_EQ(sluice_run(&p, "__complete", "info", "cipd:tools"), 0);
    CHECK(!strstr(p.out, name));
}

/* ---- play, record and snap ---- */

TEST(snap_and_record_of_cuda_links)
{
    static struct program p;
    size_t size;
    play("bgra");
    CHECK_EQ(sluice_run(&p, "snap", name, in_dir("now.npy"), "--timeout", "5"), 0);
    char *npy = read_all(in_dir("now.npy"), &size);
    CHECK_HAS(npy + 10, "'shape': (48, 64, 4, )");
    CHECK_EQ(size, 128 + 64 * 48 * 4);
    const unsigned char *yellow = (unsigned char *)npy + 128 + (30 * 64 + 12) * 4; /* the second bar */
    CHECK_EQ(yellow[0], 0);
    CHECK_EQ(yellow[1], 255);
    CHECK_EQ(yellow[2], 255);
    free(npy);
    CHECK_EQ(sluice_run(&p, "record", name, in_dir("a.slr"), "--frames", "5"), 0);
    CHECK_HAS(p.out, "recorded 5 frames");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
    play("rgba");
    CHECK_EQ(sluice_run(&p, "snap", name, in_dir("now.png"), "--timeout", "5"), 1);
    CHECK_HAS(p.err, "by --undeclared rgba or bgra; ");
    CHECK_EQ(sluice_run(&p, "snap", name, in_dir("now.png"), "--timeout", "5", "--undeclared", "rgba"), 0);
    CHECK_EQ(sluice_run(&p, "view", name, "--ascii", "--frames", "1", "--undeclared", "rgba"), 0);
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* The player's GPU is slow: a frame that is published when it is sent would be seen before it is complete. */
TEST_TIMEOUT(play_does_what_variables_say, 60)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_frame frame;
    sluice_reader *reader;
    begin();
    params.name = name;
    params.device = "cuda:0";
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    setenv("CUDALINK_EXPORT_SYNC", "1", 1);
    setenv("CUDALINK_STRICT_DEVICE", "1", 1); /* has no effect on frames made by the CPU */
    setenv("SLUICE_FAKE_DELAY", "100000", 1);
    sluice_start(&player, "play", "test", name, "--pattern", "--size", "64x48", "--fps", "2", "--quiet");
    int64_t end = test_now() + (int64_t)(20 * test_slowness() * 1e9);
    for (int frames = 0; frames < 3;) {
        CHECK_LE(test_now(), end);
        int result = sluice_reader_acquire(reader, SLUICE_ON_CPU, 0, &frame);
        if (result > 0 && strstr(sluice_last_error(), "not finished"))
            FAIL("a frame was published before it was finished");
        if (result > 0)
            continue;
        CHECK_RESULT(result, 0);
        frames++;
        (void)sluice_reader_release(reader, &frame, SLUICE_ON_CPU);
    }
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* ---- the doctor ---- */

TEST(doctor_says_what_variables_do)
{
    static struct program p;
    begin();
    setenv("CUDALINK_EXPORT_SYNC", "1", 1);
    setenv("CUDALINK_D2H_STREAMS", "4", 1);
    setenv("CUDALINK_TD_PERSIST_STREAM", "0", 1);
    setenv("CUDALINK_D2H_PIPELINED", "1", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "ok    cuda-link    CUDALINK_EXPORT_SYNC is \"1\": ");
    CHECK_HAS(p.out, "; sluice play bridge");
    CHECK_HAS(p.out, "note  cuda-link    CUDALINK_D2H_STREAMS is \"4\": ");
    CHECK_HAS(p.out, "unset CUDALINK_D2H_STREAMS");
    CHECK_HAS(p.out, "CUDALINK_TD_PERSIST_STREAM is \"0\": ");
    CHECK_HAS(p.out, "ok    cuda-link    CUDALINK_D2H_PIPELINED is \"1\": sluice.cuda_link ");
    CHECK(!strstr(p.out, "CUDALINK_NVTX"));
    CHECK_EQ(sluice_run(&p, "doctor", "--quick", "--json"), 0);
    check_json(p.out, "len(d['cuda_link_variables']) > 40 and {v['name']: v['value'] for v in d['cuda_link_variables'] "
                      "if v['value'] is not None}['CUDALINK_D2H_STREAMS'] == '4'");
}

TEST(doctor_says_how_values_are_read)
{
    static struct program p;
    begin();
    setenv("CUDALINK_IMPORT_RECONNECT", "0", 1);
    setenv("CUDALINK_EXPORT_SYNC", "true", 1);
    setenv("CUDALINK_BARRIER_STALE_NS", "abc", 1);
    setenv("CUDALINK_WAIT_SPIN_US", "-1", 1);
    setenv("CUDALINK_TD_BARRIER_SETTLE_FRAMES", "99999999999999999999", 1);
    setenv("CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT", "200", 1);
    setenv("CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW", "60", 1);
    setenv("CUDALINK_TD_USE_GRAPHS", "1", 1);
    setenv("CUDALINK_D2H_STREAMS", "abc", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(
        p.out,
        "ok    cuda-link    CUDALINK_IMPORT_RECONNECT is \"0\", which means off: a reader finds the writer's next "
        "session by itself; honoured; no command");
    CHECK_HAS(p.out, "ok    cuda-link    CUDALINK_EXPORT_SYNC is \"true\", which means off (only \"1\" means on): ");
    CHECK_HAS(p.out, "note  cuda-link    CUDALINK_BARRIER_STALE_NS is \"abc\", which is not a number, so the default "
                     "5000000000 is used; ");
    CHECK_HAS(p.out, "set CUDALINK_BARRIER_STALE_NS to a whole number from 0 to 9223372036854775807, or unset it");
    CHECK_HAS(
        p.out,
        "note  cuda-link    CUDALINK_WAIT_SPIN_US is \"-1\", which is out of range, so the default 200 is used; ");
    CHECK_HAS(p.out, "; honoured; sluice bridge record snap view");
    CHECK_HAS(p.out, "SETTLE_FRAMES is \"99999999999999999999\", which is out of range, so the default 30 is used; ");
    CHECK_HAS(p.out, "SLEEP_PCT is \"200\", which is out of range, so the default 5 is used; ");
    CHECK_HAS(p.out, "set CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT to a whole number from -100 to 100, or unset it");
    CHECK_HAS(
        p.out,
        "ok    cuda-link    CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW is \"60\": how many frames decide on that; in Python\n");
    CHECK_HAS(p.out, "TD_USE_GRAPHS is \"1\": of the sender in TouchDesigner; TouchDesigner's side, no effect here\n");
    CHECK_HAS(p.out,
              "D2H_STREAMS is \"abc\": a copy to the host is cut into pieces as suits the GPU; no effect here\n");
}

TEST(doctor_says_which_variables_are_none_of_cuda_links)
{
    static struct program p;
    begin();
    setenv("CUDALINK_FOO", "1", 1);
    setenv("CUDALINK_", "1", 1);
    setenv("CUDALINK_EXPORT_SYNK", "1", 1);
    setenv("CUDALINK_IMPORT_RECONNECT_MAX_ATTEMPS", "3", 1);
    setenv("CUDALINK_EXPORT_SYNC", "1", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "note  cuda-link    CUDALINK_FOO is set, but is not a variable of cuda-link: no effect\n");
    CHECK_HAS(p.out, "fix: unset CUDALINK_FOO\n");
    CHECK_HAS(p.out, "note  cuda-link    CUDALINK_ is set, but is not a variable of cuda-link: no effect\n");
    CHECK_HAS(p.out, "CUDALINK_EXPORT_SYNK is set, but is not a variable of cuda-link: no effect; did you mean "
                     "CUDALINK_EXPORT_SYNC?\n");
    CHECK_HAS(p.out, "fix: set CUDALINK_EXPORT_SYNC, and unset CUDALINK_EXPORT_SYNK\n");
    CHECK_HAS(p.out, "no effect; did you mean CUDALINK_IMPORT_RECONNECT_MAX_ATTEMPTS?\n");
    CHECK(!strstr(p.out, "CUDALINK_EXPORT_SYNC is set"));
}

TEST_TIMEOUT(doctor_tries_handles_between_processes, 60)
{
    static struct program p;
    begin();
    CHECK_EQ(sluice_run(&p, "doctor"), 0);
    CHECK_HAS(p.out, "cuda:0       cuda-link: cipd: channels work: a second process opened a frame");
    CHECK_HAS(p.out, "cuda:1       cuda-link: cipd: channels work: a second process opened a frame");
    setenv("SLUICE_FAKE_WITHOUT", "events", 1);
    CHECK_EQ(sluice_run(&p, "doctor"), 0);
    CHECK_HAS(p.out, "no cipd: channels on this GPU");
    CHECK(!strstr(p.out, "BAD"));
}

/* A private barrier: the real one affects the whole machine. */
static const struct finding *barrier(uint32_t magic, uint32_t count, int64_t age_ns)
{
    static struct report report;
    struct {
        uint32_t magic, version, count, padding;
        uint64_t change_ns;
        uint32_t skips, pid;
        unsigned char zero[32];
    } words = { magic, 1, count, 0, (uint64_t)(test_now() - age_ns), 9, 4242, { 0 } };
    _Static_assert(sizeof words == 64, "as on the wire");
    char path[128];
    report.count = 0;
    store(&words, sizeof words);
    check_barrier(&report, bare);
    CHECK_EQ(report.count, 1);
    snprintf(path, sizeof path, "/%s", bare);
    CHECK_EQ(shm_unlink(path), 0);
    static struct finding found;
    found = report.list[0];
    free(report.list);
    report = (struct report){ 0 };
    return &found;
}

TEST(doctor_says_how_the_barrier_is)
{
    struct report report = { 0 };
    begin();
    check_barrier(&report, bare);
    CHECK_EQ(report.count, 0);
    const struct finding *finding = barrier(0xCDA1BAAA, 0, SLUICE_S);
    CHECK_EQ(finding->state, FINDING_OK);
    CHECK_HAS(finding->text, "is down; it held back 9 frames");
    finding = barrier(0xCDA1BAAA, 2, SLUICE_S);
    CHECK_EQ(finding->state, FINDING_NOTE);
    CHECK_HAS(finding->text, "is up: 2 senders are starting");
    CHECK_HAS(finding->text, "by process 4242");
    CHECK_HAS(finding->fix, "rm /dev/shm/");
    finding = barrier(0xCDA1BAAA, 1, 30 * SLUICE_S);
    CHECK_HAS(finding->text, "left up by 1 sender, last touched 30.0 s ago by process 4242: it is stale");
    finding = barrier(0xCDA1BAAA, 1, -1000 * SLUICE_S); /* which other programs ignore, too */
    CHECK_HAS(finding->text, "left up by 1 sender, last touched ");
    CHECK_HAS(finding->text, " in the future by process 4242: it is stale");
    finding = barrier(0xCDA1BAAA, 1, -4 * SLUICE_S);
    CHECK_HAS(finding->text, "is up: 1 sender is starting");
    finding = barrier(0x12345678, 1, SLUICE_S);
    CHECK_HAS(finding->text, "is not an activation barrier");
}

TEST(doctor_counts_what_killed_writers_left)
{
    struct report report = { 0 };
    uint32_t header[64] = { 0x43495044 };
    char path[128];
    begin();
    snprintf(path, sizeof path, "/.%s.1.0123abcd", bare);
    do { /* a writer of another test may remove it */
        int fd = shm_open(path, O_RDWR | O_CREAT, 0600);
        CHECK(fd >= 0 && write(fd, header, sizeof header) == (ssize_t)sizeof header);
        close(fd);
        free(report.list);
        report = (struct report){ 0 };
        check_leftovers(&report);
    } while (report.count == 0 && shm_unlink(path) != 0);
    (void)shm_unlink(path);
    CHECK_EQ(report.count, 1);
    CHECK_EQ(report.list[0].state, FINDING_NOTE);
    CHECK_HAS(report.list[0].text, "in /dev/shm");
    CHECK_HAS(report.list[0].fix, "the next writer");
    free(report.list);
}
