/* SPDX-License-Identifier: MIT
 *
 * sluice web in a build without the libraries it needs.
 */
#include "../common/args.h"
#include "../common/term.h"
#include "web.h"

int web_serve(struct web_settings *settings)
{
    (void)settings;
    say_error("web",
              "this build has no web server: install libmicrohttpd and libturbojpeg with their headers (on Debian "
              "libmicrohttpd-dev and libturbojpeg0-dev), then build with -Dweb=enabled.");
    return EXIT_FAILED;
}
