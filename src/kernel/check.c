/* SPDX-License-Identifier: MIT
 *
 * SLUICE_CHECK=streams: refuses a launch that uses memory which earlier work on another stream may still use.
 */
#include "kernel/check.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/atomic.h"
#include "util/result.h"

/* ---- the switch ---- */

static void read_word(const char *word, size_t length)
{
    if (length == strlen("streams") && strncmp(word, "streams", length) == 0) {
        sl_order_follow();
        atomic_fetch_or(&sl_checks, SL_CHECK_STREAMS);
    } else if (length > 0) {
        sl_log(SLUICE_LOG_WARN, "SLUICE_CHECK has '%.*s', which is not a check; the only one is 'streams'",
               (int)(length < 40 ? length : 40), word);
    }
}

static void read_environment(void)
{
    const char *word = getenv("SLUICE_CHECK");

    while (word && *word) {
        size_t length = strcspn(word, ",");
        read_word(word, length);
        word += length + (word[length] == ',');
    }
}

void sl_check_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_environment);
}

/* ---- slots ---- */

static struct slot {
    const void *at;
    uint64_t bytes;
} slots[SL_CHECK_SLOTS]; /* of frames that are held; from old to new, under the lock of order.c */
static uint32_t slot_count;

static bool is_in(const struct slot *slot, const void *memory)
{
    return (uintptr_t)memory - (uintptr_t)slot->at < slot->bytes;
}

static void drop_slot(uint32_t index)
{
    memmove(&slots[index], &slots[index + 1], (--slot_count - index) * sizeof *slots);
}

static bool find_slot(const void *memory, const void **start, uint64_t *bytes)
{
    bool found = false;

    sl_order_lock();
    for (uint32_t i = 0; i < slot_count && !found; i++)
        if ((found = is_in(&slots[i], memory))) {
            *start = slots[i].at;
            *bytes = slots[i].bytes;
        }
    sl_order_unlock();
    return found;
}

void sl_check_slot(const void *slot, uint64_t bytes, struct sluice_stream behind)
{
    const struct slot new = { slot, bytes };

    sl_history_begin(slot, bytes, behind, "it is ready only");
    sl_order_lock();
    for (uint32_t i = slot_count; i-- > 0;)
        if (is_in(&slots[i], slot) || is_in(&new, slots[i].at))
            drop_slot(i);
    if (slot_count == SL_CHECK_SLOTS)
        drop_slot(0);
    slots[slot_count++] = new;
    sl_order_unlock();
}

void sl_check_slot_over(const void *slot)
{
    sl_order_lock();
    for (uint32_t i = slot_count; i-- > 0;)
        if (!slot || slots[i].at == slot)
            drop_slot(i);
    sl_order_unlock();
}

/* ---- which memory ---- */

struct dimension {
    uint64_t stride, extent; /* extent: from the first to the last element */
};

