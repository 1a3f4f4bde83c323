/* SPDX-License-Identifier: MIT
 *
 * Sluice's own channels as a backend.
 */
#include "native/reader/reader.h"
#include "native/registry.h"
#include "native/writer/writer.h"

extern const struct sl_channel_ops sl_channel_native;
const struct sl_channel_ops sl_channel_native = {
    .scheme = "sluice",
    .counts_readers = true,
    .writer_bytes = sizeof(struct sl_writer),
    .reader_bytes = sizeof(struct sl_reader),
    .check_name = sl_native_check_name,
    .info = sl_native_info,
    .registry_folder = sl_registry_folder,
    .registry_list = sl_registry_list,
    .registry_watch = sl_registry_watch,
    .registry_watch_again = sl_registry_watch_again,
    .writer_open = sl_native_writer_open,
    .begin = sl_native_begin,
    .wait = sl_native_wait,
    .commit = sl_native_commit,
    .cancel = sl_native_cancel,
    .send = sl_native_send,
    .reformat = sl_native_reformat,
    .writer_format = sl_native_writer_format,
    .writer_stats = sl_native_writer_stats,
    .writer_pin = sl_native_writer_pin,
    .writer_view = sl_native_writer_view,
    .reader_open = sl_native_reader_open,
    .acquire = sl_native_acquire,
    .release = sl_native_release,
    .check = sl_native_check,
    .reader_format = sl_native_reader_format,
    .reader_device = sl_native_reader_device,
    .reader_fd = sl_native_reader_fd,
    .reader_stats = sl_native_reader_stats,
    .reader_stop = sl_native_reader_stop,
    .reader_stopped = sl_native_reader_stopped,
    .reader_pin = sl_native_reader_pin,
    .reader_view = sl_native_reader_view,
};
