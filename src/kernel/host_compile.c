/* SPDX-License-Identifier: MIT
 *
 * Compiles a source for "host" by the system's C++ compiler, behind prelude.cuh.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/version.h>

#include "kernel/embedded.h"
#include "kernel/host_module.h"
#include "os/os.h"
#include "util/hash.h"
#include "util/result.h"

/* ---- the compiler ---- */

static bool find_compiler(struct sl_os_program *program)
{
    static const char *const names[] = { "c++", "g++", "clang++" };
    const char *given = secure_getenv("SLUICE_CXX");

    if (given && *given) {
        if (sl_os_find_program(given, program))
            return true;
        sl_log(SLUICE_LOG_WARN, "SLUICE_CXX is %s, which is not a program; trying c++, g++ and clang++", given);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sl_os_find_program(names[i], program))
            return true;
    return false;
}

static int no_compiler(const char *name)
{
    if (!sl_os_runs_programs())
        return sl_fail(SLUICE_E_UNSUPPORTED, "%s: on Windows kernels run on a GPU only: load them for \"cuda:0\"",
                       name);
    return sl_fail(
        SLUICE_E_UNSUPPORTED,
        "no C++ compiler was found to run %s on \"host\" (tried $SLUICE_CXX, c++, g++, clang++): install one "
        "(Debian: apt install g++)",
        name);
}

/* clang-format off */
static const char *const fixed[] = {
    "-x", "c++", "-std=c++17", "-O2", "-fPIC", "-shared", "-pipe",
    /* Headers declare few names that kernels may have, too (gamma, select), but all that C++'s own need. */
    "-U_GNU_SOURCE", "-D_ISOC95_SOURCE", "-D_POSIX_C_SOURCE=200809L",
    "-U_FORTIFY_SOURCE",          /* it forbids jumps to another stack */
    "-ffp-contract=off",          /* results do not depend on the CPU; NVRTC: --fmad=false */
    "-fno-math-errno", "-fno-trapping-math",
    "-fno-strict-aliasing",       /* kernels read float as float4 or int */
    "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden",
    "-ftls-model=global-dynamic", /* initial-exec is faster, but a process could load 30 modules only */
    "-fdiagnostics-color=never", "-Wno-unknown-pragmas",
    "-Wl,-z,defs",                /* a missing symbol is an error now, not when it is loaded */
    "-Wl,-s", "-Wl,--as-needed",
};
/* clang-format on */
#define FIXED (sizeof fixed / sizeof *fixed)

/* Does not run the compiler, so that kernels from the cache start no process: another version of it is another file. No
 * option depends on the CPU (-march=native gains nothing, as gcc's loops over threads stay scalar), so this does not
 * either. */
int sl_host_compiler(struct sl_device *device, char *text, size_t size)
{
    struct sl_os_program program;

    (void)device;
    if (!find_compiler(&program))
        return no_compiler("kernels");
    uint64_t ours = sl_hash(sl_hash(0, sl_prelude_cuh, sl_prelude_cuh_size), sl_sluice_cuh, sl_sluice_cuh_size);
    for (size_t i = 0; i < FIXED; i++)
        ours = sl_hash(ours, fixed[i], strlen(fixed[i]) + 1);
    snprintf(text, size, "sluice %s %016" PRIx64 ", host, %" PRIu64 " %" PRIu64 " %" PRId64 " %s", SLUICE_VERSION, ours,
             program.bytes, program.inode, program.changed, program.path);
    return 0;
}

int sl_host_compiler_name(char *text, size_t size)
{
    struct sl_os_program program;

    if (!find_compiler(&program))
        return no_compiler("kernels");
    snprintf(text, size, "%s", program.path);
    return 0;
}

static bool is_clang(const char *path)
{
    struct sl_os_run run = { .argv = (const char *const[]){ path, "--version", NULL } };

    if (sl_os_run(&run) != 0)
        return false;
    bool found = strstr(run.output, "clang") != NULL;
    free(run.output);
    return found;
}

/* ---- its options ---- */

struct command {
    const char **argv;
    uint32_t count;
};

static void add(struct command *command, const char *argument)
{
    command->argv[command->count++] = argument;
}

static void add_folders(struct command *command, const struct sl_source *source)
{
    const char *value;

    for (uint32_t i = 0; i < source->option_count; i++) {
        const char *option = source->options[i];
        char kind = sl_source_option(source, &i, &value);
        if (kind == 0 || kind == 'i')
            sl_log(SLUICE_LOG_WARN, "%s: the option %s is ignored on \"host\", which knows -D, -U and -I", source->name,
                   option);
        if (kind != 'I')
            continue;
        add(command, "-I");
        add(command, value);
    }
}

/* Writes macros as lines after the prelude, because they must not change it. */
static void write_macros(FILE *file, const struct sl_source *source)
{
    const char *value = "";

    for (uint32_t i = 0; i < source->option_count; i++) {
        char kind = sl_source_option(source, &i, &value);
        size_t name = strcspn(value, "=");
        if (kind == 'D')
            fprintf(file, "#define %.*s %s\n", (int)name, value, value[name] ? value + name + 1 : "1");
        else if (kind == 'U')
            fprintf(file, "#undef %s\n", value);
    }
}

struct paths {
    char folder[SL_OS_TEMP], prelude[SL_OS_TEMP + 16], output[SL_OS_TEMP + 16], temp[SL_OS_TEMP + 8];
};

/* ---- compiling ---- */

static void write_name(FILE *file, const char *name)
{
    for (; *name; name++) {
        if (*name == '"' || *name == '\\')
            fputc('\\', file);
        fputc((unsigned char)*name < ' ' ? '?' : *name, file);
    }
}

/* Makes the text: first the template that describes kernels, which no macro may change; then the macros of the options;
 * the source; a line for each kernel. The caller frees it. */
