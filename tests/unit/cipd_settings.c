/* SPDX-License-Identifier: MIT
 *
 * cuda-link's environment variables: all are in the table, and those that are honoured are read by its rules.
 */
#include "cipd_kit.h"
#include "cuda_link/wire/settings.h"

static const char *given_name, *given_value;

static const char *give(const char *name)
{
    return given_name && !strcmp(name, given_name) ? given_value : NULL;
}

static struct sl_cipd_settings with(const char *name, const char *value)
{
    struct sl_cipd_settings settings;
    given_name = name;
    given_value = value;
    sl_cipd_settings_read(&settings, give);
    return settings;
}

TEST(cipd_settings_by_default)
{
    struct sl_cipd_settings settings = with(NULL, NULL);
    CHECK(!settings.export_sync && settings.use_graphs && !settings.strict_device && settings.high_priority);
    CHECK(settings.barrier_check && settings.barrier_hold && !settings.gpu_wait);
    CHECK(settings.reconnect);
    CHECK_EQ(settings.barrier_stale_ns, INT64_C(5000000000));
    CHECK_EQ(settings.barrier_settle, 30);
    CHECK_EQ(settings.wait_spin_ns, 200000);
}

TEST(cipd_settings_switches_are_on_by_1_alone)
{
    static const char *const off[] = { "0", "", "true", "yes", "on", "2", "01", " 1", "1 ", "-1" };
    CHECK(with("CUDALINK_EXPORT_SYNC", "1").export_sync);
    CHECK(with("CUDALINK_STRICT_DEVICE", "1").strict_device);
    CHECK(with("CUDALINK_TORCH_GPU_WAIT", "1").gpu_wait);
    CHECK(with("CUDALINK_USE_GRAPHS", "1").use_graphs);
    for (int i = 0; i < 10; i++) {
        CHECK(!with("CUDALINK_EXPORT_SYNC", off[i]).export_sync);
        CHECK(!with("CUDALINK_USE_GRAPHS", off[i]).use_graphs);
        CHECK(!with("CUDALINK_ACTIVATION_BARRIER", off[i]).barrier_check);
        CHECK(!with("CUDALINK_TD_ACTIVATION_BARRIER", off[i]).barrier_hold);
        CHECK(!with("CUDALINK_IMPORT_RECONNECT", off[i]).reconnect);
    }
}

TEST(cipd_settings_numbers_fall_back)
{
    static const char *const garbage[] = { "", "x", "1x", "1.5", "1e3", "-1", "99999999999999999999", "0x10", "1 2" };
    for (int i = 0; i < 9; i++) {
        CHECK_EQ(with("CUDALINK_WAIT_SPIN_US", garbage[i]).wait_spin_ns, 200000);
        CHECK_EQ(with("CUDALINK_BARRIER_STALE_NS", garbage[i]).barrier_stale_ns, INT64_C(5000000000));
        CHECK_EQ(with("CUDALINK_TD_BARRIER_SETTLE_FRAMES", garbage[i]).barrier_settle, 30);
    }
    CHECK_EQ(with("CUDALINK_WAIT_SPIN_US", "0").wait_spin_ns, 0);
    CHECK_EQ(with("CUDALINK_WAIT_SPIN_US", " +500 ").wait_spin_ns, 500000);
    CHECK_EQ(with("CUDALINK_WAIT_SPIN_US", "9223372036854775807").wait_spin_ns, 200000); /* too long in ns */
    CHECK_EQ(with("CUDALINK_BARRIER_STALE_NS", "1").barrier_stale_ns, 1);
    CHECK_EQ(with("CUDALINK_TD_BARRIER_SETTLE_FRAMES", "0").barrier_settle, 0);
}

static enum sluice_cipd_reading reading(const char *name, const char *value)
{
    const struct sl_cipd_variable *at = sl_cipd_variables;
    while (strcmp(at->name, name))
        at++;
    return sl_cipd_reading(at, value);
}

