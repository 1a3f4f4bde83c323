/* SPDX-License-Identifier: MIT
 *
 * cuda-link's environment variables: which there are, and how each value is interpreted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_link/wire/settings.h"
#include "os/os.h"

#define YES SL_CIPD_HONOURED
#define NO  SL_CIPD_NO_EFFECT
#define TD  SL_CIPD_TOUCHDESIGNER
#define PY  SL_CIPD_IN_PYTHON

#define TEXT                SL_CIPD_TEXT, 0, 0
#define SWITCH              SL_CIPD_SWITCH, 0, 0
#define NUMBER(least, most) SL_CIPD_NUMBER, least, most
#define MOST_FRAMES         ((int64_t)UINT32_MAX) /* either way, as sluice.cuda_link has it */

const struct sl_cipd_variable sl_cipd_variables[] = {
    { "CUDALINK_EXPORT_SYNC", "0", YES, SWITCH, "a frame is published when the GPU has finished it" },
    { "CUDALINK_USE_GRAPHS", "1", YES, SWITCH, "what a send copies is queued as one graph" },
    { "CUDALINK_TD_USE_GRAPHS", "0", TD, TEXT, "of the sender in TouchDesigner" },
    { "CUDALINK_TD_GRAPHS_DEFERRED", "0", TD, TEXT, "of the sender in TouchDesigner" },
    { "CUDALINK_CPP_USE_GRAPHS", "", TD, TEXT, "of the operators in C++" },
    { "CUDALINK_EXPORT_FLUSH_PROBE", "1", NO, TEXT,
      "0 turns off, on Windows, that work is pushed out which WDDM holds back" },
    { "CUDALINK_EXPORT_PROFILE", "0", PY, SWITCH,
      "sluice.cuda_link logs a line every 97 frames; else SLUICE_TIMERS times the stages" },
    { "CUDALINK_STRICT_DEVICE", "0", YES, SWITCH, "memory of another GPU is refused instead of being copied" },
    { "CUDALINK_REQUIRE_SOURCE_SYNC", "0", PY, SWITCH,
      "in sluice.cuda_link a frame without a stream is an error; elsewhere every send says its stream" },
    { "CUDALINK_LIB_STREAM_PRIO", "high", YES, TEXT, "\"normal\": the writer's own stream has no priority" },
    { "CUDALINK_TD_STREAM_PRIO", "normal", TD, TEXT, "of the sender in TouchDesigner" },
    { "CUDALINK_ACTIVATION_BARRIER", "1", YES, SWITCH, "frames are skipped while a sender is being set up" },
    { "CUDALINK_TD_ACTIVATION_BARRIER", "1", YES, SWITCH, "a writer that shall hold the barrier does" },
    { "CUDALINK_BARRIER_STALE_NS", "5000000000", YES, NUMBER(0, INT64_MAX),
      "a barrier untouched for so long does not count" },
    { "CUDALINK_TD_BARRIER_SETTLE_FRAMES", "30", YES, NUMBER(0, INT32_MAX),
      "published frames until a holder drops the barrier; 0: until it closes" },
    { "CUDALINK_TD_PERSIST_STREAM", "1", TD, TEXT, "of the sender in TouchDesigner" },
    { "CUDALINK_TD_INIT_PACE", "0", TD, TEXT, "of the sender in TouchDesigner" },
    { "CUDALINK_TD_INIT_CLEAR_STICKY", "", TD, TEXT, "of the sender in TouchDesigner, until 1.0" },
    { "CUDALINK_STICKY_ERROR_CHECK", "1", PY, SWITCH,
      "of sluice.cuda_link's CUDARuntimeAPI alone; the result of every call of the driver is looked at" },
    { "CUDALINK_WAIT_SPIN_US", "200", YES, NUMBER(0, INT64_MAX / 1000),
      "a frame's event is asked for so long without a pause" },
    { "CUDALINK_WAIT_BACKEND", "auto", NO, TEXT, "there is one way to wait, in C" },
    { "CUDALINK_DOORBELL", "0", PY, SWITCH,
      "in sluice.cuda_link wait_for_doorbell() waits; writers of Sluice's always wake who sleeps" },
    { "CUDALINK_TORCH_GPU_WAIT", "0", YES, SWITCH, "the reader's stream waits for a frame, not its CPU" },
    { "CUDALINK_TORCH_GPU_WAIT_ADAPTIVE", "0", PY, SWITCH,
      "sluice.cuda_link goes over to waiting on the GPU by itself" },
    { "CUDALINK_GPU_WAIT_ADAPTIVE_WINDOW", "120", PY, NUMBER(-MOST_FRAMES, MOST_FRAMES),
      "how many frames decide on that" },
    { "CUDALINK_GPU_WAIT_ADAPTIVE_SLEEP_PCT", "5", PY, NUMBER(-100, 100), "how many of them must have been late" },
    { "CUDALINK_D2H_STREAMS", "1", NO, TEXT, "a copy to the host is cut into pieces as suits the GPU" },
    { "CUDALINK_D2H_STREAM_PRIO", "normal", NO, TEXT, "a copy to the host runs on the stream that the program gives" },
    { "CUDALINK_D2H_PIPELINED", "0", PY, SWITCH,
      "sluice.cuda_link gives the frame before; elsewhere fetch with a ticket does not wait" },
    { "CUDALINK_ALLOW_PAGEABLE_FALLBACK", "0", PY, SWITCH,
      "in sluice.cuda_link memory that is not pinned will do where there is none that is" },
    { "CUDALINK_IMPORT_RECONNECT", "1", YES, SWITCH, "a reader finds the writer's next session by itself" },
    { "CUDALINK_IMPORT_RECONNECT_MAX_ATTEMPTS", "20", NO, TEXT,
      "it tries for as long as it is used, less and less often" },
    { "CUDALINK_NVTX", "0", NO, TEXT, "SLUICE_NVTX=1 tells NVIDIA's tools of frames" },
    { "CUDALINK_NVTX_VERBOSE", "0", NO, TEXT, "SLUICE_NVTX=2 tells them more" },
    { "CUDALINK_NVML", "0", PY, SWITCH,
      "turns on the observer of sluice.cuda_link; elsewhere sluice top shows what the GPU does" },
    { "CUDALINK_SENDER_REPORT_EVERY", "150", TD, TEXT, "of the sender in TouchDesigner and of examples" },
    { "CUDALINK_RECEIVER_REPORT_EVERY", "150", TD, TEXT, "of the receiver in TouchDesigner and of examples" },
    { "CUDALINK_IMPORT_PROFILE", "0", NO, TEXT, "SLUICE_TIMERS times the stages" },
    { "CUDALINK_PROBE_LOG_FILE", "", TD, TEXT, "of cuda-link's examples" },
    { "CUDALINK_RECEIVER_SHM_NAME", "cudalink_ipc_TD>>Python", TD, TEXT, "of cuda-link's example of a receiver" },
    { "CUDALINK_RECEIVER_DEVICE", "0", TD, TEXT, "of cuda-link's example of a receiver" },
    { "CUDALINK_RECEIVER_TIMEOUT_MS", "5000", TD, TEXT, "of cuda-link's example of a receiver" },
    { "CUDALINK_RECEIVER_FRAME_MODE", "torch", TD, TEXT, "of cuda-link's example of a receiver" },
    { "CUDALINK_RECEIVER_PYTHON_EXE", "auto", TD, TEXT, "of cuda-link's example of a receiver" },
    { "CUDALINK_SENDER_PYTHON_EXE", "auto", TD, TEXT, "of cuda-link's launcher of a sender" },
    { "CUDALINK_LIB_PATH", "", TD, TEXT, "where TouchDesigner finds cuda-link's package" },
    { "CUDALINK_NO_PAUSE", "", TD, TEXT, "of the script that builds cuda-link's package" },
    { NULL, NULL, NO, TEXT, NULL },
};

