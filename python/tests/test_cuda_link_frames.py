# SPDX-License-Identifier: MIT
"""sluice.cuda_link between processes: what each call says, and what is in the frames that it gives. test_cuda_link_waits.py: on
which stream, and behind what."""
import pytest

from cuda_link_kit import SHAPE, a_link, is_frame, says

STATS = {"initialized", "shm_name", "shape", "dtype", "device", "num_slots", "frame_count", "torch_available",
         "numpy_available", "dev_ptrs", "tensor_device", "wait_backend", "wait_spin_hits", "wait_sleep_hits", "avg_spin_us", "avg_sleep_us",
         "gpu_wait_active", "gpu_wait_latched_frame"}
EXPORT_STATS = {"initialized", "closed", "shm_name", "resolution", "dtype", "num_slots", "data_size_kb", "buffer_size_mb",
                "frame_count", "write_idx", "hws_mode", "avg_memcpy_us", "avg_total_us", "dev_ptrs"}


@pytest.fixture
def link(gpu):
    with a_link() as link:
        yield link


# ---- frames ----

def test_a_tensor_is_the_slot_and_made_once(link):
    exporter = link.exporter()
    importer = link.importer()
    says(importer.get(), "NO_FRAME")
    seen = []
    for value in range(1, 8):
        assert exporter.export(value) == "PUBLISHED"
        seen.append(is_frame(importer.until("get"), value, shape=SHAPE, kind="torch"))
        says(importer.get(), "NO_FRAME")
    assert len({told["address"] for told in seen}) == len({told["id"] for told in seen}) == 3  # slots
    assert [told["id"] for told in seen[3:6]] == [told["id"] for told in seen[:3]]
    assert importer.stats()["frame_count"] == 7


def test_cupy_has_the_same_slots(link):
    exporter, importer = link.exporter(), link.importer()
    seen = []
    for value in range(1, 7):
        exporter.export(value)
        seen.append(is_frame(importer.until("cupy"), value, kind="cupy", shape=SHAPE))
    assert [told["id"] for told in seen[3:]] == [told["id"] for told in seen[:3]]


def test_numpy_has_one_array_that_the_next_call_writes_again(link):
    exporter, importer = link.exporter(), link.importer()
    seen = []
    for value in range(1, 5):
        exporter.export(value)
        seen.append(is_frame(importer.until("numpy"), value, kind="numpy", shape=SHAPE, dtype="uint8"))
        says(importer.numpy(), "NO_FRAME")
        assert importer.again()["value"] == value  # and until then it stays
    assert len({(told["id"], told["address"]) for told in seen}) == 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "uint16", "int8", "int16", "bfloat16"])
