/* SPDX-License-Identifier: MIT
 *
 * tools/common/json.c: its output is valid JSON for any text.
 */
#include "harness/test.h"

#include <math.h>
#include <stdlib.h>

#include "tools/common/json.h"

static char *text;
static size_t size;

static struct json *start(void)
{
    static struct json json;
    FILE *out = open_memstream(&text, &size);
    json_begin(&json, out, true);
    return &json;
}

static void expect(struct json *json, const char *wanted)
{
    fclose(json->out);
    CHECK_STR(text, wanted);
    free(text);
}

TEST(json_escapes_strings)
{
    struct json *json = start();
    json_string(json, "a\"b\\c\n\x01\x7f/");
    expect(json, "\"a\\\"b\\\\c\\u000a\\u0001\\u007f/\"");
}

TEST(json_keeps_utf8_and_replaces_what_is_none)
{
    struct json *json = start();
    json_array(json);
    json_string(json, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xa5"); /* two, three and four bytes */
    json_string(json, "\xff|\xc0\xaf|\xed\xa0\x80|\xe2\x82");  /* none, overlong, surrogate, cut */
    json_close_array(json);
    expect(json, "[\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x8e\xa5\", "
                 "\"\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\"]");
}

TEST(json_separates_values)
{
    struct json *json = start();
    json_object(json);
    json_pair_uint(json, "a", UINT64_MAX);
    json_pair_int(json, "b", INT64_MIN);
    json_key(json, "c");
    json_array(json);
    json_close_array(json);
    json_pair_bool(json, "d", false);
    json_pair_string(json, "e", NULL);
    json_key(json, "f");
    json_array(json);
    json_double(json, 0.5);
    json_double(json, (double)NAN);
    json_close_array(json);
    json_close(json);
    expect(json, "{\"a\": 18446744073709551615, \"b\": -9223372036854775808, \"c\": [], "
                 "\"d\": false, \"e\": null, \"f\": [0.5, null]}");
}
