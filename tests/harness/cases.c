/* SPDX-License-Identifier: MIT
 *
 * Tests of the harness itself. The name of each case is what the harness must report for it; expect.py compares.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "harness/test.h"

TEST(pass_checks)
{
    CHECK(1);
    CHECK_EQ(2, 2u);
    CHECK_EQ((void *)0, NULL);
    CHECK_NE(-1, 1);
    CHECK_LE(1, 1);
    CHECK_GE(2, 1);
    CHECK_NEAR(1.0, 1.05, 0.1);
    CHECK_STR("a", "a");
    CHECK_HAS("abc", "b");
    CHECK_MEM("ab", "ab", 2);
    CHECK_OK(0);
    CHECK_RESULT(-4, SLUICE_E_NAME);
    int tries = 0;
    CHECK_SOON(++tries > 3, 1);
}

TEST(fail_check)
{
    CHECK(0);
}
TEST(fail_eq)
{
    CHECK_EQ(3, 4);
}
TEST(fail_ne)
{
    CHECK_NE(3, 3);
}
TEST(fail_le)
{
    CHECK_LE(3, 2);
}
TEST(fail_ge)
{
    CHECK_GE(2, 3);
}
TEST(fail_near)
{
    CHECK_NEAR(1.0, 1.2, 0.1);
}
TEST(fail_str)
{
    CHECK_STR("a", "b");
}
TEST(fail_has)
{
    CHECK_HAS("abc", "d");
}
TEST(fail_mem)
{
    CHECK_MEM("ab", "aa", 2);
}
TEST(fail_ok)
{
    CHECK_OK(-3);
}
TEST(fail_result)
{
    CHECK_RESULT(-3, -4);
}
TEST(fail_says)
{
    CHECK_SAYS(-4, -4, "a word that is not there");
}
TEST(fail_soon)
{
    CHECK_SOON(0, 0.05);
}

TEST(skip_with_reason)
{
    SKIP("no %s here", "GPU");
}

TEST(fail_leaves_descriptor)
{
    CHECK(dup(0) > 0);
}
TEST(fail_closes_descriptor)
{
    close(0);
}
TEST(pass_keeps_descriptor)
{
    CHECK(dup(0) > 0);
    TEST_KEEPS_FDS();
}

static void *pausing(void *argument)
{
    for (;;)
        pause();
    return argument;
}

TEST(fail_leaves_thread)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, pausing, NULL), 0);
    pthread_detach(thread);
}

TEST(pass_begins_late)
{
    pthread_t thread;
    CHECK(dup(0) > 0);
    CHECK_EQ(pthread_create(&thread, NULL, pausing, NULL), 0);
    TEST_BEGINS_HERE();
}

TEST(fail_keeps_output_after_its_beginning)
{
    TEST_BEGINS_HERE();
    CHECK(dup(0) > 0);
}

TEST(fail_crashes)
{
    raise(SIGSEGV);
}
TEST(fail_exits_early)
{
    exit(0);
}
TEST(fail_exits_as_if_skipped)
{
    _exit(77);
}
TEST_TIMEOUT(fail_hangs, 1)
{
    pausing(NULL);
}
TEST_TIMEOUT(fail_hangs_without_output, 1)
{
    close(1);
    close(2);
    pausing(NULL);
}
TEST(fail_sanitizer_in_a_role)
{
    fprintf(stderr, "==1==ERROR: AddressSanitizer: heap-use-after-free\n");
}

/* ---- roles ---- */

ROLE(echo)
{
    role_say("hello %s, %d arguments", argv[1], argc - 1);
    for (char *line; (line = role_line());)
        role_say("got %s", line);
    return 0;
}

ROLE(folder)
{
    role_say("%s %s", getenv("SLUICE_DIR"), test_dir());
    return 3;
}

ROLE(endless)
{
    pausing(NULL);
    return 0;
}

ROLE(failing)
{
    CHECK(argc == 7);
    return 0;
}

TEST(pass_talks_with_role)
{
    struct child role = role_start("echo", "bob", "x", NULL);
    child_expect(&role, "hello bob, 2 arguments", 2);
    child_send(&role, "one");
    child_expect(&role, "got one", 2);
    child_send(&role, "two");
    child_send(&role, "three");
    child_expect(&role, "got two", 2);
    CHECK_STR(child_line(&role, 2), "got three");
    child_send(&role, "four");
    role_stop(&role);
    child_expect(&role, "got four", 1); /* its last output is still there */
    CHECK(child_line(&role, 1) == NULL);
}

TEST(pass_role_has_its_tests_folder)
{
    const char *dir = test_dir();
    char both[1024];
    CHECK_EQ(access(dir, W_OK), 0);
    snprintf(both, sizeof both, "%s %s", dir, dir);
    struct child role = role_start("folder", NULL);
    CHECK_EQ(child_wait(&role, 2), 3);
    child_expect(&role, both, 1);
}

TEST(pass_shared_memory_is_mapped_once)
{
    char *memory = test_shared_memory(8);
    for (int i = 0; i < 100000; i++)
        CHECK_EQ(test_shared_memory(8), memory);
    CHECK_EQ(*memory, 0);
}

TEST(pass_role_is_killed)
{
    struct child killed = role_start("endless", NULL);
    struct child stopped = role_start("endless", NULL);
    struct child left = role_start("endless", NULL);
    child_kill(&killed, SIGKILL);
    CHECK_EQ(killed.status, -SIGKILL);
    child_kill(&stopped, SIGSTOP);
    CHECK(!child_ended(&stopped));
    CHECK(!child_ended(&left));
}

TEST(pass_role_fails)
{
    struct child role = role_start("failing", NULL);
    CHECK_EQ(child_wait(&role, 2), 1);
}

TEST(pass_other_program)
{
    struct child shell = child_start((const char *[]){ "sh", "-c", "echo 5; exit 4", NULL });
    CHECK_STR(child_line(&shell, 2), "5");
    CHECK_EQ(child_wait(&shell, 2), 4);
}

TEST(fail_role_says_else)
{
    struct child role = role_start("echo", "bob", NULL);
    child_expect(&role, "goodbye", 2);
}

TEST(fail_role_says_nothing)
{
    struct child role = role_start("endless", NULL);
    child_line(&role, 0.05);
}

TEST(fail_role_does_not_stop)
{
    struct child role = role_start("endless", NULL);
    child_wait(&role, 0.05);
}

TEST(fail_no_such_role)
{
    struct child role = role_start("nobody", NULL);
    role_stop(&role);
}
