/* SPDX-License-Identifier: MIT
 *
 * A stand-in for NVRTC: compiles CUDA C++ with the host's C++ compiler, behind the prelude by which "host" runs it, to
 * an image for the fake driver. Messages have NVRTC's form.
 *
 *     SLUICE_FAKE_NVRTC=14.0   the version that it claims
 *     SLUICE_FAKE_ARCHS=75,90  the architectures that it knows
 *     SLUICE_FAKE_CXX=g++      the compiler; else c++
 */
#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/nvrtc.h"
#include "fake/nvrtc/image.h"

#define API __attribute__((visibility("default")))

#define SL_NVRTC_API(name, parameters) API int nvrtc##name parameters;
SL_NVRTC_FUNCTIONS(SL_NVRTC_API)
API const char *nvrtcGetErrorString(int code);

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, INVALID_OPTION = 5, NO_NAME = 10 };

struct text {
    char *at; /* ends with a NUL */
    size_t size;
};

struct sl_nvrtc_program {
    char *name, *source, folder[64];
    struct text log, image;
    char **headers, **header_names, **expressions;
    int header_count, expression_count, arch;
    bool ptx;
};

static void add(struct text *text, const void *bytes, size_t size)
{
    text->at = realloc(text->at, text->size + size + 1);
    if (!text->at)
        abort();
    memcpy(text->at + text->size, bytes, size);
    text->size += size;
    text->at[text->size] = 0;
}

static char **copy_all(int count, const char *const *texts)
{
    char **copies = calloc((size_t)count + 1, sizeof *copies);

    for (int i = 0; copies && i < count; i++)
        copies[i] = strdup(texts[i]);
    return copies;
}

static void free_all(char **texts)
{
    for (char **text = texts; text && *text; text++)
        free(*text);
    free(texts);
}

/* ---- about itself ---- */

int nvrtcVersion(int *major, int *minor)
{
    const char *version = getenv("SLUICE_FAKE_NVRTC");

    return sscanf(version ? version : "12.4", "%d.%d", major, minor) == 2 ? 0 : INVALID_INPUT;
}

static int list_archs(int *archs)
{
    const char *list = getenv("SLUICE_FAKE_ARCHS");
    int count = 0;

    for (list = list ? list : "50,75,80,90"; *list; list += strcspn(list, ","), list += *list == ',') {
        if (archs)
            archs[count] = atoi(list);
        count++;
    }
    return count;
}

int nvrtcGetNumSupportedArchs(int *count)
{
    *count = list_archs(NULL);
    return 0;
}

int nvrtcGetSupportedArchs(int *archs)
{
    list_archs(archs);
    return 0;
}

const char *nvrtcGetErrorString(int code)
{
    return code == SL_NVRTC_COMPILATION ? "NVRTC_ERROR_COMPILATION"
           : code == INVALID_OPTION     ? "NVRTC_ERROR_INVALID_OPTION"
                                        : "NVRTC_ERROR";
}

/* ---- a program ---- */

int nvrtcCreateProgram(struct sl_nvrtc_program **made, const char *text, const char *name, int count,
                       const char *const *headers, const char *const *names)
{
    struct sl_nvrtc_program *program = calloc(1, sizeof *program);

    if (!program)
        return OUT_OF_MEMORY;
    program->name = strdup(name);
    program->source = strdup(text);
    program->headers = copy_all(count, headers);
    program->header_names = copy_all(count, names);
    program->header_count = count;
    program->expressions = calloc(1, sizeof *program->expressions);
    *made = program;
    return 0;
}

int nvrtcDestroyProgram(struct sl_nvrtc_program **at)
{
    struct sl_nvrtc_program *program = *at;

    free(program->name);
    free(program->source);
    free(program->log.at);
    free(program->image.at);
    free_all(program->headers);
    free_all(program->header_names);
    free_all(program->expressions);
    free(program);
    *at = NULL;
    return 0;
}

int nvrtcAddNameExpression(struct sl_nvrtc_program *program, const char *expression)
{
    char **longer = realloc(program->expressions, ((size_t)program->expression_count + 2) * sizeof *longer);

    if (!longer)
        return OUT_OF_MEMORY;
    program->expressions = longer;
    longer[program->expression_count++] = strdup(expression);
    longer[program->expression_count] = NULL;
    return 0;
}

/* The image has its kernels by these names. */
int nvrtcGetLoweredName(struct sl_nvrtc_program *program, const char *expression, const char **lowered)
{
    for (int i = 0; i < program->expression_count; i++) {
        if (strcmp(program->expressions[i], expression) == 0) {
            *lowered = program->expressions[i];
            return 0;
        }
    }
    return NO_NAME;
}

/* ---- the C++ compiler ---- */

static FILE *open_in(const struct sl_nvrtc_program *program, const char *name, const char *mode)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", program->folder, name);
    return fopen(path, mode);
}

