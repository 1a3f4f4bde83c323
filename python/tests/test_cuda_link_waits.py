# SPDX-License-Identifier: MIT
"""sluice.cuda_link between processes: who waits for what, on which stream, and while graphs are captured."""
import pytest

from cuda_link_kit import a_link, is_frame, says


@pytest.fixture
def link(gpu):
    with a_link() as link:
        yield link


def test_the_cpu_waits_for_the_producers_gpu(link):
    exporter, importer = link.exporter(), link.importer(timeout_ms=300)
    assert exporter.export(5, "gate") == "PUBLISHED"
    told = importer.until("get", "TIMEOUT")
    assert set(told["before"]) <= {"NO_FRAME"}, told
    assert importer.stats()["timeouts"] == 1
    exporter.open()
    exporter.export_whole(6)
    is_frame(importer.until("get"), 6)


def test_a_stream_waits_and_the_cpu_does_not(link):
    exporter, importer = link.exporter(), link.importer()
    exporter.export(5, "gate")
    for method in ("get own", "cupy own"):
        importer.child.write(f"begin {method}")
        assert importer.answer()["outcome"] == "NEW_FRAME"  # without a look at it
        exporter.open()
        assert importer.looked()["value"] == 5
        exporter.export(5, "gate")
    exporter.open()


def test_what_is_no_stream_is_said_to_be_none(link):
    exporter, importer = link.exporter(), link.importer()
    exporter.export(1)
    for method in ("get", "cupy_on"):
        told = importer.ask(method, "nonsense")
        assert told["error"] == "TypeError" and "nonsense" in told["text"], told
    is_frame(importer.until("get"), 1)


def test_torch_gpu_wait_uses_the_current_stream(link):
    exporter = link.exporter()
    importer = link.importer('from_env+{"torch_gpu_wait":true}')
    exporter.export(9, "gate")
    importer.child.write("begin get")
    assert importer.answer()["outcome"] == "NEW_FRAME"
    exporter.open()
    assert importer.looked()["value"] == 9 and importer.stats()["gpu_wait_active"]


def test_adaptive_waits_change_once_frames_come_late(link):
    exporter = link.exporter()
    importer = link.importer('for_testing+{"torch_gpu_wait_adaptive":true,"gpu_wait_adaptive_window":4,'
                             '"gpu_wait_adaptive_sleep_pct":25,"wait_spin_us":1}')
    assert not importer.stats()["gpu_wait_active"]
    for value in range(1, 51):  # where the importer stands still it comes later than the frame
        importer.child.write("late get")
        exporter.export(value, "gate")
        exporter.child.write("open_later 0.2")
        is_frame(importer.answer(), value)
        exporter.answer()
        stats = importer.stats()
        if stats["wait_sleep_hits"]:
            break
    assert stats["gpu_wait_active"] and stats["gpu_wait_latched_frame"] == value and stats["wait_sleep_hits"] == 1
    assert stats["avg_sleep_us"] > 1


@pytest.mark.parametrize("how", ["queued", "recorded", "plain"])
def test_the_copy_comes_behind_the_work_that_makes_the_frame(link, how):
    exporter, importer = link.exporter(), link.importer()
    for value in range(1, 6):
        if how == "plain":  # no stream is named: it is done, as far as anybody knows
            exporter.source_done(value)
        assert exporter.export(value, "none" if how == "plain" else how) == "PUBLISHED"
        is_frame(importer.until("numpy"), value)


@pytest.mark.parametrize("how", ["gate", "recorded"])
def test_the_memory_may_be_written_again_behind_the_copy(link, how):
    """What upstream leaves to the program: the next frame is made in the same memory, on the same stream."""
    exporter, importer = link.exporter(), link.importer()
    exporter.shut_gate()
    assert exporter.export(3, "queued" if how == "gate" else how) == "PUBLISHED"
    assert exporter.refill(4) == "filled"
    exporter.open()
    is_frame(importer.until("numpy"), 3)


def test_a_stream_must_be_named_where_the_policy_says_so(link):
    exporter = link.exporter(policy='for_testing+{"require_source_sync":true}')
    exporter.source_done(1)
    told = exporter.export(1, "none")
    assert told["error"] == "ValueError" and "producer_stream" in told["text"]
    assert exporter.export(1, "done") == "PUBLISHED" and exporter.export(2, "recorded") == "PUBLISHED"


def test_a_blocking_exporter_waits_for_its_gpu(link):
    exporter = link.exporter(policy='for_testing+{"export_sync":true}')
    importer = link.importer()
    exporter.shut_gate()
    exporter.child.write("export 2 queued")
    for _ in range(20):
        says(importer.get(), "NO_FRAME")  # not published yet
    exporter.child.process.stdin.flush()
    exporter.kill()


def test_an_exporter_leaves_importers_a_finished_frame(link):
    exporter, importer = link.exporter(), link.importer()
    for value in (1, 2, 3):
        exporter.export_whole(value)  # it waits for no more than a second
    exporter.shut_gate()
    for value in (4, 5):
        assert exporter.export(value, "queued") == "PUBLISHED"
    assert exporter.export(99, "queued") == "SKIPPED_NOT_READY"  # after a second
    assert exporter.stats()["skipped"] == 1
    exporter.open()
    assert exporter.settled() == "settled"
    assert exporter.export(100, "queued") == "PUBLISHED"
    assert exporter.settled() == "settled"
    is_frame(importer.until("numpy"), 100)


# ---- captures ----

def test_nothing_gets_into_a_graph_of_the_programs(link):
    exporter, importer = link.exporter(), link.importer()
    exporter.source_done(1)
    assert exporter.captured("source") == {"outcome": "SKIPPED_NOT_READY", "nodes": 0}
    assert exporter.stats()["skipped"] == 1
    told = exporter.captured("blocking")  # nothing may use the default stream then, and the frame is made on it
    assert told["nodes"] == 0 and told["outcome"] in ("PUBLISHED", "SKIPPED_NOT_READY")
    assert exporter.captured("another") == {"outcome": "PUBLISHED", "nodes": 0}
    is_frame(importer.until("get"), 1)


@pytest.mark.parametrize("which", ["another", "blocking", "current"])
def test_frames_come_while_others_capture(link, which):
    exporter, importer = link.exporter(), link.importer('from_env+{"torch_gpu_wait":true}')
    for value, method in enumerate(("get", "numpy", "cupy", "get", "numpy", "cupy"), 1):
        exporter.export(value)
        told = importer.captured(method, which)
        assert told["nodes"] == 0
        is_frame(told, value)
    for value, method in enumerate(("get", "cupy"), 7):  # not ready: nothing can wait for it on a stream that stands still
        exporter.export(value, "gate")
        exporter.child.write("open_later 0.2")
        told = importer.captured(method, which)
        assert told.get("nodes") == 0, told
        assert exporter.answer() == "open"
        is_frame(told, value)
