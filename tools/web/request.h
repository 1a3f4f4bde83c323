/* SPDX-License-Identifier: MIT
 *
 * What a browser asks for: the address of a request, its Host and Origin, its token. All of it is foreign text; nothing
 * here allocates, blocks, or looks at files.
 */
#ifndef TOOLS_WEB_REQUEST_H
#define TOOLS_WEB_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sluice/sluice.h>

#define WEB_NAME  300 /* bytes of a channel's name, with the NUL; cuda-link's may be longer than Sluice's */
#define WEB_TOKEN 129

enum web_route {
    WEB_PAGE, /* "/" */
    WEB_FILE, /* one that was embedded; its name is in `name` */
    WEB_CHANNELS,
    WEB_CHANNEL,
    WEB_VALUES,
    WEB_EVENTS,
    WEB_MJPEG,
    WEB_H264,
    WEB_PNG,
    WEB_NPY,
    WEB_JPEG,
    WEB_METRICS,
    WEB_ROUTES,
};

enum web_colour { WEB_COLOUR_AUTO, WEB_COLOUR_GRAY, WEB_COLOUR_HEAT, WEB_COLOUR_RGB };

/* Which picture of a channel. Requests for the same one share an encoder, so all bytes count: clear it first. */
struct web_look {
    char array[SLUICE_ARRAY_NAME];                    /* "": the first image, else the first array */
    uint32_t width, height;                           /* at most; 0: the server's limit */
    uint32_t colour;                                  /* enum web_colour */
    uint32_t index;                                   /* of the plane, if the array has more than two dimensions */
    uint32_t crop_x, crop_y, crop_width, crop_height; /* 0: all of it */
    uint32_t ranged;                                  /* low and high were given */
    double low, high;
};

struct web_request {
    unsigned status;     /* 0: as follows; else the HTTP status that refuses it */
    const char *problem; /* a sentence, if it is refused */
    enum web_route route;
    char name[WEB_NAME];
    char token[WEB_TOKEN]; /* of the address */
    struct web_look look;
};

/* Parses "/mjpeg/camera?width=320". */
void web_request_parse(struct web_request *request, const char *address);

/* True if the Host names this machine and no foreign site: an address, "localhost", or one of `names`. A foreign page
 * can make its own name point to this machine, but not an address. */
bool web_host_allowed(const char *host, const char *const *names, size_t count);

/* True if the Origin is the site that the Host names. */
bool web_origin_allowed(const char *origin, const char *host);

/* Compares in a time that depends on the length of `given` alone. */
bool web_token_equal(const char *given, const char *token);

/* The token in "Bearer TOKEN", or the value of the cookie `name` in a Cookie header; false if there is none. */
bool web_token_bearer(const char *authorization, char token[WEB_TOKEN]);
bool web_token_cookie(const char *cookies, const char *name, char token[WEB_TOKEN]);

#endif
