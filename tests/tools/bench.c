/* SPDX-License-Identifier: MIT
 *
 * sluice bench: all rows and the JSON output. Times are not checked.
 */
#include "kit.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static struct program p;

static const char shape[] =
    "set(d) == {'machine', 'commit', 'rows'} and isinstance(d['commit'], str) and d['commit'] and "
    "set(d['machine']) == {'cpu', 'cores', 'kernel', 'governor', 'load'} and d['machine']['cores'] "
    "> 0 and "
    "all(set(r) - {'limit_p50_ns'} == {'bench', 'params', 'p50_ns', 'p95_ns', 'p99_ns', 'p999_ns', "
    "'n'} "
    "and isinstance(r['params'], dict) and r['n'] > 0 "
    "and r['p50_ns'] <= r['p95_ns'] <= r['p99_ns'] <= r['p999_ns'] for r in d['rows'])";

/* The values of `key` in these rows, as a Python set. */
#define VALUES(bench, key)   "{r['params']['" key "'] for r in d['rows'] if r['bench'] == '" bench "'}"
#define HAVE_LIMITS(benches) "all('limit_p50_ns' in r for r in d['rows'] if r['bench'] in " benches ")"
#define HANDOFFS \
    "{'handoff_spinning', 'handoff_sleeping', 'handoff_size', 'readers_waiting_latency', " \
    "'readers_waiting_commit', 'loaded_spinning', 'loaded_sleeping'}"

#define CONVERSIONS   "{'convert_nv12', 'convert_tensor'}"
#define BENCH_KERNELS "{'kernel_launch', 'kernel_barrier', 'kernel_sobel'}"

static void check_empty_folder(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)))
        if (strncmp(entry->d_name, "sluice-", 7) == 0)
            FAIL("%s is left behind", entry->d_name);
    closedir(dir);
}

TEST_TIMEOUT(bench_measures_every_row, 120)
{
    setenv("TMPDIR", test_dir(), 1);
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--json"), 0);
    check_json(p.out, shape);
    check_json(p.out, "{r['bench'] for r in d['rows']} == " HANDOFFS " | {'clock_read', 'begin_commit', "
                      "'acquire_release', 'readers_idle_begin_commit', 'send', 'fetch', 'idle_cpu', "
                      "'kill_reader', 'kill_writer', 'connect'} | " CONVERSIONS " | " BENCH_KERNELS);
    check_json(p.out,
               HAVE_LIMITS(HANDOFFS " | " CONVERSIONS " | " BENCH_KERNELS
                                    " | {'send', 'fetch', 'idle_cpu', 'kill_reader', 'kill_writer', 'connect'}"));
    check_json(p.out, VALUES("readers_waiting_latency", "readers") " == {1, 2, 4, 8, 16, 32, 64}");
    check_json(p.out, VALUES("readers_waiting_commit", "readers") " == {1, 2, 4, 8, 16, 32, 64}");
    check_json(p.out, VALUES("readers_idle_begin_commit", "readers") " == {1, 2, 4, 8, 16, 32, 64}");
    check_json(p.out, "64 in " VALUES("handoff_size", "bytes") " and 1 << 20 in " VALUES(
                          "send", "bytes") " and " VALUES("send", "bytes") " == " VALUES("fetch", "bytes"));
    check_json(p.out, VALUES("acquire_release", "mode") " == {'newest', 'in order'}");
    check_empty_folder(test_dir());
}

TEST_TIMEOUT(bench_measures_chosen_rows, 60)
{
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--json", "begin", "clock_read"), 0);
    check_json(p.out, shape);
    check_json(p.out, "[r['bench'] for r in d['rows']] == ['clock_read', 'begin_commit']");
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "handoff_sp"), 0);
    CHECK_HAS(p.out, "handoff_spinning");
    CHECK_HAS(p.out, "limit p50");
    CHECK(strstr(p.out, "handoff_sleeping") == NULL);
}

TEST_TIMEOUT(bench_without_a_compiler_leaves_kernels_out, 60)
{
    char *path = strdup(getenv("PATH"));
    setenv("SLUICE_CXX", "/none", 1);
    setenv("PATH", "", 1);
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--json", "kernel_launch", "clock_read"), 0);
    setenv("PATH", path, 1);
    check_json(p.out, "[r['bench'] for r in d['rows']] == ['clock_read']");
    CHECK_HAS(p.err, "kernel_launch is left out: no C++ compiler was found");
    free(path);
}

TEST_TIMEOUT(bench_times_stages, 60)
{
    setenv("TMPDIR", test_dir(), 1);
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--json", "--timers", "begin", "handoff_sl"), 0);
    check_json(p.out, "set(d) == {'machine', 'commit', 'rows', 'stages'} and all(set(s) == {'bench', 'stage', 'n', "
                      "'mean_ns', 'p50_under_ns', 'p99_under_ns', 'longest_ns'} for s in d['stages'])");
    check_json(p.out, "{'begin', 'commit', 'signal', 'write'} <= {s['stage'] for s in d['stages'] if s['bench'] == "
                      "'begin_commit'} and not any(s['stage'] == 'acquire' for s in d['stages'] if s['bench'] == "
                      "'begin_commit')");
    /* Also of the reader, which is still running when the writer is done. */
    check_json(p.out, "{'commit', 'wake', 'acquire', 'wait_frame', 'release'} <= {s['stage'] for s in d['stages'] if "
                      "s['bench'] == 'handoff_sleeping'}");
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--timers", "begin"), 0);
    CHECK_HAS(p.out, "p99 under");
    check_empty_folder(test_dir());
}

/* The CPU cannot access the fake GPU's memory: doing so crashes. */
TEST_TIMEOUT(bench_of_a_gpu, 90)
{
    setenv("TMPDIR", test_dir(), 1);
    use_fake_gpu();
    setenv("SLUICE_FAKE_MEMORY", "4096", 1);
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--json", "--device", "cuda:1"), 0);
    check_json(p.out, shape);
    check_json(p.out, "{r['bench'] for r in d['rows']} == {'handoff_spinning', 'handoff_sleeping', 'handoff_size', "
                      "'send', 'fetch', 'kill_reader', 'kill_writer', 'connect'} and "
                      "all(r['params']['device'] == 'cuda:1' for r in d['rows'])");
    check_json(p.out, "{r['bench'] for r in d['rows'] if 'limit_p50_ns' in r} == {'kill_reader', 'kill_writer', "
                      "'connect'}");
    check_empty_folder(test_dir());
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--device", "cuda:0", "begin_commit"), 2);
    CHECK_HAS(p.err, "see bench/gpu/run for a GPU");
    CHECK_EQ(sluice_run(&p, "bench", "--quick", "--device", "cuda:7", "send"), 1);
    CHECK_HAS(p.err, "there is no such GPU");
}

TEST(bench_knows_its_rows)
{
    CHECK_EQ(sluice_run(&p, "bench", "begin_comit"), 2);
    CHECK_HAS(p.err, "did you mean 'begin_commit'?");
    CHECK_EQ(sluice_run(&p, "bench", "zzz"), 2);
    CHECK_HAS(p.err, "unknown row 'zzz'");
}
