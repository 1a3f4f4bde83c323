/* SPDX-License-Identifier: MIT
 *
 * What is reported of a GPU, and its self-test.
 */
#include <string.h>

#include "gpu/kit.h"

TEST(a_gpus_properties_and_features)
{
    struct sluice_device_report report = { .size = sizeof report };
    struct sluice_device_trial trial = { .size = sizeof trial };
    struct sluice_device device;
    char name[64];
    uint32_t count;

    gpu_begin();
    CHECK_OK(sluice_device_count(&count));
    for (uint32_t i = 0; i < count; i++) {
        CHECK_OK(sluice_device_probe(i, &report));
        CHECK_GE(report.driver, report.driver_min);
        CHECK_GE(report.compute, report.compute_min);
        CHECK(report.memory > 0 && report.model[0]);
        CHECK_EQ(report.peers >> i & 1, 0);

        /* The UUID is a name of the same GPU. */
        CHECK_EQ(strlen(report.uuid), 40);
        snprintf(name, sizeof name, "cuda:%s", report.uuid);
        CHECK_OK(sluice_device_open(&device, name));
        CHECK_OK(sluice_device_close(&device));

        CHECK_OK(sluice_device_try(i, &trial));
        CHECK_EQ(trial.did & ~report.can, 0);
        if (report.can & SLUICE_CAN_EXPORT)
            CHECK(trial.memory_ns > 0 && trial.copy_ns > 0);
        if (report.can & SLUICE_CAN_REGISTER && report.can & SLUICE_CAN_QUEUE_WORDS)
            CHECK(trial.word_ns > 0);
        CHECK(trial.memory_free > 0 && trial.memory_free <= report.memory);
    }
}

/* As a program that asks while another part of it captures a graph. */
TEST(asked_beside_a_capture)
{
    struct sluice_device_report report = { .size = sizeof report };
    struct sluice_device_trial trial = { .size = sizeof trial };
    struct sl_cu_graph *graph;

    gpu_begin();
    gpu_use(0);
    for (int flags = 0; flags <= SL_CU_STREAM_NON_BLOCKING; flags++) {
        struct sl_cu_stream *stream = gpu_stream((unsigned)flags);
        CU(StreamBeginCapture, stream, CAPTURE_GLOBAL);
        CHECK_OK(sluice_device_probe(0, &report));
        CHECK_OK(sluice_device_try(0, &trial));
        CU(StreamEndCapture, stream, &graph);
        CU(GraphDestroy, graph);
        CU(StreamDestroy, stream);
    }
    gpu_end();
}
