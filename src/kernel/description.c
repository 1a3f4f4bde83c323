/* SPDX-License-Identifier: MIT
 *
 * Reads what the compiler says about the parameters of kernels: data in the compiled bytes, after a mark
 * (describe.cuh).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "kernel/embedded.h"
#include "kernel/kernel.h"
#include "util/result.h"

static const uint32_t mark[4] = { 0x536c7569u, 0x63654b65u, 0x9e3779b9u, 0x7f4a7c15u };

struct words { /* as in describe.cuh */
    uint32_t mark[4], index, count;
};
struct parameter_words {
    uint32_t kind, constant, bytes, type, element;
};

/* ---- the text ---- */

char *sl_description_text(const struct sl_source *source, const char *each)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);

    if (!file)
        return NULL;
    fwrite(sl_describe_cuh, 1, sl_describe_cuh_size, file);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    for (uint32_t i = 0; i < source->kernel_count; i++) {
        fprintf(file, "#line 1 \"" SL_KERNEL_LINE "\"\n", i);
        fprintf(file, each, i, source->kernels[i]);
    }
#pragma GCC diagnostic pop
    if (fclose(file) == 0)
        return text;
    free(text);
    return NULL;
}

/* ---- from compiled bytes ---- */

/* Finds the description of a kernel: its words, with `count` parameters after them, all within the bytes. NULL if there
 * is none. */
static const char *find(const char *bytes, size_t size, uint32_t index, struct words *words)
{
    const char *at = bytes;

    while ((at = memmem(at, size - (size_t)(at - bytes), mark, sizeof mark)) != NULL) {
        size_t left = size - (size_t)(at - bytes);
        if (left < sizeof *words)
            return NULL;
        memcpy(words, at, sizeof *words);
        if (words->index == index && words->count <= (left - sizeof *words) / sizeof(struct parameter_words))
            return at + sizeof *words;
        at++;
    }
    return NULL;
}

static bool is_number(const struct sluice_parameter *parameter)
{
    const struct sluice_dtype *dtype = &parameter->dtype;

    if (dtype->lanes != 1 || dtype->bits != parameter->bytes * 8)
        return false;
    switch (dtype->code) {
    case SLUICE_INT:
    case SLUICE_UINT:
        return parameter->bytes == 1 || parameter->bytes == 2 || parameter->bytes == 4 || parameter->bytes == 8;
    case SLUICE_FLOAT: return parameter->bytes == 4 || parameter->bytes == 8;
    case SLUICE_BOOL: return parameter->bytes == 1;
    default: return false;
    }
}

/* A launch relies on the sizes. */
static bool is_valid(const struct sluice_parameter *parameter)
{
    if (parameter->constant > 1)
        return false;
    switch (parameter->kind) {
    case SLUICE_PARAMETER_NUMBER: return is_number(parameter);
    case SLUICE_PARAMETER_POINTER:
        return parameter->bytes == sizeof(void *) && (parameter->dtype.bits == 0 || sl_dtype_valid(parameter->dtype));
    case SLUICE_PARAMETER_STRUCT: return parameter->bytes > 0;
    case SLUICE_PARAMETER_IN:
    case SLUICE_PARAMETER_OUT: return parameter->bytes == sizeof(struct sl_picture);
    default: return false;
    }
}

static bool read_parameter(const char *at, struct sluice_parameter *parameter)
{
    struct parameter_words words;

    memcpy(&words, at, sizeof words);
    *parameter = (struct sluice_parameter){
        .kind = words.kind,
        .constant = words.constant,
        .bytes = words.bytes,
        .dtype = { (uint8_t)words.type, (uint8_t)(words.type >> 8), (uint16_t)(words.type >> 16) },
        .element = words.element,
    };
    return is_valid(parameter);
}

static int read_one(const struct sl_source *source, const struct sl_code *code, struct sl_description *description,
                    struct sluice_parameter *parameters)
{
    struct words words;
    const char *at = find(code->bytes, code->size, code->kernel_count, &words);

    if (!at)
        return sl_fail(SLUICE_E_COMPILE, "%s: the compiler has not described kernel '%s'", source->name,
                       description->name);
    if (words.count > SLUICE_MAX_PARAMETERS)
        return sl_fail(SLUICE_E_LIMIT,
                       "kernel '%s' (%s) has %" PRIu32 " parameters, there can be %d: put some into a "
                       "struct",
                       description->name, source->name, words.count, SLUICE_MAX_PARAMETERS);
    for (uint32_t i = 0; i < words.count; i++, at += sizeof(struct parameter_words))
        if (!read_parameter(at, &parameters[i]))
            return sl_fail(SLUICE_E_COMPILE, "%s: the description of kernel '%s' is damaged", source->name,
                           description->name);
    description->count = words.count;
    description->parameters = parameters;
    return 0;
}

/* ---- a code ---- */

static const char *put_text(char **at, const char *text)
{
    size_t size = strlen(text) + 1;

    *at += size;
    return memcpy(*at - size, text, size);
}

static size_t room_of(const struct sl_source *source, size_t size, const char *const *symbols, const char *log)
{
    size_t room = size + 1 + strlen(log) + 1;

    room += source->kernel_count *
            (sizeof(struct sl_description) + SLUICE_MAX_PARAMETERS * sizeof(struct sluice_parameter));
    for (uint32_t i = 0; i < source->kernel_count; i++)
        room += strlen(source->kernels[i]) + strlen(symbols[i]) + 2;
    return room;
}

