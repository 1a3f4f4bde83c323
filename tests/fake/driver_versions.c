/* SPDX-License-Identifier: MIT
 *
 * Two programs whose driver libraries have two versions: an error about memory that cannot be imported names both.
 */
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "fake/fake.h"
#include "harness/test.h"
#include "util/atomic.h"

static sluice_writer *open_writer(struct sluice_frame *frame)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    sluice_writer *writer;

    CHECK_OK(
        sluice_format_add_tensor(&format, "data", (struct sluice_dtype){ SLUICE_UINT, 8, 1 }, 1, &(int64_t){ 64 }));
    params.name = "cam";
    params.device = "cuda:0";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    CHECK_OK(sluice_writer_begin(writer, 0, frame));
    CHECK_OK(sluice_writer_commit(writer, frame, SLUICE_ON_CPU));
    return writer;
}

/* Prints the result of the first frame, whose import fails with `code` in that function. */
ROLE(takes_with_another_driver)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    struct sluice_device device;
    struct sluice_frame frame;
    sluice_reader *reader;

    fake_use();
    CHECK_OK(sluice_device_open(&device, "cuda:0")); /* so that its driver is loaded when it acknowledges */
    params.name = "cam";
    params.open_timeout_ns = 10 * SLUICE_S;
    CHECK_OK(sluice_reader_open(&reader, &params));
    fake_fail(strcmp(argv[1], "ipc") == 0 ? FAKE_IpcOpenMemHandle : FAKE_MemImportFromShareableHandle, 1,
              atoi(argv[2]));
    int r = sluice_reader_acquire(reader, SLUICE_ON_CPU, 10 * SLUICE_S, &frame);
    CHECK(fake_failed());
    role_say("%s: %s", sluice_result_name(r), sluice_last_error());
    CHECK_OK(sluice_reader_close(&reader));
    CHECK_OK(sluice_device_close(&device));
    return 0;
}

static char writer_error[512];
static sl_word32 times;

static void note(void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    (void)level;
    if (!strstr(text, "has a driver for"))
        return;
    snprintf(writer_error, sizeof writer_error, "%s", text);
    sl_add(&times, 1);
}

/* Returns the reader's message; the writer's is in `writer_error`. */
static const char *take_with(const char *version, const char *how, int code, char *text, size_t size)
{
    struct sluice_frame frame;
    char number[16];

    fake_use();
    test_dir();
    writer_error[0] = 0;
    sl_store(&times, 0, seq_cst);
    CHECK(setenv("SLUICE_WITHOUT", strcmp(how, "ipc") == 0 ? "vmm" : "", 1) == 0);
    sluice_writer *writer = open_writer(&frame);
    sluice_log_set(note, NULL, SLUICE_LOG_INFO);
    snprintf(number, sizeof number, "%d", code);
    CHECK(setenv("SLUICE_FAKE_VERSION", version, 1) == 0);
    struct child child = role_start("takes_with_another_driver", how, number, NULL);
    snprintf(text, size, "%s", child_line(&child, 20));
    CHECK_EQ(child_wait(&child, 20), 0);
    if (strcmp(version, "13000") != 0)
        CHECK_SOON(sl_load(&times, seq_cst) > 0, 20); /* the writer may learn it last */
    CHECK_OK(sluice_writer_close(&writer));
    sluice_log_set(NULL, NULL, 0);
    return text;
}

static void names_both(const char *how)
{
    char text[1024];

    CHECK_HAS(take_with("12080", how, SL_CU_INVALID_VALUE, text, sizeof text), "E_");
    CHECK_HAS(text, strcmp(how, "ipc") == 0 ? "cuIpcOpenMemHandle" : "cuMemImportFromShareableHandle");
    CHECK_HAS(text, "a driver for CUDA 13.0, and this process has one for 12.8");
    CHECK_HAS(writer_error, "driver for CUDA 12.8, its writer one for 13.0");
}

TEST(memory_that_another_driver_cannot_import_names_both)
{
    names_both("vmm");
    names_both("ipc");
}

static void names_none(const char *version, const char *how, int code)
{
    char text[1024];

    CHECK_HAS(take_with(version, how, code, text, sizeof text), "E_");
    CHECK(!strstr(text, "this process has one"));
}

TEST(other_errors_name_no_driver_version)
{
    names_none("13000", "vmm", SL_CU_INVALID_VALUE);
    CHECK_EQ(sl_load(&times, seq_cst), 0);
    names_none("13000", "ipc", SL_CU_INVALID_VALUE);
    names_none("12080", "vmm", SL_CU_OUT_OF_MEMORY);
}
