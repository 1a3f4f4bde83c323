/* SPDX-License-Identifier: MIT
 *
 * Parses addresses, hosts and tokens. An address is decoded once, piece by piece, after it was split: a %2F in a name
 * never becomes a slash of the path.
 */
#include "request.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../common/text.h"

static void refuse(struct web_request *request, unsigned status, const char *problem)
{
    request->status = status;
    request->problem = problem;
}

/* ---- percent-encoding ---- */

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes `length` bytes. False if the result does not fit, is not UTF-8, or has control characters. */
static bool decode(char *to, size_t size, const char *from, size_t length)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char byte = from[i];
        if (byte == '%') {
            int high = i + 2 < length ? digit_of(from[i + 1]) : -1;
            int low = i + 2 < length ? digit_of(from[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            byte = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= size || (unsigned char)byte < ' ' || byte == 0x7f)
            return false;
        to[used++] = byte;
    }
    to[used] = 0;
    for (const char *at = to; *at;) {
        size_t bytes = text_character(at);
        if (!bytes)
            return false;
        at += bytes;
    }
    return true;
}

/* ---- the path ---- */

static const struct {
    const char *path;
    enum web_route route;
} files[] = {
    { "/", WEB_PAGE },
    { "/page.js", WEB_FILE },
    { "/large.js", WEB_FILE },
    { "/stage.js", WEB_FILE },
    { "/video.js", WEB_FILE },
    { "/text.js", WEB_FILE },
    { "/style.css", WEB_FILE },
    { "/icon.svg", WEB_FILE },
    { "/openapi.json", WEB_FILE },
    { "/api/channels", WEB_CHANNELS },
    { "/api/events", WEB_EVENTS },
    { "/metrics", WEB_METRICS },
};

/* What surrounds a channel's name. */
static const struct {
    const char *before, *after;
    enum web_route route;
} trees[] = {
    { "/api/channels/", "/values", WEB_VALUES },
    { "/api/channels/", "", WEB_CHANNEL },
    { "/mjpeg/", "", WEB_MJPEG },
    { "/h264/", "", WEB_H264 },
    { "/snap/", ".png", WEB_PNG },
    { "/snap/", ".npy", WEB_NPY },
    { "/snap/", ".jpg", WEB_JPEG },
};

static bool parse_file(struct web_request *request, const char *path, size_t length)
{
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (strlen(files[i].path) == length && memcmp(files[i].path, path, length) == 0) {
            request->route = files[i].route;
            strcpy(request->name, files[i].route == WEB_FILE ? files[i].path + 1 : "");
            return true;
        }
    return false;
}

static bool parse_tree(struct web_request *request, const char *path, size_t length)
{
    for (size_t i = 0; i < sizeof trees / sizeof trees[0]; i++) {
        size_t before = strlen(trees[i].before), after = strlen(trees[i].after);
        if (length <= before + after || memcmp(path, trees[i].before, before) != 0 ||
            memcmp(path + length - after, trees[i].after, after) != 0)
            continue;
        size_t rest = length - before - after;
        if (memchr(path + before, '/', rest))
            continue;
        request->route = trees[i].route;
        if (!decode(request->name, sizeof request->name, path + before, rest) || strchr(request->name, '/'))
            refuse(request, 404, "That is not the name of a channel.");
        return true;
    }
    return false;
}

/* ---- the query ---- */

static bool parse_u32(const char *text, uint32_t limit, uint32_t *value)
{
    uint64_t number = 0;
    if (!*text || strlen(text) > 10)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *value = (uint32_t)number;
    return number <= limit;
}

static bool parse_double(const char *text, double *value)
{
    char *end;
    if (!*text || strspn(text, "0123456789+-.eE") != strlen(text))
        return false;
    *value = strtod(text, &end);
    return *end == 0 && isfinite(*value);
}

static bool parse_colour(const char *text, uint32_t *colour)
{
    static const char *const names[] = { "auto", "gray", "heat", "rgb" };
    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *colour = i;
            return true;
        }
    return false;
}

#define LARGEST 65536

enum key { ARRAY, WIDTH, HEIGHT, COLOUR, INDEX, X, Y, CROP_WIDTH, CROP_HEIGHT, LOW, HIGH, TOKEN, KEYS };
static const char *const keys[KEYS] = { "array", "width", "height", "colour", "index", "x",
                                        "y",     "w",     "h",      "low",    "high",  "token" };

static bool parse_value(struct web_request *request, enum key key, const char *value)
{
    struct web_look *look = &request->look;
    switch (key) {
    case ARRAY: return strlen(value) < sizeof look->array && strcpy(look->array, value);
    case WIDTH: return parse_u32(value, LARGEST, &look->width);
    case HEIGHT: return parse_u32(value, LARGEST, &look->height);
    case COLOUR: return parse_colour(value, &look->colour);
    case INDEX: return parse_u32(value, UINT32_MAX, &look->index);
    case X: return parse_u32(value, UINT32_MAX, &look->crop_x);
    case Y: return parse_u32(value, UINT32_MAX, &look->crop_y);
    case CROP_WIDTH: return parse_u32(value, UINT32_MAX, &look->crop_width);
    case CROP_HEIGHT: return parse_u32(value, UINT32_MAX, &look->crop_height);
    case LOW: return parse_double(value, &look->low);
    case HIGH: return parse_double(value, &look->high);
    default: return strlen(value) < sizeof request->token && strcpy(request->token, value);
    }
}

