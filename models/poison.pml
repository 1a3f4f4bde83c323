/* poison.pml - a frame in flight when its writer is killed, and readers whose GPUs wait for it.  For Spin 6.5.2.
 *
 * One slot, one committed frame (sequence 1) whose GPU work has not ended; NRD readers whose streams wait for its
 * ready word.  The dead writer's GPU work may yet finish (data whole, then the ready words) until the driver stops it.
 * A stream stuck in the wait is freed by storing POISON in the word that it waits on.
 *
 * What is checked: a reader that calls the frame good has read whole data; no stream stays stuck.
 *
 * RULE  0  at the hang-up, poison the common word if it is below the sequence; that word tells good from lost
 *       1  the same, but only after the writer's GPU work has stopped
 *       2  at the hang-up; a `lost` word, which no GPU writes, is set before the poison and tells
 *       3  each reader has a ready word of its own, which it alone poisons; a private flag, set before, tells
 * Rule 0 must be rejected.  Sluice builds rule 3 for readers that wait ahead on a GPU.
 */
#ifndef RULE
#define RULE 3
#endif
#define NRD    2
#define POISON 9

byte ready;                             /* the common word */
byte lost;                              /* rule 2 */
byte own[NRD];                          /* rule 3: one word in each reader's page */

byte data;                              /* ghost: 0 half written, 1 whole */
bit  hup;                               /* the writer's connection has hung up */
bit  gpustop;                           /* the writer's GPU work can write no more */
byte done;

#if RULE == 3
#define WORD(r) own[r]
#else
#define WORD(r) ready
#endif

/* the writer's process is dead; the work that it queued may end or be cut off */
active proctype writer_gpu() {
    hup = 1;
    if
    :: data = 1;
#if RULE == 3
       own[0] = 1; own[1] = 1;
#endif
       ready = 1
    :: skip
    fi;
    gpustop = 1
}

/* one reader: its GPU's stream, its service thread and its caller, in any order */
proctype reader(byte r) {
    bit gpu_done, svc, mylost;
    byte saw, v;
    do
    :: (!gpu_done && WORD(r) >= 1) -> saw = data; gpu_done = 1          /* GPU: the wait passes, then it reads */
    :: (!svc && hup
#if RULE == 1
        && gpustop
#endif
        ) ->                                                            /* service thread */
        v = WORD(r);
        if
        :: (v < 1) ->
#if RULE == 2
            lost = 1;
#endif
#if RULE == 3
            mylost = 1;
#endif
            WORD(r) = POISON
        :: else
        fi;
        svc = 1
    :: (gpu_done && svc) -> break                                       /* caller: what became of the frame? */
    od;
#if RULE == 0 || RULE == 1
    v = ready;
    assert(v == POISON || saw == 1);
#endif
#if RULE == 2
    v = lost;
    assert(v == 1 || saw == 1);
#endif
#if RULE == 3
    assert(mylost || saw == 1);
#endif
    done++
}

active proctype monitor() { end: timeout; assert(done == NRD) }         /* nobody is stuck */

init { atomic { run reader(0); run reader(1) } }
