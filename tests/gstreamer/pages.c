/* SPDX-License-Identifier: MIT
 *
 * What docs/gstreamer.md and docs/from-gstreamer-shm.md say: their pipelines can be made, and all properties are there.
 */
#include <gst/gst.h>
#include <string.h>

#include "gstreamer/kit.h"

/* ROLE: parses descriptions, a line each: "fine", "missing ...", "wrong ...". */
ROLE(parse)
{
    char *line;
    (void)argc;
    (void)argv;

    gst_init(NULL, NULL);
    while ((line = role_line())) {
        GError *error = NULL;
        GstElement *pipeline = gst_parse_launch_full(line, NULL, GST_PARSE_FLAG_FATAL_ERRORS, &error);
        if (pipeline)
            role_say("fine");
        else
            role_say("%s %s", error->code == GST_PARSE_ERROR_NO_SUCH_ELEMENT ? "missing" : "wrong", error->message);
        g_clear_error(&error);
        if (pipeline)
            gst_object_unref(gst_object_ref_sink(pipeline));
    }
    return 0;
}

/* As a shell does, which needs quotes for brackets. */
static void drop_quotes(char *text)
{
    char *to = text;

    for (; *text; text++)
        if (*text != '\'')
            *to++ = *text;
    *to = '\0';
}

static int check_page(const char *name)
{
    struct child parser = role_start("parse", NULL);
    FILE *page = page_open(name);
    char line[2048];
    int count = 0;

    while (page_command(page, "", line)) {
        char *start = line + 15, *pipe = strstr(line, " | ");
        if (pipe)
            *pipe = '\0';
        while (*start == '-')
            start = strchr(start, ' ') + 1;
        drop_quotes(start);
        child_send(&parser, start);
        const char *answer = child_line(&parser, 60);
        if (strncmp(answer, "wrong", 5) == 0)
            FAIL("%s: %s", start, answer);
        count++;
    }
    fclose(page);
    role_stop(&parser);
    return count;
}

TEST(pipelines_of_the_pages_are_right)
{
    test_dir();
    gstreamer_environment();
    CHECK_GE(check_page("gstreamer.md"), 8);
    CHECK_GE(check_page("from-gstreamer-shm.md"), 2);
}

/* ROLE: says "NAME TEXT" of each property of an element's own, the text being what gst-inspect-1.0 shows. */
ROLE(properties)
{
    guint count;
    (void)argc;

    gst_init(NULL, NULL);
    GstElement *element = gst_element_factory_make(argv[1], NULL);
    GParamSpec **specs = g_object_class_list_properties(G_OBJECT_GET_CLASS(element), &count);
    for (guint i = 0; i < count; i++)
        if (specs[i]->owner_type == G_OBJECT_TYPE(element))
            role_say("%s %s", specs[i]->name, g_param_spec_get_blurb(specs[i]));
    g_free(specs);
    gst_object_unref(gst_object_ref_sink(element));
    return 0;
}

TEST(properties_are_documented)
{
    static const char *const elements[] = { "sluicesrc", "sluicesink" };
    char text[32768], row[128];
    const char *line;

    test_dir();
    gstreamer_environment();
    FILE *page = page_open("gstreamer.md");
    text[fread(text, 1, sizeof text - 1, page)] = '\0';
    fclose(page);
    for (int i = 0; i < 2; i++) {
        struct child child = role_start("properties", elements[i], NULL);
        int count = 0;
        for (; (line = child_line(&child, 60)); count++) {
            snprintf(row, sizeof row, "| `%.*s` |", (int)strcspn(line, " "), line);
            CHECK_HAS(text, row);
            CHECK_GE(strlen(line), strcspn(line, " ") + 10);
        }
        CHECK_GE(count, 6);
        CHECK_EQ(child_wait(&child, 60), 0);
    }
}
