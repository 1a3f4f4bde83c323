# SPDX-License-Identifier: MIT
"""Each example runs. Those that are asked for all start at once, each in a folder of channels of its own: most of their time
goes into importing frameworks. The video of the networks is a file that SLUICE_TEST_CLIP names, else a test picture."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request

import needs
import numpy as np
import pytest

import recipes
import sluice

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
ROLES = pathlib.Path(__file__).parent / "gpu_roles.py"
NAMESPACES = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--net"]
FEW, PATIENCE = 5, 500
TEST_PICTURE = ["test", "--pattern", "--size", "320x240", "--format", "rgb24"]


class Scene:
    """The programs of one example, on channels of their own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="sluice-ex-")
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            process.communicate()
        shutil.rmtree(self.folder)

    def start(self, *command, prefix=()):
        environment = {**os.environ, "SLUICE_DIR": self.folder, "PYTHONUNBUFFERED": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self.started.append(subprocess.Popen([*prefix, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                             text=True, env=environment))
        return self.started[-1]

    def example(self, name, *args, prefix=()):
        return self.start(sys.executable, EXAMPLES / name, *args, prefix=prefix)

    def play(self, source, told, readers=1):
        """`sluice play`, on the GPU, once so many are there to see it, and until a program has told enough of what it sees: frameworks
        may take long to begin. The lines."""
        what, *options = source
        command = pathlib.Path(sluice.__file__).parent / "bin" / "sluice"
        playing = self.start(command, "play", what, "camera", "--device", "cuda:0", "--readers", str(readers), "--fps", "30",
                             "--quiet", *options)
        lines = lines_of(told)
        end_of(playing)
        return lines

    def watch(self, channel):
        return self.start(sys.executable, ROLES, "watch", channel, pathlib.Path(self.folder) / f"{channel}.npy")

    def picture(self, channel):
        return np.load(pathlib.Path(self.folder) / f"{channel}.npy")


def finish(process):
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0 and "Traceback" not in err, err
    return out.splitlines()


def end_of(writing):
    """Ctrl-C: what is open is closed, and its readers come to their end."""
    writing.send_signal(signal.SIGINT)
    writing.communicate(timeout=PATIENCE)


def lines_of(reading, count=FEW):
    return [reading.stdout.readline().strip() for _ in range(count)]


def check_filter(name, channel, shape):
    """The last picture that a filter made of the test picture."""
    with Scene() as scene:
        watching, filtering = scene.watch(channel), scene.example(name)
        scene.play(TEST_PICTURE, watching)
        said, seen = finish(filtering)[-1].split(), finish(watching)[-1].split()
        assert said[1] == "frames" and int(said[0]) >= int(seen[0]) >= FEW
        assert seen[1:] == [*map(str, shape), "True"]
        picture = scene.picture(channel)
        assert picture.std() > 1
        return picture


# ---- the scenes ----

def read_and_write():
    with Scene() as scene:
        reading, writing = scene.example("gpu_reader.py"), scene.example("gpu_writer.py", "100000")
        lines = lines_of(reading)
        end_of(writing)
        lines += finish(reading)
        for line in lines:
            shown = re.fullmatch(r"frame \d+, \d+ missed, frame \d+: (\d+) on cuda:0", line)
            assert shown and int(shown[1]) == 255, line


def two_containers():
    if not shutil.which("unshare") or subprocess.run([*NAMESPACES, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    with Scene() as scene:
        reading = scene.example("gpu_reader.py", prefix=NAMESPACES)
        scene.example("gpu_writer.py", "100000", prefix=NAMESPACES)
        assert all(line.endswith("on cuda:0") for line in lines_of(reading))


def check_overlay(name, source):
    """Every pixel of the last picture is half of what was played and half of a colour, of 21 that there are."""
    with Scene() as scene:
        watching, looking, painting = scene.watch("overlay"), scene.watch("camera"), scene.example(name)
        scene.play(source, watching, readers=2)
        said = finish(painting)[-1].split()
        seen, played = finish(watching)[-1].split(), finish(looking)[-1].split()
        assert said[1] == "frames" and int(said[0]) >= int(seen[0]) >= FEW and seen[1:] == played[1:]
        colours = scene.picture("overlay").astype(int) - scene.picture("camera") // 2
    assert 0 <= colours.min() and 10 < colours.max() < 128 and len(np.unique(colours.reshape(-1, 3), axis=0)) <= 21


def network():
    check_overlay("gpu_network.py", TEST_PICTURE)


def graph():
    check_overlay("gpu_graph.py", TEST_PICTURE)


def clip():
    """Frames of a real video."""
    path = os.environ.get("SLUICE_TEST_CLIP")
    if not path:
        pytest.skip("no clip: dev/gpu-check --clip FILE")
    if path.endswith(".slr"):
        return [path, "--loop"]
    if not shutil.which("ffmpeg"):
        pytest.skip("ffmpeg is not installed: give a recording, FILE.slr")
    return [path, "--size", "320x180", "--format", "rgb24", "--loop"]


def network_on_video():
    check_overlay("gpu_network.py", clip())


def graph_on_video():
    check_overlay("gpu_graph.py", clip())


def cupy():
    pytest.importorskip("cupy", reason="cupy is not installed")
    picture = check_filter("gpu_cupy.py", "bright", (240, 320, 3))
    assert (picture == 255).any() and not (picture % 2)[picture < 255].any()


def jax():
    pytest.importorskip("jax", reason="jax is not installed")
    check_filter("gpu_jax.py", "edges", (240, 320))


def slot_graphs():
    with Scene() as scene:
        reading = scene.example("gpu_slot_graphs.py")
        lines = scene.play(TEST_PICTURE, reading) + finish(reading)
        assert len(lines) >= FEW and all(re.fullmatch(r"slot \d+: \[\d.*\]", line) for line in lines)
        assert len({line.split(":")[0] for line in lines}) > 1 and "[0.0, 0.0, 0.0]" not in lines[-1]


def two_gpus():
    if needs.gpus < 2:
        pytest.skip("one GPU only")
    with Scene() as scene:
        assert finish(scene.example("gpu_two.py")) == ["190.0"]


def jpeg_server():
    cv2 = pytest.importorskip("cv2", reason="opencv-python-headless is not installed")
    with Scene() as scene:
        serving, writing = scene.example("gpu_jpeg_server.py", "0"), scene.example("gpu_writer.py", "100000")
        where = serving.stdout.readline().strip()
        for _ in range(2):  # two browsers, one after the other
            with urllib.request.urlopen(where, timeout=60) as answer:
                for _ in range(3):
                    while not (line := answer.readline()).startswith(b"Content-Length"):
                        assert line
                    answer.readline()
                    picture = cv2.imdecode(np.frombuffer(answer.read(int(line.split()[1])), "u1"), 1)
                    assert picture.shape == (480, 640, 3) and picture[..., 2].std() > 50 and picture[..., 0].mean() < 40
        assert serving.poll() is None and writing.poll() is None


def kv_cache():
    with Scene() as scene:
        assert finish(scene.example("gpu_kv_cache.py")) == [
            "request 3 (4, 4, 3, 64) 0.5", "request 1024 (4, 4, 1024, 64) 0.5", "request 100 (4, 4, 100, 64) 0.5"]


def single_programs():
    with Scene() as scene:
        both = [scene.example("gpu_from_queue.py", how) for how in ("queue", "channel")]
        changed, streams = scene.example("gpu_read_only.py"), scene.example("gpu_streams.py")
        assert [finish(each) for each in both] == [["190.0"]] * 2
        assert finish(changed) == ["[0.0, 2.0, 4.0, 6.0]", "[1.0, 2.0, 3.0, 4.0]", "[-0.0, -1.0, -2.0, -3.0]"]
        assert finish(streams) == ["1024.0 2048.0"]


def copies():
    with Scene() as first, Scene() as second:
        copied, made = first.example("gpu_copies.py"), second.example("torch_in_place.py")
        assert finish(copied) == ["frame 1: 10.0, 10.0", "frame 2: 20.0", "frame 1: 30.0, 30.0"]
        lines = finish(made)
        assert lines[:2] == ["frame 1: 0.731", "frame 2: 0.731"] and len(lines) == 4


def cuda_link():
    with Scene() as scene:
        linked, own = scene.example("gpu_from_cuda_link.py"), scene.example("gpu_from_cuda_link.py", "--own")
        for process in (linked, own):
            lines = [line.rpartition(": ") for line in finish(process)]
            assert len(lines) >= 20 and {line[0] for line in lines} == {"(1080, 1920, 4) on cuda:0"}
            numbers = [int(line[2]) for line in lines]
            assert numbers == sorted(numbers)


def check_recipes(library):
    pytest.importorskip(library, reason=f"{library} is not installed")
    found = recipes.find(library)
    assert found
    with Scene() as scene:
        for recipe in found.values():
            recipes.run(scene.folder, recipe, SLUICE_DIR=scene.folder, PYTHONWARNINGS="default")


def torch_recipe():
    check_recipes("torch")


def cupy_recipe():
    check_recipes("cupy")


def numba_recipe():
    pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    check_recipes("numba")


def warp_recipe():
    check_recipes("warp")


def quadrants_recipe():
    check_recipes("quadrants")


SCENES = [read_and_write, two_containers, network, graph, network_on_video, graph_on_video, cupy, jax, slot_graphs, two_gpus,
          jpeg_server, kv_cache, single_programs, copies, cuda_link, torch_recipe,
          cupy_recipe, numba_recipe, warp_recipe, quadrants_recipe]


@pytest.fixture(scope="session")
def scenes(request):
    """What of them this run has, all begun: name -> what comes of it."""
    wanted = {item.callspec.params["scene"] for item in request.session.items
              if item.path == pathlib.Path(__file__) and hasattr(item, "callspec")}
    with concurrent.futures.ThreadPoolExecutor(len(SCENES)) as pool:
        yield {scene: pool.submit(scene) for scene in SCENES if scene in wanted}


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_example(scene, scenes):
    scenes[scene].result()


def test_every_example_for_gpus_is_run_by_a_test():
    text = pathlib.Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("gpu_*.py") if path.name not in text] == []
