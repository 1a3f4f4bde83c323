/* SPDX-License-Identifier: MIT
 *
 * cuda-link's channels as a backend.
 */
#include "cuda_link/cuda_link.h"

const struct sl_channel_ops sl_channel_cuda_link = {
    .scheme = "cipd",
    .writer_bytes = sizeof(struct sl_cipd_writer),
    .reader_bytes = sizeof(struct sl_cipd_reader),
    .check_name = sl_cipd_check_name,
    .info = sl_cipd_channel_info,
    .writer_open = sl_cipd_writer_open,
    .begin = sl_cipd_begin,
    .wait = sl_cipd_wait,
    .commit = sl_cipd_commit,
    .cancel = sl_cipd_cancel,
    .send = sl_cipd_send,
    .reformat = sl_cipd_reformat,
    .writer_format = sl_cipd_writer_format,
    .writer_stats = sl_cipd_writer_stats,
    .writer_pin = sl_cipd_writer_pin,
    .writer_view = sl_cipd_writer_view,
    .reader_open = sl_cipd_reader_open,
    .acquire = sl_cipd_acquire,
    .release = sl_cipd_release,
    .check = sl_cipd_check,
    .check_fetched = sl_cipd_check,
    .reader_format = sl_cipd_reader_format,
    .reader_device = sl_cipd_reader_device,
    .reader_fd = sl_cipd_reader_fd,
    .reader_stats = sl_cipd_reader_stats,
    .reader_stop = sl_cipd_reader_stop,
    .reader_stopped = sl_cipd_reader_stopped,
    .reader_pin = sl_cipd_reader_pin,
    .reader_view = sl_cipd_reader_view,
};
