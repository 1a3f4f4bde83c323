/* SPDX-License-Identifier: MIT
 *
 * Compiled code on disk: what is found again, by whom, and which folders are used.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/kernel.h>

#include "harness/test.h"
#include "kernel/cache.h"
#include "os/os.h"
#include "util/result.h"

#define COMPILER "Sluice 0.1.0, a compiler of tests 1.2"

static const char *folder(void)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/cache", test_dir());
    setenv("SLUICE_CACHE", path, 1);
    return path;
}

static const char *const kernels[] = { "blur", "scale<float>" };
static const char *const symbols[] = { "sl_run_0", "sl_run_1" };

static struct sl_source source_of(const char *text)
{
    return (struct sl_source){
        .name = "fx.cu", .text = text, .bytes = strlen(text), .kernels = kernels, .kernel_count = 2
    };
}

/* Code of two kernels without parameters, and `size` bytes that depend on the source. */
static struct sl_code code_of(const struct sl_source *source, size_t size)
{
    static const uint32_t description[] = { 0x536c7569u, 0x63654b65u, 0x9e3779b9u, 0x7f4a7c15u, 0, 0 };
    char *bytes = malloc(size + 2 * sizeof description);
    struct sl_code code;

    CHECK(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = source->text[i % source->bytes];
    for (uint32_t k = 0; k < 2; k++) {
        memcpy(bytes + size + k * sizeof description, description, sizeof description);
        memcpy(bytes + size + k * sizeof description + 16, &k, sizeof k);
    }
    CHECK_OK(sl_code_make(source, bytes, size + 2 * sizeof description, symbols, "fx.cu(2): warning: ...", &code));
    free(bytes);
    return code;
}

static void store_sized(const char *text, size_t size)
{
    struct sl_source source = source_of(text);
    struct sl_code code = code_of(&source, size);

    sl_cache_store(&source, COMPILER, &code);
    sl_code_free(&code);
}

static void store(const char *text)
{
    store_sized(text, 5000);
}

/* If an entry is found, it is the right one, whole. */
static bool found_sized(const char *text, size_t size)
{
    struct sl_source source = source_of(text);
    struct sl_code code, expected;

    if (!sl_cache_find(&source, COMPILER, &code))
        return false;
    expected = code_of(&source, size);
    CHECK_EQ(code.size, expected.size);
    CHECK_MEM(code.bytes, expected.bytes, code.size);
    CHECK_STR(code.log, expected.log);
    CHECK_EQ(code.kernel_count, 2);
    CHECK_STR(code.kernels[1].name, "scale<float>");
    CHECK_STR(code.kernels[1].symbol, "sl_run_1");
    sl_code_free(&code);
    sl_code_free(&expected);
    return true;
}

static bool found(const char *text)
{
    return found_sized(text, 5000);
}

/* Calls for each file in the folder; returns their number. */
static uint32_t each_file(void (*function)(const char *path))
{
    char path[1024];
    uint32_t count = 0;
    DIR *dir = opendir(folder());

    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", folder(), entry->d_name);
        if (function)
            function(path);
    }
    if (dir)
        closedir(dir);
    return count;
}

static char one_path[1024];

static void keep_path(const char *path)
{
    strcpy(one_path, path);
}

static const char *only_file(void)
{
    CHECK_EQ(each_file(keep_path), 1);
    return one_path;
}

static void delete_file(const char *path)
{
    unlink(path);
}

/* ---- what is found ---- */