static void parse_pair(struct web_request *request, const char *pair, size_t length, bool seen[KEYS])
{
    char key[16], value[WEB_NAME];
    const char *equals = memchr(pair, '=', length);
    size_t split = equals ? (size_t)(equals - pair) : length;
    size_t rest = equals ? length - split - 1 : 0;
    if (!decode(key, sizeof key, pair, split) || !decode(value, sizeof value, pair + split + (equals != NULL), rest)) {
        refuse(request, 400, "The query cannot be read.");
        return;
    }
    for (enum key i = 0; i < KEYS; i++) {
        if (strcmp(key, keys[i]) != 0)
            continue;
        if (seen[i] || !parse_value(request, i, value))
            refuse(request, 400, "A value in the query is not valid.");
        seen[i] = true;
        return;
    }
    refuse(request, 400, "The query has an unknown key; /openapi.json lists those there are.");
}

static void parse_query(struct web_request *request, const char *query)
{
    bool seen[KEYS] = { false };
    while (*query && !request->status) {
        size_t length = strcspn(query, "&");
        parse_pair(request, query, length, seen);
        query += length + (query[length] == '&');
    }
    if (seen[LOW] != seen[HIGH] || (seen[LOW] && !(request->look.low < request->look.high)))
        refuse(request, 400, "A range needs low and high, and low must be less than high.");
    if ((request->look.crop_width == 0) != (request->look.crop_height == 0))
        refuse(request, 400, "A part of the picture needs x, y, w and h.");
    request->look.ranged = seen[LOW];
}

void web_request_parse(struct web_request *request, const char *address)
{
    size_t length = strcspn(address, "?#");
    memset(request, 0, sizeof *request);
    if (!parse_file(request, address, length) && !parse_tree(request, address, length))
        refuse(request, 404, "There is no such page.");
    if (!request->status && address[length] == '?')
        parse_query(request, address + length + 1);
}

/* ---- hosts ---- */

/* The name in "name:port" or "[::1]:port". */
static bool host_name(const char *host, char *name, size_t size)
{
    size_t length = host[0] == '[' ? strcspn(host, "]") : strcspn(host, ":");
    const char *port = host + length + (host[0] == '[' && host[length]);
    if (length == 0 || length >= size || (host[0] == '[' && host[length] != ']') || (*port && *port != ':'))
        return false;
    if (*port && (strlen(port) > 6 || strspn(port + 1, "0123456789") != strlen(port + 1)))
        return false;
    memcpy(name, host + (host[0] == '['), length - (host[0] == '['));
    name[length - (host[0] == '[')] = 0;
    return true;
}

bool web_host_allowed(const char *host, const char *const *names, size_t count)
{
    unsigned char address[16];
    char name[256];
    if (!host || !host_name(host, name, sizeof name))
        return false;
    if (inet_pton(host[0] == '[' ? AF_INET6 : AF_INET, name, address) == 1)
        return true;
    if (host[0] == '[')
        return false;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return strcasecmp(name, "localhost") == 0;
}

bool web_origin_allowed(const char *origin, const char *host)
{
    const char *name = strncmp(origin, "http://", 7) == 0    ? origin + 7
                       : strncmp(origin, "https://", 8) == 0 ? origin + 8
                                                             : NULL;
    return name && host && strcasecmp(name, host) == 0;
}

/* ---- tokens ---- */

bool web_token_equal(const char *given, const char *token)
{
    size_t length = strlen(given), expected = strlen(token);
    volatile unsigned char difference = length != expected;
    for (size_t i = 0; i < length; i++)
        difference |= (unsigned char)(given[i] ^ token[expected ? i % expected : 0]);
    return expected && difference == 0;
}

static bool copy_token(char token[WEB_TOKEN], const char *from, size_t length)
{
    if (length == 0 || length >= WEB_TOKEN)
        return false;
    memcpy(token, from, length);
    token[length] = 0;
    return true;
}

bool web_token_bearer(const char *authorization, char token[WEB_TOKEN])
{
    return authorization && strncasecmp(authorization, "Bearer ", 7) == 0 &&
           copy_token(token, authorization + 7, strlen(authorization + 7));
}

bool web_token_cookie(const char *cookies, const char *name, char token[WEB_TOKEN])
{
    size_t length = strlen(name);
    while (cookies && *cookies) {
        cookies += strspn(cookies, " ;");
        size_t size = strcspn(cookies, ";");
        if (size > length && memcmp(cookies, name, length) == 0 && cookies[length] == '=')
            return copy_token(token, cookies + length + 1, size - length - 1);
        cookies += size;
    }
    return false;
}
