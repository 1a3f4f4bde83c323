/* SPDX-License-Identifier: MIT
 *
 * sluice doctor with all kinds of GPUs of the fake driver; and its parts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit.h"
#include "tools/doctor/doctor.h"

/* The command sees two fake GPUs, and none of this machine. */
static void begin(void)
{
    setenv("SLUICE_CUDA_DRIVER", FAKE_CUDA, 1);
    setenv("SLUICE_NVML", "libno-such-nvml.so.1", 1);
    setenv("CUDA_MPS_PIPE_DIRECTORY", test_dir(), 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("NVIDIA_VISIBLE_DEVICES");
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    unsetenv("CUDA_LAUNCH_BLOCKING");
}

TEST(two_gpus)
{
    static struct program p;

    begin();
    CHECK_EQ(sluice_run(&p, "doctor"), 0);
    CHECK_HAS(p.out, "for CUDA 13.0; Sluice needs 525.60.13 or newer, for CUDA 12.0");
    CHECK_HAS(p.out, "Fake GPU 1, GPU-f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfe01, PCI 0000:");
    CHECK_HAS(p.out, "compute capability 9.0, 256 MiB of memory, free ");
    CHECK_HAS(p.out, "can read frames on cuda:1 in place");
    CHECK_HAS(p.out, "8 MiB of memory allocated, exported and mapped");
    CHECK_HAS(p.out, "a word written by a stream arrives after");
    CHECK_HAS(p.out, "100 frames through a channel in its memory, commit to acquire in");
    CHECK_HAS(p.out, "10 more sent and fetched with all pixels intact");
    CHECK_HAS(p.out, "100 to 770 us");
    CHECK_HAS(p.out, "cuda:1 supports channels in its memory");
    CHECK(strstr(p.out, "BAD") == NULL);
}

TEST(two_gpus_as_data)
{
    static struct program p;

    begin();
    CHECK_EQ(sluice_run(&p, "doctor", "--json"), 0);
    check_json(p.out, "d['host_channels_work'] and len(d['gpus']) == 2 and "
                      "d['driver']['cuda'] == '13.0' and d['driver']['release_min'] == '525.60.13' "
                      "and d['driver']['compute_capability_min'] == '5.0' and "
                      "all(g['usable'] and all(g['can'].values()) and not any(g['is'].values()) "
                      "and g['mps'] == 'none' and g['memory'] == 256 << 20 and "
                      "0 < g['memory_free'] <= g['memory'] and "
                      "all(ns > 0 for ns in g['self_test'].values()) for g in d['gpus']) and "
                      "[g['peers'] for g in d['gpus']] == [[1], [0]] and "
                      "d['gpus'][1]['uuid'].startswith('GPU-f0f1') and "
                      "{f['device'] for f in d['findings']} == {None, 'cuda:0', 'cuda:1'}");
    /* With --quick it prints less and creates no context. */
    CHECK_EQ(sluice_run(&p, "doctor", "--json", "--quick"), 0);
    check_json(p.out, "all(g['self_test'] is None and g['memory_free'] is None and g['usable'] "
                      "for g in d['gpus'])");
}

/* What NVIDIA's management library adds. */
TEST(with_nvml)
{
    static struct program p;

    begin();
    setenv("SLUICE_NVML", FAKE_NVML, 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--json", "--quick"), 0);
    check_json(p.out, "[g['memory_free'] for g in d['gpus']] == [None, 2 << 30] and "
                      "d['gpu_system']['confidential_computing'] == False");
    setenv("FAKE_NVML", "confidential", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--json", "--quick"), 0);
    check_json(p.out, "d['gpu_system']['confidential_computing'] == True and "
                      "'confidential' in [f['topic'] for f in d['findings']]");
    setenv("FAKE_NVML", "bare", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--json", "--quick"), 0);
    check_json(p.out, "[g['memory_free'] for g in d['gpus']] == [None, None] and "
                      "d['gpu_system']['confidential_computing'] is None");
}

/* Whatever a GPU lacks, host memory works, and the line explains the effect. */
TEST_TIMEOUT(gpus_that_lack_something, 60) /* many cases */
{
    static struct program p;
    static const struct {
        const char *without, *key, *says;
    } lacks[] = {
        { "vmm", "map", "cannot be mapped (cuMemMap)" },
        { "export", "export", "cannot be exported as file descriptors" },
        { "memops", "words", "cannot write 64-bit words" },
        { "register", "register", "cannot signal readers itself" },
        { "readonly", "register_read_only", "read-only: memory cannot be registered" },
        { "events", "events", "only needed if memory" },
    };
    char expression[256];

    begin();
    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        setenv("SLUICE_FAKE_WITHOUT", lacks[i].without, 1);
        CHECK_EQ(sluice_run(&p, "doctor"), 0);
        CHECK_HAS(p.out, lacks[i].says);
        CHECK(!strstr(p.out, "BAD"));
        CHECK_HAS(p.out, "100 frames through a channel"); /* a fallback is used */
        CHECK_HAS(p.out, "channels in host memory work on this machine");
        CHECK_EQ(sluice_run(&p, "doctor", "--json"), 0);
        snprintf(expression, sizeof expression,
                 "[k for k, v in d['gpus'][0]['can'].items() if not v] == ['%s'] and "
                 "d['gpus'][0]['usable'] and d['gpus'][0]['self_test'] is not None",
                 lacks[i].key);
        check_json(p.out, expression);
        setenv("SLUICE_FAKE_WITHOUT", "", 1);
        setenv("SLUICE_WITHOUT", strcmp(lacks[i].key, "events") == 0 ? "ipc" : lacks[i].without, 1);
        if (strcmp(lacks[i].without, "export") != 0) { /* disabled together with "vmm" */
            CHECK_EQ(sluice_run(&p, "doctor"), 0);
            CHECK_HAS(p.out, lacks[i].says);
        }
        setenv("SLUICE_WITHOUT", "", 1);
    }
    setenv("SLUICE_FAKE_WITHOUT", "vmm,events", 1);
    CHECK_EQ(sluice_run(&p, "doctor"), 0);
    CHECK_HAS(p.out, "neither as file descriptors nor by IPC handles");
    CHECK(!strstr(p.out, "100 frames through a channel"));
    CHECK_EQ(sluice_run(&p, "doctor", "--json"), 0);
    check_json(p.out, "not d['gpus'][0]['usable']");
    setenv("SLUICE_FAKE_WITHOUT", "peers", 1);
    CHECK_EQ(sluice_run(&p, "doctor"), 0);
    CHECK_HAS(p.out, "a reader of frames on other GPUs needs copies");
    CHECK_HAS(p.out, "nvidia-smi topo");
}

TEST(what_gpus_are)
{
    static struct program p;
    static const struct {
        const char *is, *says;
    } kinds[] = {
        { "mig", "only be shared within this instance" },
        { "integrated", "shares its memory with the CPU" },
        { "exclusive", "one process at a time" },
        { "prohibited", "no process may use the GPU" },
    };

    begin();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        setenv("SLUICE_FAKE_IS", kinds[i].is, 1);
        CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
        CHECK_HAS(p.out, kinds[i].says);
    }
    setenv("SLUICE_FAKE_IS", "mig", 1);
    setenv("SLUICE_FAKE_MPS", "1", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "The fault of one client ends all clients");
    CHECK_EQ(sluice_run(&p, "doctor", "--quick", "--json"), 0);
    check_json(p.out, "d['gpus'][1]['mps'] == 'client' and d['gpus'][1]['is']['mig'] and "
                      "d['gpus'][1]['uuid'].startswith('MIG-')");
    unsetenv("SLUICE_FAKE_IS");
    setenv("SLUICE_FAKE_COMPUTE", "37", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "compute capability 3.7, but Sluice needs 5.0");
    CHECK_HAS(p.out, "cuda:0 does NOT support channels");
}

/* One clear line, and host memory works. */
static void check_none(const char *word)
{
    static struct program p;

    CHECK_EQ(sluice_run(&p, "doctor"), 0);
    CHECK_HAS(p.out, "GPU          none; channels in host memory work without: ");
    CHECK_HAS(p.out, word);
    CHECK(strstr(p.out, "cuda:0") == NULL && strstr(p.out, "BAD") == NULL);
    CHECK_HAS(p.out, "channels in host memory work on this machine");
    CHECK_EQ(sluice_run(&p, "doctor", "--json"), 0);
    check_json(p.out, "d['host_channels_work'] and d['gpus'] == [] and d['driver'] is None and "
                      "len([f for f in d['findings'] if f['topic'] == 'GPU']) == 1");
}

TEST(no_gpu)
{
    begin();
    setenv("SLUICE_FAKE_VERSION", "11080", 1);
    check_none("525.60.13");
    unsetenv("SLUICE_FAKE_VERSION");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    check_none("CUDA_VISIBLE_DEVICES is \"\"");
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("NVIDIA_VISIBLE_DEVICES", "void", 1);
    setenv("SLUICE_CUDA_DRIVER", "libno-such-driver.so.1", 1);
    check_none("NVIDIA_VISIBLE_DEVICES gives it none");
    unsetenv("NVIDIA_VISIBLE_DEVICES");
    check_none("no CUDA driver");
}

/* An empty folder as PATH has no compiler. */
TEST(compilers_of_kernels)
{
    static struct program p;
    char path[600], option[640];

    begin();
    snprintf(path, sizeof path, "%s/c++", test_dir());
    CHECK_EQ(symlink("/bin/true", path), 0);
    setenv("SLUICE_CXX", path, 1);
    setenv("SLUICE_NVRTC", "libno-such-nvrtc.so.12", 1);
    setenv("SLUICE_CACHE", "/some/folder", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    snprintf(option, sizeof option, "ok    C++ compiler %s\n", path);
    CHECK_HAS(p.out, option);
    CHECK_HAS(p.out, "note  NVRTC        SLUICE_NVRTC names no NVRTC");
    CHECK_HAS(p.out, "ok    kernel cache /some/folder\n");

    unsetenv("SLUICE_CXX");
    setenv("PATH", test_dir(), 1);
    CHECK_EQ(unlink(path), 0);
    setenv("SLUICE_CACHE", "off", 1);
    setenv("SLUICE_FAKE_VERSION", "12020", 1);
    setenv("SLUICE_NVRTC", FAKE_NVRTC, 1);
    setenv("SLUICE_FAKE_NVRTC", "13.0", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "note  C++ compiler no C++ compiler was found");
    CHECK_HAS(p.out, "fix: install one (Debian: apt install g++)");
    CHECK_HAS(p.out, "is newer than the driver, which is for CUDA 12.2\n");
    CHECK_HAS(p.out, "fix: pip install nvidia-cuda-nvrtc-cu12");
    CHECK_HAS(p.out, "note  kernel cache not used: SLUICE_CACHE is off");

    setenv("SLUICE_FAKE_NVRTC", "12.2", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "ok    NVRTC        NVRTC 12.2, " FAKE_NVRTC "\n");
}

TEST(the_environment)
{
    static struct program p;

    begin();
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "CUDA_DEVICE_MAX_CONNECTIONS is not set");
    CHECK(strstr(p.out, "CUDA_LAUNCH_BLOCKING") == NULL);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    setenv("NVIDIA_VISIBLE_DEVICES", "all", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "blocks all other streams");
    CHECK_HAS(p.out, "frames cannot be acquired ahead");
    CHECK_HAS(p.out, "CUDA_VISIBLE_DEVICES is \"1\"");
    CHECK_HAS(p.out, "its GPUs are \"all\" (NVIDIA_VISIBLE_DEVICES)");
    CHECK(strstr(p.out, "cuda:1") == NULL);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
    setenv("CUDA_LAUNCH_BLOCKING", "0", 1);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick"), 0);
    CHECK_HAS(p.out, "does not block others");
    CHECK(strstr(p.out, "CUDA_LAUNCH_BLOCKING is") == NULL);
    CHECK_EQ(sluice_run(&p, "doctor", "--quick", "--json"), 0);
    check_json(p.out, "d['gpu_system']['CUDA_DEVICE_MAX_CONNECTIONS'] == '32' and "
                      "d['gpu_system']['CUDA_VISIBLE_DEVICES'] == '1'");
}

/* ---- the parts ---- */

static void make_file(const char *root, const char *name, const char *text)
{
    char path[512], *at;

    snprintf(path, sizeof path, "%s%s", root, name);
    for (at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(path, 0700);
    }
    FILE *file = fopen(path, "wb");
    CHECK(file);
    fputs(text, file);
    fclose(file);
}

static const char *make_root(const char *name)
{
    const char *root = in_dir(name);

    mkdir(root, 0700);
    return root;
}

TEST(the_system_around)
{
    struct gpu_system system;
    char link[512];
    const char *root = make_root("plain");

    read_gpu_system(&system, root);
    CHECK(system.nodes == 0 && !system.wsl && !system.pid_namespace && !system.release[0]);

    make_file(root, "/dev/nvidia0", "");
    make_file(root, "/dev/nvidia1", "");
    make_file(root, "/dev/nvidiactl", "");
    make_file(root, "/proc/version", "Linux version 6.18.0 (gcc)\n");
    make_file(root, "/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n");
    make_file(root, "/proc/self/ns/other", "");
    snprintf(link, sizeof link, "%s/proc/self/ns/pid", root);
    CHECK(symlink("pid:[4026531836]", link) == 0);
    read_gpu_system(&system, root);
    CHECK_EQ(system.nodes, 2);
    CHECK(!system.wsl && !system.pid_namespace);
    CHECK_STR(system.release, "580.95.05");

    CHECK(unlink(link) == 0 && symlink("pid:[4026532281]", link) == 0);
    make_file(root, "/sys/module/nvidia/version", "525.60.13\n");
    read_gpu_system(&system, root);
    CHECK(system.pid_namespace);
    CHECK_STR(system.release, "525.60.13");
}

TEST(wsl)
{
    struct gpu_system system;
    const char *root = make_root("by name");

    make_file(root, "/proc/version", "Linux version 5.15.167.4-Microsoft-standard-WSL2\n");
    read_gpu_system(&system, root);
    CHECK(system.wsl);
    root = make_root("by device");
    make_file(root, "/dev/dxg", "");
    read_gpu_system(&system, root);
    CHECK(system.wsl);
}

static bool says(const struct report *report, const char *topic, const char *word)
{
    for (unsigned i = 0; i < report->count; i++)
        if (strcmp(report->list[i].topic, topic) == 0 &&
            (strstr(report->list[i].text, word) || strstr(report->list[i].fix, word)))
            return true;
    return false;
}

TEST(what_is_around_in_words)
{
    struct report report = { .system = { .wsl = true, .pid_namespace = true, .confidential = 1 } };

    check_gpu_system(&report);
    CHECK(says(&report, "WSL2", "Windows"));
    CHECK(says(&report, "PID space", "channels on GPUs work"));
    CHECK(says(&report, "confidential", "registered host memory"));
    for (unsigned i = 0; i < report.count; i++)
        CHECK(report.list[i].state != FINDING_BAD);
    free(report.list);
}

TEST(why_there_is_no_gpu)
{
    struct report report = { .system = { .nodes = 1 } };

    check_no_gpu(&report, "no CUDA driver: not found");
    CHECK(says(&report, "GPU", "NVIDIA_DRIVER_CAPABILITIES"));
    report.system.nodes = 0;
    report.count = 0;
    check_no_gpu(&report, "cuInit said CUDA_ERROR_NO_DEVICE (100)");
    CHECK(says(&report, "GPU", "there is no /dev/nvidia0"));
    report.count = 0;
    check_no_gpu(&report, "no CUDA driver: not found");
    CHECK_STR(report.list[0].fix, ""); /* a machine without a GPU needs no fix */
    CHECK_EQ(report.list[0].state, FINDING_NOTE);
    free(report.list);
}

TEST(a_self_test_that_failed)
{
    struct report report = { 0 };
    struct gpu gpu = { .usable = true };

    check_gpu_trial(&report, &gpu, SLUICE_E_DRIVER, "cuda:0: cuMemCreate said no");
    CHECK(says(&report, "self-test", "cuMemCreate said no"));
    CHECK(!gpu.usable);
    CHECK_EQ(report.list[0].state, FINDING_BAD);
    free(report.list);
}

/* No finding is lost, however many GPUs there are. */
TEST(many_findings)
{
    struct report report = { .device = "cuda:15" };

    for (int i = 0; i < 1000; i++)
        report_add(&report, "topic", FINDING_NOTE, "", "%d", i);
    CHECK_EQ(report.count, 1000);
    CHECK_STR(report.list[999].text, "999");
    CHECK_STR(report.list[999].device, "cuda:15");
    free(report.list);
}
