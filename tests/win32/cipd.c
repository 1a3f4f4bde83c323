/* SPDX-License-Identifier: MIT
 *
 * Channels of cuda-link's protocol between processes on Windows.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fake/fake.h"
#include "harness/test.h"
#include "os/os.h"

enum { WIDTH = 64, HEIGHT = 32 };

/* A name that no other test has. */
static const char *channel(void)
{
    static char name[64];

    snprintf(name, sizeof name, "cipd:sluice test %lu", GetCurrentProcessId());
    return name;
}

/* ---- roles, led line by line ---- */

static struct sluice_format frames(void)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;

    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_BGRA, WIDTH, HEIGHT));
    CHECK_OK(sluice_format_complete(&format));
    return format;
}

/* Each byte of a frame is the number that was said. "slots N" begins another session. */
ROLE(writer)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = frames();
    static unsigned char pixels[WIDTH * HEIGHT * 4];
    struct sluice_array array = format.arrays[0];
    sluice_writer *writer;

    CHECK_EQ(argc, 2);
    params.name = argv[1];
    params.device = "cuda:0";
    params.format = &format;
    int r = sluice_writer_open(&writer, &params);
    if (r != 0) {
        role_say("%s: %s", sluice_result_name(r), sluice_last_error());
        return 0;
    }
    role_say("open");
    for (char *line; (line = role_line());) {
        if (strncmp(line, "slots ", 6) == 0) {
            CHECK_OK(sluice_cipd_set_slots(writer, (uint32_t)atoi(line + 6)));
        } else if (strcmp(line, "pid") == 0) {
            role_say("%lu", GetCurrentProcessId());
        } else if (strcmp(line, "end") == 0) {
            Sleep(50);
            TerminateProcess(GetCurrentProcess(), 1);
        } else {
            memset(pixels, atoi(line), sizeof pixels);
            array.data = pixels;
            CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
        }
        role_say("done");
    }
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

/* The value of the next frame's bytes; a result that is no frame as -1000 less its number. */
static int take(sluice_reader *reader, double seconds)
{
    static unsigned char pixels[WIDTH * HEIGHT * 4];
    struct sluice_frame frame;
    struct sluice_array array;
    int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, (int64_t)(seconds * 1e9), &frame);

    if (r < 0)
        fprintf(stderr, "%s\n", sluice_last_error());
    if (r != 0)
        return -1000 - r;
    CHECK_OK(sluice_frame_array(&frame, NULL, &array));
    CHECK_OK(sluice_array_wrap(&array, NULL, pixels, array.dtype, (int)array.ndim, array.shape, NULL));
    r = sluice_reader_fetch(reader, &frame, &array, 1, SLUICE_ON_CPU, NULL);
    CHECK_OK(sluice_reader_release(reader, &frame, SLUICE_ON_CPU));
    if (r < 0)
        fprintf(stderr, "%s\n", sluice_last_error());
    if (r != 0)
        return -1000 - r;
    for (size_t i = 1; i < sizeof pixels; i++)
        CHECK_EQ(pixels[i], pixels[0]);
    return pixels[0];
}

static int open_reader(sluice_reader **reader, const char *name, int64_t timeout_ns)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;

    params.name = name;
    params.device = "cuda:0";
    params.open_timeout_ns = timeout_ns;
    return sluice_reader_open(reader, &params);
}

ROLE(reader)
{
    sluice_reader *reader;

    CHECK_EQ(argc, 2);
    CHECK_OK(open_reader(&reader, argv[1], 20 * SLUICE_S));
    role_say("open");
    while (role_line())
        role_say("%d", take(reader, 20));
    CHECK_OK(sluice_reader_close(&reader));
    return 0;
}

/* ---- both ways ---- */

static struct child started(const char *role, const char *name)
{
    struct child child = role_start(role, name, NULL);

    child_expect(&child, "open", 20);
    return child;
}

static void send_frame(struct child *writer, const char *value)
{
    child_send(writer, value);
    child_expect(writer, "done", 20);
}

