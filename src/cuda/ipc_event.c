/* SPDX-License-Identifier: MIT
 *
 * Events that other processes open by a handle of 64 bytes.
 *
 * As with memory, such a handle cannot be opened in the process that made it, so the events that
 * this process has made are listed, and opening one of those shares it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "util/result.h"

struct sl_cuda_signal {
    struct sl_cuda_signal *next; /* in the list of those made here */
    struct sl_cu_event *event;
    struct sl_cu_event_handle handle;
    int device;
    uint32_t users;
    bool made;
};

static struct sl_cuda_signal *signals;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct sl_cuda_signal *new_signal(struct sl_cuda_context *context)
{
    struct sl_cuda_signal *signal = calloc(1, sizeof *signal);

    if (signal) {
        signal->device = context->device;
        signal->users = 1;
    } else {
        sl_say("no memory for an event of %s", context->name);
    }
    return signal;
}

int sl_cuda_signal_make(struct sl_cuda_context *context, struct sl_cu_event_handle *handle, struct sl_cuda_signal **out)
{
    int r =
        sl_cuda_check_cap(context, SL_CU_CAN_SHARE_EVENTS, "hand events to others as a handle (cuIpcGetEventHandle)");
    if (r != 0)
        return r;
    struct sl_cuda_signal *signal = new_signal(context);
    if (!signal)
        return SLUICE_E_NO_MEMORY;
    r = sl_cu(context, EventCreate, &signal->event, SL_CU_EVENT_DISABLE_TIMING | SL_CU_EVENT_INTERPROCESS);
    if (r == 0) {
        r = sl_cu(context, IpcGetEventHandle, &signal->handle, signal->event);
        if (r != 0)
            (void)sl_cuda.EventDestroy(signal->event);
    }
    if (r != 0) {
        free(signal);
        return r;
    }
    signal->made = true;
    *handle = signal->handle;
    pthread_mutex_lock(&lock);
    signal->next = signals;
    signals = signal;
    pthread_mutex_unlock(&lock);
    *out = signal;
    return 0;
}

/* One that was made here, with one more reference; NULL if there is none. */
static struct sl_cuda_signal *find(const struct sl_cuda_context *context, const struct sl_cu_event_handle *handle)
{
    pthread_mutex_lock(&lock);
    struct sl_cuda_signal *signal = signals;
    while (signal && (signal->device != context->device || memcmp(&signal->handle, handle, sizeof *handle) != 0))
        signal = signal->next;
    if (signal)
        signal->users++;
    pthread_mutex_unlock(&lock);
    return signal;
}

int sl_cuda_signal_open(struct sl_cuda_context *context, const struct sl_cu_event_handle *handle,
                        struct sl_cuda_signal **out)
{
    int r = sl_cuda_check_cap(context, SL_CU_CAN_SHARE_EVENTS, "open others' events (cuIpcOpenEventHandle)");
    if (r != 0)
        return r;
    struct sl_cuda_signal *signal = find(context, handle);
    if (!signal) {
        signal = new_signal(context);
        if (!signal)
            return SLUICE_E_NO_MEMORY;
        int code = sl_cuda.IpcOpenEventHandle(&signal->event, *handle);
        r = sl_cuda_check(context, code, "cuIpcOpenEventHandle");
        if (r != 0) {
            free(signal);
            if (r == SLUICE_E_NO_MEMORY || sl_cuda_alive(context) != 0)
                return r;
            return sl_fail(
                SLUICE_E_UNSUPPORTED,
                "%s: a slot's event cannot be opened (cuIpcOpenEventHandle said %s): its writer has ended, or "
                "is in another container, whose handles mean nothing here",
                context->name, sl_cuda_code_name(code));
        }
    }
    *out = signal;
    return 0;
}

struct sl_cu_event *sl_cuda_signal_event(const struct sl_cuda_signal *signal)
{
    return signal->event;
}

void sl_cuda_signal_drop(struct sl_cuda_context *context, struct sl_cuda_signal *signal)
{
    struct sl_cuda_signal **at = &signals;
    struct sl_cuda_scope scope;

    if (!signal)
        return;
    pthread_mutex_lock(&lock);
    bool last = --signal->users == 0;
    if (last && signal->made) {
        while (*at != signal)
            at = &(*at)->next;
        *at = signal->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    if (sl_cuda_enter(context, SL_CUDA_RELAXED, &scope) == 0) { /* else destroyed with the context */
        (void)sl_cuda.EventDestroy(signal->event);
        sl_cuda_leave(&scope);
    }
    free(signal);
}

int sl_cuda_query_event(struct sl_cuda_context *context, struct sl_cu_event *event)
{
    int code = sl_cuda.EventQuery(event);

    return code == SL_CU_NOT_READY ? SLUICE_NOT_READY : sl_cuda_check(context, code, "cuEventQuery");
}
