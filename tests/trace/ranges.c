/* SPDX-License-Identifier: MIT
 *
 * Ranges: finding the tool, all that may be wrong with it, and the calls it gets.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sluice/timers.h>

#include "trace/kit.h"
#include "trace/trace.h"

static void some_stages(void)
{
    struct sl_span span = { 0 };

    SL_STAGE_BEGIN(SEND);
    SL_STAGE_BEGIN(BEGIN);
    SL_STAGE_END(BEGIN);
    SL_SPAN_BEGIN(WRITE, &span, "cam", 0);
    SL_STAGE_BEGIN(COMMIT);
    SL_STAGE_BEGIN(SIGNAL);
    SL_STAGE_END(SIGNAL);
    SL_STAGE_END(COMMIT);
    SL_SPAN_END(WRITE, &span);
    SL_STAGE_END(SEND);
}

TEST(without_the_variable_no_tool_is_loaded)
{
    tool_use("", "");
    unsetenv("SLUICE_NVTX");
    sl_trace_open();
    some_stages();
    sl_trace_close();
    CHECK_EQ(sl_trace_bits, 0);
    CHECK_STR(tool_record(), "");
}

TEST(level_2_shows_what_lies_in_what)
{
    tool_use("2", "");
    log_catch(SLUICE_LOG_DEBUG);
    sl_trace_open();
    some_stages();
    CHECK_STR(tool_tree(), "send(begin()commit(signal()))\n");
    CHECK_HAS(tool_record(), "domain sluice\n");
    CHECK_HAS(tool_record(), "start 1 sluice/write cam 0\n");
    CHECK_HAS(tool_record(), "end 1 sluice\n");
    CHECK_EQ(log_count(), 0);
    sl_trace_close();
}

TEST(level_1_shows_frames_only)
{
    tool_use("1", "");
    sl_trace_open();
    some_stages();
    CHECK_STR(tool_tree(), "send()\n");
    CHECK_HAS(tool_record(), "start 1 sluice/write cam 0\n");
    sl_trace_close();
}

static void *on_a_thread(void *context)
{
    some_stages();
    return context;
}

TEST(threads_have_their_own)
{
    pthread_t threads[4];

    tool_use("2", "");
    sl_trace_open();
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, on_a_thread, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_STR(tool_tree(), "send(begin()commit(signal()))\nsend(begin()commit(signal()))\n"
                           "send(begin()commit(signal()))\nsend(begin()commit(signal()))\n");
    sl_trace_close();
}

TEST(spans_may_overlap)
{
    struct sl_span a = { 0 }, b = { 0 };

    tool_use("1", "");
    sl_trace_open();
    SL_SPAN_BEGIN(READ, &a, "cam", 7);
    SL_SPAN_BEGIN(READ, &b, "cam", 8);
    SL_SPAN_END(READ, &a);
    SL_SPAN_END(READ, &a); /* ended already */
    SL_SPAN_END(READ, &b);
    CHECK_STR(tool_tree(), "");
    CHECK_HAS(tool_record(), "start 1 sluice/read cam 7\n");
    CHECK_HAS(strstr(tool_record(), "start 2 sluice/read cam 8\n"), "end 1 sluice\n");
    CHECK_HAS(strstr(tool_record(), "end 1 sluice\n"), "end 2 sluice\n");
    sl_trace_close();
}

TEST(a_tool_may_take_some_functions_only)
{
    tool_use("2", "pushes");
    sl_trace_open();
    some_stages();
    CHECK_STR(tool_tree(), "send(begin()commit(signal()))\n");
    CHECK(!strstr(tool_record(), "start"));
    sl_trace_close();
}

/* One line in the log, no ranges, and all goes on; the thread's error message does not change. */
static void check_no_ranges(int level, const char *word)
{
    char before[64];

    (void)sluice_timers_set(77);
    snprintf(before, sizeof before, "%s", sluice_last_error());
    log_catch(level);
    for (int i = 0; i < 3; i++) {
        sl_trace_open();
        some_stages();
        sl_trace_close();
    }
    CHECK_EQ(sl_trace_bits, 0);
    CHECK_EQ(log_count(), 1);
    CHECK_HAS(log_last(), word);
    CHECK_STR(sluice_last_error(), before);
    CHECK(!strstr(tool_record(), "push"));
}

TEST(no_tool_is_there)
{
    tool_use("1", "");
    unsetenv("NVTX_INJECTION64_PATH");
    check_no_ranges(SLUICE_LOG_INFO, "no tool has set NVTX_INJECTION64_PATH");
}

TEST(the_library_is_missing)
{
    tool_use("2", "");
    setenv("NVTX_INJECTION64_PATH", "/proc/none/such.so", 1);
    check_no_ranges(SLUICE_LOG_WARN, "/proc/none/such.so");
}

TEST(the_path_is_no_library)
{
    tool_use("2", "");
    setenv("NVTX_INJECTION64_PATH", test_dir(), 1);
    check_no_ranges(SLUICE_LOG_WARN, "cannot be loaded");
}

TEST(the_library_is_no_tool)
{
    tool_use("2", "");
    setenv("NVTX_INJECTION64_PATH", "libm.so.6", 1);
    check_no_ranges(SLUICE_LOG_WARN, "libm.so.6, in NVTX_INJECTION64_PATH, is no tool");
}

TEST(the_tool_refuses)
{
    tool_use("2", "refuse");
    check_no_ranges(SLUICE_LOG_WARN, "did not start");
}

TEST(the_tool_takes_nothing)
{
    tool_use("2", "nothing");
    check_no_ranges(SLUICE_LOG_WARN, "takes no ranges in domains");
}

TEST(an_invalid_level)
{
    tool_use("yes", "");
    log_catch(SLUICE_LOG_WARN);
    sl_trace_open();
    some_stages();
    CHECK_EQ(log_count(), 1);
    CHECK_HAS(log_last(), "SLUICE_NVTX is 'yes'");
    CHECK_STR(tool_tree(), "send()\n");
    sl_trace_close();
}
