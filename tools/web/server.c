/* SPDX-License-Identifier: MIT
 *
 * One thread of libmicrohttpd serves all connections; this one looks once a second for those that take too long.
 */
#include "server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/term.h"
#include "h264.h"
#include "listen.h"

#define ACCEPTED      1200            /* connections that get at least a 503 */
#define OWN_FILES     256             /* descriptors for all else */
#define REQUEST_TIME  (10 * SLUICE_S) /* for a whole request to arrive */
#define ANSWER_TIME   (60 * SLUICE_S) /* for an answer that has an end to be taken */
#define PICTURE_TIME  (4 * SLUICE_S)  /* for a single picture, or new numbers, to come */
#define IDLE_SECONDS  30u             /* for a viewer that takes nothing */
#define UNSENT_BYTES  (128 << 10)     /* that wait in the kernel, of one connection */
#define HEADER_MEMORY (16 << 10)

/* ---- connections ---- */

static void *uri_begins(void *context, const char *uri, struct MHD_Connection *connection)
{
    struct web_exchange *exchange = calloc(1, sizeof *exchange);
    (void)context;
    (void)connection;
    if (exchange)
        web_request_parse(&exchange->request, uri);
    return exchange;
}

static void free_exchange(struct web_exchange *exchange)
{
    if (exchange->joined)
        web_viewer_leave(&exchange->viewer);
    free(exchange->job.bytes);
    free(exchange);
}

static struct web_client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static enum MHD_Result answer_request(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, const char *upload, size_t *upload_size,
                                      void **exchange)
{
    struct web_server *server = context;
    struct web_client *client = client_of(connection);
    struct web_exchange *own = *exchange;
    (void)url;
    (void)version;
    (void)upload;
    (void)upload_size;
    if (!client || !own)
        return MHD_NO;
    pthread_mutex_lock(&server->lock); /* look_at_clients reads the exchange, too */
    if (!own->begun) {
        own->begun_ns = now_ns();
        client->exchange = own;
    }
    enum MHD_Result result = web_answer(server, client, own, method);
    pthread_mutex_unlock(&server->lock);
    return result;
}

static void request_ends(void *context, struct MHD_Connection *connection, void **exchange,
                         enum MHD_RequestTerminationCode code)
{
    struct web_server *server = context;
    struct web_client *client = client_of(connection);
    (void)code;
    pthread_mutex_lock(&server->lock);
    if (client) {
        client->exchange = NULL;
        client->since_ns = now_ns();
    }
    pthread_mutex_unlock(&server->lock);
    if (*exchange)
        free_exchange(*exchange);
    *exchange = NULL;
}

static void add_client(struct web_server *server, struct MHD_Connection *connection, void **socket_context)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct web_client *client = calloc(1, sizeof *client);
    int one = 1, unsent = UNSENT_BYTES;
    if (!client || !info) {
        free(client);
        return;
    }
    *client = (struct web_client){ .connection = connection, .fd = info->connect_fd, .since_ns = now_ns() };
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(client->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    pthread_mutex_lock(&server->lock);
    client->over = server->client_count >= WEB_CONNECTIONS;
    server->client_count += !client->over;
    client->after = server->clients;
    if (client->after)
        client->after->before = client;
    server->clients = client;
    pthread_mutex_unlock(&server->lock);
    *socket_context = client;
}

static void remove_client(struct web_server *server, struct web_client *client)
{
    pthread_mutex_lock(&server->lock);
    server->client_count -= !client->over;
    if (client->after)
        client->after->before = client->before;
    if (client->before)
        client->before->after = client->after;
    else
        server->clients = client->after;
    pthread_mutex_unlock(&server->lock);
    free(client);
}

static void connection_changes(void *context, struct MHD_Connection *connection, void **socket_context,
                               enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        add_client(context, connection, socket_context);
    else if (*socket_context)
        remove_client(context, *socket_context);
}

/* ---- what takes too long ---- */

