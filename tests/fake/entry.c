/* SPDX-License-Identifier: MIT
 *
 * The entry points: what a program finds in the library by a function's name. They count, fail on demand, and check
 * that the rules are kept.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "fake/internal.h"

_Thread_local struct fake_thread fake_thread;

static char broken_rule[300];
static long calls[FAKE_FUNCTION_COUNT];
static enum fake_function failing = FAKE_FUNCTION_COUNT;
static long failing_in;
static bool all_fail; /* each call fails, from the first one on */
static int failing_code;
static bool failed;
static enum fake_function behind = FAKE_FUNCTION_COUNT;
static void (*what_is_behind)(void *data);
static void *data_of_it;

static const char *const names[] = {
#define NAME(name, version, parameters, arguments) "cu" #name,
    SL_CUDA_FUNCTIONS(NAME) SL_CUDA_OPTIONAL_FUNCTIONS(NAME) EXTRA_FUNCTIONS(NAME)
#undef NAME
};

/* What the library calls in the relaxed mode only, as it may break another thread's capture. CAREFUL: of these calls
 * driver 580 breaks none by that one (measured), or the function itself knows which. */
enum { CAREFUL = 1, BREAKS = 2 };
static const unsigned char unsafe[FAKE_FUNCTION_COUNT] = {
    [FAKE_DevicePrimaryCtxRetain] = CAREFUL,
    [FAKE_DevicePrimaryCtxRelease] = CAREFUL,
    [FAKE_CtxEnablePeerAccess] = BREAKS,
    [FAKE_StreamCreateWithPriority] = CAREFUL,
    [FAKE_StreamDestroy] = CAREFUL,
    [FAKE_StreamQuery] = CAREFUL,
    [FAKE_StreamSynchronize] = CAREFUL,
    [FAKE_EventCreate] = CAREFUL,
    [FAKE_EventDestroy] = CAREFUL,
    [FAKE_EventQuery] = BREAKS,
    [FAKE_EventSynchronize] = BREAKS,
    [FAKE_EventElapsedTime] = CAREFUL,
    [FAKE_MemGetInfo] = CAREFUL,
    [FAKE_MemCreate] = CAREFUL,
    [FAKE_MemRelease] = CAREFUL,
    [FAKE_MemExportToShareableHandle] = BREAKS,
    [FAKE_MemImportFromShareableHandle] = BREAKS,
    [FAKE_MemAddressReserve] = BREAKS,
    [FAKE_MemAddressFree] = BREAKS,
    [FAKE_MemMap] = BREAKS,
    [FAKE_MemUnmap] = BREAKS,
    [FAKE_MemSetAccess] = BREAKS,
    [FAKE_MemHostRegister] = BREAKS,
    [FAKE_MemHostUnregister] = BREAKS,
    [FAKE_MemHostGetDevicePointer] = BREAKS,
    [FAKE_MemHostAlloc] = BREAKS,
    [FAKE_MemFreeHost] = BREAKS,
    [FAKE_IpcGetEventHandle] = BREAKS,
    [FAKE_IpcOpenEventHandle] = BREAKS,
    [FAKE_ModuleLoadData] = BREAKS,
    [FAKE_ModuleLoadDataEx] = BREAKS,
    [FAKE_ModuleUnload] = BREAKS,
    [FAKE_ModuleGetFunction] = BREAKS,
    [FAKE_FuncLoad] = BREAKS,
    [FAKE_FuncSetAttribute] = BREAKS,
    [FAKE_FuncGetParamInfo] = BREAKS,
    [FAKE_GraphExecUpdate] = BREAKS,
    [FAKE_GraphInstantiateWithFlags] = BREAKS,
    [FAKE_GraphExecBatchMemOpNodeSetParams] = BREAKS,
    [FAKE_GraphExecDestroy] = BREAKS,
    [FAKE_CtxSynchronize] = CAREFUL,
    [FAKE_MemAlloc] = BREAKS,
    [FAKE_MemFree] = BREAKS,
    [FAKE_MemAllocAsync] = BREAKS,
    [FAKE_MemFreeAsync] = BREAKS,
    [FAKE_IpcGetMemHandle] = BREAKS,
    [FAKE_IpcOpenMemHandle] = BREAKS,
    [FAKE_IpcCloseMemHandle] = BREAKS,
};

