/* SPDX-License-Identifier: MIT
 *
 * Where the server listens. An address that other machines reach needs a token.
 */
#include "listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/args.h"
#include "../common/term.h"

#define WAITING 1200 /* connections that were not accepted yet */

static bool split_address(const char *listen, char host[256], char port[8])
{
    bool bracket = listen[0] == '[';
    const char *start = listen + bracket, *end = bracket ? strchr(listen, ']') : strrchr(listen, ':');
    if (bracket && !end)
        return false;
    size_t length = end ? (size_t)(end - start) : strlen(start);
    const char *rest = end ? end + bracket : start + length;
    if (length == 0 || length >= 256 || (*rest && *rest != ':'))
        return false;
    const char *digits = *rest ? rest + 1 : "8030";
    if (strlen(digits) < 1 || strlen(digits) > 5 || strspn(digits, "0123456789") != strlen(digits) ||
        atoi(digits) > 65535)
        return false;
    snprintf(host, 256, "%.*s", (int)length, start);
    snprintf(port, 8, "%s", digits);
    return true;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static int listen_on(const struct addrinfo *info)
{
    int one = 1, fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, WAITING) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int web_listen(const struct web_settings *settings, int *code)
{
    char host[256], port[8];
    struct addrinfo *info, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    *code = EXIT_USAGE;
    if (!split_address(settings->listen, host, port)) {
        say_error("web", "--listen takes ADDRESS:PORT, as in 127.0.0.1:8030 or [::1]:8030, not '%s'.",
                  settings->listen);
        return -1;
    }
    int failed = getaddrinfo(host, port, &hints, &info);
    if (failed) {
        say_error("web", "cannot listen on '%s': %s.", settings->listen, gai_strerror(failed));
        return -1;
    }
    int fd = -1;
    if (!is_loopback(info->ai_addr) && !settings->token[0]) {
        say_error("web", "%s can be reached from other machines: give --token auto, or a token of your own.", host);
    } else if ((fd = listen_on(info)) < 0) {
        *code = EXIT_FAILED;
        say_error("web", "cannot listen on %s: %s%s", settings->listen, strerror(errno),
                  errno == EADDRINUSE ? "; --listen takes another port." : ".");
    }
    freeaddrinfo(info);
    return fd;
}

unsigned web_port(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof address;
    getsockname(fd, (struct sockaddr *)&address, &size);
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

void web_say_address(const struct web_settings *settings, const char *name, unsigned port)
{
    char host[256], text[8];
    split_address(settings->listen, host, text);
    bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    const char *shown = any ? name : host;
    printf(strchr(shown, ':') ? "http://[%s]:%u/" : "http://%s:%u/", shown, port);
    printf("%s%s\n", settings->generated ? "?token=" : "", settings->generated ? settings->token : "");
    fflush(stdout);
}