TEST(cipd_settings_tell_how_a_value_is_read)
{
    CHECK_EQ(reading("CUDALINK_EXPORT_SYNC", "1"), SLUICE_CIPD_READ_ON);
    CHECK_EQ(reading("CUDALINK_IMPORT_RECONNECT", "true"), SLUICE_CIPD_READ_OFF);
    CHECK_EQ(reading("CUDALINK_BARRIER_STALE_NS", " 9223372036854775807 "), SLUICE_CIPD_READ_AS_IT_IS);
    CHECK_EQ(reading("CUDALINK_BARRIER_STALE_NS", "9223372036854775808"), SLUICE_CIPD_READ_OUT_OF_RANGE);
    CHECK_EQ(reading("CUDALINK_BARRIER_STALE_NS", "-1"), SLUICE_CIPD_READ_OUT_OF_RANGE);
    CHECK_EQ(reading("CUDALINK_WAIT_SPIN_US", ""), SLUICE_CIPD_READ_NO_NUMBER);
    CHECK_EQ(reading("CUDALINK_WAIT_SPIN_US", "99999999999999999999x"), SLUICE_CIPD_READ_NO_NUMBER);
    CHECK_EQ(reading("CUDALINK_LIB_STREAM_PRIO", "lowest"), SLUICE_CIPD_READ_AS_IT_IS);
    CHECK_EQ(reading("CUDALINK_NVTX", "x"), SLUICE_CIPD_READ_AS_IT_IS); /* it is not read */
    for (const struct sl_cipd_variable *at = sl_cipd_variables; at->name; at++)
        if (at->kind == SL_CIPD_NUMBER)
            CHECK_EQ(sl_cipd_reading(at, at->standard), SLUICE_CIPD_READ_AS_IT_IS);
}

TEST(cipd_settings_priority)
{
    CHECK(!with("CUDALINK_LIB_STREAM_PRIO", "normal").high_priority);
    CHECK(with("CUDALINK_LIB_STREAM_PRIO", "high").high_priority);
    CHECK(with("CUDALINK_LIB_STREAM_PRIO", "").high_priority);
}

TEST(cipd_settings_are_read_once)
{
    CHECK_EQ(setenv("CUDALINK_WAIT_SPIN_US", "77", 1), 0);
    CHECK_EQ(sl_cipd_settings()->wait_spin_ns, 77000);
    CHECK_EQ(setenv("CUDALINK_WAIT_SPIN_US", "78", 1), 0);
    CHECK_EQ(sl_cipd_settings()->wait_spin_ns, 77000);
}

TEST(cipd_settings_table)
{
    static const char *const all[] = {
        "EXPORT_SYNC",
        "USE_GRAPHS",
        "TD_USE_GRAPHS",
        "TD_GRAPHS_DEFERRED",
        "CPP_USE_GRAPHS",
        "EXPORT_FLUSH_PROBE",
        "EXPORT_PROFILE",
        "STRICT_DEVICE",
        "REQUIRE_SOURCE_SYNC",
        "LIB_STREAM_PRIO",
        "TD_STREAM_PRIO",
        "ACTIVATION_BARRIER",
        "TD_ACTIVATION_BARRIER",
        "BARRIER_STALE_NS",
        "TD_BARRIER_SETTLE_FRAMES",
        "TD_PERSIST_STREAM",
        "TD_INIT_PACE",
        "TD_INIT_CLEAR_STICKY",
        "STICKY_ERROR_CHECK",
        "WAIT_SPIN_US",
        "WAIT_BACKEND",
        "DOORBELL",
        "TORCH_GPU_WAIT",
        "TORCH_GPU_WAIT_ADAPTIVE",
        "GPU_WAIT_ADAPTIVE_WINDOW",
        "GPU_WAIT_ADAPTIVE_SLEEP_PCT",
        "D2H_STREAMS",
        "D2H_STREAM_PRIO",
        "D2H_PIPELINED",
        "ALLOW_PAGEABLE_FALLBACK",
        "IMPORT_RECONNECT",
        "IMPORT_RECONNECT_MAX_ATTEMPTS",
        "NVTX",
        "NVTX_VERBOSE",
        "NVML",
        "SENDER_REPORT_EVERY",
        "RECEIVER_REPORT_EVERY",
        "IMPORT_PROFILE",
        "PROBE_LOG_FILE",
        "RECEIVER_SHM_NAME",
        "RECEIVER_DEVICE",
        "RECEIVER_TIMEOUT_MS",
        "RECEIVER_FRAME_MODE",
        "RECEIVER_PYTHON_EXE",
        "SENDER_PYTHON_EXE",
        "LIB_PATH",
        "NO_PAUSE",
    };
    int count = 0;
    for (const struct sl_cipd_variable *at = sl_cipd_variables; at->name; at++, count++) {
        bool known = false;
        CHECK_MEM(at->name, "CUDALINK_", 9);
        for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
            known |= !strcmp(at->name + 9, all[i]);
        CHECK(known);
        CHECK(at->note[0] && strlen(at->note) < 160 && strlen(at->name) < 64 && strlen(at->standard) < 32);
    }
    CHECK_EQ(count, sizeof(all) / sizeof(*all));
}