/* Calls that wait while another thread is in a call that frees memory (cuMemFree, cuMemFreeHost, cuMemHostUnregister,
 * cuIpcCloseMemHandle) and waits for the GPU there. Seen on an H200 with driver 580.159; others, such as stream
 * queries, cuStreamWriteValue64, cuStreamWaitEvent and cuIpcOpenMemHandle, go on. */
static const bool held_up[FAKE_FUNCTION_COUNT] = {
    [FAKE_StreamCreateWithPriority] = true, [FAKE_EventCreate] = true,   [FAKE_EventRecord] = true,
    [FAKE_IpcOpenEventHandle] = true,       [FAKE_LaunchKernel] = true,  [FAKE_MemAlloc] = true,
    [FAKE_MemHostRegister] = true,          [FAKE_MemsetD8Async] = true, [FAKE_MemcpyAsync] = true,
};

void fake_break_rule(const char *format, ...)
{
    va_list list;

    if (broken_rule[0] || !fake_thread.library)
        return;
    int length = snprintf(broken_rule, sizeof broken_rule, "%s: ", names[fake_thread.function]);
    va_start(list, format);
    vsnprintf(broken_rule + length, sizeof broken_rule - (size_t)length, format, list);
    va_end(list);
    const char *fatal = getenv("SLUICE_FAKE_FATAL");
    if (!fatal)
        return;
    FILE *file = strchr(fatal, '/') ? fopen(fatal, "ae") : NULL;
    fprintf(stderr, "the library broke a rule of the fake driver: %s\n", broken_rule);
    if (file) {
        fprintf(file, "process %d broke a rule of the fake driver: %s\n", (int)getpid(), broken_rule);
        fclose(file);
    }
    abort();
}

/* The library's thread for its sockets and deadlines releases streams that wait for lost frames (protocol 3.6): it must
 * not wait for them itself, as many calls do. */
static bool on_service_thread(void)
{
    char name[16] = "";

    return prctl(PR_GET_NAME, name) == 0 && strcmp(name, "sluice service") == 0;
}

/* Before a call does anything. If the result is not 0, the call returns it and does nothing. */
static int enter(enum fake_function function, bool library)
{
    int code = 0;

    pthread_mutex_lock(&fake_lock);
    fake_thread.library = library;
    fake_thread.function = function;
    if (fake_thread.gpu) {
        fake_break_rule("called by a function that the GPU calls");
        code = SL_CU_NOT_PERMITTED;
    }
    if (library) {
        calls[function]++;
        if (on_service_thread())
            fake_break_rule("called on the service thread");
        if (unsafe[function] && fake_thread.mode != SL_CU_CAPTURE_MODE_RELAXED)
            fake_break_rule("called outside of the relaxed mode");
        if (function == failing && (all_fail || --failing_in == 0)) {
            failing = all_fail ? failing : FAKE_FUNCTION_COUNT;
            failed = true;
            code = failing_code;
        }
    }
    struct sl_cu_context *context = held_up[function] ? fake_thread_context() : NULL;
    while (code == 0 && context && context->freeing > 0)
        pthread_cond_wait(&fake_changed, &fake_lock);
    if (code == 0 && unsafe[function] == BREAKS)
        code = fake_break_captures();
    pthread_mutex_unlock(&fake_lock);
    return code;
}

/* Before the caller gets the result. */
static int leave(enum fake_function function, bool library, int code)
{
    void (*what)(void *data) = NULL;

    pthread_mutex_lock(&fake_lock);
    if (library && function == behind) {
        what = what_is_behind;
        behind = FAKE_FUNCTION_COUNT;
    }
    void *data = data_of_it;
    pthread_mutex_unlock(&fake_lock);
    if (what)
        what(data);
    return code;
}

