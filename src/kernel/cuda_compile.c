/* SPDX-License-Identifier: MIT
 *
 * Compiles a source by NVRTC: to machine code for the GPU at hand, or to PTX for one that NVRTC does not know yet.
 */
#include "kernel/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/version.h>

#include "cuda/nvrtc.h"
#include "kernel/host_module.h"
#include "util/result.h"

#define OWN_OPTIONS 2

/* ---- for which architecture ---- */

struct target {
    const struct sl_nvrtc *nvrtc;
    int arch;   /* 90 */
    bool known; /* true: the GPU's own, for machine code; false: the highest below it, for PTX */
};

static int query_arch(struct sl_cuda_context *context, int *arch)
{
    int major, minor;
    int r = sl_cu(context, DeviceGetAttribute, &major, SL_CU_COMPUTE_CAPABILITY_MAJOR, context->device);

    if (r == 0)
        r = sl_cu(context, DeviceGetAttribute, &minor, SL_CU_COMPUTE_CAPABILITY_MINOR, context->device);
    if (r == 0)
        *arch = major * 10 + minor;
    return r;
}

/* The driver compiles PTX of its own version and earlier ones. */
static int check_ptx(const struct sl_nvrtc *nvrtc, const struct sl_cuda_context *context, int arch)
{
    int version = (int)sl_cuda_version(), driver = version / 1000 * 100 + version % 1000 / 10;

    if (nvrtc->major * 100 + nvrtc->minor <= driver)
        return 0;
    return sl_fail(SLUICE_E_UNSUPPORTED,
                   "NVRTC %d.%d (%s) does not know \"%s\", whose compute capability is %d.%d, and the driver, which is "
                   "for CUDA %d.%d, does not take its PTX: update the driver, or pip install '%s==%d.%d.*'",
                   nvrtc->major, nvrtc->minor, nvrtc->path, context->name, arch / 10, arch % 10, driver / 100,
                   driver % 100, sl_nvrtc_wheel(), driver / 100, driver % 100);
}

static int choose(struct sl_cuda_context *context, struct target *target)
{
    const struct sl_nvrtc *nvrtc;
    int wanted, r = sl_nvrtc_find(&nvrtc);

    if (r != 0 || (r = query_arch(context, &wanted)) != 0)
        return r;
    *target = (struct target){ .nvrtc = nvrtc };
    for (int i = 0; i < nvrtc->arch_count && nvrtc->archs[i] <= wanted; i++)
        target->arch = nvrtc->archs[i];
    target->known = target->arch == wanted;
    if (target->arch == 0)
        return sl_fail(
            SLUICE_E_UNSUPPORTED,
            "NVRTC %d.%d (%s) does not compile for GPUs below compute capability %d.%d; \"%s\" has %d.%d: pip "
            "install nvidia-cuda-nvrtc-cu12, and let SLUICE_NVRTC name its libnvrtc.so.12",
            nvrtc->major, nvrtc->minor, nvrtc->path, nvrtc->archs[0] / 10, nvrtc->archs[0] % 10, context->name,
            wanted / 10, wanted % 10);
    return target->known ? 0 : check_ptx(nvrtc, context, wanted);
}

int sl_cuda_compiler(struct sl_device *device, char *text, size_t size)
{
    struct target target;
    int r = choose(device->state, &target);

    if (r == 0)
        snprintf(text, size, "Sluice %s, NVRTC %d.%d, %s_%d", SLUICE_VERSION, target.nvrtc->major, target.nvrtc->minor,
                 target.known ? "sm" : "compute", target.arch);
    return r;
}

int sl_cuda_compiler_name(char *text, size_t size)
{
    const struct sl_nvrtc *nvrtc;
    uint32_t count;
    int r = sl_gpu_count(&count); /* also loads the driver: NVRTC must suit its version */

    if (r == 0)
        r = sl_nvrtc_find(&nvrtc);
    if (r == 0)
        snprintf(text, size, "NVRTC %d.%d, %s", nvrtc->major, nvrtc->minor, nvrtc->path);
    return r;
}

/* ---- options ---- */

static bool has_option(const struct sl_source *source, const char *name)
{
    size_t length = strlen(name);

    for (uint32_t i = 0; i < source->option_count; i++) {
        const char *option = source->options[i] + strspn(source->options[i], "-");
        if (strncmp(option, name, length) == 0 && (option[length] == 0 || option[length] == '='))
            return true;
    }
    return false;
}

static int check_options(const struct sl_source *source)
{
    if (!has_option(source, "arch") && !has_option(source, "gpu-architecture"))
        return 0;
    return sl_fail(SLUICE_E_INVALID, "%s: an option names an architecture; Sluice compiles for the GPU at hand",
                   source->name);
}

/* ---- one compilation ---- */

struct build {
    const struct sl_source *source;
    const struct sl_nvrtc *nvrtc;
    const char *text; /* the source and the lines that describe its kernels */
    struct sl_nvrtc_program *program;
    char *log;
    char *bytes;
    size_t size;
};

static int check(const struct build *build, int code, const char *function)
{
    if (code == SL_NVRTC_OK)
        return 0;
    return sl_fail(SLUICE_E_UNSUPPORTED, "%s: nvrtc%s of NVRTC %d.%d said: %s", build->source->name, function,
                   build->nvrtc->major, build->nvrtc->minor, build->nvrtc->GetErrorString(code));
}
#define nvrtc(build, name, ...) check((build), (build)->nvrtc->name(__VA_ARGS__), #name)

static int out_of_memory(const struct build *build)
{
    return sl_fail(SLUICE_E_NO_MEMORY, "%s: no memory to compile it", build->source->name);
}

