/* SPDX-License-Identifier: MIT
 *
 * Writes JSON (RFC 8259), indented by two spaces.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    unsigned depth;
    bool compact; /* one line */
    bool after_key;
    bool filled[16]; /* the object or array at this depth is not empty */
};

void json_begin(struct json *json, FILE *out, bool compact);
void json_end(struct json *json); /* the closing newline */

void json_object(struct json *json); /* '{' ... json_close */
void json_array(struct json *json);  /* '[' ... json_close_array */
void json_close(struct json *json);
void json_close_array(struct json *json);

void json_key(struct json *json, const char *key);
/* Bytes that are not UTF-8 become U+FFFD. NULL is null. */
void json_string(struct json *json, const char *text);
void json_int(struct json *json, int64_t value);
void json_uint(struct json *json, uint64_t value);
void json_double(struct json *json, double value); /* NaN and infinity are null */
void json_bool(struct json *json, bool value);
void json_null(struct json *json);

/* Key and value at once. */
void json_pair_string(struct json *json, const char *key, const char *text);
void json_pair_int(struct json *json, const char *key, int64_t value);
void json_pair_uint(struct json *json, const char *key, uint64_t value);
void json_pair_double(struct json *json, const char *key, double value);
void json_pair_bool(struct json *json, const char *key, bool value);

#endif
