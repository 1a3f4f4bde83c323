/* SPDX-License-Identifier: MIT
 *
 * What browsers send to sluice web: for any text, an address is parsed or refused with a reason; a name that was taken
 * is UTF-8 without control characters and slashes; hosts, origins and tokens are compared without reading too far.
 *
 * The input is lines: an address, a Host, an Origin, Cookies, a token.
 */
#include "fuzz.h"

#include "../../tools/common/text.h"
#include "../../tools/web/request.h"

#define LINES 5

static void check_name(const char *name)
{
    REQUIRE(strlen(name) < WEB_NAME && !strchr(name, '/'));
    while (*name) {
        size_t size = text_character(name);
        REQUIRE(size > 0 && (unsigned char)*name >= ' ' && *name != 0x7f);
        name += size;
    }
}

static void check_request(const struct web_request *request)
{
    const struct web_look *look = &request->look;
    REQUIRE((request->status == 0) == (request->problem == NULL));
    REQUIRE(request->status == 0 || request->status == 400 || request->status == 404);
    if (request->status)
        return;
    REQUIRE(request->route < WEB_ROUTES);
    REQUIRE(memchr(look->array, 0, sizeof look->array) && memchr(request->token, 0, sizeof request->token));
    REQUIRE(!look->ranged || look->low < look->high);
    REQUIRE(look->colour <= WEB_COLOUR_RGB && (look->crop_width == 0) == (look->crop_height == 0));
    check_name(request->name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "proxy.example" };
    char *lines[LINES], *text = malloc(size + 1), token[WEB_TOKEN];
    struct web_request request;
    REQUIRE(text);
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    char *at = text;
    for (int i = 0; i < LINES; i++) {
        char *end = at + strcspn(at, "\n");
        lines[i] = at;
        at = *end ? end + 1 : end;
        *end = 0;
    }
    web_request_parse(&request, lines[0]);
    check_request(&request);
    if (web_host_allowed(lines[1], names, 1))
        REQUIRE(!strchr(lines[1], '/') && !strchr(lines[1], '@'));
    if (web_origin_allowed(lines[2], lines[1]))
        REQUIRE(strlen(lines[2]) > strlen(lines[1]));
    if (web_token_cookie(lines[3], "sluice_8030", token) || web_token_bearer(lines[3], token))
        REQUIRE(memchr(token, 0, sizeof token));
    REQUIRE(web_token_equal(lines[4], "0123456789abcdef") == (strcmp(lines[4], "0123456789abcdef") == 0));
    free(text);
    return 0;
}
