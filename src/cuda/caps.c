/* SPDX-License-Identifier: MIT
 *
 * What a GPU can do, less what SLUICE_WITHOUT switches off, so that every fallback can be used and
 * tested on a GPU that needs none.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "util/result.h"

static const struct {
    const char *word;
    enum sl_cu_attribute attributes[2];
} switches[] = {
    { "memops", { SL_CU_CAN_WRITE_64, SL_CU_CAN_WAIT_64 } },
    { "vmm", { SL_CU_CAN_MAP_MEMORY, SL_CU_CAN_EXPORT_FD } },
    { "register", { SL_CU_CAN_REGISTER_HOST, SL_CU_CAN_REGISTER_READ_ONLY } },
    { "readonly", { SL_CU_CAN_REGISTER_READ_ONLY, SL_CU_CAN_REGISTER_READ_ONLY } },
    { "ipc", { SL_CU_CAN_SHARE_EVENTS, SL_CU_CAN_SHARE_EVENTS } },
    { "peers", { 0, 0 } },  /* concerns two GPUs (peer.c) */
    { "graphs", { 0, 0 } }, /* a feature of the driver (copy/cuda_graph.c) that it always has */
    { "prompt", { 0, 0 } }, /* a behaviour of the driver (wddm_flush.c): it submits work at once */
};
#define SWITCH_COUNT (sizeof switches / sizeof *switches)

static int read_word(const char *word, size_t length, unsigned *disabled)
{
    for (size_t i = 0; i < SWITCH_COUNT; i++) {
        if (strlen(switches[i].word) == length && strncmp(switches[i].word, word, length) == 0) {
            *disabled |= 1u << i;
            return 0;
        }
    }
    return sl_fail(
        SLUICE_E_INVALID,
        "SLUICE_WITHOUT has \"%.*s\", which is nothing that can be switched off: \"memops\", \"vmm\", "
        "\"register\", \"readonly\", \"ipc\", \"peers\", \"graphs\" and \"prompt\" are, with commas between them",
        (int)(length < 40 ? length : 40), word);
}

int sl_cuda_read_disabled(unsigned *disabled)
{
    const char *word = getenv("SLUICE_WITHOUT");
    int r = 0;

    *disabled = 0;
    while (r == 0 && word && *word) {
        size_t length = strcspn(word, ",");
        if (length)
            r = read_word(word, length, disabled);
        word += length + (word[length] == ',');
    }
    return r;
}

bool sl_cuda_calls_block(void)
{
    const char *text = getenv("CUDA_LAUNCH_BLOCKING");

    return text && *text && strcmp(text, "0") != 0;
}

bool sl_cuda_is_disabled(const struct sl_cuda_context *context, const char *word)
{
    for (size_t i = 0; i < SWITCH_COUNT; i++)
        if (context->disabled & 1u << i && strcmp(switches[i].word, word) == 0)
            return true;
    return false;
}

/* The word that switched it off; NULL if none did. */
static const char *switched_off(const struct sl_cuda_context *context, enum sl_cu_attribute attribute)
{
    for (size_t i = 0; i < SWITCH_COUNT; i++)
        if (context->disabled & 1u << i &&
            (switches[i].attributes[0] == attribute || switches[i].attributes[1] == attribute))
            return switches[i].word;
    return NULL;
}

int sl_cuda_check_cap(struct sl_cuda_context *context, enum sl_cu_attribute attribute, const char *what)
{
    const char *word = switched_off(context, attribute);
    int value = 0;

    if (word)
        return sl_fail(SLUICE_E_UNSUPPORTED, "%s: this process must not %s (SLUICE_WITHOUT has \"%s\")", context->name,
                       what, word);
    int r = sl_cu(context, DeviceGetAttribute, &value, (int)attribute, context->device);
    if (r == 0 && !value)
        r = sl_fail(SLUICE_E_UNSUPPORTED, "%s: this GPU cannot %s (attribute %d)", context->name, what, (int)attribute);
    return r;
}
