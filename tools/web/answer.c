/* SPDX-License-Identifier: MIT
 *
 * Checks whether the client may ask, then answers by route. Everything runs on the server's thread, which must not
 * wait: what takes time suspends the connection.
 */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jpeg.h"

/* The page may use its own files and nothing else; it may not be framed, and no other site may embed what is here. */
static const char *const headers[][2] = {
    { "Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
    { "X-Content-Type-Options", "nosniff" },
    { "X-Frame-Options", "DENY" },
    { "Referrer-Policy", "no-referrer" },
    { "Cross-Origin-Resource-Policy", "same-origin" },
    { "Cross-Origin-Opener-Policy", "same-origin" },
    { "Cache-Control", "no-store" },
};

static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned status, const char *type,
                                     struct MHD_Response *response)
{
    if (!response)
        return MHD_NO;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    MHD_add_response_header(response, "Content-Type", type);
    if (status >= 400)
        MHD_add_response_header(response, "Connection", "close");
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *problem)
{
    char text[256];
    int length = snprintf(text, sizeof text, "%s\n", problem);
    struct MHD_Response *response = MHD_create_response_from_buffer(
        length < (int)sizeof text ? (size_t)length : sizeof text - 1, text, MHD_RESPMEM_MUST_COPY);
    if (response && status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (response && status == 405)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (response && status == 503)
        MHD_add_response_header(response, "Retry-After", "2");
    return send_response(connection, status, "text/plain; charset=utf-8", response);
}

/* Sends text that was allocated. */
static enum MHD_Result send_bytes(struct MHD_Connection *connection, const char *type, char *bytes, size_t size)
{
    if (!bytes)
        return refuse(connection, 500, "Out of memory.");
    return send_response(connection, 200, type, MHD_create_response_from_buffer(size, bytes, MHD_RESPMEM_MUST_FREE));
}

static enum MHD_Result send_file(struct MHD_Connection *connection, const char *name)
{
    for (size_t i = 0; i < web_file_count; i++)
        if (strcmp(web_files[i].name, name) == 0)
            return send_response(
                connection, 200, web_files[i].type,
                MHD_create_response_from_buffer(web_files[i].size, (void *)web_files[i].bytes, MHD_RESPMEM_PERSISTENT));
    return refuse(connection, 404, "There is no such page.");
}

/* ---- may this client ask? ---- */

static enum MHD_Result count_header(void *counts, enum MHD_ValueKind kind, const char *key, const char *value)
{
    unsigned *count = counts;
    (void)kind;
    count[0] += strcasecmp(key, "Host") == 0;
    count[1] += strcasecmp(key, "Transfer-Encoding") == 0 ||
                (strcasecmp(key, "Content-Length") == 0 && (!value || strcmp(value, "0") != 0));
    return MHD_YES;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static bool has_token(const struct web_server *server, struct MHD_Connection *connection)
{
    char token[WEB_TOKEN];
    const char *expected = server->settings->token;
    if (!expected[0])
        return true;
    return (web_token_bearer(header(connection, "Authorization"), token) && web_token_equal(token, expected)) ||
           (web_token_cookie(header(connection, "Cookie"), server->cookie, token) && web_token_equal(token, expected));
}

/* A page of another site may load pictures from here, though it cannot read them: refuses that as well. */
static bool from_other_site(struct MHD_Connection *connection)
{
    const char *site = header(connection, "Sec-Fetch-Site"), *mode = header(connection, "Sec-Fetch-Mode");
    return site && strcasecmp(site, "same-origin") != 0 && strcasecmp(site, "none") != 0 &&
           !(mode && strcasecmp(mode, "navigate") == 0);
}

/* Returns a status that refuses the request, or 0. */
static unsigned check(const struct web_server *server, const struct web_client *client, struct web_exchange *exchange,
                      const char *method, const char **problem)
{
    struct MHD_Connection *connection = client->connection;
    const char *host = header(connection, "Host"), *origin = header(connection, "Origin");
    unsigned counts[2] = { 0 };
    MHD_get_connection_values(connection, MHD_HEADER_KIND, count_header, counts);
    if (client->over)
        return *problem = "Too many connections; try again later.", 503;
    if (counts[0] != 1 || counts[1])
        return *problem = "A request has one Host and no body.", 400;
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return *problem = "Only GET and HEAD are answered.", 405;
    if (!web_host_allowed(host, server->hosts, server->host_count))
        return *problem = "This server does not have that name; --host adds one.", 403;
    if ((origin && !web_origin_allowed(origin, host)) || from_other_site(connection))
        return *problem = "Pages of other sites are not answered.", 403;
    if (exchange->request.route == WEB_PAGE && exchange->request.token[0] && !exchange->request.status)
        return 0; /* sign_in looks at it */
    if (!has_token(server, connection))
        return *problem =
                   "Open the address with the token that sluice web printed, or send it as Authorization: Bearer.",
               401;
    *problem = exchange->request.problem;
    return exchange->request.status;
}

/* "/?token=T" becomes a cookie, and the token leaves the address bar. A redirect would not do: a browser that follows a
 * link of another site to it sends no cookie on the way. */
static enum MHD_Result sign_in(const struct web_server *server, struct MHD_Connection *connection, const char *token)
{
    static const char page[] = "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url=/\">\n";
    char cookie[WEB_TOKEN + 96];
    const char *expected = server->settings->token;
    if (expected[0] && !web_token_equal(token, expected))
        return refuse(connection, 401, "That is not the token that sluice web printed.");
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof page - 1, (void *)page, MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict; Path=/", server->cookie, expected);
    if (expected[0])
        MHD_add_response_header(response, "Set-Cookie", cookie);
    return send_response(connection, 200, "text/html; charset=utf-8", response);
}

/* ---- answers that take time ---- */

static void join_stream(struct web_client *client, struct web_exchange *exchange, struct web_stream *stream)
{
    exchange->viewer.connection = client->connection;
    web_viewer_join(&exchange->viewer, stream);
    exchange->joined = true;
}

/* Waits for a refresh of the numbers that begins after the request; false if the connection was suspended for that. */
static bool refreshed(struct web_server *server, struct web_client *client, struct web_exchange *exchange)
{
    char problem[160];
    if (exchange->refreshed)
        return true;
    if (!exchange->joined) {
        exchange->viewer.single = true;
        join_stream(client, exchange, &server->stats.events);
    }
    for (;;) {
        bool taken = web_viewer_take(&exchange->viewer);
        if (!taken && !web_viewer_ended(&exchange->viewer, problem, sizeof problem))
            return false;
        if (!taken || web_stats_since(&server->stats, exchange->begun_ns))
            break;
        web_part_drop(exchange->viewer.part);
        exchange->viewer.part = NULL;
    }
    web_viewer_leave(&exchange->viewer);
    exchange->viewer = (struct web_viewer){ .single = false };
    exchange->joined = false;
    return exchange->refreshed = true;
}

static enum MHD_Result send_stream(struct web_client *client, struct web_exchange *exchange, const char *type,
                                   const char *preamble)
{
    exchange->viewer.preamble = preamble;
    exchange->streams = true;
    return send_response(
        client->connection, 200, type,
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 65536, web_viewer_read, &exchange->viewer, NULL));
}

static enum MHD_Result send_events(struct web_server *server, struct web_client *client, struct web_exchange *exchange)
{
    web_stats_ask(&server->stats);
    join_stream(client, exchange, &server->stats.events);
    return send_stream(client, exchange, "text/event-stream", NULL);
}

static bool view(struct web_server *server, struct web_client *client, struct web_exchange *exchange, bool video)
{
    if (exchange->joined)
        return true;
    exchange->viewer.connection = client->connection;
    if (web_feeds_view(&server->feeds, exchange->request.name, &exchange->request.look, video, &exchange->viewer))
        return false;
    return exchange->joined = true;
}

static enum MHD_Result send_pictures(struct web_server *server, struct web_client *client,
                                     struct web_exchange *exchange)
{
    bool video = exchange->request.route == WEB_H264;
    if (video && !server->settings->encoder)
        return refuse(client->connection, 404,
                      "H.264 is off: ffmpeg has no encoder for it here, or --encoder none was given.");
    if (!view(server, client, exchange, video))
        return refuse(client->connection, 503, "Too many pictures are encoded at a time.");
    return video ? send_stream(client, exchange, "application/octet-stream", NULL)
                 : send_stream(client, exchange, "multipart/x-mixed-replace; boundary=" WEB_BOUNDARY, WEB_PART_HEAD);
}

static enum MHD_Result send_picture(struct web_server *server, struct web_client *client, struct web_exchange *exchange)
{
    char problem[160];
    exchange->viewer.single = true;
    if (!view(server, client, exchange, false))
        return refuse(client->connection, 503, "Too many pictures are encoded at a time.");
    if (!web_viewer_take(&exchange->viewer)) {
        if (!web_viewer_ended(&exchange->viewer, problem, sizeof problem))
            return MHD_YES; /* suspended */
        return refuse(client->connection, problem[0] ? 422 : 504, problem[0] ? problem : "No frame came in time.");
    }
    const struct web_part *part = exchange->viewer.part; /* until the exchange ends */
    return send_response(client->connection, 200, "image/jpeg",
                         MHD_create_response_from_buffer(part->body_size, (void *)part->bytes, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result send_snap(struct web_server *server, struct web_client *client, struct web_exchange *exchange)
{
    struct web_job *job = &exchange->job;
    enum web_route route = exchange->request.route;
    if (!exchange->running) {
        job->request = &exchange->request;
        job->connection = client->connection;
        exchange->running = true;
        return web_feeds_run(&server->feeds, job)
                   ? MHD_YES
                   : refuse(client->connection, 503, "The server ends, or has no memory.");
    }
    if (!job->done)
        return MHD_YES;
    if (job->status != 200)
        return refuse(client->connection, job->status, job->problem);
    char *bytes = job->bytes;
    job->bytes = NULL;
    return send_bytes(client->connection,
                      route == WEB_PNG   ? "image/png"
                      : route == WEB_NPY ? "application/octet-stream"
                                         : "application/json",
                      bytes, job->size);
}

static enum MHD_Result send_numbers(struct web_server *server, struct web_client *client, struct web_exchange *exchange)
{
    size_t size = 0;
    if (!web_stats_ask(&server->stats) && !refreshed(server, client, exchange))
        return MHD_YES;
    enum web_route route = exchange->request.route;
    char *text = route == WEB_METRICS   ? web_stats_metrics(&server->stats, &size)
                 : route == WEB_CHANNEL ? web_stats_channel(&server->stats, exchange->request.name, &size)
                                        : web_stats_channels(&server->stats, &size);
    return send_bytes(client->connection,
                      route == WEB_METRICS ? "text/plain; version=0.0.4; charset=utf-8" : "application/json", text,
                      size);
}

/* ---- by route ---- */

/* True if the channel exists, as far as this server shows it; false also if the connection was suspended to find out.
 */
static bool has_channel(struct web_server *server, struct web_client *client, struct web_exchange *exchange,
                        bool *suspended)
{
    const char *name = exchange->request.name;
    *suspended = false;
    if (!exchange->joined && web_stats_has(&server->stats, name))
        return true;
    web_stats_ask(&server->stats);
    *suspended = !refreshed(server, client, exchange);
    return !*suspended && web_stats_has(&server->stats, name);
}

static enum MHD_Result by_route(struct web_server *server, struct web_client *client, struct web_exchange *exchange)
{
    bool suspended;
    switch (exchange->request.route) {
    case WEB_PAGE: return send_file(client->connection, "index.html");
    case WEB_FILE: return send_file(client->connection, exchange->request.name);
    case WEB_EVENTS: return send_events(server, client, exchange);
    case WEB_CHANNELS:
    case WEB_METRICS: return send_numbers(server, client, exchange);
    default: break;
    }
    if (!exchange->checked && !has_channel(server, client, exchange, &suspended))
        return suspended ? MHD_YES : refuse(client->connection, 404, "There is no such channel.");
    exchange->checked = true;
    switch (exchange->request.route) {
    case WEB_CHANNEL: return send_numbers(server, client, exchange);
    case WEB_MJPEG:
    case WEB_H264: return send_pictures(server, client, exchange);
    case WEB_JPEG: return send_picture(server, client, exchange);
    default: return send_snap(server, client, exchange);
    }
}

enum MHD_Result web_answer(struct web_server *server, struct web_client *client, struct web_exchange *exchange,
                           const char *method)
{
    if (!exchange->begun) {
        const char *problem = "";
        exchange->begun = true;
        unsigned status = check(server, client, exchange, method, &problem);
        /* The server calls again; an answer to its first call would end the connection. */
        return status ? refuse(client->connection, status, problem) : MHD_YES;
    }
    if (exchange->request.route == WEB_PAGE && exchange->request.token[0])
        return sign_in(server, client->connection, exchange->request.token);
    return by_route(server, client, exchange);
}
