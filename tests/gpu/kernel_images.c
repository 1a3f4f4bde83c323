/* SPDX-License-Identifier: MIT
 *
 * PTX, cubins and fatbins: those that load, and those that must not crash anything.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/nvrtc.h"
#include "gpu/kernel_kit.h"

/* ---- one kernel in all forms ---- */

struct image {
    char *bytes;
    size_t size;
};

static void nvrtc_check(int code, const struct sl_nvrtc *nvrtc)
{
    if (code != SL_NVRTC_OK)
        FAIL("NVRTC said %s", nvrtc->GetErrorString(code));
}

/* Without Sluice, so that the image is just the compiler's. */
static struct image compile(bool ptx)
{
    static const char text[] = "extern \"C\" " FILL;
    const struct sl_nvrtc *nvrtc;
    struct sl_nvrtc_program *program;
    char option[64];
    int major, minor;
    struct image image;

    CHECK_OK(sl_nvrtc_find(&nvrtc));
    CU(DeviceGetAttribute, &major, SL_CU_COMPUTE_CAPABILITY_MAJOR, 0);
    CU(DeviceGetAttribute, &minor, SL_CU_COMPUTE_CAPABILITY_MINOR, 0);
    snprintf(option, sizeof option, "--gpu-architecture=%s_%d%d", ptx ? "compute" : "sm", major, minor);
    nvrtc_check(nvrtc->CreateProgram(&program, text, "fx.cu", 0, NULL, NULL), nvrtc);
    nvrtc_check(nvrtc->AddNameExpression(program, "set"), nvrtc);
    nvrtc_check(nvrtc->CompileProgram(program, 1, (const char *[]){ option }), nvrtc);
    nvrtc_check(ptx ? nvrtc->GetPTXSize(program, &image.size) : nvrtc->GetCUBINSize(program, &image.size), nvrtc);
    image.bytes = malloc(image.size);
    CHECK(image.bytes);
    nvrtc_check(ptx ? nvrtc->GetPTX(program, image.bytes) : nvrtc->GetCUBIN(program, image.bytes), nvrtc);
    nvrtc_check(nvrtc->DestroyProgram(&program), nvrtc);
    return image;
}

/* As fatbinary writes it: a head, and a head of the cubin. */
static struct image fatbin_of(const struct image *cubin)
{
    struct {
        uint32_t magic;
        uint16_t version, header;
        uint64_t size;
        uint16_t kind, entry_version;
        uint32_t entry_header;
        uint64_t entry_size;
        uint32_t compressed, options;
        uint16_t minor, major;
        uint32_t arch, name, name_length;
        uint64_t flags, zero, raw_size;
    } head = { .magic = 0xba55ed50, .version = 1, .header = 16, .kind = 2, .entry_version = 0x101, .entry_header = 64 };
    size_t size = (cubin->size + 7) / 8 * 8;
    int major, minor;
    struct image image = { calloc(1, sizeof head + size), sizeof head + size };

    CU(DeviceGetAttribute, &major, SL_CU_COMPUTE_CAPABILITY_MAJOR, 0);
    CU(DeviceGetAttribute, &minor, SL_CU_COMPUTE_CAPABILITY_MINOR, 0);
    head.minor = 7;
    head.major = 1;
    head.arch = (uint32_t)(major * 10 + minor);
    head.flags = 0x11; /* 64 bits, Linux */
    head.entry_size = size;
    head.size = 64 + size;
    CHECK(image.bytes && sizeof head == 80);
    memcpy(image.bytes, &head, sizeof head);
    memcpy(image.bytes + sizeof head, cubin->bytes, cubin->size);
    return image;
}

static void run(const struct kernel_test *test, const struct image *image, uint64_t memory, unsigned value)
{
    struct sluice_module module = { 0 };
    struct sluice_kernel_info info = { .size = sizeof info };
    unsigned n = 1000;

    CHECK_OK(sluice_module_load(test->device, image->bytes, image->size, NULL, &module));
    CHECK_RESULT(sluice_kernel_get(module, "blur", &(struct sluice_kernel){ 0 }), SLUICE_E_NOT_FOUND);
    struct sluice_kernel kernel = kernel_of(module, "set");
    CHECK_OK(sluice_kernel_info(kernel, &info));
    if (sl_cuda.FuncGetParamInfo) {
        CHECK_EQ(info.parameter_count, 3);
        CHECK_EQ(info.parameters[0].bytes, 8);
        CHECK_EQ(info.parameters[2].bytes, 4);
    }
    CHECK_OK(KERNEL_RUN(kernel, test->stream, n, SLUICE_MEMORY((void *)(uintptr_t)memory), SLUICE_VALUE(value),
                        SLUICE_VALUE(n)));
    CHECK_OK(sluice_stream_synchronize(test->stream));
    CHECK_EQ(gpu_differ(NULL, memory, n, value), 0);
    CHECK_OK(sluice_module_unload(&module));
}

