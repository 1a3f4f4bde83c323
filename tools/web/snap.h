/* SPDX-License-Identifier: MIT
 *
 * What is made once of a frame: files, and the values of some pixels.
 */
#ifndef TOOLS_WEB_SNAP_H
#define TOOLS_WEB_SNAP_H

#include <stdbool.h>
#include <stdint.h>

#include <microhttpd.h>
#include <sluice/sluice.h>

#include "request.h"

struct web_job {
    const struct web_request *request; /* PNG, NPY or VALUES */
    struct MHD_Connection *connection; /* suspended until it is done */
    int64_t deadline;
    bool done;
    unsigned status; /* of HTTP */
    char problem[160];
    char *bytes; /* the answer, if the status is 200; free it */
    size_t size;
    struct web_job *next;
};

/* Makes it from the arrays of a frame. */
void web_job_run(struct web_job *job, const struct sluice_array *arrays, uint32_t count);

void web_job_fail(struct web_job *job, unsigned status, const char *problem);

#endif
