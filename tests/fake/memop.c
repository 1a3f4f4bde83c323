/* SPDX-License-Identifier: MIT
 *
 * Stream memory operations: 64-bit words that a stream writes, and waits for.
 */
#include "fake/internal.h"

#define MOST 256

/* The work of a driver operation. False if it is not one. */
bool fake_read_operation(const union sl_cu_mem_op *from, int device, struct op *op)
{
    const struct sl_cu_mem_op_value *value = &from->write; /* a wait is of the same shape */
    bool waits = value->operation == SL_CU_MEM_OP_WAIT_64;

    *op = (struct op){ .kind = waits ? OP_HOLD : OP_WRITE,
                       .address = value->address,
                       .value = value->value,
                       .exact = waits && value->flags == SL_CU_WAIT_EQ };
    if (!waits && value->operation != SL_CU_MEM_OP_WRITE_64)
        return false;
    if (value->flags > (waits ? SL_CU_WAIT_EQ : 0))
        return false;
    return value->address % sizeof(uint64_t) == 0 && fake_see(device, value->address, sizeof(uint64_t), !waits);
}

int fake_cuStreamBatchMemOp(struct sl_cu_stream *handle, unsigned count, union sl_cu_mem_op *operations, unsigned flags)
{
    struct op ops[MOST];
    int code;

    pthread_mutex_lock(&fake_lock);
    struct sl_cu_stream *stream = fake_stream(handle, false, &code);
    if (stream && !fake_can(SL_CU_CAN_WRITE_64))
        code = SL_CU_NOT_SUPPORTED;
    else if (stream && (count > MOST || flags))
        code = SL_CU_INVALID_VALUE;
    for (unsigned i = 0; i < count && code == 0; i++)
        if (!fake_read_operation(&operations[i], stream->context->device, &ops[i]))
            code = SL_CU_INVALID_VALUE;
    for (unsigned i = 0; i < count && code == 0; i++)
        code = fake_queue(stream, &ops[i]);
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int fake_cuStreamWriteValue64(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags)
{
    union sl_cu_mem_op one = { .write = { SL_CU_MEM_OP_WRITE_64, address, value, flags, 0 } };

    return fake_cuStreamBatchMemOp(stream, 1, &one, 0);
}

int fake_cuStreamWaitValue64(struct sl_cu_stream *stream, uint64_t address, uint64_t value, unsigned flags)
{
    union sl_cu_mem_op one = { .wait = { SL_CU_MEM_OP_WAIT_64, address, value, flags, 0 } };

    return fake_cuStreamBatchMemOp(stream, 1, &one, 0);
}