/* From the smallest stride to the largest, without those of one element. Returns how many there are. */
static int sort_dimensions(const struct sluice_array *array, struct dimension sorted[SLUICE_MAX_DIMS])
{
    int count = 0;

    for (int d = 0; d < array->ndim && d < SLUICE_MAX_DIMS; d++) {
        uint64_t stride = (uint64_t)llabs(array->strides[d]);
        int at = count;
        if (array->shape[d] <= 1 || stride == 0)
            continue;
        for (; at > 0 && sorted[at - 1].stride > stride; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = (struct dimension){ stride, stride * (uint64_t)(array->shape[d] - 1) };
        count++;
    }
    return count;
}

/* The rows that contain all elements, so that two parts of one picture overlap only if they share some. */
static struct sl_range range_of_array(const struct sluice_array *array)
{
    struct dimension sorted[SLUICE_MAX_DIMS];
    int count = sort_dimensions(array, sorted);
    uint64_t span = ((uint64_t)array->dtype.bits * array->dtype.lanes + 7) / 8;
    struct sl_range range = { .begin = (uintptr_t)array->data, .row = span };

    for (int d = 0; d < array->ndim && d < SLUICE_MAX_DIMS; d++)
        if (array->strides[d] < 0 && array->shape[d] > 1)
            range.begin -= (uintptr_t)(-array->strides[d] * (array->shape[d] - 1));
    for (int d = 0; d < count; d++) {
        if (range.pitch == 0 && sorted[d].stride > range.row)
            range.pitch = sorted[d].stride;
        else if (range.pitch != 0 && sorted[d].stride % range.pitch != 0) {
            range.row = span;
            range.pitch = sorted[d].stride > span ? sorted[d].stride : 0;
        }
        span += sorted[d].extent;
        if (range.pitch == 0)
            range.row = span;
    }
    if (span < array->nbytes || count == 0) { /* planes of an image, or no strides were given */
        span = span < array->nbytes ? array->nbytes : span;
        range.pitch = 0;
    }
    range.end = range.begin + (span ? span : 1);
    return range;
}

/* Memory of unknown size: the scratch block or the slot in which it lies, else its first byte. The driver knows the
 * allocation, but libraries that allocate a lot at once put unrelated arrays there. */
static struct sl_range range_of_memory(const struct sluice_argument *given)
{
    const void *memory = given->data;
    uint64_t bytes = given->bytes;

    if (bytes == 0 && !sl_memory_block(given->data, &memory, &bytes) && !find_slot(given->data, &memory, &bytes)) {
        memory = given->data;
        bytes = 1;
    }
    return (struct sl_range){ .begin = (uintptr_t)memory, .end = (uintptr_t)memory + bytes };
}

static bool writes(const struct sl_launching *launching, uint32_t at)
{
    const struct sl_kernel *kernel = launching->kernel;
    const struct sluice_parameter *parameter = kernel->count == UINT32_MAX ? NULL : &kernel->parameters[at];

    if (launching->arguments[at].read_only || (parameter && parameter->kind == SLUICE_PARAMETER_IN))
        return false;
    return !parameter || !parameter->constant;
}

/* A host array is copied for this launch alone. */
static bool find_use(const struct sl_launching *launching, uint32_t at, struct sl_use *use)
{
    const struct sl_argument *argument = &launching->arguments[at];

    if (argument->array)
        use->range = range_of_array(argument->array);
    else if (argument->given->kind == SLUICE_ARGUMENT_MEMORY && argument->given->data)
        use->range = range_of_memory(argument->given);
    else
        return false;
    use->writes = writes(launching, at);
    return true;
}

/* ---- messages ---- */

#define WHAT 400

static const char *describe(const struct sl_argument *argument, char text[WHAT])
{
    const struct sluice_frame *frame = argument->given->data;
    const struct sluice_array *array = argument->array;

    if (argument->channel && frame->sequence > 0)
        snprintf(text, WHAT, "'%s' of frame %" PRIu64 " of '%s'", array->name, frame->sequence, argument->channel);
    else if (argument->channel)
        snprintf(text, WHAT, "'%s' of the next frame of '%s'", array->name, argument->channel);
    else if (array && array->name[0])
        snprintf(text, WHAT, "'%.*s'", SLUICE_ARRAY_NAME, array->name);
    else
        snprintf(text, WHAT, "the memory at %p", array ? array->data : argument->given->data);
    return text;
}

static int refuse(const char *kernel, bool does_write, const char *what, uint64_t stream,
                  const struct sl_conflict *conflict)
{
    return sl_fail(SLUICE_E_ORDER,
                   "kernel '%s' %s %s on stream 0x%" PRIx64 ", while %s on stream 0x%" PRIx64
                   ": nothing orders them. Record an event on 0x%" PRIx64 " and let 0x%" PRIx64 " wait for it",
                   kernel, does_write ? "writes" : "reads", what, stream, conflict->earlier, conflict->stream,
                   conflict->stream, stream);
}

/* ---- launches ---- */

int sl_check_launch(const struct sl_launching *launching, uint64_t *number)
{
    struct sl_use uses[SLUICE_MAX_PARAMETERS];
    uint32_t arguments[SLUICE_MAX_PARAMETERS], count = 0;
    char earlier[SL_HISTORY_TEXT], what[WHAT];
    struct sl_conflict conflict = { .earlier = earlier };
    struct sl_place place;

    *number = 0;
    sl_order_place(launching->stream, &place);
    if (place.captures)
        return 0;
    for (uint32_t i = 0; i < launching->call.count; i++)
        if (find_use(launching, i, &uses[count]))
            arguments[count++] = i;
    if (sl_history_add(&place, launching->kernel->name, uses, count, number, &conflict))
        return 0;
    return refuse(launching->kernel->name, uses[conflict.use].writes,
                  describe(&launching->arguments[arguments[conflict.use]], what), place.stream, &conflict);
}

void sl_check_launched(const struct sl_launching *launching, uint64_t number, int result)
{
    if (result != 0 && number != 0)
        sl_history_undo(number);
    else if (result == 0 && launching->any_host && !sl_kernel_kind(launching->kernel->object.device)->is_pinned)
        sl_stream_add_host_wait(sl_object_id(&launching->stream->object));
}

/* ---- conversions ---- */

int sl_check_convert(struct sl_stream *stream, const struct sluice_array *to, const struct sluice_array *from,
                     uint64_t *number)
{
    const struct sluice_array *arrays[] = { from, to };
    const struct sl_use uses[] = { { range_of_array(from), false }, { range_of_array(to), true } };
    char earlier[SL_HISTORY_TEXT], what[WHAT];
    struct sl_conflict conflict = { .earlier = earlier };
    struct sl_place place;

    *number = 0;
    sl_order_place(stream, &place);
    if (place.captures || sl_history_add(&place, "sluice_convert", uses, 2, number, &conflict))
        return 0;
    const struct sl_argument argument = { .given = &(struct sluice_argument){ .kind = SLUICE_ARGUMENT_ARRAY },
                                          .array = arrays[conflict.use] };
    return refuse("sluice_convert", uses[conflict.use].writes, describe(&argument, what), place.stream, &conflict);
}

void sl_check_converted(uint64_t number, int result)
{
    if (result != 0 && number != 0)
        sl_history_undo(number);
}
