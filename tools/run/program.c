/* SPDX-License-Identifier: MIT
 *
 * A compiled source: its kernels, and what each of their parameters gets, by its name.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/term.h"
#include "../common/text.h"
#include "run.h"

#define CLEAR "sluice_run_clear" /* the kernel that is added to each source */

/* Prints the library's message, unless Ctrl-C has also ended the compiler. */
static bool fail(const struct run *run)
{
    if (!stop_asked())
        say_error(run->command, "%s", sluice_last_error());
    return false;
}

/* ---- settings ---- */

static struct run_setting *find_setting(struct run_program *program, const char *name)
{
    for (uint32_t i = 0; i < program->setting_count; i++)
        if (strcmp(program->settings[i].parameter.name, name) == 0)
            return &program->settings[i];
    return NULL;
}

static bool is_real(struct sluice_dtype dtype)
{
    return dtype.code == SLUICE_FLOAT || dtype.code == SLUICE_BFLOAT;
}

/* "a number from 0 to 4" */
static const char *text_range(const struct run_setting *setting, char text[RUN_NAME])
{
    const char *kind = setting->dtype.code == SLUICE_BOOL ? "0 or 1"
                       : is_real(setting->dtype)          ? "a number"
                                                          : "a whole number";
    if (setting->parameter.has_range)
        snprintf(text, RUN_NAME, "%s from %g to %g", kind, setting->parameter.min, setting->parameter.max);
    else
        snprintf(text, RUN_NAME, "%s", kind);
    return text;
}

static bool parse_value(const struct run_setting *setting, const char *text, double *value)
{
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
    return !setting->parameter.has_range || (*value >= setting->parameter.min && *value <= setting->parameter.max);
}

static void say_no_setting(const struct run *run, const struct run_program *program, const char *name)
{
    const char *names[RUN_SETTINGS];
    for (uint32_t i = 0; i < program->setting_count; i++)
        names[i] = program->settings[i].parameter.name;
    const char *near = text_nearest(name, names, program->setting_count);
    if (near)
        say_error(run->command, "%s has no setting '%s'; did you mean '%s'?", run->name, name, near);
    else
        say_error(run->command, "%s has no setting '%s'.", run->name, name);
}

bool run_program_set(const struct run *run, struct run_program *program, const struct run_value *value, bool quiet)
{
    char range[RUN_NAME];
    double number;
    struct run_setting *setting = find_setting(program, value->name);
    if (!setting) {
        if (!quiet)
            say_no_setting(run, program, value->name);
        return false;
    }
    if (!parse_value(setting, value->text, &number)) {
        if (!quiet)
            say_error(run->command, "%s takes %s, not '%s'.", value->name, text_range(setting, range), value->text);
        return false;
    }
    setting->value = number;
    return true;
}

char *run_program_settings(const struct run_program *program, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < program->setting_count && used < size; i++) {
        const struct run_setting *setting = &program->settings[i];
        used += (size_t)snprintf(text + used, size - used, "%s%s = %g", i ? ", " : "", setting->parameter.name,
                                 setting->value);
        if (setting->parameter.has_range && used < size)
            used += (size_t)snprintf(text + used, size - used, " (%g to %g)", setting->parameter.min,
                                     setting->parameter.max);
    }
    return text;
}

/* ---- parameters ---- */

static bool bind_setting(const struct run *run, struct run_program *program, const struct run_parameter *parameter,
                         struct sluice_dtype dtype, struct run_binding *binding)
{
    struct run_setting *setting = find_setting(program, parameter->name);
    if (parameter->wrong[0]) {
        say_error(run->command,
                  "%s: the comment of '%s' is not understood: '%s'. Write a default and a range in it: "
                  "= 1 (0..4)",
                  run->name, parameter->name, parameter->wrong);
        return false;
    }
    if (!setting && program->setting_count == RUN_SETTINGS) {
        say_error(run->command, "%s has more than %d settings.", run->name, RUN_SETTINGS);
        return false;
    }
    if (!setting) {
        setting = &program->settings[program->setting_count++];
        *setting = (struct run_setting){ *parameter, dtype, parameter->initial };
    }
    *binding = (struct run_binding){ RUN_SETTING, (uint32_t)(setting - program->settings), is_real(dtype) };
    return true;
}

static bool bind_number(const struct run *run, struct run_program *program, const struct run_parameter *parameter,
                        struct sluice_dtype dtype, struct run_binding *binding)
{
    static const char *const names[] = { "time", "frame", "rate" };
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(parameter->name, names[i]) == 0) {
            *binding = (struct run_binding){ RUN_TIME + i, 0, is_real(dtype) };
            return true;
        }
    return bind_setting(run, program, parameter, dtype, binding);
}

