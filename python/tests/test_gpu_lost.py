# SPDX-License-Identifier: MIT
"""Frames that their writer's GPU never finished: they are counted, and readers go on."""
import sluice


def test_what_a_killed_writer_left_unfinished_is_counted(gpu, start):
    child = start("leave_unfinished", "cam")
    child.expect("open")
    with sluice.Reader("cam", mode="in_order", wait=60) as reader:
        child.write("go")
        child.expect("committed 0")
        with reader.next(timeout=60) as frame:
            assert frame.meta == b"whole" and reader.stats().lost == 0
        child.kill()
        with sluice.Writer("cam", shape=64, device=gpu.device) as writer:
            while not writer.stats().readers:  # in order: it gets what comes from then on
                assert reader.latest() is None
            with writer.frame(meta=b"next"):
                pass
            with reader.next(timeout=60) as frame:
                assert frame.new_session and frame.meta == b"next"
        stats = reader.stats()
        assert stats.lost == 1 and stats.taken == 2 and stats.sessions == 2
