/* SPDX-License-Identifier: MIT
 *
 * Libraries loaded at run time.
 */
#include "harness/test.h"
#include "os/os.h"

TEST(dl_finds_a_function)
{
    void *library;
    CHECK_OK(sl_os_dl_open("libc.so.6", &library));
    CHECK(sl_os_dl_symbol(library, "getpid"));
    CHECK(!sl_os_dl_symbol(library, "no_function_has_this_name"));
    sl_os_dl_close(library);
}

TEST(dl_says_what_is_missing)
{
    void *library;
    CHECK_SAYS(sl_os_dl_open("libno-such-library.so.9", &library), SLUICE_E_UNSUPPORTED, "libno-such-library.so.9");
    sl_os_dl_close(NULL);
}

TEST(dl_knows_what_is_loaded)
{
    void *library;

    CHECK(sl_os_dl_loaded("libc.so.6"));
    CHECK(!sl_os_dl_loaded("libno-such-library.so.9"));
    CHECK(!sl_os_dl_loaded("libutil.so.1"));
    uint64_t before = sl_os_dl_count();
    CHECK_EQ(sl_os_dl_count(), before);
    CHECK_OK(sl_os_dl_open("libutil.so.1", &library)); /* glibc's empty one, which nothing else loads */
    CHECK(sl_os_dl_count() > before);
    CHECK(sl_os_dl_loaded("libutil.so.1"));
    sl_os_dl_close(library);
    CHECK(!sl_os_dl_loaded("libutil.so.1"));
}
