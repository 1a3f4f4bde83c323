# SPDX-License-Identifier: MIT
"""A reader on another GPU than the writer's."""
import pytest

import sluice
from needs import torch
from work import SIDE, narrow_writer, spin, write

pytestmark = pytest.mark.usefixtures("two_gpus")


def test_frames_are_read_over_the_link_or_the_error_says_why():
    with narrow_writer("n") as writer:
        try:
            with sluice.Reader("n", device="cuda:1") as reader:
                write(writer, 5)
                frame = reader.next(timeout=60)
                tensor = frame.torch()
                assert reader.device == frame.device == "cuda:1"
        except sluice.UnsupportedError as error:
            assert "GPU-" in str(error)
            return
        assert tensor.device == torch.device("cuda:1")
        assert (tensor == 5).all()


@pytest.mark.parametrize("staged", ["if_needed", "always"])
def test_copies(staged):
    with narrow_writer("n") as writer, sluice.Reader("n", device="cuda:1", staged=staged) as reader:
        sums = []
        side = torch.cuda.Stream(device=1)
        for number in range(100):
            write(writer, number)
            frame = reader.next(timeout=60)
            with torch.cuda.device(1), torch.cuda.stream(side):
                tensor = frame.torch()
                spin(0.2)
                sums.append(tensor.sum(dtype=torch.int64))
            del frame, tensor
        side.synchronize()
        assert [int(each) for each in sums] == [number * SIDE * SIDE for number in range(100)]


def test_send_takes_a_tensor_of_another_gpu():
    """Behind that GPU's stream, on which a slow kernel comes before the content, and before what comes next there."""
    with narrow_writer("n") as writer, sluice.Reader("n") as reader:
        source = torch.zeros((SIDE, SIDE), dtype=torch.int32, device="cuda:1")
        with torch.cuda.device(1):
            spin(50)
        source.fill_(9)
        writer.send(source)
        source.fill_(-1)
        assert (reader.next(timeout=60).torch() == 9).all()


def test_a_writer_on_the_second_gpu():
    with narrow_writer("n", device="cuda:1") as writer, sluice.Reader("n") as reader:
        assert writer.device == reader.device == "cuda:1"
        with torch.cuda.device(1):
            write(writer, 3)
            assert (reader.next(timeout=60).torch() == 3).all()


def test_staged_has_three_values():
    with narrow_writer("n"):
        with pytest.raises(ValueError):
            sluice.Reader("n", device="cuda:1", staged="sometimes")
