/* SPDX-License-Identifier: MIT
 *
 * `sluice NAME` runs the program `sluice-NAME`.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct program p;

/* A script in the test's folder, which PATH begins with from here on. */
static void write_script(const char *name, const char *text, mode_t mode)
{
    char path[8192];
    FILE *file = fopen(in_dir(name), "w");
    fputs(text, file);
    fclose(file);
    CHECK_EQ(chmod(in_dir(name), mode), 0);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", test_dir());
    setenv("PATH", path, 1);
}

#define SCRIPT "#!/bin/sh\necho \"$#\"; for each; do echo \"<$each>\"; done; trap '' XFSZ; exit 7\n"

TEST(a_program_in_path_gets_the_arguments)
{
    write_script("sluice-hello", SCRIPT, 0755);
    CHECK_EQ(sluice_run(&p, "hello", "a b", "", "--x"), 7);
    CHECK_STR(p.out, "3\n<a b>\n<>\n<--x>\n");
    CHECK_STR(p.err, "");
    CHECK_EQ(sluice_run(&p, "help", "hello"), 7);
    CHECK_STR(p.out, "1\n<--help>\n");
}

TEST(commands_that_are_built_in_come_first)
{
    write_script("sluice-ls", SCRIPT, 0755);
    CHECK_EQ(sluice_run(&p, "ls"), 0);
    CHECK_EQ(sluice_run(&p, "ls", "--help"), 0);
    CHECK_HAS(p.out, "usage: sluice ls");
}

TEST(a_program_beside_the_command_comes_first)
{
    char line[4096];
    write_script("sluice-hello", "#!/bin/sh\necho in PATH\n", 0755);
    CHECK_EQ(mkdir(in_dir("bin"), 0755), 0);
    snprintf(line, sizeof line, "cp '%s' '%s'", getenv("SLUICE_COMMAND"), in_dir("bin/sluice"));
    CHECK_EQ(system(line), 0);
    snprintf(line, sizeof line, "%s", getenv("SLUICE_COMMAND"));
    strcpy(strrchr(line, '/'), "/../src"); /* the copy does not find the library by itself */
    setenv("LD_LIBRARY_PATH", line, 1);
    setenv("SLUICE_COMMAND", in_dir("bin/sluice"), 1);
    CHECK_EQ(sluice_run(&p, "hello"), 0);
    CHECK_STR(p.out, "in PATH\n");
    write_script("bin/sluice-hello", "#!/bin/sh\necho beside\n", 0755);
    CHECK_EQ(sluice_run(&p, "hello"), 0);
    CHECK_STR(p.out, "beside\n");
}

TEST(what_cannot_run)
{
    write_script("sluice-data", SCRIPT, 0644);
    CHECK_EQ(sluice_run(&p, "data"), 2);
    CHECK_STR(p.err, "sluice: unknown command 'data'; see sluice --help.\n");
    write_script("sluice-broken", "no program", 0755);
    CHECK_EQ(sluice_run(&p, "broken"), 1);
    CHECK_HAS(p.err, "cannot run ");
    CHECK_HAS(p.err, "/sluice-broken: ");
    CHECK_EQ(sluice_run(&p, "../sluice-data"), 2);
    CHECK_EQ(sluice_run(&p, ""), 2);
    CHECK_EQ(sluice_run(&p, "--broken"), 2);
}

TEST(completion_offers_them)
{
    write_script("sluice-hello", SCRIPT, 0755);
    write_script("sluice-help-me-not", SCRIPT, 0644);
    CHECK_EQ(sluice_run(&p, "__complete", "hel"), 0);
    CHECK_STR(p.out, "hello\ta program of its own\nhelp\toptions and examples of a command\n");
    CHECK_EQ(sluice_run(&p, "__complete", "hello", ""), 0);
    CHECK_STR(p.out, ":files\n");
}
