/* SPDX-License-Identifier: MIT
 *
 * The main program of a fuzzer without an engine: feeds it each file named, or each file of a folder (by default its
 * own corpus), and then mutations of them, the same in every run. It writes TAP, so a corpus is a list of tests. An
 * input that crashes it is kept in a file.
 *
 * SLUICE_TEST_SCALE makes more or fewer mutations.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#define MUTATIONS  2000
#define INPUT_MAX  65536
#define INPUTS_MAX 4096

struct sample {
    uint8_t *data;
    size_t size;
};

static int count;
static struct sample samples[INPUTS_MAX]; /* the inputs, for mutations */
static size_t sample_count;
static const uint8_t *current;
static size_t current_size;

/* ---- crashes ---- */

/* A sanitizer calls this before it ends the process; without one, signals do. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

static void keep_input(void)
{
    static const char path[] = "crash-" FUZZ_NAME;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0 && current && write(fd, current, current_size) == (ssize_t)current_size) {
        static const char text[] = "\n# it died of what is now in the file crash-" FUZZ_NAME "\n";
        (void)!write(STDOUT_FILENO, text, sizeof text - 1);
    }
}

static void died(int number)
{
    keep_input();
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- feeding ---- */

static void feed(const uint8_t *data, size_t size)
{
    /* A copy of exactly this size, so that a sanitizer finds an access beyond it. */
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    current = copy;
    current_size = size;
    LLVMFuzzerTestOneInput(copy, size);
    current = NULL;
    free(copy);
}

/* One test. The name comes first, so that it is known if the fuzzer crashes. */
static void test_input(const char *name, const uint8_t *data, size_t size)
{
    printf("# %s\n", name);
    fflush(stdout);
    feed(data, size);
    printf("ok %d - %s\n", ++count, name);
    struct sample *sample = &samples[sample_count];
    if (sample_count < INPUTS_MAX && size <= INPUT_MAX && (sample->data = malloc(size ? size : 1))) {
        memcpy(sample->data, data, size);
        sample->size = size;
        sample_count++;
    }
}

static int test_file(const char *path)
{
    struct stat status;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &status)) {
        perror(path);
        return 1;
    }
    size_t size = (size_t)status.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, file) != size) {
        perror(path);
        return 1;
    }
    fclose(file);
    const char *slash = strrchr(path, '/');
    test_input(slash ? slash + 1 : path, data, size);
    free(data);
    return 0;
}

static int test_path(const char *path)
{
    struct dirent **entries;
    struct stat status;
    int bad = 0;

    if (stat(path, &status)) {
        perror(path);
        return 1;
    }
    if (!S_ISDIR(status.st_mode))
        return test_file(path);
    int found = scandir(path, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        char name[4096];
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            bad |= test_file(name);
        free(entries[i]);
    }
    if (found >= 0)
        free(entries);
    return bad || found < 0;
}

static void test_patterns(void)
{
    uint8_t data[4096] = { 0 };
    test_input("nothing", data, 0);
    test_input("zeros", data, sizeof data);
    memset(data, 0xff, sizeof data);
    test_input("ones", data, sizeof data);
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof data; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (uint8_t)(state >> 24);
    }
    test_input("noise", data, sizeof data);
    test_input("a little noise", data, 7);
}

/* ---- mutations ---- */

static uint64_t random_state = 1;

static size_t below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return limit ? (size_t)(random_state >> 11) % limit : 0;
}

static void overwrite(uint8_t *data, size_t size)
{
    static const uint64_t telling[] = { 0,
                                        1,
                                        2,
                                        3,
                                        16,
                                        64,
                                        127,
                                        128,
                                        255,
                                        256,
                                        4095,
                                        4096,
                                        65535,
                                        65536,
                                        INT32_MAX,
                                        UINT32_MAX,
                                        (uint64_t)INT64_MAX,
                                        (uint64_t)INT64_MIN,
                                        UINT64_MAX };
    uint64_t value = telling[below(sizeof telling / sizeof telling[0])];
    size_t width = (size_t)1 << below(4);
    if (width <= size)
        memcpy(data + below(size - width + 1), &value, width);
}

/* Puts `n` bytes of another sample over, or in front of, what is there. */
static size_t mix_in(uint8_t *data, size_t size, size_t at)
{
    const struct sample *other = &samples[below(sample_count)];
    size_t n = 1 + below(64), from = below(other->size);
    if (n > other->size - from)
        n = other->size - from;
    if (below(2) && size + n <= INPUT_MAX) {
        memmove(data + at + n, data + at, size - at);
        size += n;
    } else if (n > size - at) {
        n = size - at;
    }
    memcpy(data + at, other->data + from, n);
    return size;
}

static size_t mutate(uint8_t *data, size_t size)
{
    for (size_t n = 1 + below(6); n > 0; n--) {
        size_t at = below(size), length = 1 + below(16);
        switch (size ? below(5) : 4) {
        case 0: data[at] ^= (uint8_t)(1u << below(8)); break;
        case 1: data[at] = (uint8_t)below(256); break;
        case 2: overwrite(data, size); break;
        case 3: /* cut a piece out */
            length = length < size - at ? length : size - at;
            memmove(data + at, data + at + length, size - at - length);
            size -= length;
            break;
        default: size = mix_in(data, size, at); break;
        }
    }
    return size;
}

static void test_mutations(void)
{
    static uint8_t data[INPUT_MAX];
    const char *scale = getenv("SLUICE_TEST_SCALE");
    long total = (long)(MUTATIONS * (scale ? strtod(scale, NULL) : 1));

    printf("# mutations\n");
    fflush(stdout);
    for (long i = 0; i < total; i++) {
        const struct sample *sample = &samples[below(sample_count)];
        memcpy(data, sample->data, sample->size);
        feed(data, mutate(data, sample->size));
    }
    printf("ok %d - %ld mutations\n", ++count, total);
}

int main(int argc, char **argv)
{
    static const int deadly[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM };
    int bad = 0;

    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(keep_input);
    else
        for (size_t i = 0; i < sizeof deadly / sizeof deadly[0]; i++)
            signal(deadly[i], died);
    puts("TAP version 13");
    test_patterns();
    for (int i = 1; i < argc; i++)
        bad |= test_path(argv[i]);
    if (argc < 2)
        bad |= test_path(FUZZ_CORPUS);
    test_mutations();
    for (size_t i = 0; i < sample_count; i++)
        free(samples[i].data);
    printf("1..%d\n", count);
    return bad;
}