static char *whole_text(const struct sl_source *source, size_t *size)
{
    char *description = sl_description_text(source, "SL_DESCRIBE(%1$u, %2$s) SL_RUN(%1$u, %2$s)\n"), *text = NULL;
    FILE *file = description ? open_memstream(&text, size) : NULL;

    if (file) {
        fwrite(description, 1, sl_describe_cuh_size, file);
        write_macros(file, source);
        fputs("#line 1 \"", file);
        write_name(file, source->name);
        fputs("\"\n", file);
        fwrite(source->text, 1, source->bytes, file);
        fprintf(file, "\n%s", description + sl_describe_cuh_size);
        if (fclose(file) != 0) {
            free(text);
            text = NULL;
        }
    }
    free(description);
    return text;
}

static int make_folder(struct paths *paths)
{
    char header[SL_OS_TEMP + 16];
    int r = sl_os_temp_make(paths->folder, sizeof paths->folder);

    if (r != 0)
        return r;
    snprintf(paths->prelude, sizeof paths->prelude, "%s/prelude.cuh", paths->folder);
    snprintf(header, sizeof header, "%s/sluice.cuh", paths->folder);
    snprintf(paths->output, sizeof paths->output, "%s/kernels.so", paths->folder);
    snprintf(paths->temp, sizeof paths->temp, "TMPDIR=%s", paths->folder);
    r = sl_os_file_write(paths->prelude, sl_prelude_cuh, sl_prelude_cuh_size);
    if (r == 0)
        r = sl_os_file_write(header, sl_sluice_cuh, sl_sluice_cuh_size);
    if (r != 0)
        sl_os_temp_remove(paths->folder);
    return r;
}

static int run_compiler(const struct sl_source *source, const char *compiler, const struct paths *paths, bool fibers,
                        struct sl_os_run *run)
{
    const char *const environment[] = { "LC_ALL=C", paths->temp, NULL };
    struct command command = { malloc((FIXED + 2 * (size_t)source->option_count + 16) * sizeof(char *)), 0 };

    if (!command.argv)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to compile %s", source->name);
    add(&command, compiler);
    for (size_t i = 0; i < FIXED; i++)
        add(&command, fixed[i]);
    if (!is_clang(compiler))
        add(&command, "-fipa-pta"); /* without it gcc reads the indices again after each store: 3 times as slow */
    if (fibers) {
        add(&command, "-DSL_FIBERS");
        add(&command, "-Werror=frame-larger-than=98304"); /* SL_STACK of prelude.cuh is 128 KiB */
    }
    add(&command, "-I");
    add(&command, paths->folder);
    add_folders(&command, source);
    add(&command, "-include");
    add(&command, paths->prelude);
    add(&command, "-o");
    add(&command, paths->output);
    add(&command, "-");
    add(&command, NULL);
    run->argv = command.argv;
    run->environment = environment;
    int r = sl_os_run(run);
    free(command.argv);
    return r;
}

/* Only the error shows that there is a barrier in an included header. */
static int run_with_or_without_fibers(const struct sl_source *source, const char *compiler, const struct paths *paths,
                                      struct sl_os_run *run)
{
    bool fibers = memmem(source->text, source->bytes, "__syncthreads", 13) != NULL;
    int r = run_compiler(source, compiler, paths, fibers, run);

    if (r != 0 || fibers || run->status == 0 || !strstr(run->output, "sl_barrier"))
        return r;
    free(run->output);
    return run_compiler(source, compiler, paths, true, run);
}

static int make_code(const struct sl_source *source, const void *bytes, size_t size, const char *log,
                     struct sl_code *code)
{
    const size_t length = sizeof SL_HOST_SYMBOL + 10;
    const char **symbols = malloc(source->kernel_count * (sizeof *symbols + length) + 1);

    if (!symbols)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory for the kernels of %s", source->name);
    char *text = (char *)(symbols + source->kernel_count);
    for (uint32_t k = 0; k < source->kernel_count; k++, text += length) {
        snprintf(text, length, SL_HOST_SYMBOL, k);
        symbols[k] = text;
    }
    int r = sl_code_make(source, bytes, size, symbols, log, code);
    free(symbols);
    return r;
}

static int take_output(const struct sl_source *source, const struct paths *paths, const struct sl_os_run *run,
                       struct sl_code *code)
{
    void *bytes;
    size_t size;

    sl_compile_log_set(run->output);
    int r = run->status > 0 ? SLUICE_E_COMPILE : sl_os_file_read(paths->output, &bytes, &size);
    if (r != 0) /* if the status is not known, no output means failure */
        return sl_host_compile_failed(source, run->output, run->status);
    r = make_code(source, bytes, size, run->output, code);
    free(bytes);
    return r;
}

static int compile_in(const struct sl_source *source, const char *compiler, const struct paths *paths,
                      struct sl_code *code)
{
    struct sl_os_run run = { .output = NULL };
    char *text = whole_text(source, &run.input_size);

    if (!text)
        return sl_fail(SLUICE_E_NO_MEMORY, "no memory to compile %s", source->name);
    run.input = text;
    int r = run_with_or_without_fibers(source, compiler, paths, &run);
    free(text);
    if (r == 0)
        r = take_output(source, paths, &run, code);
    free(run.output);
    return r;
}

int sl_host_compile(struct sl_device *device, const struct sl_source *source, struct sl_code *code)
{
    struct sl_os_program program;
    struct paths paths;

    (void)device;
    if (!find_compiler(&program))
        return no_compiler(source->name);
    int r = make_folder(&paths);
    if (r != 0)
        return r;
    r = compile_in(source, program.path, &paths, code);
    sl_os_temp_remove(paths.folder);
    return r;
}
