/* SPDX-License-Identifier: MIT
 *
 * The shape of a pixel and the place of chroma, in the metadata of frames.
 */
#include "extra.h"

#include <stdio.h>
#include <string.h>

#define MAX_VALUE 32

/* The names are those of sluice_convert's option. */
static const struct place {
    const char *name;
    GstVideoChromaSite site;
} places[] = {
    { "left", GST_VIDEO_CHROMA_SITE_H_COSITED },
    { "centre", GST_VIDEO_CHROMA_SITE_NONE },
    { "top-left", GST_VIDEO_CHROMA_SITE_COSITED },
};

/* ---- reading ---- */

/* The text behind "key":, which somebody else wrote; FALSE if there is none, or a long one. */
static gboolean find_text(const struct sluice_frame *frame, const char *key, char value[MAX_VALUE])
{
    const char *text = frame->meta, *end = text + frame->meta_size;
    gsize length = strlen(key), size = 0;

    if (frame->meta_size == 0 || *text != '{')
        return FALSE;
    const char *at = g_strstr_len(text, frame->meta_size, key);
    if (!at)
        return FALSE;
    for (at += length; at < end && *at == ' ';)
        at++;
    if (at == end || *at++ != '"')
        return FALSE;
    while (at < end && *at != '"' && size < MAX_VALUE - 1)
        value[size++] = *at++;
    value[size] = '\0';
    return at < end && *at == '"';
}

void gst_sluice_extra_read(struct gst_sluice_extra *extra, const struct sluice_frame *frame)
{
    char value[MAX_VALUE];
    gint n, d;

    *extra = (struct gst_sluice_extra){ 1, 1, GST_VIDEO_CHROMA_SITE_UNKNOWN };
    if (find_text(frame, "\"pixel_aspect\":", value) && sscanf(value, "%6d:%6d", &n, &d) == 2 && n > 0 && d > 0) {
        extra->par_n = n;
        extra->par_d = d;
    }
    if (find_text(frame, "\"chroma\":", value))
        for (gsize i = 0; i < G_N_ELEMENTS(places); i++)
            if (strcmp(value, places[i].name) == 0)
                extra->chroma = places[i].site;
}

/* ---- writing ---- */

static const char *place_of(GstVideoChromaSite site)
{
    for (gsize i = 0; i < G_N_ELEMENTS(places); i++)
        if (places[i].site == site)
            return places[i].name;
    return NULL;
}

/* Is there room for `more` bytes, and is what is there an object? How much of it stays, behind its first brace. */
static gboolean can_add(const struct sluice_frame *frame, gsize more, gsize *stays)
{
    const char *meta = frame->meta;
    gsize size = frame->meta_size, first = 1;

    *stays = 0;
    if (size == 0)
        return TRUE;
    while (size > 0 && strchr(" \n", meta[size - 1]))
        size--;
    if (size < 2 || meta[0] != '{' || meta[size - 1] != '}' || size + more > SLUICE_MAX_META)
        return FALSE;
    while (strchr(" \n", meta[first]))
        first++;
    if (first < size - 1)
        *stays = size - 1;
    return TRUE;
}

void gst_sluice_extra_write(struct sluice_frame *frame, const GstVideoInfo *info)
{
    gint par_n = GST_VIDEO_INFO_PAR_N(info), par_d = GST_VIDEO_INFO_PAR_D(info);
    const char *place = GST_VIDEO_INFO_IS_YUV(info) ? place_of(GST_VIDEO_INFO_CHROMA_SITE(info)) : NULL;
    char *meta = frame->meta, text[128] = "", value[MAX_VALUE];
    gsize size = 0, stays;

    if (par_n != par_d && !find_text(frame, "\"pixel_aspect\":", value))
        size += (gsize)snprintf(text, sizeof text, "\"pixel_aspect\":\"%d:%d\",", par_n, par_d);
    if (place && !find_text(frame, "\"chroma\":", value))
        size += (gsize)snprintf(text + size, sizeof text - size, "\"chroma\":\"%s\",", place);
    if (size == 0 || !can_add(frame, size, &stays))
        return;
    if (stays > 0)
        memmove(meta + 1 + size, meta + 1, stays);
    else
        text[size - 1] = '}';
    *meta = '{';
    memcpy(meta + 1, text, size);
    frame->meta_size = (guint32)(1 + size + stays);
}
