/* SPDX-License-Identifier: MIT
 *
 * sluice web: the command's options.
 */
#include "web.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "../common/args.h"
#include "../common/term.h"

#define TOKEN_LEAST 16 /* characters */
#define SIZE_MOST   16384

enum { LISTEN, HOST, TOKEN, QUALITY, MAX_SIZE, ENCODER };

static const struct args_option options[] = {
    [LISTEN] = { 'l', "listen", "ADDRESS:PORT", "default 127.0.0.1:8030; port 0: any that is free" },
    [HOST] = { 0, "host", "NAME", "a name of this server, such as that of a proxy in front; may be repeated" },
    [TOKEN] = { 't', "token", "auto|TEXT|@FILE",
                "what viewers need: a new token, one of 16 characters or more, or one in a file" },
    [QUALITY] = { 'q', "quality", "N", "quality of JPEG, 1 to 100; default 80" },
    [MAX_SIZE] = { 's', "max-size", "WxH", "make larger pictures smaller; default 1280x720" },
    [ENCODER] = { 'e', "encoder", "auto|libx264|h264_nvenc|none",
                  "encoder of ffmpeg for H.264; default auto: libx264 if it works" },
    { 0 },
};

/* ---- tokens ---- */

static bool generate_token(struct web_settings *settings)
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        say_error("web", "no random bytes for a token: %s.", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(settings->token + 2 * i, 3, "%02x", bytes[i]);
    return settings->generated = true;
}

static bool read_token(struct web_settings *settings, const char *path)
{
    FILE *file = fopen(path, "re");
    bool done = file && fgets(settings->token, sizeof settings->token, file);
    if (file)
        fclose(file);
    if (!done)
        say_error("web", "cannot read a token from %s%s%s.", path, file ? "" : ": ", file ? "" : strerror(errno));
    settings->token[strcspn(settings->token, "\r\n")] = 0;
    return done;
}

static bool take_token(struct web_settings *settings, const char *value)
{
    if (strcmp(value, "auto") == 0)
        return generate_token(settings);
    if (value[0] == '@' ? !read_token(settings, value + 1) : false)
        return false;
    if (value[0] != '@')
        snprintf(settings->token, sizeof settings->token, "%s", value);
    size_t length = strspn(settings->token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~");
    if (settings->token[length] == 0 && length >= TOKEN_LEAST && (value[0] == '@' || strlen(value) == length))
        return true;
    say_error("web", "a token has %d to %d letters, digits, '-', '_', '.' and '~'.", TOKEN_LEAST, WEB_TOKEN - 1);
    return false;
}

/* ---- options ---- */

static bool take_option(struct web_settings *settings, const struct args *args, int option)
{
    switch (option) {
    case LISTEN: settings->listen = args->value; return true;
    case HOST:
        if (settings->host_count == WEB_HOSTS) {
            say_error("web", "--host can be given %d times.", WEB_HOSTS);
            return false;
        }
        settings->hosts[settings->host_count++] = args->value;
        return true;
    case TOKEN: return take_token(settings, args->value);
    case QUALITY: return args_u32(args, 1, 100, &settings->quality);
    case MAX_SIZE:
        if (!args_size(args, &settings->max_width, &settings->max_height))
            return false;
        if (settings->max_width <= SIZE_MOST && settings->max_height <= SIZE_MOST)
            return true;
        say_error("web", "--max-size is at most %dx%d.", SIZE_MOST, SIZE_MOST);
        return false;
    default: settings->encoder = args->value; return true;
    }
}

static int web_run(const struct command *command, int argc, char **argv)
{
    struct web_settings settings = {
        .listen = "127.0.0.1:8030", .quality = 80, .max_width = 1280, .max_height = 720, .encoder = "auto"
    };
    struct args args;
    int option;
    args_begin(&args, command, argc, argv);
    while ((option = args_next(&args)) >= 0)
        if (!take_option(&settings, &args, option))
            return EXIT_USAGE;
    if (option != ARGS_END)
        return option == ARGS_HELP ? EXIT_DONE : EXIT_USAGE;
    settings.patterns = args.rest;
    settings.pattern_count = args.count;
    return web_serve(&settings);
}

const struct command web_command = {
    .name = "web",
    .arguments = "[CHANNEL ...]",
    .summary = "show the channels in a browser",
    .details = "Prints the address of a page with all channels, live, and serves it until Ctrl-C. CHANNEL is\n"
               "a name or a pattern such as 'cam*'; without any, all channels are shown. A channel that\n"
               "is viewed has one reader and one encoder, however many viewers; a channel that nobody\n"
               "views has none. On an address other than 127.0.0.1 it needs --token, and sends pictures\n"
               "unencrypted: docs/web.md says how to put TLS in front. The API is at /openapi.json,\n"
               "metrics for Prometheus at /metrics.\n",
    .examples = "  sluice web\n"
                "  sluice web 'cam*' --max-size 1920x1080 --quality 90\n"
                "  sluice web --listen 0.0.0.0:8030 --token auto\n"
                "  curl -s localhost:8030/api/channels | jq '.channels[].name'\n"
                "  curl -so now.png localhost:8030/snap/camera.png\n",
    .options = options,
    .max_arguments = 1000,
    .run = web_run,
};
