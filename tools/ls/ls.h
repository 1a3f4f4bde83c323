/* SPDX-License-Identifier: MIT
 *
 * sluice ls: the list of channels of cuda-link's protocol.
 */
#ifndef TOOLS_LS_H
#define TOOLS_LS_H

#include <stdbool.h>
#include <stddef.h>

#include <sluice/sluice.h>

#include "../common/json.h"

struct cipd_rows {
    struct cipd_row {
        struct sluice_cipd_info info;
        int result; /* of reading its segment */
        char reason[160];
        int64_t read_ns; /* when it was read */
        double rate;     /* frames per second; negative: not measured */
    } * list;
    size_t count;
    int result; /* of listing the segments */
    char reason[160];
};

/* Lists all channels, sorted by name; the caller frees the list. */
void ls_cipd_list(struct cipd_rows *rows);
void ls_cipd_set_rates(struct cipd_rows *rows, const struct cipd_rows *before);

/* Print a separate table (nothing if there are no channels), and the key "cuda_link" of a JSON object. `all` includes
 * channels that are shut. */
void ls_cipd_print(const struct cipd_rows *rows, bool all, bool rate);
void ls_cipd_print_json(struct json *json, const struct cipd_rows *rows, bool all);

#endif
