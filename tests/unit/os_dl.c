/* SPDX-License-Identifier: MIT
 *
 * Libraries found at run time.
 */
#include "harness/test.h"
#include "os/os.h"

TEST(dl_finds_a_function)
{
    void *library = sl_os_dl_open("libc.so.6");
    CHECK(library);
    CHECK(sl_os_dl_symbol(library, "getpid"));
    CHECK(!sl_os_dl_symbol(library, "no_function_has_this_name"));
    sl_os_dl_close(library);
}

TEST(dl_says_what_is_missing)
{
    CHECK(!sl_os_dl_open("libno-such-library.so.9"));
    CHECK_HAS(sluice_last_error(), "libno-such-library.so.9");
    sl_os_dl_close(NULL);
}