static bool put(const struct sl_nvrtc_program *program, const char *name, const char *text)
{
    FILE *file = open_in(program, name, "w");

    if (!file)
        return false;
    fputs(text, file);
    return fclose(file) == 0;
}

/* The source between the prelude and a table of its kernels. */
static bool put_source(const struct sl_nvrtc_program *program)
{
    bool barriers = strstr(program->source, "__syncthreads");
    FILE *file = open_in(program, "source.cc", "w");

    if (!file)
        return false;
    fprintf(file, "%s#include \"%s\"\n", barriers ? "#define SL_FIBERS\n" : "", FAKE_PRELUDE);
    fprintf(file, "#line 1 \"%s\"\n%s\n#line 1 \"<image>\"\n", program->name, program->source);
    fputs("template <auto F> struct fake_sizes;\n"
          "template <typename... A, void (*F)(A...)> struct fake_sizes<F> {\n"
          "    static constexpr unsigned long count = sizeof...(A);\n"
          "    static constexpr unsigned long sizes[] = { sizeof(A)..., 0 };\n"
          "};\n"
          "struct fake_kernel {\n"
          "    const char *name;\n"
          "    void (*run)(sl_host_job *job);\n"
          "    unsigned long count;\n"
          "    const unsigned long *sizes;\n"
          "};\n",
          file);
    for (int i = 0; i < program->expression_count; i++)
        fprintf(file, "SL_RUN(%d, %s)\n", i, program->expressions[i]);
    fputs("extern \"C\" __attribute__((visibility(\"default\"))) const fake_kernel fake_kernels[];\n"
          "const fake_kernel fake_kernels[] = {\n",
          file);
    for (int i = 0; i < program->expression_count; i++)
        fprintf(file, "    { \"%s\", sl_run_%d, fake_sizes<%s>::count, fake_sizes<%s>::sizes },\n",
                program->expressions[i], i, program->expressions[i], program->expressions[i]);
    fputs("    { nullptr, nullptr, 0, nullptr } };\n", file);
    return fclose(file) == 0;
}

/* "fx.cu:2:5: error: ..." becomes "fx.cu(2): error: ...". */
static void add_line(struct text *log, char *line)
{
    char *at = strchr(line, ':'), *number = at ? at + 1 : NULL, *end;
    long row = number ? strtol(number, &end, 10) : 0;
    char place[32], name[100], undefined[160];

    if (!number || end == number || *end != ':') {
        add(log, line, strlen(line));
        return;
    }
    end++;
    end += strspn(end, "0123456789");
    end += *end == ':';
    end += *end == ' ';
    if (strncmp(end, "fatal error", 11) == 0)
        end += 6;
    snprintf(place, sizeof place, "(%ld): ", row);
    add(log, line, (size_t)(at - line));
    add(log, place, strlen(place));
    if (sscanf(end, "error: '%99[^']' was not declared in this scope", name) == 1)
        snprintf(end = undefined, sizeof undefined, "error: identifier \"%s\" is undefined\n", name);
    add(log, end, strlen(end));
}

/* True if the compiler is content. */
static bool run_compiler(struct sl_nvrtc_program *program, char *const *arguments)
{
    posix_spawn_file_actions_t actions;
    char line[2048];
    int ends[2], status = -1;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    bool runs = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *output = fdopen(ends[0], "r");
    while (output && fgets(line, sizeof line, output))
        add_line(&program->log, line);
    if (output)
        fclose(output);
    return runs && waitpid(child, &status, 0) == child && status == 0;
}

/* False if there is one that it does not know. */
static bool take_options(struct sl_nvrtc_program *program, int count, const char *const *options, char **arguments)
{
    static const char *const passed_over[] = { "--std=",          "-std=",     "--fmad=", "-fmad=",
                                               "--use_fast_math", "-lineinfo", "-w" };
    char message[300];

    for (int i = 0; i < count; i++) {
        const char *option = options[i];
        bool known = sscanf(option, "--gpu-architecture=sm_%d", &program->arch) == 1;
        if (sscanf(option, "--gpu-architecture=compute_%d", &program->arch) == 1)
            known = program->ptx = true;
        for (size_t j = 0; j < sizeof passed_over / sizeof *passed_over; j++)
            known = known || strncmp(option, passed_over[j], strlen(passed_over[j])) == 0;
        if (strncmp(option, "-D", 2) == 0 || strncmp(option, "-U", 2) == 0 || strncmp(option, "-I", 2) == 0)
            *arguments++ = (char *)option;
        else if (!known) {
            snprintf(message, sizeof message, "nvrtc: error: unrecognized option %.200s found\n", option);
            add(&program->log, message, strlen(message));
            return false;
        }
    }
    *arguments = NULL;
    return true;
}