/* The first line of a log that reports an error, and how long it is; else the first line. */
static const char *first_error(const char *log, int *length)
{
    for (const char *line = log; *line; line += *length + (line[*length] == '\n')) {
        *length = (int)strcspn(line, "\n");
        if (memmem(line, (size_t)*length, "error", 5))
            return line;
    }
    *length = (int)strcspn(log, "\n");
    return log;
}

static int fail_by_log(const struct build *build)
{
    const struct sl_source *source = build->source;
    int length;
    unsigned index;
    const char *error = first_error(build->log, &length);

    if (sscanf(error, SL_KERNEL_LINE, &index) != 1 || index >= source->kernel_count)
        return sl_fail(SLUICE_E_COMPILE, "%.*s", length, error);
    if (sl_unknown_kernels(source, build->log))
        return SLUICE_E_INVALID;
    int file = (int)strcspn(error, ":"); /* the description's, which says nothing to the user */
    return sl_fail(SLUICE_E_COMPILE, "%s: kernel '%.200s'%.*s", source->name, source->kernels[index], length - file,
                   error + file);
}

static int take_log(struct build *build)
{
    size_t size = 0;
    int r = nvrtc(build, GetProgramLogSize, build->program, &size);

    if (r != 0)
        return r;
    free(build->log);
    build->log = calloc(size + 1, 1);
    if (!build->log)
        return out_of_memory(build);
    return size ? nvrtc(build, GetProgramLog, build->program, build->log) : 0;
}

static int compile(struct build *build, const char *kind, int arch)
{
    const struct sl_source *source = build->source;
    const char **options = malloc((source->option_count + OWN_OPTIONS) * sizeof *options);
    char architecture[48];
    int count = 0, code;

    if (!options)
        return out_of_memory(build);
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s_%d", kind, arch);
    options[count++] = architecture;
    if (!has_option(source, "std"))
        options[count++] = "--std=c++17";
    for (uint32_t i = 0; i < source->option_count; i++)
        options[count++] = source->options[i];
    code = build->nvrtc->CompileProgram(build->program, count, options);
    free(options);
    int r = take_log(build);
    if (r != 0)
        return r;
    sl_compile_log_set(build->log);
    if (code == SL_NVRTC_OK)
        return 0;
    return *build->log ? fail_by_log(build) : check(build, code, "CompileProgram");
}

static int make_program(struct build *build)
{
    const struct sl_source *source = build->source;
    int r = nvrtc(build, CreateProgram, &build->program, build->text, source->name, 1,
                  (const char *const[]){ sl_sluice_cuh }, (const char *const[]){ "sluice.cuh" });

    for (uint32_t i = 0; i < source->kernel_count && r == 0; i++)
        r = nvrtc(build, AddNameExpression, build->program, source->kernels[i]);
    return r;
}

/* Adds the result to the bytes. PTX ends with a NUL. */
static int add_bytes(struct build *build, bool ptx)
{
    size_t size;
    int r = ptx ? nvrtc(build, GetPTXSize, build->program, &size) : nvrtc(build, GetCUBINSize, build->program, &size);

    if (r != 0)
        return r;
    char *bytes = realloc(build->bytes, build->size + size);
    if (!bytes)
        return out_of_memory(build);
    build->bytes = bytes;
    r = ptx ? nvrtc(build, GetPTX, build->program, bytes + build->size)
            : nvrtc(build, GetCUBIN, build->program, bytes + build->size);
    build->size += r == 0 ? size : 0;
    return r;
}

static void end_program(struct build *build)
{
    if (build->program)
        build->nvrtc->DestroyProgram(&build->program);
    build->program = NULL;
}

/* `kind`: "sm" or "compute". */
static int build_for(struct build *build, const char *kind, int arch)
{
    end_program(build);
    int r = make_program(build);
    if (r == 0)
        r = compile(build, kind, arch);
    return r == 0 ? add_bytes(build, strcmp(kind, "compute") == 0) : r;
}

/* The names belong to the nvrtcProgram and end with it. */
static int make_code(struct build *build, struct sl_code *code)
{
    const struct sl_source *source = build->source;
    const char **symbols = malloc((source->kernel_count + 1) * sizeof *symbols);
    int r = symbols ? 0 : out_of_memory(build);

    for (uint32_t i = 0; i < source->kernel_count && r == 0; i++)
        r = nvrtc(build, GetLoweredName, build->program, source->kernels[i], &symbols[i]);
    if (r == 0)
        r = sl_code_make(source, build->bytes, build->size, symbols, build->log, code);
    free(symbols);
    return r;
}

/* The descriptions of kernels are read from machine code. PTX is therefore followed by machine code for another
 * architecture, which is not loaded. */
static int build_all(struct build *build, const struct target *target, struct sl_code *code)
{
    int r = target->known ? 0 : build_for(build, "compute", target->arch);

    if (r == 0)
        r = build_for(build, "sm", target->arch);
    return r == 0 ? make_code(build, code) : r;
}

static char *whole_text(const struct sl_source *source)
{
    char *description = sl_description_text(source, "SL_DESCRIBE(%1$u, %2$s)\n"), *text = NULL;

    if (description && asprintf(&text, "%.*s\n%s", (int)source->bytes, source->text, description) < 0)
        text = NULL;
    free(description);
    return text;
}

int sl_cuda_compile(struct sl_device *device, const struct sl_source *source, struct sl_code *code)
{
    struct build build = { .source = source };
    struct target target;
    int r = check_options(source);

    if (r != 0 || (r = choose(device->state, &target)) != 0)
        return r;
    build.nvrtc = target.nvrtc;
    char *text = whole_text(source);
    build.text = text;
    r = text ? build_all(&build, &target, code) : out_of_memory(&build);
    end_program(&build);
    free(text);
    free(build.log);
    free(build.bytes);
    return r;
}