TEST(frames_reach_another_process)
{
    struct child writer = started("writer", channel()), reader = started("reader", channel());

    for (int i = 1; i < 20; i++) {
        char value[8];
        snprintf(value, sizeof value, "%d", i);
        child_send(&reader, "take");
        send_frame(&writer, value);
        child_expect(&reader, value, 20);
    }
    role_stop(&reader);
    role_stop(&writer);
}

/* Of this process, all threads, also in the kernel; in 100 ns. */
static uint64_t cpu_time(void)
{
    FILETIME made, ended, kernel, user;

    CHECK(GetProcessTimes(GetCurrentProcess(), &made, &ended, &kernel, &user));
    return ((uint64_t)user.dwHighDateTime << 32 | user.dwLowDateTime) +
           ((uint64_t)kernel.dwHighDateTime << 32 | kernel.dwLowDateTime);
}

TEST(a_reader_that_waits_takes_no_time)
{
    struct child writer = started("writer", channel());
    sluice_reader *reader, *nobody;

    CHECK_OK(open_reader(&reader, channel(), 20 * SLUICE_S));
    send_frame(&writer, "7");
    CHECK_EQ(take(reader, 20), 7);
    CHECK_EQ(take(reader, 1), -1000 - SLUICE_TIMEOUT);
    uint64_t before = cpu_time();
    CHECK_EQ(take(reader, 2), -1000 - SLUICE_TIMEOUT);
    CHECK_LE(cpu_time() - before, 1000000); /* a twentieth of it */
    before = cpu_time();
    CHECK_RESULT(open_reader(&nobody, "cipd:sluice test of nobody", 2 * SLUICE_S), SLUICE_E_NOT_FOUND);
    CHECK_LE(cpu_time() - before, 1000000);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

TEST(a_reader_may_come_first)
{
    struct child reader = role_start("reader", channel(), NULL), writer = started("writer", channel());

    child_expect(&reader, "open", 20);
    child_send(&reader, "take");
    send_frame(&writer, "6");
    child_expect(&reader, "6", 20);
    role_stop(&reader);
    role_stop(&writer);
}

TEST(another_number_of_slots_is_another_session_in_the_same_section)
{
    struct child writer = started("writer", channel());
    sluice_reader *reader;

    CHECK_OK(open_reader(&reader, channel(), 20 * SLUICE_S));
    send_frame(&writer, "1");
    CHECK_EQ(take(reader, 20), 1);
    send_frame(&writer, "slots 7");
    send_frame(&writer, "2");
    int got = take(reader, 20);
    while (got == -1000 - SLUICE_CLOSED || got == -1000 - SLUICE_NO_WRITER)
        got = take(reader, 20);
    CHECK_EQ(got, 2);
    struct sluice_reader_stats stats = { .size = sizeof stats };
    CHECK_OK(sluice_reader_stats(reader, &stats));
    CHECK_EQ(stats.slots, 7);
    CHECK_EQ(stats.sessions, 2);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

/* An event that a program waits for, and no descriptor. */
TEST(a_readers_handle_is_signalled_by_a_frame)
{
    struct child writer = started("writer", channel());
    sluice_reader *reader;
    HANDLE handle;

    CHECK_OK(open_reader(&reader, channel(), 20 * SLUICE_S));
    CHECK_SAYS(sluice_reader_fd(reader), SLUICE_E_UNSUPPORTED, "sluice_reader_handle");
    CHECK_OK(sluice_reader_handle(reader, &handle));
    CHECK_EQ(take(reader, 0), -1000 - SLUICE_TIMEOUT);
    CHECK_EQ(WaitForSingleObject(handle, 0), WAIT_TIMEOUT);
    send_frame(&writer, "1");
    CHECK_EQ(WaitForSingleObject(handle, 20000), WAIT_OBJECT_0);
    CHECK_EQ(take(reader, 20), 1); /* it may not be finished yet */
    CHECK_EQ(take(reader, 0), -1000 - SLUICE_TIMEOUT);
    CHECK_EQ(WaitForSingleObject(handle, 0), WAIT_TIMEOUT);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

/* How often a send asks the stream: that pushes out what WDDM holds back. */
static long queries(const char *model, const char *probe)
{
    static unsigned char pixels[WIDTH * HEIGHT * 4];
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = frames();
    struct sluice_array array = format.arrays[0];
    long (*calls)(int);
    sluice_writer *writer;

    _putenv(model);
    SetEnvironmentVariableA("CUDALINK_EXPORT_FLUSH_PROBE", probe);
    params.name = channel();
    params.device = "cuda:0";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    FARPROC found = GetProcAddress(GetModuleHandleA("nvcuda.dll"), "fake_calls");
    CHECK(found);
    memcpy(&calls, &found, sizeof calls);
    long before = calls(FAKE_StreamQuery);
    array.data = pixels;
    CHECK_OK(sluice_writer_send(writer, &array, 1, SLUICE_ON_CPU, NULL));
    long count = calls(FAKE_StreamQuery) - before;
    CHECK_OK(sluice_writer_close(&writer));
    return count;
}

TEST(wddm_is_flushed_unless_that_is_turned_off)
{
    long with = queries("SLUICE_FAKE_WITHOUT=tcc", "1");

    CHECK_LE(queries("SLUICE_FAKE_WITHOUT=tcc", "0") + 1, with);
}

/* ---- deaths ---- */

TEST(a_killed_writer_is_noticed_and_the_next_one_goes_on)
{
    struct child writer = started("writer", channel());
    sluice_reader *reader;

    CHECK_OK(open_reader(&reader, channel(), 20 * SLUICE_S));
    send_frame(&writer, "1");
    CHECK_EQ(take(reader, 20), 1);
    child_kill(&writer, 0);
    int got;
    CHECK_SOON((got = take(reader, 0.05)) != -1000 - SLUICE_TIMEOUT, 20);
    CHECK_EQ(got, -1000 - SLUICE_NO_WRITER); /* the reader keeps the section, so that the name stays */
    writer = started("writer", channel());
    send_frame(&writer, "2");
    while ((got = take(reader, 20)) == -1000 - SLUICE_NO_WRITER || got == -1000 - SLUICE_CLOSED)
        continue;
    CHECK_EQ(got, 2);
    CHECK_OK(sluice_reader_close(&reader));
    role_stop(&writer);
}

/* Whoever waits for a writer's word notices its end at once, without looking now and then. */
TEST(a_wait_ends_with_the_process_that_is_waited_for)
{
    struct child writer = started("writer", channel());
    struct sl_os_named about;
    DWORD pid = 0;
    void *at;
    int fd;

    CHECK_OK(sl_os_named_open(channel() + 5, true, &fd, &about));
    CHECK_OK(sl_os_map(fd, 4096, true, &at));
    sl_word32 *index = (sl_word32 *)((char *)at + 16);
    child_send(&writer, "pid");
    CHECK_EQ(sscanf(child_line(&writer, 20), "%lu", &pid), 1);
    child_expect(&writer, "done", 20);
    CHECK_RESULT(sl_os_futex_wait_of(index, sl_load(index, acquire), sl_os_deadline(SLUICE_MS), pid), SLUICE_TIMEOUT);
    child_send(&writer, "end"); /* in a moment, when this one waits */
    CHECK_RESULT(sl_os_futex_wait_of(index, sl_load(index, acquire), SLUICE_FOREVER, pid), SLUICE_CLOSED);
    sl_os_unmap(at, 4096);
    sl_os_close(fd);
}

TEST(killed_readers_hold_nobody_up)
{
    struct child writer = started("writer", channel());

    for (int i = 0; i < 4; i++) {
        struct child reader = started("reader", channel());
        child_send(&reader, "take"); /* it may be waiting when it is killed */
        if (i % 2)
            send_frame(&writer, "9");
        child_kill(&reader, 0);
    }
    struct child reader = started("reader", channel());
    child_send(&reader, "take");
    send_frame(&writer, "3");
    const char *got = child_line(&reader, 20);
    CHECK(strcmp(got, "3") == 0 || strcmp(got, "9") == 0);
    role_stop(&reader);
    role_stop(&writer);
}

TEST(a_name_has_one_writer)
{
    struct child first = started("writer", channel());
    struct child second = role_start("writer", channel(), NULL);

    CHECK_HAS(child_line(&second, 20), "E_EXISTS");
    role_stop(&second);
    child_kill(&first, 0);
    first = started("writer", channel());
    role_stop(&first);
}

/* ---- what cannot be ---- */

static int refusal_of_reader(const char *name)
{
    sluice_reader *reader;

    return open_reader(&reader, name, 0);
}

TEST(a_channel_of_sluices_own_gets_a_sentence)
{
    CHECK_SAYS(refusal_of_reader("camera"), SLUICE_E_UNSUPPORTED, "cipd:NAME");
}

TEST(names_that_windows_refuses)
{
    char longest[300] = "cipd:";

    CHECK_SAYS(refusal_of_reader("cipd:a\\b"), SLUICE_E_SYSTEM, "backslash");
    CHECK_SAYS(refusal_of_reader("cipd:a/b"), SLUICE_E_NAME, "slash");
    memset(longest + 5, 'n', 260);
    CHECK_RESULT(refusal_of_reader(longest), SLUICE_E_NAME);
}

/* Devices of DOS are no names of sections, a namespace is as Python has it, and the longest of a writer's has 234
 * bytes. */
TEST(names_that_only_files_cannot_have)
{
    static char longest[5 + 234 + 1] = "cipd:";
    static const char *const names[] = {
        "cipd:NUL", "cipd:COM1", "cipd:a<b>c:d|e?f*", "cipd:Local\\sluice test", "cipd:Global\\sluice test", longest
    };

    memset(longest + 5, 'n', 234);
    for (int i = 0; i < 6; i++) {
        struct child writer = started("writer", names[i]), reader = started("reader", names[i]);
        child_send(&reader, "take");
        send_frame(&writer, "5");
        child_expect(&reader, "5", 20);
        role_stop(&reader);
        role_stop(&writer);
    }
}

/* What a writer says to `variable` of the fake driver's, or of Sluice's. */
static void refused_with(const char *variable, const char *what, const char *todo)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = frames();
    sluice_writer *writer;

    _putenv(variable); /* the driver's C library has a copy of its own */
    CHECK(SetEnvironmentVariableA("SLUICE_CUDA_DRIVER", strchr(variable, '\\') ? strchr(variable, '=') + 1 : NULL));
    params.name = channel();
    params.device = "cuda:0";
    params.format = &format;
    CHECK_SAYS(sluice_writer_open(&writer, &params), SLUICE_E_UNSUPPORTED, what);
    CHECK_HAS(sluice_last_error(), todo);
}

TEST(without_a_driver_there_is_a_sentence)
{
    refused_with("SLUICE_CUDA_DRIVER=nowhere\\nvcuda.dll", "nvcuda.dll", "install NVIDIA's driver");
    CHECK_SAYS(refusal_of_reader(channel()), SLUICE_E_UNSUPPORTED, "nvcuda.dll");
}

TEST(a_driver_that_shares_no_memory_gets_a_sentence)
{
    refused_with("SLUICE_FAKE_WITHOUT=events", "cuIpcGetMemHandle", "this GPU cannot");
}

static HANDLE section(const char *name, DWORD size, unsigned char **at)
{
    HANDLE made = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, size, name);

    CHECK(made);
    *at = MapViewOfFile(made, FILE_MAP_WRITE, 0, 0, 0);
    CHECK(*at);
    return made;
}

TEST(another_programs_section_is_not_touched)
{
    unsigned char *at;
    HANDLE made = section(channel() + 5, 100, &at);

    memcpy(at, "something else", 15);
    struct child writer = role_start("writer", channel(), NULL);
    CHECK_HAS(child_line(&writer, 20), "no channel of cuda-link's");
    CHECK_STR((char *)at, "something else");
    CHECK_SAYS(refusal_of_reader(channel()), SLUICE_E_PROTOCOL, "something else");
    role_stop(&writer);
    CloseHandle(made);
}

/* Larger than it need be, and with what makes no sense in it: the next session begins there. */
TEST(a_section_of_any_size_is_used)
{
    static const uint32_t header[] = { 0x43495044, 3, 0, 77, 5 }; /* 77 slots */
    unsigned char *at;
    HANDLE made = section(channel() + 5, 1 << 20, &at);

    memcpy(at, header, sizeof header);
    CHECK_SAYS(refusal_of_reader(channel()), SLUICE_E_PROTOCOL, "77 slots");
    struct child writer = started("writer", channel()), reader = started("reader", channel());
    child_send(&reader, "take");
    send_frame(&writer, "5");
    child_expect(&reader, "5", 20);
    role_stop(&reader);
    role_stop(&writer);
    CloseHandle(made);
}

TEST(another_users_section_gets_a_sentence)
{
    ACL nobody;
    SECURITY_DESCRIPTOR rights;
    SECURITY_ATTRIBUTES attributes = { .nLength = sizeof attributes, .lpSecurityDescriptor = &rights };

    CHECK(InitializeAcl(&nobody, sizeof nobody, ACL_REVISION));
    CHECK(InitializeSecurityDescriptor(&rights, SECURITY_DESCRIPTOR_REVISION));
    CHECK(SetSecurityDescriptorDacl(&rights, TRUE, &nobody, FALSE));
    HANDLE made = CreateFileMappingA(INVALID_HANDLE_VALUE, &attributes, PAGE_READWRITE, 0, 4096, channel() + 5);
    CHECK(made);
    CHECK_SAYS(refusal_of_reader(channel()), SLUICE_E_PERMISSION, "must run as the same user");
    struct child writer = role_start("writer", channel(), NULL);
    CHECK_HAS(child_line(&writer, 20), "must run as the same user");
    role_stop(&writer);
    CloseHandle(made);
}

TEST(an_object_of_another_kind_has_the_name)
{
    HANDLE event = CreateEventA(NULL, FALSE, FALSE, channel() + 5);

    CHECK(event);
    CHECK_SAYS(refusal_of_reader(channel()), SLUICE_E_PERMISSION, "another object");
    CloseHandle(event);
}

TEST(the_doorbell_rings_at_each_frame)
{
    char name[128];
    struct child writer = started("writer", channel());

    snprintf(name, sizeof name, "Local\\cudalink_db_%s", channel() + 5);
    HANDLE bell = OpenEventA(SYNCHRONIZE, FALSE, name);
    CHECK(bell);
    while (WaitForSingleObject(bell, 0) == WAIT_OBJECT_0) /* of the session's begin */
        continue;
    send_frame(&writer, "1");
    CHECK_EQ(WaitForSingleObject(bell, 20000), WAIT_OBJECT_0);
    CHECK_EQ(WaitForSingleObject(bell, 0), WAIT_TIMEOUT);
    CloseHandle(bell);
    role_stop(&writer);
}

/* Its writer wakes nobody otherwise. */
TEST(a_wait_hears_the_doorbell_of_another_programs_writer)
{
    unsigned char *theirs;
    HANDLE made = section(channel() + 5, 4096, &theirs);
    struct sl_os_named about;
    char name[128];
    void *at;
    int fd;

    snprintf(name, sizeof name, "Local\\cudalink_db_%s", channel() + 5);
    HANDLE bell = CreateEventA(NULL, FALSE, FALSE, name);
    CHECK(bell);
    CHECK_OK(sl_os_named_open(channel() + 5, true, &fd, &about));
    CHECK_OK(sl_os_map(fd, 4096, true, &at));
    sl_word32 *index = (sl_word32 *)((char *)at + 16);
    CHECK_RESULT(sl_os_futex_wait(index, 0, sl_os_deadline(SLUICE_MS)), SLUICE_TIMEOUT);
    SetEvent(bell);
    CHECK_OK(sl_os_futex_wait(index, 0, SLUICE_FOREVER));
    sl_os_unmap(at, 4096);
    sl_os_close(fd);
    CloseHandle(bell);
    CloseHandle(made);
}