static bool has_hung_up(int fd)
{
    struct pollfd one = { .fd = fd, .events = POLLRDHUP };
    return poll(&one, 1, 0) > 0 && one.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static void look_at(struct web_client *client)
{
    struct web_exchange *exchange = client->exchange;
    int64_t now = now_ns();
    if (!exchange) {
        if (now - client->since_ns > REQUEST_TIME)
            shutdown(client->fd, SHUT_RDWR);
        return;
    }
    bool late = exchange->viewer.single && now - exchange->begun_ns > PICTURE_TIME;
    if (exchange->joined && (late || has_hung_up(client->fd)))
        web_viewer_end(&exchange->viewer);
    if (!exchange->streams && now - exchange->begun_ns > ANSWER_TIME)
        shutdown(client->fd, SHUT_RDWR);
}

static void look_at_clients(struct web_server *server)
{
    pthread_mutex_lock(&server->lock);
    for (struct web_client *client = server->clients; client; client = client->after)
        look_at(client);
    pthread_mutex_unlock(&server->lock);
}

/* ---- the server ---- */

static unsigned connection_limit(void)
{
    struct rlimit files = { 0 };
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return WEB_CONNECTIONS;
    files.rlim_cur = files.rlim_max < ACCEPTED + OWN_FILES ? files.rlim_max : ACCEPTED + OWN_FILES;
    setrlimit(RLIMIT_NOFILE, &files);
    return files.rlim_cur > OWN_FILES + WEB_CONNECTIONS ? (unsigned)files.rlim_cur - OWN_FILES : WEB_CONNECTIONS;
}

/* An escape is decoded by web_request_parse alone. */
static size_t leave_escapes(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

static struct MHD_Daemon *start_daemon(struct web_server *server, int fd)
{
    return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL,
                            answer_request, server, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                            connection_limit(), MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_MEMORY,
                            MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1,
                            MHD_OPTION_URI_LOG_CALLBACK, uri_begins, server, MHD_OPTION_UNESCAPE_CALLBACK,
                            leave_escapes, NULL, MHD_OPTION_NOTIFY_COMPLETED, request_ends, server,
                            MHD_OPTION_NOTIFY_CONNECTION, connection_changes, server, MHD_OPTION_END);
}

static void name_hosts(struct web_server *server, char host[256])
{
    if (gethostname(host, 256) != 0)
        snprintf(host, 256, "localhost");
    host[255] = 0;
    server->hosts[server->host_count++] = host;
    for (size_t i = 0; i < server->settings->host_count; i++)
        server->hosts[server->host_count++] = server->settings->hosts[i];
}

static void serve(struct web_server *server)
{
    while (!stop_asked()) {
        look_at_clients(server);
        sleep_until(now_ns() + SLUICE_S);
    }
    MHD_quiesce_daemon(server->daemon);
    web_stats_stop(&server->stats);
    web_feeds_stop(&server->feeds);
    MHD_stop_daemon(server->daemon);
}

/* "auto" becomes libx264 if that works, else none; another one has to work. */
static bool choose_encoder(struct web_settings *settings)
{
    bool automatic = strcmp(settings->encoder, "auto") == 0;
    const char *wanted = automatic ? "libx264" : settings->encoder;
    settings->encoder = NULL;
    if (strcmp(wanted, "none") == 0)
        return true;
    if (web_h264_works(wanted))
        settings->encoder = wanted;
    else if (!automatic)
        say_error("web", "ffmpeg cannot encode with %s here; --encoder auto uses what there is.", wanted);
    return automatic || settings->encoder;
}

int web_serve(struct web_settings *settings)
{
    struct web_server server = { .settings = settings };
    char host[256];
    int code, fd = web_listen(settings, &code);
    if (fd < 0)
        return code;
    if (!choose_encoder(settings)) {
        close(fd);
        return EXIT_FAILED;
    }
    stop_on_signals();
    signal(SIGPIPE, SIG_IGN);
    name_hosts(&server, host);
    snprintf(server.cookie, sizeof server.cookie, "sluice_%u", web_port(fd));
    pthread_mutex_init(&server.lock, NULL);
    web_feeds_open(&server.feeds, settings);
    if (web_stats_open(&server.stats, settings) != 0 || !(server.daemon = start_daemon(&server, fd))) {
        say_error("web", "cannot start a thread of the server: %s.", strerror(errno));
        close(fd);
        return EXIT_FAILED;
    }
    web_say_address(settings, server.hosts[0], web_port(fd));
    serve(&server);
    close(fd);
    web_feeds_close(&server.feeds);
    web_stats_close(&server.stats);
    pthread_mutex_destroy(&server.lock);
    return EXIT_DONE;
}