TEST(cache_finds_what_was_stored)
{
    struct stat status;

    folder();
    CHECK(!found("a"));
    CHECK_EQ(stat(folder(), &status), -1); /* only a store makes it */
    umask(0);
    store("a");
    CHECK(found("a"));
    CHECK(!found("b"));
    CHECK_EQ(stat(folder(), &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0700);
    CHECK_EQ(stat(only_file(), &status), 0);
    CHECK_EQ(status.st_mode & 07777, 0600);
}

TEST(cache_compares_all_that_decides_the_result)
{
    static const char *const options[] = { "-DA", "-DB" }, *const joined[] = { "-DA-DB" };
    static const char *const others[] = { "blur", "scale<int>" };
    struct sl_source source = source_of("a"), other;
    struct sl_code code = code_of(&source, 100), none;

    folder();
    source.options = options;
    source.option_count = 2;
    sl_cache_store(&source, COMPILER, &code);
    sl_code_free(&code);
    CHECK(sl_cache_find(&source, COMPILER, &code));
    sl_code_free(&code);
    CHECK(!sl_cache_find(&source, "another", &none));
    other = source;
    other.option_count = 1;
    CHECK(!sl_cache_find(&other, COMPILER, &none));
    other.options = joined;
    CHECK(!sl_cache_find(&other, COMPILER, &none));
    other = source;
    other.kernels = others;
    CHECK(!sl_cache_find(&other, COMPILER, &none));
    other.kernel_count = 1;
    CHECK(!sl_cache_find(&other, COMPILER, &none));
    other = source;
    other.name = "other.cu";
    CHECK(!sl_cache_find(&other, COMPILER, &none));
    other = source;
    other.text = "b";
    CHECK(!sl_cache_find(&other, COMPILER, &none));
}

static void write_file(const char *name, const char *text)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    FILE *file = fopen(path, "w");
    CHECK(file);
    fputs(text, file);
    fclose(file);
}

/* A header of a header changes. */
TEST(cache_notices_headers_that_change)
{
    char option[600];
    const char *const options[] = { option };
    struct sl_source source = source_of("#include \"one.h\"\n  # include <sluice.cuh>\n");
    struct sl_code code = code_of(&source, 100), again;

    folder();
    snprintf(option, sizeof option, "-I%s", test_dir());
    source.options = options;
    source.option_count = 1;
    write_file("one.h", "#include <two.h>\n");
    write_file("two.h", "#include \"one.h\"\n#define N 1\n");
    sl_cache_store(&source, COMPILER, &code);
    sl_code_free(&code);
    CHECK(sl_cache_find(&source, COMPILER, &again));
    sl_code_free(&again);
    write_file("two.h", "#include \"one.h\"\n#define N 2\n");
    CHECK(!sl_cache_find(&source, COMPILER, &again));
    write_file("two.h", "#include \"one.h\"\n#define N 1\n");
    CHECK(sl_cache_find(&source, COMPILER, &again));
    sl_code_free(&again);
    write_file("sluice.cuh", "// another comes first\n");
    CHECK(!sl_cache_find(&source, COMPILER, &again));
}

/* A macro may name any file. */
TEST(cache_keeps_nothing_whose_headers_are_not_known)
{
    folder();
    store("#define H \"x.h\"\n#include H\n");
    CHECK(!found("#define H \"x.h\"\n#include H\n"));
    CHECK_EQ(each_file(NULL), 0);
}

/* ---- entries that are none ---- */

/* The file's name is that of another source, as if both had the same hash. */
TEST(cache_takes_a_collision_for_a_miss)
{
    char first[1024], kept[1024];

    folder();
    store("first");
    strcpy(first, only_file());
    store("second");
    CHECK(found("second"));
    snprintf(kept, sizeof kept, "%s/kept", test_dir());
    CHECK_EQ(rename(first, kept), 0);
    CHECK_EQ(rename(kept, only_file()), 0);
    CHECK(!found("second"));
    store("second");
    CHECK(found("second"));
}

