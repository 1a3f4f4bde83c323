/* SPDX-License-Identifier: MIT
 *
 * sluice ls: the part for channels of cuda-link's protocol.
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
        int result; /* of looking at it */
        char reason[160];
        int64_t at_ns; /* when that was */
        double rate;   /* frames a second; negative: not measured */
    } *list;
    size_t count;
    int result; /* of listing them, with its sentence */
    char reason[160];
};

/* All that are there, by name; the caller frees the list. */
void ls_cipd_list(struct cipd_rows *rows);
void ls_cipd_set_rates(struct cipd_rows *rows, const struct cipd_rows *before);

/* A table of its own, nothing if there are none; and the key "cuda_link" of an object. `all`: those that are shut too. */
void ls_cipd_print(const struct cipd_rows *rows, bool all, bool rate);
void ls_cipd_print_json(struct json *json, const struct cipd_rows *rows, bool all);

#endif
