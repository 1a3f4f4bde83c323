/* SPDX-License-Identifier: MIT
 *
 * What the doctor's examinations report to.
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

enum finding_state {
    FINDING_WELL,
    FINDING_NOTE, /* something is not there, and channels work without it */
    FINDING_BAD,  /* channels do not work */
};

struct finding {
    const char *topic;
    enum finding_state state;
    char text[256];
    char mend[256];
};

#define FINDINGS_MAX 40
struct report {
    struct finding list[FINDINGS_MAX];
    unsigned count;
};

/* Adds a finding; `mend` may be "". */
void find(struct report *report, const char *topic, enum finding_state state, const char *mend,
          const char *format, ...) __attribute__((format(printf, 5, 6)));

void examine_system(struct report *report);   /* kernel, limits, memory, folder */
void examine_programs(struct report *report); /* ffmpeg and GPU */
void examine_channel(struct report *report);  /* frames there and back */

#endif
