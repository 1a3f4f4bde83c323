/* SPDX-License-Identifier: MIT
 *
 * Words raised by a function that a stream calls: for streams that cannot write words themselves,
 * and for memory that cannot be registered with the driver.
 */
#ifndef SL_SYNC_HOST_FUNC_H
#define SL_SYNC_HOST_FUNC_H

#include "cuda/cuda.h"
#include "sync/sync.h"

struct sl_host_funcs; /* those of some pages; their number grows to the most that were ever in flight at once */

int sl_host_funcs_create(struct sl_host_funcs **host_funcs);

/* Only when no word is to be raised any more, or the context is lost. */
void sl_host_funcs_destroy(struct sl_host_funcs *host_funcs, const struct sl_cuda_context *context);

/* Queues one call for all the words. Inside sl_cuda_enter, on a stream that captures nothing. */
int sl_host_funcs_queue(struct sl_host_funcs *host_funcs, struct sl_cuda_context *context, struct sl_cu_stream *stream,
                        const struct sl_signal *signals, uint32_t count);

#endif
