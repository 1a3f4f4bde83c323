/* SPDX-License-Identifier: MIT
 *
 * A small JSON writer.
 */
#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "text.h"

void json_begin(struct json *json, FILE *out, bool compact)
{
    *json = (struct json){ .out = out, .compact = compact };
}

void json_end(struct json *json)
{
    fputc('\n', json->out);
    json->filled[0] = false;
}

static void indent(struct json *json)
{
    if (json->compact)
        return;
    fputc('\n', json->out);
    for (unsigned i = 0; i < json->depth; i++)
        fputs("  ", json->out);
}

/* Writes what precedes a key or a value: a comma, a new line, or nothing. */
static void begin_item(struct json *json)
{
    if (json->after_key) {
        json->after_key = false;
        return;
    }
    if (json->filled[json->depth])
        fputs(json->compact ? ", " : ",", json->out);
    json->filled[json->depth] = true;
    if (json->depth)
        indent(json);
}

static void open_bracket(struct json *json, char bracket)
{
    begin_item(json);
    fputc(bracket, json->out);
    json->depth++;
    json->filled[json->depth] = false;
}

static void close_bracket(struct json *json, char bracket)
{
    bool filled = json->filled[json->depth];
    json->depth--;
    if (filled)
        indent(json);
    fputc(bracket, json->out);
}

void json_object(struct json *json)
{
    open_bracket(json, '{');
}

void json_array(struct json *json)
{
    open_bracket(json, '[');
}

void json_close(struct json *json)
{
    close_bracket(json, '}');
}

void json_close_array(struct json *json)
{
    close_bracket(json, ']');
}

static void write_quoted(struct json *json, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    fputc('"', json->out);
    while (*s) {
        size_t n = text_character((const char *)s);
        if (n == 0) {
            fputs("\\ufffd", json->out);
            n = 1;
        } else if (*s == '"' || *s == '\\') {
            fprintf(json->out, "\\%c", *s);
        } else if (*s < 0x20 || *s == 0x7F) {
            fprintf(json->out, "\\u%04x", *s);
        } else {
            fwrite(s, 1, n, json->out);
        }
        s += n;
    }
    fputc('"', json->out);
}

void json_key(struct json *json, const char *key)
{
    begin_item(json);
    write_quoted(json, key);
    fputs(": ", json->out);
    json->after_key = true;
}

void json_string(struct json *json, const char *text)
{
    if (!text) {
        json_null(json);
        return;
    }
    begin_item(json);
    write_quoted(json, text);
}

void json_int(struct json *json, int64_t value)
{
    begin_item(json);
    fprintf(json->out, "%" PRId64, value);
}

void json_uint(struct json *json, uint64_t value)
{
    begin_item(json);
    fprintf(json->out, "%" PRIu64, value);
}

void json_double(struct json *json, double value)
{
    if (!isfinite(value)) {
        json_null(json);
        return;
    }
    begin_item(json);
    fprintf(json->out, "%.6g", value);
}

void json_bool(struct json *json, bool value)
{
    begin_item(json);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json)
{
    begin_item(json);
    fputs("null", json->out);
}

void json_pair_string(struct json *json, const char *key, const char *text)
{
    json_key(json, key);
    json_string(json, text);
}

void json_pair_int(struct json *json, const char *key, int64_t value)
{
    json_key(json, key);
    json_int(json, value);
}

void json_pair_uint(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_uint(json, value);
}

void json_pair_double(struct json *json, const char *key, double value)
{
    json_key(json, key);
    json_double(json, value);
}

void json_pair_bool(struct json *json, const char *key, bool value)
{
    json_key(json, key);
    json_bool(json, value);
}
