/* SPDX-License-Identifier: MIT
 *
 * NVTX ranges for NVIDIA's tools, without NVIDIA's headers: a tool that starts a program names its
 * library in NVTX_INJECTION64_PATH. The program loads it and calls its InitializeInjectionNvtx2
 * with a function that returns tables; the tool requests the tables of the NVTX 3 modules that it
 * knows, and stores its functions in them. Slots that it leaves empty are not called.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "trace/trace.h"
#include "util/result.h"

#define NVTX_VERSION 3 /* of the structs below */

/* Tables that a tool requests from getExportTable. */
#define TABLE_CALLBACKS 1
#define TABLE_VERSION   3

/* Modules, with their number of functions, including number 0, which is unused. We call only those
 * of the domain module; the others exist for tools that fill in all that they have. */
#define MODULE_DOMAINS 5
static const unsigned sizes[] = { 0, 16, 9, 15, 7, 16, 7 };
#define MODULES (sizeof sizes / sizeof *sizes)
#define LARGEST 16

/* Functions of the domain module. */
#define RANGE_START   2
#define RANGE_END     3
#define RANGE_PUSH    4
#define RANGE_POP     5
#define DOMAIN_CREATE 12

typedef void (*function)(void);

struct callbacks {
    size_t size;
    int (*module_table)(int module, function ***table, unsigned *size);
};

struct version_info {
    size_t size;
    uint32_t version, reserved;
    void (*tool_version)(uint32_t version);
};

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};
#define COLOUR_ARGB    1
#define PAYLOAD_UINT64 1
#define MESSAGE_ASCII  1

_Static_assert(sizeof(struct attributes) == 48, "as tools take it");

static function slots[MODULES][LARGEST];
static function *places[MODULES][LARGEST + 1]; /* the address of each slot, and a NULL behind the last */

/* The tool's functions. A domain is an opaque pointer of the tool's. */
static void *(*create)(const char *name);
static int (*push)(void *domain, const struct attributes *attributes);
static int (*pop)(void *domain);
static uint64_t (*start)(void *domain, const struct attributes *attributes);
static void (*end)(void *domain, uint64_t range);
static void *domain;

/* ---- what the tool calls while it starts ---- */

static int module_table(int module, function ***table, unsigned *size)
{
    if (module < 1 || module >= (int)MODULES)
        return 0;
    for (unsigned i = 1; i < sizes[module]; i++)
        places[module][i] = &slots[module][i];
    if (table)
        *table = places[module];
    if (size)
        *size = sizes[module];
    return 1;
}

static void tool_version(uint32_t version)
{
    (void)version;
}

static const void *export_table(uint32_t id)
{
    static const struct callbacks callbacks = { sizeof callbacks, module_table };
    static const struct version_info info = { sizeof info, NVTX_VERSION, 0, tool_version };

    return id == TABLE_CALLBACKS ? (const void *)&callbacks : id == TABLE_VERSION ? (const void *)&info : NULL;
}

/* ---- finding the tool ---- */

/* Function pointers have the same size as others on every system with dlsym. */
static void take(void *to, unsigned number)
{
    memcpy(to, &slots[MODULE_DOMAINS][number], sizeof(function));
}

/* The tool is initialised: which functions does it provide? */
static bool take_functions(const char *path)
{
    take(&create, DOMAIN_CREATE);
    take(&push, RANGE_PUSH);
    take(&pop, RANGE_POP);
    take(&start, RANGE_START);
    take(&end, RANGE_END);
    if (!push || !pop)
        push = NULL;
    if (!start || !end)
        start = NULL;
    if (!create || (!push && !start)) {
        sl_log(SLUICE_LOG_WARN, "NVTX: the tool %s takes no ranges in domains; there are none", path);
        return false;
    }
    domain = create("sluice");
    return true;
}

/* A missing tool is no failure of the caller, so the thread's error message is preserved. */
static void *open_library(const char *path)
{
    char before[1024];

    snprintf(before, sizeof before, "%s", sl_last_error());
    void *library;
    if (sl_os_dl_open(path, &library) != 0)
        sl_log(SLUICE_LOG_WARN, "NVTX: the tool in NVTX_INJECTION64_PATH cannot be loaded; there are no ranges: %s",
               sl_last_error());
    (void)sl_fail_text(0, before);
    return library;
}

bool sl_nvtx_load(void)
{
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    int (*initialize)(const void *(*)(uint32_t));

    if (!path || !*path) {
        sl_log(SLUICE_LOG_INFO, "NVTX: no tool has set NVTX_INJECTION64_PATH; there are no ranges");
        return false;
    }
    void *library = open_library(path);
    if (!library)
        return false;
    *(void **)&initialize = sl_os_dl_symbol(library, "InitializeInjectionNvtx2");
    if (!initialize) {
        sl_log(SLUICE_LOG_WARN, "NVTX: %s, in NVTX_INJECTION64_PATH, is no tool of NVTX 3; there are no ranges", path);
        sl_os_dl_close(library);
        return false;
    }
    /* From here on it stays loaded, even if it failed, as it may have started threads. */
    if (initialize(export_table) == 0) {
        sl_log(SLUICE_LOG_WARN, "NVTX: the tool %s did not start; there are no ranges", path);
        return false;
    }
    return take_functions(path);
}

/* ---- ranges ---- */

static struct attributes describe(const char *name, uint32_t colour, uint64_t payload)
{
    return (struct attributes){
        .version = NVTX_VERSION,
        .size = sizeof(struct attributes),
        .colour_type = COLOUR_ARGB,
        .colour = colour,
        .payload_type = payload ? PAYLOAD_UINT64 : 0,
        .payload = payload,
        .message_type = MESSAGE_ASCII,
        .message = name, /* the tool copies it */
    };
}

void sl_nvtx_push(const char *name, uint32_t colour)
{
    struct attributes attributes = describe(name, colour, 0);

    if (push)
        push(domain, &attributes);
}

void sl_nvtx_pop(void)
{
    if (push)
        pop(domain);
}

uint64_t sl_nvtx_start(const char *name, uint32_t colour, uint64_t payload)
{
    struct attributes attributes = describe(name, colour, payload);

    return start ? start(domain, &attributes) : 0;
}

void sl_nvtx_stop(uint64_t range)
{
    if (start)
        end(domain, range);
}