#define DOOR(door, is_library, name, parameters, arguments) \
    FAKE_API int door parameters; \
    FAKE_API int door parameters \
    { \
        int said = enter(FAKE_##name, is_library); \
        return leave(FAKE_##name, is_library, said ? said : fake_cu##name arguments); \
    }
#define BOTH(name, version, parameters, arguments) \
    DOOR(cu##name##version, true, name, parameters, arguments) \
    DOOR(test_cu##name##version, false, name, parameters, arguments)
#define TESTS(name, version, parameters, arguments) \
    DOOR(cu##name##version, true, name, parameters, \
         arguments) /* of sluice.cuda_link alone, for programs that say so */ \
    DOOR(test_cu##name##version, false, name, parameters, arguments)
SL_CUDA_FUNCTIONS(BOTH)
SL_CUDA_OPTIONAL_FUNCTIONS(BOTH)
EXTRA_FUNCTIONS(TESTS)

/* ---- controls ---- */

void fake_use(void)
{
    static const char here;
    Dl_info info;

    if (!dladdr(&here, &info) || setenv("SLUICE_CUDA_DRIVER", info.dli_fname, 1))
        abort();
}

const char *fake_name(enum fake_function function)
{
    return names[function];
}

void fake_fail(enum fake_function function, long nth, int code)
{
    pthread_mutex_lock(&fake_lock);
    failing = function;
    failing_in = nth;
    all_fail = nth == 0;
    failing_code = code;
    failed = false;
    pthread_mutex_unlock(&fake_lock);
}

bool fake_failed(void)
{
    pthread_mutex_lock(&fake_lock);
    failing = FAKE_FUNCTION_COUNT;
    bool result = failed;
    pthread_mutex_unlock(&fake_lock);
    return result;
}

void fake_behind(enum fake_function function, void (*what)(void *data), void *data)
{
    pthread_mutex_lock(&fake_lock);
    behind = what ? function : FAKE_FUNCTION_COUNT;
    what_is_behind = what;
    data_of_it = data;
    pthread_mutex_unlock(&fake_lock);
}

long fake_calls(enum fake_function function)
{
    pthread_mutex_lock(&fake_lock);
    long result = calls[function];
    pthread_mutex_unlock(&fake_lock);
    return result;
}

void fake_forget(void)
{
    pthread_mutex_lock(&fake_lock);
    memset(calls, 0, sizeof calls);
    pthread_mutex_unlock(&fake_lock);
}

const char *fake_broken_rule(void)
{
    pthread_mutex_lock(&fake_lock);
    const char *rule = broken_rule[0] ? broken_rule : NULL;
    pthread_mutex_unlock(&fake_lock);
    return rule;
}

void fake_forget_rule(void)
{
    pthread_mutex_lock(&fake_lock);
    broken_rule[0] = 0;
    pthread_mutex_unlock(&fake_lock);
}

unsigned long long fake_thread_state(void)
{
    unsigned long long state = (unsigned long long)fake_thread.mode;

    for (int i = 0; i < fake_thread.depth; i++)
        state = state * 1000003 + (uintptr_t)fake_thread.stack[i];
    return state;
}

struct fake_things fake_things(void)
{
    pthread_mutex_lock(&fake_lock);
    struct fake_things now = fake_living;
    pthread_mutex_unlock(&fake_lock);
    return now;
}

/* ---- what needs no model ---- */

int fake_cuGetErrorName(int code, const char **name)
{
    static const struct {
        int code;
        const char *name;
    } table[] = {
        { SL_CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE" },
        { SL_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY" },
        { SL_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE" },
        { SL_CU_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE" },
        { SL_CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT" },
        { SL_CU_INVALID_PTX, "CUDA_ERROR_INVALID_PTX" },
        { SL_CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE" },
        { SL_CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE" },
        { SL_CU_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE" },
        { SL_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND" },
        { SL_CU_NOT_READY, "CUDA_ERROR_NOT_READY" },
        { SL_CU_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED" },
        { SL_CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS" },
        { SL_CU_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED" },
        { SL_CU_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED" },
        { SL_CU_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
        { SL_CU_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
        { SL_CU_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" },
        { SL_CU_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" },
        { SL_CU_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" },
        { SL_CU_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" },
        { SL_CU_EXEC_UPDATE_FAILURE, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE" },
        { SL_CU_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" },
        { SL_CU_UNKNOWN, "CUDA_ERROR_UNKNOWN" },
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].code == code) {
            *name = table[i].name;
            return SL_CU_OK;
        }
    }
    return SL_CU_INVALID_VALUE;
}
