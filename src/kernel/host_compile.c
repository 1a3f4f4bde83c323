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

static uint64_t hash(uint64_t seed, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        seed = (seed ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return seed;
}

/* Does not run the compiler, so that kernels from the cache start no process: another version of it is another file. No
 * option depends on the CPU (-march=native gains nothing, as gcc's loops over threads stay scalar), so this does not
 * either. */
int sl_host_compiler(struct sl_device *device, char *text, size_t size)
{
    struct sl_os_program program;

    (void)device;
    if (!find_compiler(&program))
        return no_compiler("kernels");
    uint64_t ours = hash(hash(UINT64_C(0xcbf29ce484222325), sl_prelude_cuh, sl_prelude_cuh_size), sl_sluice_cuh,
                         sl_sluice_cuh_size);
    for (size_t i = 0; i < FIXED; i++)
        ours = hash(ours, fixed[i], strlen(fixed[i]) + 1);
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

/* Reads an option that has a meaning here: 'D', 'U' or 'I', and its value, which may be the next word. The long names
 * are NVRTC's. 0 for any other option. */
static char read_option(const struct sl_source *source, uint32_t *at, const char **value)
{
    static const char *const forms[] = { "--define-macro=", "--undefine-macro=", "--include-path=" };
    const char *option = source->options[*at];

    for (int i = 0; i < 3; i++) {
        size_t length = strlen(forms[i]);
        *value = option + length;
        if (strncmp(option, forms[i], length) == 0)
            return "DUI"[i];
    }
    if (option[0] != '-' || !option[1] || !strchr("DUI", option[1]))
        return 0;
    *value = option + 2;
    if (option[2] == 0 && *at + 1 < source->option_count)
        *value = source->options[++*at];
    return option[1];
}

static void add_folders(struct command *command, const struct sl_source *source)
{
    const char *value;

    for (uint32_t i = 0; i < source->option_count; i++) {
        const char *option = source->options[i];
        char kind = read_option(source, &i, &value);
        if (kind == 0)
            sl_log(SLUICE_LOG_WARN, "%s: the option %s is ignored on \"host\", which knows -D, -U and -I", source->name,
                   option);
        if (kind != 'I')
            continue;
        add(command, "-I");
        add(command, value);
    }
}

/* Writes macros as lines after the prelude, because they must not change it. With `text` NULL only counts the bytes.
 */
static size_t write_macros(const struct sl_source *source, char *text, size_t size)
{
    size_t length = 0;
    const char *value;

    for (uint32_t i = 0; i < source->option_count; i++) {
        char kind = read_option(source, &i, &value);
        const char *equal = value + strcspn(value, "=");
        if (kind == 'D')
            length += (size_t)snprintf(text ? text + length : NULL, text ? size - length : 0, "#define %.*s %s\n",
                                       (int)(equal - value), value, *equal ? equal + 1 : "1");
        else if (kind == 'U')
            length += (size_t)snprintf(text ? text + length : NULL, text ? size - length : 0, "#undef %s\n", value);
    }
    return length;
}

struct paths {
    char folder[SL_OS_TEMP], include[SL_OS_TEMP + 4], prelude[SL_OS_TEMP + 16], header[SL_OS_TEMP + 16];
    char output[SL_OS_TEMP + 16], temp[SL_OS_TEMP + 8];
};

/* The list is one block, which the caller frees. */
static int make_command(const struct sl_source *source, const char *compiler, const struct paths *paths, bool fibers,
                        const char ***argv)
{
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
    add(&command, paths->include);
    add_folders(&command, source);
    add(&command, "-include");
    add(&command, paths->prelude);
    add(&command, "-o");
    add(&command, paths->output);
    add(&command, "-");
    add(&command, NULL);
    *argv = command.argv;
    return 0;
}

/* ---- compiling ---- */

static void quote_name(const char *name, char *quoted, size_t size)
{
    size_t at = 0;

    for (; *name && at + 3 < size; name++) {
        if (*name == '"' || *name == '\\')
            quoted[at++] = '\\';
        quoted[at++] = *name;
        if ((unsigned char)*name < ' ')
            quoted[at - 1] = '?';
    }
    quoted[at] = 0;
}

/* Makes the text: first the template that describes kernels, which no macro may change; then the macros of the options;
 * the source; a line for each kernel. The caller frees it. */
static char *whole_text(const struct sl_source *source, size_t *size)
{
    char *description = sl_description_text(source, "SL_DESCRIBE(%1$u, %2$s) SL_RUN(%1$u, %2$s)\n");
    char name[2 * SL_MODULE_NAME];
    char *text = NULL;

    quote_name(source->name, name, sizeof name);
    if (description) {
        size_t at = sl_describe_cuh_size,
               room = strlen(description) + write_macros(source, NULL, 0) + source->bytes + sizeof name + 64;
        if ((text = malloc(room)) != NULL) {
            memcpy(text, description, at);
            at += write_macros(source, text + at, room - at);
            at += (size_t)snprintf(text + at, room - at, "#line 1 \"%s\"\n%.*s\n%s", name, (int)source->bytes,
                                   source->text, description + sl_describe_cuh_size);
            *size = at;
        }
    }
    free(description);
    return text;
}

static int make_folder(struct paths *paths)
{
    int r = sl_os_temp_make(paths->folder, sizeof paths->folder);

    if (r != 0)
        return r;
    snprintf(paths->include, sizeof paths->include, "-I%s", paths->folder);
    snprintf(paths->prelude, sizeof paths->prelude, "%s/prelude.cuh", paths->folder);
    snprintf(paths->header, sizeof paths->header, "%s/sluice.cuh", paths->folder);
    snprintf(paths->output, sizeof paths->output, "%s/kernels.so", paths->folder);
    snprintf(paths->temp, sizeof paths->temp, "TMPDIR=%s", paths->folder);
    r = sl_os_file_write(paths->prelude, sl_prelude_cuh, sl_prelude_cuh_size);
    if (r == 0)
        r = sl_os_file_write(paths->header, sl_sluice_cuh, sl_sluice_cuh_size);
    if (r != 0)
        sl_os_temp_remove(paths->folder);
    return r;
}

static int run_compiler(const struct sl_source *source, const char *compiler, const struct paths *paths, bool fibers,
                        struct sl_os_run *run)
{
    const char **argv, *const environment[] = { "LC_ALL=C", paths->temp, NULL };
    int r = make_command(source, compiler, paths, fibers, &argv);

    if (r != 0)
        return r;
    run->argv = argv;
    run->environment = environment;
    r = sl_os_run(run);
    free(argv);
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