/* ---- values ---- */

typedef const char *lookup(const char *name);

static const struct sl_cipd_variable *variable(const char *name)
{
    const struct sl_cipd_variable *at = sl_cipd_variables;
    while (at->name && strcmp(at->name, name))
        at++;
    return at->name ? at : NULL;
}

static bool truth(lookup *get, const char *name)
{
    const struct sl_cipd_variable *one = variable(name);
    const char *text = get(name);
    return sl_cipd_reading(one, text ? text : one->standard) == SLUICE_CIPD_READ_ON;
}

/* Accepts what Python's int() does, except underscores: surrounding space and a sign are allowed. */
static enum sluice_cipd_reading whole_number(const struct sl_cipd_variable *one, const char *text, int64_t *number)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || end[strspn(end, " \t\n\r\v\f")])
        return SLUICE_CIPD_READ_NO_NUMBER;
    if (errno || value < one->least || value > one->most)
        return SLUICE_CIPD_READ_OUT_OF_RANGE;
    *number = value;
    return SLUICE_CIPD_READ_AS_IT_IS;
}

enum sluice_cipd_reading sl_cipd_reading(const struct sl_cipd_variable *one, const char *text)
{
    int64_t value;
    if (one->kind == SL_CIPD_SWITCH)
        return strcmp(text, "1") ? SLUICE_CIPD_READ_OFF : SLUICE_CIPD_READ_ON;
    return one->kind == SL_CIPD_NUMBER ? whole_number(one, text, &value) : SLUICE_CIPD_READ_AS_IT_IS;
}

