/* SPDX-License-Identifier: MIT
 *
 * sluice top and the GPUs of channels, with a fake management library.
 */
#include "kit.h"

#include <dlfcn.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/sluice.h>

#include "tools/top/top.h"

/* Channels "a", "b", ..., each on the GPU with this byte in its UUID; 0: on host. */
static void open_top(struct top *top, const unsigned char *bytes, size_t count)
{
    struct top_entry entries[20] = { 0 };
    top_open(top, NULL, 0);
    for (size_t i = 0; i < count; i++) {
        entries[i].name[0] = (char)('a' + i);
        entries[i].live = 1;
    }
    CHECK(top_list(top, entries, count));
    for (size_t i = 0; i < count; i++) {
        struct sluice_channel_info info = { .size = sizeof info, .session = 1, .now_ns = SLUICE_S };
        snprintf(info.device, sizeof info.device, "%s", bytes[i] ? "cuda:0" : "host");
        memset(info.device_uuid, bytes[i], sizeof info.device_uuid);
        top_update(top->list[i], SLUICE_OK, "", &info, NULL);
    }
}

static void use_nvml(const char *path, const char *act)
{
    test_dir();
    setenv("SLUICE_NVML", path, 1);
    setenv("FAKE_NVML", act, 1);
}

TEST(gpus_of_channels_once_each)
{
    static const unsigned char bytes[] = { 1, 0, 2, 1, 9 };
    char text[TOP_GPU_TEXT];
    struct top top;
    use_nvml(FAKE_NVML, "");
    open_top(&top, bytes, 5);
    top_refresh_gpus(&top);
    CHECK_EQ(top.gpu_count, 3); /* one of them unknown */
    CHECK(top_gpu_of(&top, top.list[1]) == NULL && top_gpu_of(&top, top.list[4]) == NULL);
    const struct nvml_gpu *gpu = top_gpu_of(&top, top.list[0]);
    CHECK(gpu && top_gpu_of(&top, top.list[3]) == gpu && top_gpu_of(&top, top.list[2]) != gpu);
    CHECK_STR(top_gpu_text(text, gpu), "GPU 4, Fake H200: 87 % busy, 12.0 GiB of 140 GiB, 312 W, 54 C");
    CHECK(isnan(gpu->pcie_in)); /* at the first query */
    test_nap(50000000);
    top_refresh_gpus(&top);
    gpu = top_gpu_of(&top, top.list[0]);
    CHECK(gpu->pcie_in > 0 && gpu->pcie_in <= 1048576 / 0.05); /* 1 MiB in 50 ms or more */
    CHECK_NEAR(gpu->pcie_out, 0, 1e-9);
    CHECK_HAS(top_gpu_text(text, gpu), "54 C, PCIe ");
    top_close(&top);
}

TEST(an_instance_knows_less)
{
    static const unsigned char bytes[] = { 3 };
    char text[TOP_GPU_TEXT];
    struct top top;
    use_nvml(FAKE_NVML, "");
    open_top(&top, bytes, 1);
    top_refresh_gpus(&top);
    CHECK_STR(top_gpu_text(text, top_gpu_of(&top, top.list[0])), "GPU 0, Fake MIG 1g: 1.0 GiB of 10.0 GiB");
    setenv("FAKE_NVML", "bare", 1);
    top_refresh_gpus(&top);
    CHECK_STR(top_gpu_text(text, top_gpu_of(&top, top.list[0])), "GPU 0, Fake MIG 1g");
    top_close(&top);
}

static void check_nothing(const char *path, const char *act)
{
    static const unsigned char bytes[] = { 1, 0 };
    struct canvas canvas = { .utf8 = true };
    struct top top;
    use_nvml(path, act);
    open_top(&top, bytes, 2);
    top_refresh_gpus(&top);
    CHECK(top_gpu_of(&top, top.list[0]) == NULL);
    canvas_begin(&canvas, 80, 4);
    top_draw_gpus(&canvas, &top);
    CHECK_EQ(canvas.row, 0);
    canvas_free(&canvas);
    top_close(&top);
}

TEST(without_the_library_there_is_nothing)
{
    check_nothing("libno-such-nvml.so.1", "");
}

TEST(a_library_that_is_another)
{
    check_nothing("libm.so.6", "");
}

TEST(a_driver_that_does_not_start)
{
    check_nothing(FAKE_NVML, "dead");
}

TEST(the_library_is_not_touched_for_host_channels)
{
    static const unsigned char bytes[] = { 0, 0 };
    struct top top;
    void *library = dlopen(FAKE_NVML, RTLD_NOW);
    int *running = library ? dlsym(library, "fake_nvml_running") : NULL;
    CHECK(running);
    use_nvml(FAKE_NVML, "");
    open_top(&top, bytes, 2);
    top_refresh_gpus(&top);
    CHECK_EQ(top.gpu_count, 0);
    CHECK_EQ(*running, 0);
    memset(top.list[0]->info.device_uuid, 1, 16);
    top_refresh_gpus(&top);
    CHECK_EQ(*running, 1);
    top_close(&top);
    CHECK_EQ(*running, 0);
    dlclose(library);
}