static bool bind_one(const struct run *run, struct run_program *program, struct run_pass *pass, const char *kernel,
                     const struct sluice_parameter *type, const struct run_parameter *parameter)
{
    struct run_binding *binding = &pass->bindings[pass->count++];
    switch (type->kind) {
    case SLUICE_PARAMETER_OUT: *binding = (struct run_binding){ .kind = RUN_OUT }; return true;
    case SLUICE_PARAMETER_IN:
        if (strcmp(parameter->name, "last") == 0) {
            *binding = (struct run_binding){ .kind = RUN_LAST };
            program->feedback = true;
        } else {
            *binding = (struct run_binding){ .kind = RUN_PICTURE, .index = pass->pictures++ };
        }
        return true;
    case SLUICE_PARAMETER_NUMBER: return bind_number(run, program, parameter, type->dtype, binding);
    default:
        say_error(run->command,
                  "%s: parameter '%s' of kernel '%s' is neither a picture nor a number: sluice run has nothing for it.",
                  run->name, parameter->name, kernel);
        return false;
    }
}

/* A pass is a kernel that writes exactly one picture. Others are passed over, unless they were asked for. */
static bool add_pass(const struct run *run, struct run_program *program, const char *text, const char *name)
{
    struct sluice_kernel_info info = { .size = sizeof info };
    struct run_parameter parameters[SLUICE_MAX_PARAMETERS];
    struct run_pass *pass = &program->passes[program->pass_count];
    uint32_t outs = 0;

    if (sluice_kernel_get(program->module, name, &pass->kernel) || sluice_kernel_info(pass->kernel, &info))
        return fail(run);
    for (uint32_t i = 0; i < info.parameter_count; i++)
        outs += info.parameters[i].kind == SLUICE_PARAMETER_OUT;
    if (outs != 1 && !run->kernel)
        return true;
    if (outs != 1) {
        say_error(run->command,
                  "%s: kernel '%s' has %u parameters that are a sluice_out; sluice run needs exactly one.", run->name,
                  name, outs);
        return false;
    }
    if (!run_parameters(text, name, info.parameter_count, parameters)) {
        say_error(run->command, "%s: the parameters of kernel '%s' are not in its text: write them without macros.",
                  run->name, name);
        return false;
    }
    for (uint32_t i = 0; i < info.parameter_count; i++)
        if (!bind_one(run, program, pass, name, &info.parameters[i], &parameters[i]))
            return false;
    program->pass_count++;
    return true;
}

/* The first pass reads the channels; each later one reads what the pass before it has written, then the channels. */
static bool check_pictures(const struct run *run, const struct run_program *program)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < program->pass_count; i++) {
        uint32_t wanted = program->passes[i].pictures;
        wanted -= i > 0 && wanted > 0;
        most = wanted > most ? wanted : most;
    }
    if (most == run->from_count || (most < run->from_count && program->pass_count > 1))
        return true;
    say_error(run->command, "%s reads %u channel%s, %u %s given.", run->name, most, most == 1 ? "" : "s",
              run->from_count, run->from_count == 1 ? "is" : "are");
    return false;
}

static bool add_passes(const struct run *run, struct run_program *program, const char *text)
{
    char name[256];
    for (uint32_t i = 0; sluice_module_kernel(program->module, i, name, sizeof name) == SLUICE_OK; i++) {
        if (strcmp(name, CLEAR) == 0)
            continue;
        if (program->pass_count == RUN_PASSES) {
            say_error(run->command, "%s has more than %d passes.", run->name, RUN_PASSES);
            return false;
        }
        if (!add_pass(run, program, text, name))
            return false;
    }
    if (program->pass_count == 0) {
        say_error(run->command, "%s has no kernel with a sluice_out, which would write frames.", run->name);
        return false;
    }
    return check_pictures(run, program);
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

static bool load(const struct run *run, struct sluice_device device, const char *text, struct run_program *program)
{
    struct sluice_module_params params = {
        .size = sizeof params, .name = run->name, .options = run->options, .option_count = run->option_count
    };
    const char *kernels[] = { run->kernel, CLEAR };
    char *whole = whole_text(text);
    if (run->kernel) {
        params.kernels = kernels;
        params.kernel_count = 2;
    }
    params.kind = SLUICE_MODULE_SOURCE;
    int result =
        whole ? sluice_module_load(device, whole, strlen(whole), &params, &program->module) : SLUICE_E_NO_MEMORY;
    free(whole);
    if (result || sluice_kernel_get(program->module, CLEAR, &program->clear))
        return fail(run);
    return add_passes(run, program, text);
}

struct run_program *run_program_load(const struct run *run, struct sluice_device device, char *text)
{
    struct run_program *program = calloc(1, sizeof *program);
    if (!program) {
        free(text);
        return NULL;
    }
    program->text = text;
    if (load(run, device, text, program))
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