static void add_letters(struct text *text, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        add(text, (char[]){ (char)('a' + bytes[i] / 16), (char)('a' + bytes[i] % 16) }, 2);
}

static void label(unsigned char *bytes)
{
    const Elf64_Half machine = MACHINE_CUDA;

    memcpy(bytes + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof machine);
}

static bool take_image(struct sl_nvrtc_program *program)
{
    FILE *file = open_in(program, "image.so", "r");
    struct text object = { NULL, 0 };
    char bytes[4096], head[80];
    size_t got;

    while (file && (got = fread(bytes, 1, sizeof bytes, file)) > 0)
        add(&object, bytes, got);
    if (file)
        fclose(file);
    if (object.size < sizeof(Elf64_Ehdr))
        return false;
    label((unsigned char *)object.at);
    if (!program->ptx) {
        program->image = object;
        return true;
    }
    snprintf(head, sizeof head, ".version 8.0\n.target sm_%d\n.address_size 64\n" PTX_MARK, program->arch);
    add(&program->image, head, strlen(head));
    add_letters(&program->image, (unsigned char *)object.at, object.size);
    add(&program->image, "\n", 1);
    free(object.at);
    return true;
}

static void remove_folder(const struct sl_nvrtc_program *program)
{
    char path[512];

    for (int i = 0; i < program->header_count; i++) {
        snprintf(path, sizeof path, "%s/%s", program->folder, program->header_names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/source.cc", program->folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/image.so", program->folder);
    unlink(path);
    rmdir(program->folder);
}

static bool compile(struct sl_nvrtc_program *program, char **options)
{
    const char *compiler = getenv("SLUICE_FAKE_CXX");
    char *const own[] = { "env",
                          "LC_ALL=C",
                          compiler ? (char *)compiler : "c++",
                          "-xc++",
                          "-std=c++17",
                          "-O1",
                          "-fPIC",
                          "-shared",
                          "-U_FORTIFY_SOURCE",
                          "-ffp-contract=off",
                          "-fvisibility=hidden" };
    const size_t count = sizeof own / sizeof *own;
    char *arguments[count + 72], source[128], image[128], folder[128];
    size_t at = count;
    bool good = put_source(program);

    for (int i = 0; i < program->header_count && good; i++)
        good = put(program, program->header_names[i], program->headers[i]);
    memcpy(arguments, own, sizeof own);
    for (; *options && at < count + 64; options++)
        arguments[at++] = *options;
    snprintf(folder, sizeof folder, "-I%s", program->folder);
    snprintf(source, sizeof source, "%s/source.cc", program->folder);
    snprintf(image, sizeof image, "-o%s/image.so", program->folder);
    arguments[at++] = folder;
    arguments[at++] = source;
    arguments[at++] = image;
    arguments[at] = NULL;
    return good && run_compiler(program, arguments) && take_image(program);
}

int nvrtcCompileProgram(struct sl_nvrtc_program *program, int count, const char *const *options)
{
    const char *where = getenv("TMPDIR");
    char **passed = calloc((size_t)count + 1, sizeof *passed);

    if (!passed)
        return OUT_OF_MEMORY;
    bool good = take_options(program, count, options, passed);
    if (!good) {
        free(passed);
        return INVALID_OPTION;
    }
    snprintf(program->folder, sizeof program->folder, "%.40s/fake-nvrtc-XXXXXX", where ? where : "/tmp");
    good = mkdtemp(program->folder) && compile(program, passed);
    remove_folder(program);
    free(passed);
    return good ? 0 : SL_NVRTC_COMPILATION;
}

/* ---- results ---- */

static int get(const struct text *text, char *to, size_t end)
{
    if (!text->at)
        return INVALID_INPUT;
    memcpy(to, text->at, text->size + end);
    return 0;
}

int nvrtcGetProgramLogSize(struct sl_nvrtc_program *program, size_t *size)
{
    *size = program->log.size + 1;
    return 0;
}

int nvrtcGetProgramLog(struct sl_nvrtc_program *program, char *log)
{
    add(&program->log, "", 0);
    return get(&program->log, log, 1);
}

int nvrtcGetCUBINSize(struct sl_nvrtc_program *program, size_t *size)
{
    *size = program->ptx ? 0 : program->image.size;
    return 0;
}

int nvrtcGetCUBIN(struct sl_nvrtc_program *program, char *cubin)
{
    return program->ptx ? INVALID_INPUT : get(&program->image, cubin, 0);
}

int nvrtcGetPTXSize(struct sl_nvrtc_program *program, size_t *size)
{
    *size = program->image.size + 1;
    return 0;
}

int nvrtcGetPTX(struct sl_nvrtc_program *program, char *ptx)
{
    return program->ptx ? get(&program->image, ptx, 1) : INVALID_INPUT;
}
