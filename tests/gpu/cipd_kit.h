/* SPDX-License-Identifier: MIT
 *
 * What tests of channels of cuda-link's protocol share: names that no other test has, frames of float32 or uint8 whose
 * words all say the same number.
 */
#ifndef GPU_CIPD_KIT_H
#define GPU_CIPD_KIT_H

#include "gpu/channel.h"

#define CIPD_WIDTH 256
#define CIPD_HEIGHT 128

extern const struct sluice_dtype cipd_uint8, cipd_float32;

/* Of this test and its roles: the same on each call in a process. A role gets its test's as an argument, and says so. */
const char *cipd_name(void);
void cipd_call(const char *name); /* in a role */
void cipd_clean(void); /* removes what killed processes have left under such names; in the test, when all have ended */
void cipd_clean_after(pid_t pid); /* of a process with names of its own, which has ended */
const char *cipd_barrier(void);   /* a private one, so that tests keep nobody else's frames back */

struct sluice_format cipd_format(struct sluice_dtype dtype, uint32_t width, uint32_t height);
uint64_t cipd_words(const struct sluice_format *format);

/* Parameters with the name and the barrier; `cipd` must live as long as they do. */
struct sluice_writer_params cipd_writer_params(struct sluice_cipd_writer_params *cipd, const struct sluice_format *format);
struct sluice_reader_params cipd_reader_params(struct sluice_cipd_reader_params *cipd);

sluice_writer *cipd_writer(const struct sluice_format *format);
sluice_reader *cipd_reader(void);

struct sluice_cipd_info cipd_info_of_writer(sluice_writer *writer);
struct sluice_cipd_info cipd_info_of_reader(sluice_reader *reader);

/* The segment's half that only Sluice's writers have goes (docs/cuda-link-wire.md): it is another program's then, as far as a
 * reader knows. */
void cipd_disguise(void);

/* A session of another program's: one version more, with the same handles or with others. */
void cipd_begin_as_another(bool same_handles);

/* The bytes of the segment that has the name. */
#define CIPD_SEGMENT 4096
void cipd_load_segment(unsigned char bytes[CIPD_SEGMENT]);

/* A frame of another program's. */
void cipd_publish_as_another(uint32_t index);

/* Other metadata, as another program's writer stores it: frames of four bytes a pixel. */
void cipd_announce(uint32_t slots, uint32_t width, uint32_t height);

/* Says that the writer, which has so many slots, has closed; no more than that. */
void cipd_raise_flag(uint32_t slots);

/* A program's own frame. */
struct sluice_array cipd_array(uint64_t memory, const struct sluice_format *format);

/* Fills the program's memory with `value` on the stream, and sends it behind that. */
int cipd_send(sluice_writer *writer, const struct sluice_array *array, struct sluice_stream stream, uint32_t value,
              struct sluice_ticket *ticket);

/* A writer's side, on a GPU that is awake, without the writer. */
struct cipd_side {
    struct sluice_device device;
    struct sluice_stream stream;
    struct sluice_format format; /* float32 */
    struct sluice_array array;   /* a frame of the program's */
    sluice_writer *writer;
};
struct cipd_side cipd_begin(void);
void cipd_end(struct cipd_side *side); /* closes the writer, too */
void cipd_end_reader(struct cipd_side *side, sluice_reader *reader); /* and this reader */

/* The next frame, of that number. */
void cipd_take(sluice_reader *reader, struct cipd_side *side, uint32_t value, struct sluice_frame *frame);
void cipd_take_and_release(sluice_reader *reader, struct cipd_side *side, uint32_t value);

/* In a role whose arguments are the channel and its slots: the writer is open, and said so. */
struct cipd_side cipd_writer_role(int argc, char **argv);

/* A writer in a process of its own, with so many slots, on its "cuda:0". A number that it is told is sent in a frame of that
 * number, "shut" closes, "begin" begins a frame and leaves it, "again" begins another session in the same segment, "slots" one of
 * one slot more in another. */
struct child cipd_start_writer(const char *slots);
void cipd_tell(struct child *child, const char *line);

/* A reader in a process of its own, until the frame of the number `last`. It says each frame's number once it has looked at all of
 * it. */
struct child cipd_start_reader(const char *last);
void cipd_expect(struct child *child, uint32_t number);

/* So many frames by turns, each looked at by such a reader before the next. */
void cipd_send_to_another(struct cipd_side *side, uint32_t frames);

/* The number that all words of the frame say; looks at each of them. A torn frame fails the test. */
uint32_t cipd_value(const struct sluice_frame *frame, struct sl_cu_stream *stream);

#endif