TEST_TIMEOUT(ptx_cubin_and_fatbin, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct image ptx = compile(true), cubin = compile(false), fatbin = fatbin_of(&cubin);
    uint64_t memory = gpu_memory(4000);

    run(&test, &ptx, memory, 1);
    run(&test, &cubin, memory, 2);
    run(&test, &fatbin, memory, 3);
    ptx.size--; /* without its NUL */
    run(&test, &ptx, memory, 4);
    free(ptx.bytes);
    free(cubin.bytes);
    free(fatbin.bytes);
    kernel_test_end(&test);
}

/* A driver before CUDA 12.4 tells no parameters. */
TEST_TIMEOUT(kernels_of_an_older_driver, 60)
{
    if (gpu_is_fake())
        CHECK(setenv("SLUICE_FAKE_VERSION", "12020", 1) == 0);
    struct kernel_test test = kernel_test_begin();
    struct image cubin = compile(false);

    run(&test, &cubin, gpu_memory(4000), 1);
    free(cubin.bytes);
    kernel_test_end(&test);
}

/* ---- what must not load ---- */

static void refuse(const struct kernel_test *test, const void *bytes, size_t size, uint32_t kind, const char *word)
{
    struct sluice_module_params params = { .size = sizeof params, .kind = kind, .name = "odd" };
    struct sluice_module module = { 42 };

    CHECK_SAYS(sluice_module_load(test->device, bytes, size, &params, &module), SLUICE_E_INVALID, word);
    CHECK_EQ(module.id, 42);
}

TEST_TIMEOUT(images_that_are_none, 60)
{
    static const char garbage[] = "gjsk dfkj;;ghs kdfjg", hole[] = ".version 6.4\n.target sm_50\n\0.address_size 64\n",
                      wrong[] = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry k() { nonsense; }\n",
                      elf[] = "\x7f"
                              "ELF\2\1\1",
                      fat[] = "\x50\xed\x55\xba\1\0\x10\0\0\0\1\0\0\0\0\0";
    struct kernel_test test = kernel_test_begin();

    refuse(&test, "", 0, SLUICE_MODULE_ANY, "odd is empty");
    refuse(&test, "", 1, SLUICE_MODULE_PTX, "odd is empty");
    refuse(&test, garbage, sizeof garbage, SLUICE_MODULE_PTX, "odd cannot be loaded");
    refuse(&test, garbage, sizeof garbage, SLUICE_MODULE_BINARY, "odd cannot be loaded");
    refuse(&test, hole, sizeof hole, SLUICE_MODULE_ANY, "byte of 0");
    refuse(&test, hole, sizeof hole, SLUICE_MODULE_SOURCE, "byte of 0");
    refuse(&test, elf, sizeof elf, SLUICE_MODULE_ANY, "not a complete cubin");
    refuse(&test, fat, sizeof fat, SLUICE_MODULE_ANY, "not a complete fatbin");
    if (!gpu_is_fake()) { /* its compiler reads no more than the first line */
        refuse(&test, wrong, sizeof wrong, SLUICE_MODULE_ANY, "line 4");
        CHECK_HAS(sluice_last_error(), "CUDA_ERROR_INVALID_PTX");
    }
    kernel_test_end(&test);
}

/* The driver reads a cubin by what its header says. */
TEST_TIMEOUT(images_that_are_cut_off, 60)
{
    struct kernel_test test = kernel_test_begin();
    struct image cubin = compile(false), fatbin = fatbin_of(&cubin);

    for (size_t size = 8; size < cubin.size; size += 61) {
        char *end = malloc(size); /* so that reading on is found */
        CHECK(end);
        memcpy(end, cubin.bytes, size);
        refuse(&test, end, size, SLUICE_MODULE_ANY, "not a complete cubin");
        memcpy(end, fatbin.bytes, size);
        refuse(&test, end, size, SLUICE_MODULE_ANY, "not a complete fatbin");
        free(end);
    }
    free(cubin.bytes);
    free(fatbin.bytes);
    kernel_test_end(&test);
}
