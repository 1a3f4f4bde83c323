/* SPDX-License-Identifier: MIT
 *
 * What tests of cuda-link's channels share: unique names, and frames of float32 or uint8 whose words all hold the same
 * number.
 */
#ifndef GPU_CIPD_KIT_H
#define GPU_CIPD_KIT_H

#include "gpu/channel.h"

#define CIPD_WIDTH  256
#define CIPD_HEIGHT 128

extern const struct sluice_dtype cipd_uint8, cipd_float32;

/* The name for this test and its roles, the same on each call in a process. A role gets its test's name as an argument,
 * and sets it by cipd_set_name. */
const char *cipd_name(void);
void cipd_set_name(const char *name); /* in a role */
void cipd_clean(void); /* removes what killed processes have left under such names; in the test, when all have ended */
void cipd_clean_after(pid_t pid); /* of a process with names of its own, which has ended */
const char *cipd_barrier(void);   /* a private one, so that tests do not hold back each other's frames */

struct sluice_format cipd_format(struct sluice_dtype dtype, uint32_t width, uint32_t height);
uint64_t cipd_words(const struct sluice_format *format);

/* Parameters with the name and the barrier; `cipd` must live as long as they do. */
struct sluice_writer_params cipd_writer_params(struct sluice_cipd_writer_params *cipd,
                                               const struct sluice_format *format);
struct sluice_reader_params cipd_reader_params(struct sluice_cipd_reader_params *cipd);

sluice_writer *cipd_writer(const struct sluice_format *format);
sluice_reader *cipd_reader(void);

struct sluice_cipd_info cipd_info_of_writer(sluice_writer *writer);
struct sluice_cipd_info cipd_info_of_reader(sluice_reader *reader);

/* Removes the half of the segment that only Sluice's writers have (docs/cuda-link-wire.md): to a reader it is another
 * program's then. */
void cipd_disguise(void);

/* A session of another program: one version more, with the same handles or with others. */
void cipd_begin_as_another(bool same_handles);

/* The bytes of the segment with that name. */
#define CIPD_SEGMENT 4096
void cipd_load_segment(unsigned char bytes[CIPD_SEGMENT]);

/* A frame of another program. */
void cipd_publish_as_another(uint32_t index);

/* Other metadata, as another program's writer stores it: frames of four bytes a pixel. */
void cipd_announce(uint32_t slots, uint32_t width, uint32_t height);

/* Sets only the flag by which the writer, which has `slots` slots, says that it has closed. */
void cipd_raise_flag(uint32_t slots);

/* A frame in the program's own memory. */
struct sluice_array cipd_array(uint64_t memory, const struct sluice_format *format);

/* Fills the program's memory with `value` on the stream, and sends it after that. */
int cipd_send(sluice_writer *writer, const struct sluice_array *array, struct sluice_stream stream, uint32_t value,
              struct sluice_ticket *ticket);

/* The writer's side on a GPU that has run kernels, before the writer is opened. */
struct cipd_side {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_format format; /* float32 */
    struct sluice_array array;   /* a frame in the program's memory */
    sluice_writer *writer;
};
struct cipd_side cipd_begin(void);
void cipd_end(struct cipd_side *side);                               /* closes the writer, too */
void cipd_end_reader(struct cipd_side *side, sluice_reader *reader); /* and this reader */

/* Takes the next frame, which must hold `value`. */
void cipd_take(sluice_reader *reader, struct cipd_side *side, uint32_t value, struct sluice_frame *frame);
void cipd_take_and_release(sluice_reader *reader, struct cipd_side *side, uint32_t value);

/* In a role whose arguments are the channel and its slots: opens the writer, and says so. */
struct cipd_side cipd_writer_role(int argc, char **argv);

/* A writer in a process of its own, with `slots` slots, on its "cuda:0". A number sends a frame with that number,
 * "shut" closes, "begin" begins a frame and leaves it, "again" begins another session in the same segment, "slots" one
 * with one slot more in another segment. */
struct child cipd_start_writer(const char *slots);
void cipd_command(struct child *child, const char *line);

/* A reader in a process of its own, until the frame with the number `last`. It prints each frame's number after
 * checking all of it. */
struct child cipd_start_reader(const char *last);
void cipd_expect(struct child *child, uint32_t number);

/* Sends `frames` frames, each checked by such a reader before the next one. */
void cipd_send_to_another(struct cipd_side *side, uint32_t frames);

/* The number that all words of the frame hold; a kernel checks each of them. A torn frame fails the test. */
uint32_t cipd_value(const struct sluice_frame *frame, struct sl_cu_stream *stream);

#endif
