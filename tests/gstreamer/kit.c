/* SPDX-License-Identifier: MIT
 *
 * Pipelines as processes of their own, and pictures whose bytes are known.
 */
#include "gstreamer/kit.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gstreamer/hash.h"

#define PATIENCE 60

/* ---- pipelines ---- */

void gstreamer_environment(void)
{
    setenv("GST_PLUGIN_PATH", PLUGIN_FOLDER, 1);
    const char *name = getenv("SLUICE_CUDA_DRIVER") ? "registry-gpu.bin" : "registry.bin"; /* elements depend on it */
    char registry[4096];
    snprintf(registry, sizeof registry, "%s/../tests/gstreamer/%s", PLUGIN_FOLDER, name);
    setenv("GST_REGISTRY", registry, 1);
    setenv("GST_REGISTRY_FORK", "no", 1);
    setenv("GST_TRACERS", "leaks", 1);
    setenv("GST_DEBUG", "GST_TRACER:7", 1);
    setenv("GST_DEBUG_FILE", in_dir("tracer"), 1);
    setenv("GST_DEBUG_NO_COLOR", "1", 1);
}

struct child pipeline_start(const char *format, ...)
{
    char text[2048];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    test_dir();
    gstreamer_environment();
    struct child pipeline = role_start_at("pipeline.c", "pipeline", text, NULL);
    const char *line = child_line(&pipeline, PATIENCE);
    if (line && strncmp(line, "missing ", 8) == 0)
        FAIL("%s", line);
    CHECK_STR(line, "runs");
    return pipeline;
}

const char *pipeline_says(struct child *pipeline, const char *word)
{
    size_t size = strlen(word);

    for (;;) {
        const char *line = child_line(pipeline, PATIENCE);
        if (!line)
            FAIL("the pipeline ended, and did not say '%s'", word);
        if (strncmp(line, word, size) == 0 && (line[size] == ' ' || line[size] == '\0'))
            return line[size] ? line + size + 1 : "";
        if (strncmp(line, "error ", 6) == 0 || strcmp(line, "eos") == 0)
            FAIL("the pipeline says '%s', not '%s'", line, word);
    }
}

uint64_t pipeline_stat(struct child *pipeline, const char *element, const char *name)
{
    char question[64], key[64];

    snprintf(question, sizeof question, "stats %s", element);
    snprintf(key, sizeof key, " %s=(", name);
    child_send(pipeline, question);
    const char *text = pipeline_says(pipeline, "stats"), *at = strstr(text, key);
    if (!at)
        FAIL("no '%s' in '%s'", name, text);
    return strtoull(strchr(at, ')') + 1, NULL, 10);
}

void pipeline_cycle(struct child *pipeline, long times)
{
    char line[32];

    snprintf(line, sizeof line, "cycle %ld", times);
    child_send(pipeline, line);
    pipeline_says(pipeline, "cycled");
}

void pipeline_stop(struct child *pipeline)
{
    char text[256] = "";

    close(pipeline->in);
    pipeline->in = -1;
    while (child_line(pipeline, PATIENCE)) /* so that it can write */
        ;
    CHECK_EQ(child_wait(pipeline, PATIENCE), 0);
    FILE *tracer = fopen(in_dir("tracer"), "r");
    while (tracer && fgets(text, sizeof text, tracer))
        if (strstr(text, "object-alive, type-name=(string)Gst"))
            FAIL("leaked: %s", text);
    if (tracer)
        fclose(tracer);
}

void need_element(const char *name)
{
    test_dir();
    gstreamer_environment();
    struct child child = role_start_at("pipeline.c", "element", name, NULL);
    bool there = strcmp(child_line(&child, PATIENCE), "yes") == 0;

    CHECK_EQ(child_wait(&child, PATIENCE), 0);
    if (!there)
        SKIP("GStreamer has no element %s here", name);
}

const char *in_dir(const char *name)
{
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", test_dir(), name);
    return path;
}

/* ---- pages ---- */

FILE *page_open(const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", PAGES, name);
    FILE *page = fopen(path, "r");
    CHECK(page != NULL);
    return page;
}

char *page_command(FILE *page, const char *part, char line[2048])
{
    while (fgets(line, 2048, page))
        if (strncmp(line, "gst-launch-1.0 ", 15) == 0 && strstr(line, part)) {
            line[strcspn(line, "\n")] = '\0';
            return line;
        }
    return NULL;
}

void page_line(const char *part, char line[2048])
{
    FILE *page = page_open("gstreamer.md");
    bool found = false;

    while (!found && fgets(line, 2048, page))
        found = strstr(line, part) != NULL;
    CHECK(found);
    line[strcspn(line, "\n")] = '\0';
    fclose(page);
}

/* ---- pictures ---- */

sluice_writer *image_writer(const char *channel, uint32_t pixel_format, uint32_t width, uint32_t height,
                            uint32_t pitch_align)
{
    struct sluice_format format = SLUICE_FORMAT_INIT;
    struct sluice_writer_params params = SLUICE_WRITER_PARAMS_INIT;
    sluice_writer *writer;

    test_dir();
    format.pitch_align = pitch_align;
    CHECK_GE(sluice_format_add_image(&format, "image", (enum sluice_pixel_format)pixel_format, width, height), 0);
    params.name = channel;
    params.format = &format;
    CHECK_OK(sluice_writer_open(&writer, &params));
    return writer;
}

uint64_t image_commit(sluice_writer *writer, uint32_t number)
{
    struct sluice_frame frame;
    struct sluice_array array;

    CHECK_OK(sluice_writer_begin(writer, 20 * SLUICE_S, &frame));
    CHECK_OK(sluice_frame_array_at(&frame, 0, &array));
    for (uint64_t i = 0; i < array.nbytes; i++)
        ((uint8_t *)array.data)[i] = (uint8_t)(i * 7 + i / 251 + number * 31);
    uint64_t hash = image_hash(&array);
    CHECK_OK(sluice_writer_commit(writer, &frame, SLUICE_ON_CPU));
    return hash;
}

uint64_t image_hash(const struct sluice_array *array)
{
    struct sluice_format tight = SLUICE_FORMAT_INIT;

    CHECK_GE(sluice_format_add_image(&tight, "image", (enum sluice_pixel_format)array->image.pixel_format,
                                     array->image.width, array->image.height),
             0);
    tight.arrays[0].data = malloc(tight.arrays[0].nbytes);
    tight.arrays[0].image.row_order = array->image.row_order;
    CHECK_OK(sluice_array_copy(&tight.arrays[0], array));
    uint64_t hash = hash_bytes(HASH_START, tight.arrays[0].data, tight.arrays[0].nbytes);
    free(tight.arrays[0].data);
    return hash;
}

sluice_reader *image_reader(const char *channel)
{
    struct sluice_reader_params params = SLUICE_READER_PARAMS_INIT;
    sluice_reader *reader;

    test_dir();
    params.name = channel;
    params.mode = SLUICE_IN_ORDER;
    params.open_timeout_ns = SLUICE_LATER;
    CHECK_OK(sluice_reader_open(&reader, &params));
    return reader;
}

uint32_t reader_count(const char *channel)
{
    struct sluice_channel_info info = { .size = sizeof info };

    return sluice_channel_info(channel, 10 * SLUICE_S, &info, NULL, 0) == 0 ? info.readers : UINT32_MAX;
}