static int64_t number(lookup *get, const char *name)
{
    const struct sl_cipd_variable *one = variable(name);
    const char *text = get(name);
    int64_t value = 0;
    if (!text || whole_number(one, text, &value) != SLUICE_CIPD_READ_AS_IT_IS)
        (void)whole_number(one, one->standard, &value);
    return value;
}

void sl_cipd_settings_read(struct sl_cipd_settings *settings, lookup *get)
{
    const char *priority = get("CUDALINK_LIB_STREAM_PRIO");
    *settings = (struct sl_cipd_settings){
        .export_sync = truth(get, "CUDALINK_EXPORT_SYNC"),
        .use_graphs = truth(get, "CUDALINK_USE_GRAPHS"),
        .strict_device = truth(get, "CUDALINK_STRICT_DEVICE"),
        .high_priority = !priority || strcmp(priority, "normal"),
        .barrier_check = truth(get, "CUDALINK_ACTIVATION_BARRIER"),
        .barrier_hold = truth(get, "CUDALINK_TD_ACTIVATION_BARRIER"),
        .barrier_stale_ns = number(get, "CUDALINK_BARRIER_STALE_NS"),
        .barrier_settle = (uint32_t)number(get, "CUDALINK_TD_BARRIER_SETTLE_FRAMES"),
        .wait_spin_ns = number(get, "CUDALINK_WAIT_SPIN_US") * 1000,
        .gpu_wait = truth(get, "CUDALINK_TORCH_GPU_WAIT"),
        .reconnect = truth(get, "CUDALINK_IMPORT_RECONNECT"),
    };
}

/* ---- once ---- */

static const char *from_environment(const char *name)
{
    return getenv(name);
}

const struct sl_cipd_settings *sl_cipd_settings(void)
{
    enum { UNREAD, READING, READ };
    static struct sl_cipd_settings settings;
    static sl_word32 state;
    uint32_t before = UNREAD;
    if (sl_load(&state, acquire) == READ)
        return &settings;
    if (atomic_compare_exchange_strong(&state, &before, READING)) {
        sl_cipd_settings_read(&settings, from_environment);
        sl_store(&state, READ, release);
    }
    while (sl_load(&state, acquire) != READ)
        sl_os_yield();
    return &settings;
}
