/* SPDX-License-Identifier: MIT
 *
 * Texts of other processes as JSON strings: for any bytes, the output is one string of valid UTF-8 without control
 * characters, which reads back as the input.
 */
#include "fuzz.h"

#include "../../tools/common/json.h"

/* The length of a UTF-8 character, by decoding it; 0 if it is invalid. */
static size_t utf8(const unsigned char *s, size_t left)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
    if (n <= 1 || n > left)
        return n == 1;
    uint32_t code = s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        code = code << 6 | (s[i] & 0x3f);
    }
    return code >= least[n] && code < 0x110000 && (code < 0xd800 || code > 0xdfff) ? n : 0;
}

/* Reads the inside of a string; `text` is what was written. */
static void read_back(const unsigned char *s, size_t left, const unsigned char *text)
{
    unsigned code;

    while (left) {
        size_t n = utf8(s, left);
        REQUIRE(n > 0 && *s >= 0x20 && *s != 0x7f && *s != '"');
        if (*s == '\\' && left >= 6 && s[1] == 'u' && sscanf((const char *)s, "\\u%4x", &code) == 1) {
            REQUIRE(code == 0xfffd ? utf8(text, strlen((const char *)text)) == 0 : code == *text);
            s += 6;
            left -= 6;
            text++;
            continue;
        }
        if (*s == '\\') {
            REQUIRE(left >= 2 && (s[1] == '"' || s[1] == '\\'));
            s++;
            left--;
        }
        REQUIRE(memcmp(s, text, n) == 0);
        s += n;
        left -= n;
        text += n;
    }
    REQUIRE(!*text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *out = NULL;
    size_t length = 0;
    struct json json;
    FILE *file = open_memstream(&out, &length);

    REQUIRE(text && file);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    json_begin(&json, file, true);
    json_string(&json, text);
    json_end(&json);
    fclose(file);
    REQUIRE(length >= 3 && out[0] == '"' && out[length - 1] == '\n' && out[length - 2] == '"');
    read_back((unsigned char *)out + 1, length - 3, (unsigned char *)text);
    free(out);
    free(text);
    return 0;
}
