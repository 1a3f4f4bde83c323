/* SPDX-License-Identifier: MIT
 *
 * Programs that are run to their end, temporary folders, and libraries from memory.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/test.h"
#include "os/os.h"

static struct sl_os_run run_shell(const char *script, const char *input, const char *const *environment)
{
    const char *argv[] = { "/bin/sh", "-c", script, NULL };
    struct sl_os_run run = {
        .argv = argv, .environment = environment, .input = input, .input_size = input ? strlen(input) : 0
    };

    CHECK_OK(sl_os_run(&run));
    return run;
}

static void check_shell(const char *script, const char *input, const char *output, int status)
{
    struct sl_os_run run = run_shell(script, input, NULL);

    CHECK_STR(run.output, output);
    CHECK_EQ(run.output_size, strlen(output));
    CHECK_EQ(run.status, status);
    free(run.output);
}

TEST(run_gives_input_output_and_status)
{
    check_shell("cat; echo error >&2; echo more; exit 3", "text\n", "text\nerror\nmore\n", 3);
    check_shell("kill -9 $$", NULL, "", 128 + 9);
    check_shell("exit 0", "a program need not read this", "", 0);
}

TEST(run_takes_large_texts)
{
    size_t size = 3 << 20;
    char *text = malloc(size + 1);

    CHECK(text);
    memset(text, 'x', size);
    text[size] = 0;
    check_shell("cat", text, text, 0);
    free(text);
}

TEST(run_does_not_wait_for_what_the_program_leaves_behind)
{
    struct sl_os_run run = run_shell("sleep 1000 & echo $!", NULL, NULL);

    CHECK_EQ(kill(atoi(run.output), SIGKILL), 0); /* it runs still */
    free(run.output);
}

TEST(run_adds_to_the_environment)
{
    static const char *const list[] = { "SPAWN_A=new", "SPAWN_C=three", NULL };

    setenv("SPAWN_A", "old", 1);
    setenv("SPAWN_AB", "kept", 1);
    struct sl_os_run run = run_shell("echo $SPAWN_A $SPAWN_AB $SPAWN_C; env | grep -c ^SPAWN_A=", NULL, list);
    CHECK_STR(run.output, "new kept three\n1\n");
    free(run.output);
}

TEST(run_passes_on_no_signals_and_no_descriptors)
{
    sigset_t all;

    sigfillset(&all);
    CHECK_EQ(sigprocmask(SIG_BLOCK, &all, NULL), 0);
    CHECK(signal(SIGTERM, SIG_IGN) != SIG_ERR);
    check_shell("kill -TERM $$; echo ignored", NULL, "", 128 + SIGTERM);
    check_shell("ls -l /proc/self/fd/ | grep -c memfd:input", NULL, "1\n", 0);
    check_shell("ls -l /proc/self/fd/ | grep -c memfd:output", NULL, "1\n", 0); /* ls's stdout is a pipe */
}

TEST(run_says_that_there_is_no_such_program)
{
    const char *argv[] = { "/no/such/program", NULL };
    struct sl_os_run run = { .argv = argv };

    CHECK_SAYS(sl_os_run(&run), SLUICE_E_SYSTEM, "/no/such/program");
}

TEST(run_does_without_a_status_where_children_are_ignored)
{
    signal(SIGCHLD, SIG_IGN);
    struct sl_os_run run = run_shell("echo done; sh -c 'exit 4'; echo $?", NULL, NULL);
    CHECK_STR(run.output, "done\n4\n"); /* the program's own children are not ignored */
    CHECK_EQ(run.status, -1);
    free(run.output);
}

TEST(find_program_looks_in_path)
{
    struct sl_os_program program, again;

    CHECK(sl_os_find_program("sh", &program));
    CHECK(sl_os_find_program(program.path, &again));
    CHECK_STR(again.path, program.path);
    CHECK_EQ(again.inode, program.inode);
    CHECK(!sl_os_find_program("no-program-has-this-name", &program));
    CHECK(!sl_os_find_program("", &program));
    CHECK(!sl_os_find_program("/etc/passwd", &program)); /* not executable */
    CHECK(!sl_os_find_program("/bin", &program));
    setenv("PATH", "", 1);
    CHECK(!sl_os_find_program("sh", &program));
}

TEST(temp_folder_is_private_and_goes_with_its_files)
{
    char folder[SL_OS_TEMP], path[SL_OS_TEMP + 8];
    struct stat status;
    void *bytes;
    size_t size;

    setenv("TMPDIR", test_dir(), 1);
    CHECK_OK(sl_os_temp_make(folder, sizeof folder));
    CHECK_EQ(strncmp(folder, test_dir(), strlen(test_dir())), 0);
    CHECK_EQ(stat(folder, &status), 0);
    CHECK_EQ(status.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/file", folder);
    CHECK_OK(sl_os_file_write(path, "12345", 5));
    CHECK_RESULT(sl_os_file_write(path, "12345", 5), SLUICE_E_SYSTEM); /* there is one */
    CHECK_OK(sl_os_file_read(path, &bytes, &size));
    CHECK_EQ(size, 5);
    CHECK_MEM(bytes, "12345", 5);
    free(bytes);
    sl_os_temp_remove(folder);
    CHECK(stat(folder, &status) < 0);
    CHECK_SAYS(sl_os_file_read(path, &bytes, &size), SLUICE_E_SYSTEM, path);
    setenv("TMPDIR", "/no/such/folder", 1);
    CHECK_SAYS(sl_os_temp_make(folder, sizeof folder), SLUICE_E_SYSTEM, "TMPDIR");
}

TEST(load_refuses_what_is_no_library)
{
    void *library;

    setenv("TMPDIR", test_dir(), 1);
    CHECK_RESULT(sl_os_dl_load("sluice test", "no library", 10, &library), SLUICE_E_UNSUPPORTED);
    CHECK_RESULT(sl_os_dl_load("sluice test", "", 0, &library), SLUICE_E_UNSUPPORTED);
}
