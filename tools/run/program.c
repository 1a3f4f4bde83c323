/* SPDX-License-Identifier: MIT
 *
 * A compiled source: its kernels, and what each of their parameters gets, by its name.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/term.h"
#include "../common/text.h"
#include "run.h"

#define CLEAR "sluice_run_clear" /* the kernel that is added to each source */

/* Prints why a source cannot run, unless Ctrl-C has also ended the compiler. Returns false. */
static bool __attribute__((format(printf, 2, 3))) refuse(const struct run *run, const char *format, ...)
{
    char text[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!stop_asked())
        say_error(run->command, "%s", text);
    return false;
}

/* ---- settings ---- */

/* Among those from `first` on. */
static struct run_setting *find_setting(struct run_program *program, uint32_t first, const char *name)
{
    for (uint32_t i = first; i < program->setting_count; i++)
        if (strcmp(program->settings[i].parameter.name, name) == 0)
            return &program->settings[i];
    return NULL;
}

static bool is_real(struct sluice_dtype dtype)
{
    return dtype.code == SLUICE_FLOAT || dtype.code == SLUICE_BFLOAT;
}

static bool parse_value(const struct run_setting *setting, const char *text, double *value)
{
    const struct run_parameter *parameter = &setting->parameter;
    char *end;
    if (strcmp(text, "true") == 0 || strcmp(text, "on") == 0)
        text = "1";
    else if (strcmp(text, "false") == 0 || strcmp(text, "off") == 0)
        text = "0";
    *value = strtod(text, &end);
    if (end == text || *end || !(*value > -1e300 && *value < 1e300))
        return false;
    if (setting->dtype.code == SLUICE_BOOL && *value != 0 && *value != 1)
        return false;
    if (!is_real(setting->dtype) &&
        (*value < -2147483648.0 || *value > 4294967295.0 || *value != (double)(int64_t)*value))
        return false;
    return !parameter->has_range || (*value >= parameter->min && *value <= parameter->max);
}

static void say_no_setting(const struct run *run, const struct run_program *program, const char *name)
{
    const char *names[RUN_SETTINGS];
    for (uint32_t i = RUN_GIVEN; i < program->setting_count; i++)
        names[i - RUN_GIVEN] = program->settings[i].parameter.name;
    const char *near = text_nearest(name, names, program->setting_count - RUN_GIVEN);
    if (near)
        say_error(run->command, "%s has no setting '%s'; did you mean '%s'?", run->name, name, near);
    else
        say_error(run->command, "%s has no setting '%s'.", run->name, name);
}

static void say_wrong_value(const struct run *run, const struct run_setting *setting, const char *text)
{
    const struct run_parameter *parameter = &setting->parameter;
    const char *kind = setting->dtype.code == SLUICE_BOOL ? "0 or 1"
                       : is_real(setting->dtype)          ? "a number"
                                                          : "a whole number";
    char range[RUN_NAME] = "";
    if (parameter->has_range)
        snprintf(range, sizeof range, " from %g to %g", parameter->min, parameter->max);
    say_error(run->command, "%s takes %s%s, not '%s'.", parameter->name, kind, range, text);
}

bool run_program_set(const struct run *run, struct run_program *program, const struct run_value *value, bool quiet)
{
    struct run_setting *setting = find_setting(program, RUN_GIVEN, value->name);
    double number;
    if (setting && parse_value(setting, value->text, &number)) {
        setting->value = number;
        return true;
    }
    if (!quiet && setting)
        say_wrong_value(run, setting, value->text);
    else if (!quiet)
        say_no_setting(run, program, value->name);
    return false;
}

const char *run_program_settings(const struct run_program *program, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = RUN_GIVEN; i < program->setting_count && used < size; i++) {
        const struct run_parameter *parameter = &program->settings[i].parameter;
        char range[RUN_NAME] = "";
        if (parameter->has_range)
            snprintf(range, sizeof range, " (%g to %g)", parameter->min, parameter->max);
        used += (size_t)snprintf(text + used, size - used, "%s%s = %g%s", i > RUN_GIVEN ? ", " : "; ", parameter->name,
                                 program->settings[i].value, range);
    }
    return text;
}

/* ---- parameters ---- */

/* A number: one that is given, or a setting, at its first use a new one. */
static bool bind_number(const struct run *run, struct run_program *program, const struct run_parameter *parameter,
                        struct sluice_dtype dtype, struct run_binding *binding)
{
    struct run_setting *setting = find_setting(program, 0, parameter->name);
    if (!setting && parameter->wrong[0])
        return refuse(run,
                      "%s: the comment of '%s' is not understood: '%s'. Write a default and a range in it: "
                      "= 1 (0..4)",
                      run->name, parameter->name, parameter->wrong);
    if (!setting && program->setting_count == RUN_GIVEN + RUN_SETTINGS)
        return refuse(run, "%s has more than %d settings.", run->name, RUN_SETTINGS);
    if (!setting) {
        setting = &program->settings[program->setting_count++];
        *setting = (struct run_setting){ *parameter, dtype, parameter->initial };
    }
    *binding = (struct run_binding){ RUN_NUMBER, (uint32_t)(setting - program->settings), is_real(dtype) };
    return true;
}

/* Binds the next parameter of a pass. *channel: which one its next picture is; -1: it is what the pass before has
 * written. */