int sl_code_make(const struct sl_source *source, const void *bytes, size_t size, const char *const *symbols,
                 const char *log, struct sl_code *code)
{
    uint32_t count = source->kernel_count;
    struct sl_description *kernels = calloc(1, room_of(source, size, symbols, log));
    int r = 0;

    if (!kernels)
        return sl_fail(SLUICE_E_NO_MEMORY, "%s: no memory for its kernels", source->name);
    struct sluice_parameter *parameters = (void *)(kernels + count);
    char *at = (char *)(parameters + (size_t)count * SLUICE_MAX_PARAMETERS);
    *code = (struct sl_code){ .block = kernels, .bytes = memcpy(at, bytes, size), .size = size, .kernels = kernels };
    at += size + 1; /* PTX ends with a 0 */
    code->log = put_text(&at, log);
    for (uint32_t i = 0; i < count && r == 0; i++) {
        struct sl_description *kernel = &kernels[code->kernel_count];
        if (!*symbols[i])
            continue;
        kernel->name = put_text(&at, source->kernels[i]);
        kernel->symbol = put_text(&at, symbols[i]);
        r = read_one(source, code, kernel, parameters + (size_t)i * SLUICE_MAX_PARAMETERS);
        code->kernel_count++;
    }
    if (r == 0 && code->kernel_count == 0)
        r = sl_fail(SLUICE_E_COMPILE, "%s: no kernel was compiled", source->name);
    if (r != 0)
        sl_code_free(code);
    return r;
}

void sl_code_free(struct sl_code *code)
{
    free(code->block);
    *code = (struct sl_code){ .block = NULL };
}

/* ---- names of types ---- */

static const struct {
    struct sluice_dtype dtype;
    const char *scalar, *vector; /* NULL: as the scalar's */
} names[] = {
    { { SLUICE_BOOL, 8, 1 }, "bool", NULL },
    { { SLUICE_INT, 8, 1 }, "char", NULL },
    { { SLUICE_INT, 16, 1 }, "short", NULL },
    { { SLUICE_INT, 32, 1 }, "int", NULL },
    { { SLUICE_INT, 64, 1 }, "long long", "longlong" },
    { { SLUICE_UINT, 8, 1 }, "unsigned char", "uchar" },
    { { SLUICE_UINT, 16, 1 }, "unsigned short", "ushort" },
    { { SLUICE_UINT, 32, 1 }, "unsigned int", "uint" },
    { { SLUICE_UINT, 64, 1 }, "unsigned long long", "ulonglong" },
    { { SLUICE_FLOAT, 16, 1 }, "__half", NULL },
    { { SLUICE_FLOAT, 32, 1 }, "float", NULL },
    { { SLUICE_FLOAT, 64, 1 }, "double", NULL },
    { { SLUICE_BFLOAT, 16, 1 }, "__nv_bfloat16", NULL },
    { { SLUICE_FLOAT8_E4M3FN, 8, 1 }, "__nv_fp8_e4m3", NULL },
    { { SLUICE_FLOAT8_E5M2, 8, 1 }, "__nv_fp8_e5m2", NULL },
};

static const char *scalar_name(struct sluice_dtype dtype, bool vector)
{
    dtype.lanes = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (sl_dtype_equal(names[i].dtype, dtype))
            return vector && names[i].vector ? names[i].vector : names[i].scalar;
    return "number"; /* the template makes none */
}

static void element_name(struct sluice_dtype dtype, uint32_t bytes, char text[SL_TYPE_NAME])
{
    if (dtype.bits > 0 && dtype.lanes > 1)
        snprintf(text, SL_TYPE_NAME, "%s%u", scalar_name(dtype, true), dtype.lanes);
    else if (dtype.bits > 0)
        snprintf(text, SL_TYPE_NAME, "%s", scalar_name(dtype, false));
    else if (bytes > 0)
        snprintf(text, SL_TYPE_NAME, "struct of %" PRIu32 " bytes", bytes);
    else
        snprintf(text, SL_TYPE_NAME, "void");
}

const char *sl_parameter_type(const struct sluice_parameter *parameter, char text[SL_TYPE_NAME])
{
    char element[SL_TYPE_NAME];

    switch (parameter->kind) {
    case SLUICE_PARAMETER_NUMBER:
    case SLUICE_PARAMETER_STRUCT: element_name(parameter->dtype, parameter->bytes, text); break;
    case SLUICE_PARAMETER_POINTER:
        element_name(parameter->dtype, parameter->element, element);
        snprintf(text, SL_TYPE_NAME, "%s%.40s *", parameter->constant ? "const " : "", element);
        break;
    case SLUICE_PARAMETER_IN:
    case SLUICE_PARAMETER_OUT:
        snprintf(text, SL_TYPE_NAME, "sluice_%s", parameter->kind == SLUICE_PARAMETER_IN ? "in" : "out");
        break;
    default: snprintf(text, SL_TYPE_NAME, "%" PRIu32 " bytes", parameter->bytes);
    }
    return text;
}
