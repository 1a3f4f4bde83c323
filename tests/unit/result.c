/* SPDX-License-Identifier: MIT
 *
 * Results, their texts, the error message of each thread, and the log.
 */
#include "util/result.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/test.h"
#include "util/atomic.h"

TEST(result_each_has_a_text_and_a_name)
{
#define ONE(name, number, text) \
    CHECK_STR(sluice_result_name(number), #name); \
    CHECK_STR(sluice_result_text(number), text); \
    CHECK_EQ(SLUICE_##name, number);
    SLUICE_RESULTS(ONE)
#undef ONE
}

TEST(result_unknown_ones_have_a_text_too)
{
    const int unknown[] = { 7, 1000, -30, -1000, INT32_MAX, INT32_MIN };
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        CHECK_STR(sluice_result_name(unknown[i]), "?");
        CHECK(strlen(sluice_result_text(unknown[i])) > 0);
    }
}

TEST(result_versions)
{
    CHECK_STR(sluice_version(), SLUICE_VERSION);
    CHECK_EQ(sluice_api_version(), SLUICE_API_VERSION);
}

TEST(result_sentence_is_empty_at_first)
{
    CHECK_STR(sluice_last_error(), "");
}

TEST(result_fail_stores_the_sentence)
{
    CHECK_EQ(sl_fail(SLUICE_E_NAME, "the name \"%s\" has %d bytes", "x", 1), SLUICE_E_NAME);
    CHECK_STR(sluice_last_error(), "the name \"x\" has 1 bytes");
    CHECK_EQ(sl_fail_text(SLUICE_E_LOST, "saved earlier"), SLUICE_E_LOST);
    CHECK_STR(sluice_last_error(), "saved earlier");
}

TEST(result_sentence_may_quote_the_one_before)
{
    sl_say("inner");
    sl_say("outer (%s)", sluice_last_error());
    CHECK_STR(sluice_last_error(), "outer (inner)");
    sl_fail_text(SLUICE_E_SYSTEM, sluice_last_error());
    CHECK_STR(sluice_last_error(), "outer (inner)");
    sl_fail_errno(EIO, "%s", sluice_last_error());
    CHECK_HAS(sluice_last_error(), "outer (inner): ");
}

TEST(result_long_sentences_are_cut)
{
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    sl_say("%s", text);
    CHECK_EQ(strlen(sluice_last_error()), 1023);
    sl_fail_text(SLUICE_E_NAME, text);
    CHECK_EQ(strlen(sluice_last_error()), 1023);
}

TEST(result_errno_keeps_its_reason_after_a_long_beginning)
{
    char text[5000], end[200];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    snprintf(end, sizeof(end), "x: %s", strerror(EIO));
    CHECK_EQ(sl_fail_errno(EIO, "%s", text), SLUICE_E_SYSTEM);
    size_t length = strlen(sluice_last_error());
    CHECK_EQ(length, 1023);
    CHECK_STR(sluice_last_error() + length - strlen(end), end);
}

TEST(result_follows_from_errno)
{
    static const struct {
        int error, result;
    } table[] = {
        { EACCES, SLUICE_E_PERMISSION }, { EPERM, SLUICE_E_PERMISSION },      { ENOMEM, SLUICE_E_NO_MEMORY },
        { ENOSPC, SLUICE_E_NO_MEMORY },  { EMFILE, SLUICE_E_NO_DESCRIPTORS }, { ENFILE, SLUICE_E_NO_DESCRIPTORS },
        { EIO, SLUICE_E_SYSTEM },        { ENOENT, SLUICE_E_SYSTEM },         { 12345, SLUICE_E_SYSTEM },
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char expected[200];
        snprintf(expected, sizeof(expected), "opening x: %s", strerror(table[i].error));
        CHECK_EQ(sl_fail_errno(table[i].error, "opening %s", "x"), table[i].result);
        CHECK_HAS(sluice_last_error(), expected);
    }
    CHECK_SAYS(sl_fail_errno(EMFILE, "x"), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
    CHECK_SAYS(sl_fail_errno(ENFILE, "x"), SLUICE_E_NO_DESCRIPTORS, "RLIMIT_NOFILE");
}

static void *other_thread(void *argument)
{
    CHECK_STR(sluice_last_error(), "");
    sl_say("theirs");
    CHECK_STR(sluice_last_error(), "theirs");
    return argument;
}

TEST(result_sentence_belongs_to_its_thread)
{
    pthread_t thread;
    sl_say("ours");
    CHECK_EQ(pthread_create(&thread, NULL, other_thread, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_STR(sluice_last_error(), "ours");
}

/* ---- the log ---- */

static char logged[8][256];
static int levels[8];
static int logged_count;

static void remember(void *user, enum sluice_log_level level, const char *text)
{
    CHECK(user == logged);
    CHECK(logged_count < 8);
    levels[logged_count] = (int)level;
    snprintf(logged[logged_count++], sizeof(logged[0]), "%s", text);
    errno = ENOTTY;
}

TEST(log_callback_gets_messages_up_to_its_level)
{
    sluice_log_set(remember, logged, SLUICE_LOG_INFO);
    CHECK(sl_log_on(SLUICE_LOG_ERROR) && sl_log_on(SLUICE_LOG_WARN) && sl_log_on(SLUICE_LOG_INFO));
    CHECK(!sl_log_on(SLUICE_LOG_DEBUG));
    sl_log(SLUICE_LOG_ERROR, "one %d", 1);
    sl_log(SLUICE_LOG_DEBUG, "not this one");
    sl_log(SLUICE_LOG_INFO, "two\nlines\r\n");
    CHECK_EQ(logged_count, 2);
    CHECK_EQ(levels[0], SLUICE_LOG_ERROR);
    CHECK_STR(logged[0], "one 1");
    CHECK_EQ(levels[1], SLUICE_LOG_INFO);
    CHECK_STR(logged[1], "two lines  ");
}

TEST(log_keeps_errno)
{
    sluice_log_set(remember, logged, SLUICE_LOG_DEBUG);
    errno = EXDEV;
    sl_log(SLUICE_LOG_DEBUG, "%s", "x");
    CHECK_EQ(errno, EXDEV);
}

TEST(log_null_restores_the_default)
{
    unsetenv("SLUICE_DEBUG");
    sluice_log_set(remember, logged, SLUICE_LOG_DEBUG);
    sluice_log_set(NULL, NULL, SLUICE_LOG_DEBUG);
    CHECK(!sl_log_on(SLUICE_LOG_ERROR));
    sl_log(SLUICE_LOG_ERROR, "nobody hears this");
    CHECK_EQ(logged_count, 0);
}

/* What the default callback writes to stderr for one message of each level. */
ROLE(default_log)
{
    if (dup2(1, 2) < 0)
        return 1;
    sl_log(SLUICE_LOG_ERROR, "a");
    sl_log(SLUICE_LOG_WARN, "b");
    sl_log(SLUICE_LOG_INFO, "c");
    sl_log(SLUICE_LOG_DEBUG, "d");
    return 0;
}

static void check_default(const char *value, int lines)
{
    static const char *const expected[] = { "sluice: error: a", "sluice: warning: b", "sluice: info: c",
                                            "sluice: debug: d" };
    if (value)
        setenv("SLUICE_DEBUG", value, 1);
    else
        unsetenv("SLUICE_DEBUG");
    struct child role = role_start("default_log", NULL);
    for (int i = 0; i < lines; i++)
        child_expect(&role, expected[i], 5);
    CHECK(!child_line(&role, 5));
    CHECK_EQ(child_wait(&role, 5), 0);
}

TEST(log_default_follows_the_environment)
{
    check_default(NULL, 0);
    check_default("", 0);
    check_default("0", 1);
    check_default("1", 2);
    check_default("2", 3);
    check_default("3", 4);
    check_default("yes", 2);
    check_default("10", 2);
}

/* Each callback gets the user pointer that was set with it, whatever happens at the same time. */

static int first_user, second_user;
static sl_word32 calls, stop_logging;

static void first(void *user, enum sluice_log_level level, const char *text)
{
    (void)level;
    (void)text;
    CHECK(user == &first_user);
    sl_add(&calls, 1);
}

static void second(void *user, enum sluice_log_level level, const char *text)
{
    (void)level;
    (void)text;
    CHECK(user == &second_user);
    sl_add(&calls, 1);
}

static void *keep_logging(void *argument)
{
    while (!sl_load(&stop_logging, relaxed))
        sl_log(SLUICE_LOG_ERROR, "x");
    return argument;
}

TEST(log_callback_and_user_belong_together)
{
    pthread_t threads[2];
    sluice_log_set(first, &first_user, SLUICE_LOG_DEBUG);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, keep_logging, NULL), 0);
    for (long i = 0; i < test_scale(20000); i++) {
        sluice_log_set(second, &second_user, SLUICE_LOG_DEBUG);
        sluice_log_set(first, &first_user, SLUICE_LOG_DEBUG);
    }
    CHECK_SOON(sl_load(&calls, relaxed) > 100, 5);
    sl_store(&stop_logging, 1, relaxed);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}