static bool bind_parameter(const struct run *run, struct run_program *program, const char *kernel,
                           const struct sluice_parameter *type, const struct run_parameter *parameter, int *channel)
{
    struct run_pass *pass = &program->passes[program->pass_count];
    struct run_binding *binding = &pass->bindings[pass->count++];
    if (type->kind == SLUICE_PARAMETER_NUMBER)
        return bind_number(run, program, parameter, type->dtype, binding);
    if (type->kind == SLUICE_PARAMETER_OUT) {
        binding->kind = RUN_OUT;
    } else if (type->kind == SLUICE_PARAMETER_IN && strcmp(parameter->name, "last") == 0) {
        binding->kind = RUN_LAST;
        program->feedback = true;
    } else if (type->kind == SLUICE_PARAMETER_IN) {
        *binding = (struct run_binding){ *channel < 0 ? RUN_BEFORE : RUN_CHANNEL, (uint32_t)*channel, false };
        ++*channel;
    } else {
        return refuse(
            run, "%s: parameter '%s' of kernel '%s' is neither a picture nor a number: sluice run has nothing for it.",
            run->name, parameter->name, kernel);
    }
    return true;
}

/* A pass is a kernel that writes exactly one picture. Others are passed over, unless they were asked for. */
static bool add_pass(const struct run *run, struct run_program *program, const char *name)
{
    struct sluice_kernel_info info = { .size = sizeof info };
    struct run_parameter parameters[SLUICE_MAX_PARAMETERS];
    struct run_pass *pass = &program->passes[program->pass_count];
    uint32_t outs = 0;
    int channel = program->pass_count > 0 ? -1 : 0;

    if (sluice_kernel_get(program->module, name, &pass->kernel) || sluice_kernel_info(pass->kernel, &info))
        return refuse(run, "%s", sluice_last_error());
    for (uint32_t i = 0; i < info.parameter_count; i++)
        outs += info.parameters[i].kind == SLUICE_PARAMETER_OUT;
    if (outs != 1 && !run->kernel)
        return true;
    if (outs != 1)
        return refuse(run, "%s: kernel '%s' has %u parameters that are a sluice_out; sluice run needs exactly one.",
                      run->name, name, outs);
    if (!run_parameters(program->text, name, info.parameter_count, parameters))
        return refuse(run, "%s: the parameters of kernel '%s' are not in its text: write them without macros.",
                      run->name, name);
    for (uint32_t i = 0; i < info.parameter_count; i++)
        if (!bind_parameter(run, program, name, &info.parameters[i], &parameters[i], &channel))
            return false;
    if (channel > program->channels)
        program->channels = channel;
    program->pass_count++;
    return true;
}

static bool add_passes(const struct run *run, struct run_program *program)
{
    char name[256];
    for (uint32_t i = 0; sluice_module_kernel(program->module, i, name, sizeof name) == SLUICE_OK; i++) {
        if (strcmp(name, CLEAR) == 0)
            continue;
        if (program->pass_count == RUN_PASSES)
            return refuse(run, "%s has more than %d passes.", run->name, RUN_PASSES);
        if (!add_pass(run, program, name))
            return false;
    }
    if (program->pass_count == 0)
        return refuse(run, "%s has no kernel with a sluice_out, which would write frames.", run->name);
    /* Of several passes, none need read the channels. */
    int given = (int)run->from_count;
    if (program->channels > given || (program->channels < given && program->pass_count == 1))
        return refuse(run, "%s reads %d channel%s, %d %s given.", run->name, program->channels,
                      program->channels == 1 ? "" : "s", given, given == 1 ? "is" : "are");
    return true;
}

/* ---- the source ---- */

/* With <sluice.cuh> before it, unless it includes that itself, and a kernel that makes `last` black behind it. */
static char *whole_text(const char *text)
{
    static const char before[] = "#include <sluice.cuh>\n#line 1\n";
    static const char behind[] = "\n#line 1 \"<sluice run>\"\n"
                                 "__global__ void " CLEAR "(sluice_out out)\n"
                                 "{\n"
                                 "    SLUICE_PIXEL(out, x, y);\n"
                                 "    store(out, x, y, make_float4(0, 0, 0, 0));\n"
                                 "}\n";
    size_t size = strlen(text) + sizeof before + sizeof behind;
    char *whole = malloc(size);
    if (whole)
        snprintf(whole, size, "%s%s%s", strstr(text, "<sluice.cuh>") ? "" : before, text, behind);
    return whole;
}

static bool load(const struct run *run, struct sluice_device device, struct run_program *program)
{
    const char *kernels[] = { run->kernel, CLEAR };
    struct sluice_module_params params = { .size = sizeof params,
                                           .kind = SLUICE_MODULE_SOURCE,
                                           .name = run->name,
                                           .options = run->options,
                                           .option_count = run->option_count,
                                           .kernels = run->kernel ? kernels : NULL,
                                           .kernel_count = run->kernel ? 2 : 0 };
    char *whole = whole_text(program->text);
    int result =
        whole ? sluice_module_load(device, whole, strlen(whole), &params, &program->module) : SLUICE_E_NO_MEMORY;
    free(whole);
    if (result || sluice_kernel_get(program->module, CLEAR, &program->clear))
        return refuse(run, "%s", sluice_last_error());
    return add_passes(run, program);
}

struct run_program *run_program_load(const struct run *run, struct sluice_device device, char *text)
{
    struct run_program *program = calloc(1, sizeof *program);
    if (!program) {
        free(text);
        return NULL;
    }
    program->text = text;
    program->settings[RUN_TIME].parameter = (struct run_parameter){ .name = "time" };
    program->settings[RUN_FRAME].parameter = (struct run_parameter){ .name = "frame" };
    program->settings[RUN_RATE].parameter = (struct run_parameter){ .name = "rate" };
    program->setting_count = RUN_GIVEN;
    if (load(run, device, program))
        return program;
    run_program_unload(program);
    return NULL;
}

void run_program_unload(struct run_program *program)
{
    sluice_module_unload(&program->module);
    free(program->text);
    free(program);
}