TEST(cache_replaces_damaged_entries)
{
    void *bytes;
    size_t size;

    folder();
    store_sized("damaged", 64);
    const char *path = only_file();
    CHECK_OK(sl_os_file_read(path, &bytes, &size));
    for (size_t i = 0; i < 2 * size; i++) {
        char *copy = malloc(size);
        CHECK(copy);
        memcpy(copy, bytes, size);
        copy[i % size] ^= i < size ? 1 : -128;
        CHECK_EQ(unlink(path), 0);
        CHECK_OK(sl_os_file_write(path, copy, size));
        CHECK(!found_sized("damaged", 64));
        free(copy);
    }
    for (size_t length = 0; length < size; length++) {
        CHECK_EQ(truncate(path, (off_t)length), 0);
        CHECK(!found_sized("damaged", 64));
        CHECK_EQ(unlink(path), 0);
        CHECK_OK(sl_os_file_write(path, bytes, size));
    }
    CHECK(found_sized("damaged", 64));
    CHECK_EQ(truncate(path, (off_t)size / 2), 0);
    store_sized("damaged", 64);
    CHECK(found_sized("damaged", 64));
    free(bytes);
}

/* ---- how many ---- */

static void make_old(const char *path)
{
    struct timespec times[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };

    CHECK_EQ(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void make_half_of_them_old(const char *path)
{
    static int count;

    if (count++ % 2)
        make_old(path);
}

TEST_TIMEOUT(cache_keeps_512_entries, 60)
{
    char text[32];

    folder();
    for (int i = 0; i < 600; i++) {
        snprintf(text, sizeof text, "text %d", i);
        store_sized(text, 10);
    }
    CHECK_EQ(each_file(NULL), SL_CACHE_ENTRIES);
    CHECK(found_sized("text 599", 10));
    CHECK(!found_sized("text 0", 10));

    /* One that was found is not among the oldest. */
    each_file(make_old);
    CHECK(found_sized("text 300", 10));
    for (int i = 600; i < 600 + SL_CACHE_ENTRIES - 1; i++) {
        snprintf(text, sizeof text, "text %d", i);
        store_sized(text, 10);
    }
    CHECK(found_sized("text 300", 10));
    CHECK_EQ(each_file(NULL), SL_CACHE_ENTRIES);
}

/* Other files in the folder are the user's; those of killed processes go after an hour. */
TEST(cache_removes_only_its_own_files)
{
    char path[1024];

    folder();
    store("a");
    write_file("cache/notes.kernels", "");
    write_file("cache/" SL_OS_BESIDE "1-1-1", "");
    each_file(make_half_of_them_old);
    snprintf(path, sizeof path, "%s/" SL_OS_BESIDE "1-1-1", folder());
    store("b");
    snprintf(path, sizeof path, "%s/notes.kernels", folder());
    make_old(path);
    snprintf(path, sizeof path, "%s/" SL_OS_BESIDE "1-1-1", folder());
    if (access(path, F_OK) == 0)
        make_old(path);
    store("c");
    CHECK_EQ(access(path, F_OK), -1);
    snprintf(path, sizeof path, "%s/notes.kernels", folder());
    CHECK_EQ(access(path, F_OK), 0);
}

/* ---- several processes ---- */

TEST_TIMEOUT(cache_of_eight_processes_has_one_entry, 60)
{
    pid_t children[8];
    int status;

    folder();
    for (int i = 0; i < 8; i++) {
        if ((children[i] = fork()) == 0) {
            for (int n = 0; n < 50; n++) {
                found_sized("shared", 200000);
                store_sized("shared", 200000);
                if (!found_sized("shared", 200000))
                    _exit(1);
            }
            _exit(0);
        }
        CHECK_GE(children[i], 1);
    }
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(waitpid(children[i], &status, 0), children[i]);
        CHECK_EQ(status, 0);
    }
    only_file();
    CHECK(found_sized("shared", 200000));
}

static uint32_t entries;

static void count_entry(const char *path)
{
    entries += strstr(path, ".kernels") != NULL;
}

#define TEXTS 7

static const char *text_of(int i)
{
    static char text[32];

    snprintf(text, sizeof text, "text %d", i % TEXTS);
    return text;
}

/* Each entry that is there at any moment is whole. */
TEST_TIMEOUT(cache_of_killed_processes_has_no_torn_entry, 60)
{
    int status;

    folder();
    srand(1);
    for (long round = 0; round < test_scale(60); round++) {
        each_file(delete_file);
        pid_t child = fork();
        if (child == 0)
            for (int i = 0;; i++)
                store_sized(text_of(i), 300000);
        CHECK_GE(child, 1);
        CHECK_SOON(each_file(NULL) > 0, 20);
        test_nap(rand() % 8000000);
        kill(child, SIGKILL);
        CHECK_EQ(waitpid(child, &status, 0), child);
        uint32_t whole = entries = 0;
        for (int i = 0; i < TEXTS; i++)
            whole += found_sized(text_of(i), 300000);
        each_file(count_entry);
        CHECK_EQ(whole, entries);
    }
}

/* ---- which folder ---- */

static int logged;
static char log_text[1024];

static void keep_log(void *user, enum sluice_log_level level, const char *text)
{
    (void)user;
    if (level <= SLUICE_LOG_WARN && logged++ == 0)
        snprintf(log_text, sizeof log_text, "%s", text);
}

static void check_unused(const char *why)
{
    char path[512];

    sluice_log_set(keep_log, NULL, SLUICE_LOG_WARN);
    store("a");
    CHECK(!found("a"));
    store("a");
    CHECK_EQ(logged, 1);
    CHECK_HAS(log_text, why);
    CHECK_EQ(each_file(NULL), 0);
    CHECK_SAYS(sl_cache_folder(path, sizeof path), SLUICE_NOT_READY, why);
}

TEST(cache_in_a_folder_open_to_others_is_not_used)
{
    CHECK_EQ(mkdir(folder(), 0777), 0);
    CHECK_EQ(chmod(folder(), 0777), 0);
    check_unused("mode 0777 where 0700 is needed");
}

TEST(cache_in_another_users_folder_is_not_used)
{
    if (geteuid() != 0)
        SKIP("needs root");
    CHECK_EQ(mkdir(folder(), 0700), 0);
    CHECK_EQ(chown(folder(), 4001, 4001), 0);
    check_unused("belongs to user 4001");
}

TEST(cache_in_a_link_is_not_used)
{
    char target[600];

    snprintf(target, sizeof target, "%s/target", test_dir());
    CHECK_EQ(mkdir(target, 0700), 0);
    CHECK_EQ(symlink(target, folder()), 0);
    check_unused("is a link");
}

TEST(cache_is_off)
{
    char path[512];

    setenv("SLUICE_CACHE", "off", 1);
    setenv("XDG_CACHE_HOME", test_dir(), 1);
    store("a");
    CHECK(!found("a"));
    CHECK_SAYS(sl_cache_folder(path, sizeof path), SLUICE_NOT_READY, "SLUICE_CACHE is off");
    CHECK_EQ(each_file(NULL), 0);
}

TEST(cache_folder_is_the_first_that_is_named)
{
    char path[512], expected[512];

    setenv("SLUICE_CACHE", "/some/where", 1);
    setenv("XDG_CACHE_HOME", "/cache", 1);
    setenv("HOME", test_dir(), 1);
    CHECK_OK(sl_cache_folder(path, sizeof path));
    CHECK_STR(path, "/some/where");
    setenv("SLUICE_CACHE", "", 1);
    CHECK_OK(sl_cache_folder(path, sizeof path));
    CHECK_STR(path, "/cache/sluice");
    setenv("XDG_CACHE_HOME", "relative", 1);
    CHECK_OK(sl_cache_folder(path, sizeof path));
    snprintf(expected, sizeof expected, "%s/.cache/sluice", test_dir());
    CHECK_STR(path, expected);
    store("a"); /* which makes all folders */
    CHECK(found("a"));
    CHECK_EQ(access(expected, F_OK), 0);
    unsetenv("HOME");
    CHECK_RESULT(sl_cache_folder(path, sizeof path), SLUICE_NOT_READY);
}

TEST(cache_on_a_full_disk_keeps_nothing)
{
    CHECK_EQ(mkdir(folder(), 0700), 0);
    test_small_disk(folder(), "size=64k,mode=700");
    sluice_log_set(keep_log, NULL, SLUICE_LOG_WARN);
    store_sized("small", 1000);
    store_sized("large", 100000);
    CHECK(found_sized("small", 1000));
    CHECK(!found_sized("large", 100000));
    CHECK_EQ(logged, 1);
    CHECK_HAS(log_text, "fx.cu was not kept in the cache of kernels");
    CHECK_EQ(each_file(NULL), 1);
}

/* ---- from a source to a kernel ---- */

ROLE(loader)
{
    struct sluice_device device;
    struct sluice_module module;
    struct sluice_kernel kernel;

    CHECK_OK(sluice_device_open(&device, "host"));
    int64_t time = test_now();
    int r = sluice_module_load(device, argv[1], strlen(argv[1]), NULL, &module);
    time = test_now() - time;
    CHECK(r == 0 || r == SLUICE_E_COMPILE);
    if (r == 0)
        CHECK_OK(sluice_kernel_get(module, "k", &kernel));
    role_say("%d", r);
    fprintf(stderr, "# loaded in %.2f ms\n", (double)time / 1e6);
    sluice_module_unload(&module);
    CHECK_OK(sluice_device_close(&device));
    return 0;
}

/* How often the compiler has been started. */
static long starts(void)
{
    char path[600];
    struct stat status;

    snprintf(path, sizeof path, "%s/starts", test_dir());
    return stat(path, &status) == 0 ? (long)status.st_size : 0;
}

static void load_in_another_process(const char *text, const char *result)
{
    struct child child = role_start("loader", text, NULL);

    child_expect(&child, result, 60);
    CHECK_EQ(child_wait(&child, 60), 0);
}

TEST_TIMEOUT(cache_saves_the_compiler, 120)
{
    static const char good[] = "__global__ void k(int *p) { *p = 1; }", bad[] = "__global__ void k(int *p) { *q = 1; }";
    struct sl_os_program program;
    char path[600], script[5000], result[16];

    if (!sl_os_find_program("g++", &program))
        SKIP("no g++");
    folder();
    snprintf(path, sizeof path, "%s/c++", test_dir());
    snprintf(script, sizeof script, "#!/bin/sh\nprintf x >>'%s/starts'\nexec '%s' \"$@\"\n", test_dir(), program.path);
    CHECK_OK(sl_os_file_write(path, script, strlen(script)));
    setenv("SLUICE_CXX", path, 1);
    load_in_another_process(good, "0");
    long first = starts();
    CHECK_GE(first, 1);
    for (int i = 0; i < 3; i++)
        load_in_another_process(good, "0");
    CHECK_EQ(starts(), first);
    only_file();
    snprintf(result, sizeof result, "%d", SLUICE_E_COMPILE);
    load_in_another_process(bad, result);
    first = starts();
    load_in_another_process(bad, result);
    CHECK_GE(starts(), first + 1);
    only_file();
}

TEST_TIMEOUT(eight_processes_load_one_source_at_once, 120)
{
    static const char text[] = "__global__ void k(int *p) { *p = 1; }";
    struct child children[8];

    folder();
    for (int i = 0; i < 8; i++)
        children[i] = role_start("loader", text, NULL);
    for (int i = 0; i < 8; i++) {
        child_expect(&children[i], "0", 100);
        CHECK_EQ(child_wait(&children[i], 60), 0);
    }
    only_file();
}

/* At any moment of the compilation, the write, or the load: the next process has its kernel. */
TEST_TIMEOUT(a_load_that_is_killed_disturbs_no_other, 120)
{
    static const char text[] = "__global__ void k(int *p) { *p = 1; }";

    folder();
    CHECK(setenv("TMPDIR", test_dir(), 1) == 0); /* what the killed ones leave goes with the test */
    srand(1);
    for (long round = 0; round < test_scale(6); round++) {
        each_file(delete_file);
        struct child child = role_start("loader", text, NULL);
        test_nap(rand() % 1000 * SLUICE_MS);
        child_kill(&child, SIGKILL);
        CHECK_LE(each_file(NULL), 1);
        load_in_another_process(text, "0");
        only_file();
    }
}