def test_every_data_type(link, dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    exporter, importer = link.exporter(2, 3, 1, dtype=dtype), link.importer()
    exporter.export(3)
    assert is_frame(importer.until("numpy"), 3)["dtype"] == dtype
    exporter.export(4)
    assert is_frame(importer.until("get"), 4, shape=[2, 3, 1])["dtype"] == f"torch.{dtype}"
    assert importer.stats()["dtype"] == dtype


def test_the_newest_frame_is_taken_and_the_others_count(link):
    exporter, importer = link.exporter(), link.importer()
    exporter.export(1)
    is_frame(importer.until("get"), 1)
    for value in (2, 3, 4):
        exporter.export_whole(value)
    is_frame(importer.until("get"), 4)
    assert importer.stats()["missed"] == 2


def test_stats_have_cuda_links_keys(link):
    exporter, importer = link.exporter(), link.importer()
    exporter.export(1)
    is_frame(importer.until("get"), 1)
    stats = importer.stats()
    assert STATS <= set(stats)
    assert stats["initialized"] and stats["ready"] and stats["shape"] == SHAPE and stats["dtype"] == "uint8"
    assert stats["num_slots"] == len(set(stats["dev_ptrs"])) == 3 and stats["mapping"] == "imported"
    assert 0 < stats["last_latency"] < 60_000 and stats["wait_spin_hits"] + stats["wait_sleep_hits"] == 1
    assert stats["wait_backend"] == "native" and stats["gpu_wait_latched_frame"] is None and not stats["gpu_wait_active"]
    stats = exporter.stats()
    assert EXPORT_STATS <= set(stats)
    assert stats["resolution"] == "6x4x4" and stats["frame_count"] == stats["write_idx"] == 1 and not stats["closed"]
    assert stats["data_size_kb"] == 96 / 1024 and stats["buffer_size_mb"] == 2.0 and len(stats["dev_ptrs"]) == 3


def test_copies_are_whole_or_not_given(link):
    """A producer that never waits; each of its frames is of one value."""
    exporter, importer = link.exporter(512, 512, 4, slots=1), link.importer()
    exporter.child.write("flood 120")
    told = importer.whole()
    assert told["frames"] > 0 and told["torn"] == 0 and told["overruns"] > 0, told
    exporter.kill()


def test_a_frame_of_another_size_is_refused(link):
    exporter, importer = link.exporter(), link.importer()
    for size in (95, 97, 1, 96 * 4):
        assert exporter.export(1, "done", size) == "FAILED"
    assert exporter.stats()["failed"] == 4 and exporter.stats()["frame_count"] == 0
    says(importer.get(), "NO_FRAME")
    assert exporter.export(1, "done", 96) == "PUBLISHED"


def test_memory_that_is_none_is_refused(link):
    assert link.exporter().from_host() == "FAILED"
    strict = link.exporter(policy='for_testing+{"strict_device":true}', name=link.name + "-2")
    assert strict.from_host()["error"] == "ValueError"


# ---- pipelined ----

def test_pipelined_calls_give_the_frame_before(link):
    exporter, importer = link.exporter(), link.importer('from_env+{"d2h_pipelined":true}')
    arrays = set()
    for value in range(1, 7):
        exporter.export(value)
        told = importer.fresh()
        if value == 1:
            says(told, "NO_FRAME")
        else:
            arrays.add(is_frame(told, value - 1)["address"])
    assert len(arrays) == 2
    says(importer.numpy(), "NO_FRAME")
    exporter.close()
    says(importer.numpy(), "SHUTDOWN")
    exporter = link.exporter()
    exporter.export(50)
    says(importer.fresh(), "NO_FRAME")  # it begins anew: nothing of the old session
    exporter.export(51)
    is_frame(importer.until("numpy"), 50)


def test_a_pipelined_copy_that_ended_in_time_is_whole(link):
    """Whenever the next call comes, and however often its producer has come round since."""
    exporter, importer = link.exporter(), link.importer('from_env+{"d2h_pipelined":true}')
    exporter.export(1)
    says(importer.fresh(), "NO_FRAME")
    for value in (1, 6, 11):
        assert importer.settled() == "settled"
        for later in range(value + 1, value + 6):
            exporter.export_whole(later)
        is_frame(importer.fresh(), value)
    assert importer.stats()["overruns"] == 0


def test_a_pipelined_copy_that_was_overtaken_is_not_given(link, gpu, monkeypatch):
    exporter, lost = link.exporter(), 0
    monkeypatch.setenv("SLUICE_FAKE_DELAY", "100000")  # for each piece of the importer's work
    importer = link.importer('from_env+{"d2h_pipelined":true}')
    for value in range(1, 20, 4):
        exporter.export_whole(value)
        told = importer.fresh()
        # A frame is given if it was copied before the next ones came; the third is in its slot.
        assert told["outcome"] == "NO_FRAME" or (told["whole"] and told["value"] % 4 == 1), told
        lost += value > 1 and told["outcome"] == "NO_FRAME"
        for later in range(value + 1, value + 4):
            exporter.export_whole(later)
    if not lost and not gpu.fake:
        pytest.skip("this GPU has copied each frame before the next ones came: none was overtaken")


# ---- what else other programs have a say in ----

def test_the_activation_barrier_skips_frames(link):
    exporter, importer = link.exporter(policy=f'from_env+{{"barrier_stale_ns":{10**13}}}'), link.importer()
    assert exporter.hold_barrier("up")["count"] == 1
    assert exporter.export(1) == exporter.export(2) == "SKIPPED_BARRIER"
    says(importer.get(), "NO_FRAME")
    unaware = link.exporter(policy="for_testing", name=link.name + "-2")
    assert unaware.export(1) == "PUBLISHED"
    assert exporter.hold_barrier("down") == {"count": 0, "skips": 2}
    assert exporter.export(3) == "PUBLISHED" and exporter.stats()["skipped"] == 2
    is_frame(importer.until("get"), 3)


def test_the_doorbell(link):
    exporter = link.exporter()
    importer, deaf = link.importer('from_env+{"doorbell":true}'), link.importer()
    assert not deaf.doorbell(9_999_000)["rang"]  # or this would never end
    told = importer.doorbell(30)
    assert not told["rang"] and told["seconds"] >= 0.02
    importer.child.write("doorbell 60000")
    exporter.export(1)
    assert importer.answer()["rang"]
    is_frame(importer.until("get"), 1)
    exporter.export(2)
    assert importer.doorbell(60000)["rang"]  # it is there already


def test_two_importers_do_not_mind_each_other(link):
    exporter, importers = link.exporter(), [link.importer(), link.importer()]
    for value in (1, 2, 3, 4):
        exporter.export(value)
        for importer in importers:
            is_frame(importer.until("get"), value)
    importers[0].kill()
    exporter.export(5)
    is_frame(importers[1].until("get"), 5)


# ---- the classes of 1.1 ----

@pytest.mark.parametrize("kinds", [("export11", "import11"), ("export", "import11"), ("export11", "import")])
def test_the_classes_of_1_1(link, kinds):
    exporter = link.exporter(kind=kinds[0])
    importer = link.importer(kind=kinds[1])
    assert importer.stats()["ready"]
    for value in range(1, 5):
        assert exporter.export(value, "recorded" if value % 2 else "done") in (True, "PUBLISHED")
        is_frame(importer.until("get" if value < 3 else "numpy"), value, shape=SHAPE)
    assert exporter.export(1, "done", 5) in (False, "FAILED")
    assert importer.stats()["shape"] == SHAPE and importer.stats()["dtype"] == "uint8"
    assert exporter.close() == "closed"
    assert importer.get()["outcome"] in ("NO_FRAME", "SHUTDOWN")
    assert not importer.stats()["ready"]
    assert importer.close() == "closed" and importer.stats()["frame_count"] == 4


@pytest.mark.parametrize("variable, how, waits", [
    (None, "recorded", False), (None, "guessed", True), ("1", "recorded", True), ("1", "guessed", True),
    ("0", "recorded", False), ("0", "guessed", False)])
def test_the_exporter_of_1_1_waits_where_no_stream_was_named(link, monkeypatch, variable, how, waits):
    """As cuda-link 1.1 always does, so that the memory may be written again on any stream."""
    monkeypatch.delenv("CUDALINK_EXPORT_SYNC", raising=False)
    if variable:
        monkeypatch.setenv("CUDALINK_EXPORT_SYNC", variable)
    exporter, importer = link.exporter(kind="export11"), link.importer()
    assert exporter.reuse(7, how) is waits
    if waits or how == "recorded":
        is_frame(importer.until("numpy"), 7)


def test_the_importer_of_1_1_follows_another_session_at_once(link):
    exporter, importer = link.exporter(), None
    importer = link.importer(kind="import11")
    exporter.export(1)
    is_frame(importer.until("get"), 1)
    exporter.kill()
    exporter = link.exporter(3, 3, 1)
    exporter.export(2)
    told = is_frame(importer.until("get"), 2, shape=[3, 3, 1])
    assert set(told["before"]) <= {"NO_FRAME"}


def test_the_importer_of_1_1_waits_for_the_first_frame_of_another_session(link):
    """A producer may begin another session in the same segment, as TouchDesigner's does for another size, and take its time."""
    exporter, importer = link.exporter(), link.importer(kind="import11")
    exporter.export(1)
    is_frame(importer.until("get"), 1)
    exporter.kill()
    exporter = link.exporter(3, 3, 1)
    for _ in range(50):
        says(importer.get(), "NO_FRAME")
        assert importer.stats()["ready"]
    exporter.export(2)
    is_frame(importer.until("get"), 2, shape=[3, 3, 1])


def test_a_second_exporter_is_refused_and_says_why(link, run):
    link.exporter()
    out = run(f"""
import sluice.cuda_link as cuda_link
try:
    cuda_link.Exporter.open(cuda_link.FrameSpec({link.name!r}, 4, 6))
except FileExistsError as error:
    print(error)
print(cuda_link.CUDAIPCExporter({link.name!r}, 4, 6).initialize())
""", check=False)
    assert out.stdout == f"cuda-link channel {link.name} has a writer already\nFalse\n", out.stderr
    assert "has a writer already" in out.stderr
