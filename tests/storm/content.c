/* SPDX-License-Identifier: MIT */
#include "storm/content.h"

#include <stdio.h>
#include <string.h>

#include "harness/test.h"

#define WORDS (ROW_BYTES / 8)

static uint32_t rows_of(const struct label *label)
{
    uint64_t mixed = (label->sequence * 0x9E3779B97F4A7C15u) ^ label->session;
    return 1 + (uint32_t)((mixed >> 32) % label->rows);
}

static const struct {
    struct sluice_dtype dtype;
    int64_t columns;
} kinds[] = {
    { { SLUICE_UINT, 64, 1 }, WORDS },
    { { SLUICE_UINT, 8, 1 }, ROW_BYTES },
    { { SLUICE_FLOAT, 32, 1 }, ROW_BYTES / 4 },
};
#define KINDS (sizeof kinds / sizeof kinds[0])

void content_format(struct sluice_format *format, unsigned kind, uint32_t rows)
{
    int64_t shape[2] = { rows, kinds[kind % KINDS].columns }, tag = TAG_WORDS;
    struct sluice_dtype word = { SLUICE_UINT, 64, 1 };

    *format = (struct sluice_format)SLUICE_FORMAT_INIT;
    CHECK_OK(sluice_format_add_tensor(format, "data", kinds[kind % KINDS].dtype, 2, shape));
    CHECK_OK(sluice_format_add_tensor(format, "tag", word, 1, &tag));
}

uint32_t content_fill_rows(void *rows, uint64_t tag[8], const struct label *label)
{
    uint32_t count = rows_of(label);

    for (uint32_t r = 0; r < count; r++) {
        volatile uint64_t *row = (uint64_t *)rows + (size_t)r * WORDS;
        row[0] = label->sequence;
        row[1] = label->session;
        row[2] = label->dropped;
        row[3] = label->rows;
        row[4] = r;
        row[WORDS / 2] = label->sequence;
        row[WORDS - 1] = label->sequence;
    }
    for (int i = 0; i < TAG_WORDS; i++)
        tag[i] = label->sequence + (uint64_t)i;
    return count;
}

static uint32_t meta_size(uint64_t sequence)
{
    return 16 + (uint32_t)(sequence % 200);
}

void content_find(const struct sluice_frame *frame, struct content *content)
{
    struct sluice_array data, tag;

    *content = (struct content){ .wrong = sluice_frame_array(frame, "data", &data) != 0 ||
                                          sluice_frame_array(frame, "tag", &tag) != 0 };
    if (content->wrong)
        return;
    content->rows = data.data;
    content->tag = tag.data;
    content->bytes = data.nbytes;
    if (data.ndim == 2)
        memcpy(content->shape, data.shape, sizeof content->shape);
}

void content_shape(struct sluice_frame *frame, const struct label *label, bool meta, struct content *content)
{
    struct sluice_array data;

    CHECK_OK(sluice_frame_array(frame, "data", &data));
    int64_t shape[2] = { rows_of(label), data.shape[1] };
    CHECK_OK(sluice_frame_reshape(frame, "data", 2, shape));
    content_find(frame, content);
    CHECK(!content->wrong);
    if (!meta)
        return;
    uint64_t words[2] = { label->sequence, label->session };
    memcpy(frame->meta, words, sizeof words);
    frame->meta_size = meta_size(label->sequence);
    memset((char *)frame->meta + 16, (int)(label->sequence & 0xff), frame->meta_size - 16);
}

static bool wrong(char *why, unsigned size, const char *what, uint64_t row, uint64_t is, uint64_t should)
{
    snprintf(why, size, "%s in row %llu is %llu, not %llu", what, (unsigned long long)row, (unsigned long long)is,
             (unsigned long long)should);
    return false;
}

bool content_check(const struct sluice_frame *frame, const struct content *content, struct label *label, char *why,
                   unsigned size)
{
    const volatile uint64_t *row = content->rows, *tag = content->tag;

    if (content->wrong) {
        snprintf(why, size, "%s", sluice_last_error());
        return false;
    }
    *label =
        (struct label){ .sequence = frame->sequence, .session = frame->session, .dropped = row[2], .rows = row[3] };
    if (label->rows < 1 || label->rows > MAX_ROWS)
        return wrong(why, size, "the capacity", 0, label->rows, MAX_ROWS);
    if (content->shape[0] != (int64_t)rows_of(label) || content->bytes != rows_of(label) * UINT64_C(4096))
        return wrong(why, size, "the shape", 0, (uint64_t)content->shape[0], rows_of(label));
    for (int64_t r = 0; r < content->shape[0]; r++, row += WORDS) {
        uint64_t n = (uint64_t)r;
        if (row[0] != label->sequence)
            return wrong(why, size, "the sequence", n, row[0], label->sequence);
        if (row[1] != label->session)
            return wrong(why, size, "the session", n, row[1], label->session);
        if (row[2] != label->dropped || row[3] != label->rows || row[4] != n)
            return wrong(why, size, "the label", n, row[2] | row[3] << 32, label->dropped);
        if (row[WORDS / 2] != label->sequence)
            return wrong(why, size, "the middle", n, row[WORDS / 2], label->sequence);
        if (row[WORDS - 1] != label->sequence)
            return wrong(why, size, "the end", n, row[WORDS - 1], label->sequence);
    }
    for (int i = 0; i < TAG_WORDS; i++)
        if (tag[i] != label->sequence + (uint64_t)i)
            return wrong(why, size, "the tag", (uint64_t)i, tag[i], label->sequence + (uint64_t)i);
    return true;
}

bool content_check_meta(const struct sluice_frame *frame, bool inherited)
{
    uint64_t words[2];
    const unsigned char *bytes = frame->meta;

    if (frame->meta_size < 16)
        return false;
    memcpy(words, bytes, sizeof words);
    if (!inherited && (words[0] != frame->sequence || words[1] != frame->session))
        return false;
    if (frame->meta_size != meta_size(words[0]))
        return false;
    for (uint32_t i = 16; i < frame->meta_size; i++)
        if (bytes[i] != (words[0] & 0xff))
            return false;
    return true;
}