TEST(gpus_on_the_screen)
{
    static const unsigned char bytes[] = { 1, 2 };
    struct canvas canvas = { .utf8 = true };
    struct top_grid readers = { .table = &top_readers };
    struct top top;
    use_nvml(FAKE_NVML, "");
    open_top(&top, bytes, 2);
    top_refresh_gpus(&top);
    canvas_begin(&canvas, 100, 8);
    top_draw_gpus(&canvas, &top);
    CHECK_EQ(canvas.row, 2);
    CHECK_HAS(canvas.bytes, "GPU 4, Fake H200: 87 % busy");
    CHECK_HAS(canvas.bytes, "GPU 5, Fake H100?[2J: 0 % busy");
    canvas_begin(&canvas, 100, 20);
    top_draw_channel(&canvas, &top, top.list[1], &readers, 20);
    CHECK_HAS(canvas.bytes, "gpu      GPU 5, Fake H100");
    CHECK(!strstr(canvas.bytes, "Fake H200"));
    canvas_free(&canvas);
    top_close(&top);
}

TEST(many_gpus_are_counted)
{
    struct canvas canvas = { .utf8 = true };
    struct top top;
    use_nvml(FAKE_NVML, "");
    top_open(&top, NULL, 0);
    for (size_t i = 0; i < 7; i++)
        top.gpus[i].now = (struct nvml_gpu){ .handle = &top, .index = (unsigned)i, .name = "x" };
    top.gpu_count = 7;
    canvas_begin(&canvas, 60, 9);
    top_draw_gpus(&canvas, &top);
    CHECK_EQ(canvas.row, 5);
    CHECK_HAS(canvas.bytes, "and 3 more GPUs");
    canvas_free(&canvas);
    top_close(&top);
}

TEST(gpus_in_json)
{
    static const unsigned char bytes[] = { 2, 9 };
    struct json json;
    struct top top;
    char *text;
    size_t size;
    use_nvml(FAKE_NVML, "");
    open_top(&top, bytes, 2);
    top_refresh_gpus(&top);
    FILE *file = open_memstream(&text, &size);
    json_begin(&json, file, true);
    json_object(&json);
    top_json_gpus(&json, &top);
    json_close(&json);
    json_end(&json);
    fclose(file);
    check_json(text, "len(d['gpus']) == 1 and d['gpus'][0]['index'] == 5 and d['gpus'][0]['power_w'] == 71 and "
                     "d['gpus'][0]['memory_total'] == 80 * 2**30 and d['gpus'][0]['pcie_in_per_s'] is None and "
                     "d['gpus'][0]['uuid'] == 'GPU-02020202-0202-0202-0202-020202020202'");
    free(text);
    top_close(&top);
}

TEST(the_command_says_device_and_gpus)
{
    static struct program p, player;
    use_nvml(FAKE_NVML, "");
    player_start(&player, "camera", "--pattern", "--size", "64x48");
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.1", NATIVE), 0);
    check_json(p.out, "d['gpus'] == [] and d['channels'][0]['device'] == 'host' and "
                      "'gpu' not in d['channels'][0]");
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.1", NATIVE), 0);
    CHECK(!strstr(p.out, "GPU"));
    CHECK_STR(p.err, "");
    CHECK_EQ(program_end(&player, SIGTERM), 0);
}

/* Its cuda:0 is not the cuda:0 of top. */
ROLE(gpu_writer)
{
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    struct sluice_format format = SLUICE_FORMAT_INIT;
    sluice_writer *writer;
    setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    CHECK_OK(sluice_format_add_image(&format, "image", SLUICE_PIXEL_GRAY8, 64, 64));
    params.name = "gpu";
    params.device = "cuda:0";
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    role_say("open");
    while (role_line())
        continue;
    CHECK_OK(sluice_writer_close(&writer));
    return 0;
}

TEST(a_writer_tells_which_gpu)
{
    static struct program p;
    use_nvml(FAKE_NVML, "");
    struct child writer = role_start("gpu_writer", NULL);
    child_expect(&writer, "open", 10);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--json", "--interval", "0.1", NATIVE), 0);
    check_json(p.out, "[g['index'] for g in d['gpus']] == [1] and d['gpus'][0]['load_percent'] == 42 and "
                      "d['channels'][0]['device'] == 'cuda:0' and d['channels'][0]['gpu'] == d['gpus'][0]['uuid']");
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.1", NATIVE), 0);
    CHECK_HAS(p.out, "GPU 1, Fake GPU 1: 42 % busy, 2.0 GiB of 4.0 GiB, 250 W, 40 C, PCIe ");
    setenv("SLUICE_NVML", "libno-such-nvml.so.1", 1);
    CHECK_EQ(sluice_run(&p, "top", "--once", "--interval", "0.1", NATIVE), 0);
    CHECK(!strstr(p.out, "GPU"));
    CHECK_STR(p.err, "");
    role_stop(&writer);
}
