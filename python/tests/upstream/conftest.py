# SPDX-License-Identifier: MIT
"""Sluice against cuda-link's own Python package, which SLUICE_CUDA_LINK names: the folder that its `cuda_link` lies in. Without
it these tests are skipped. Each side is a process of its own; where a test says `pair`, both are tried: cuda-link to Sluice, Sluice to
cuda-link, and cuda-link to itself, by which the test is shown to be right. Of a package of before 1.5, which has classes of another
kind, a program of such classes is tried on Sluice, too: `sluice-classes`.

cuda-link loads the CUDA runtime by the name that it has on Windows. Here a file has that name: NVIDIA's runtime if one is
installed and there is a GPU, else tests/fake/runtime.c, which lies beside the fake driver."""
import importlib.util
import itertools
import os
import pathlib
import secrets

import pytest

import child
from peer_runtime import NAME, PEERS, is_of_classes, package_folder, search_path, with_its_name

HERE = pathlib.Path(__file__).parent
SHM = pathlib.Path("/dev/shm")
CLASSES = is_of_classes(package_folder())
DTYPES = ("float32", "float16", "uint8", "uint16", *(() if CLASSES else ("bfloat16", "int8", "int16")))


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    """A folder with cudart64_12.dll."""
    if os.environ.get("SLUICE_TEST_GPU") and package_folder():
        folder = tmp_path_factory.mktemp("runtime")
        if with_its_name(package_folder(), folder):
            return folder
    folder = os.environ.get("SLUICE_FAKE_RUNTIME") or os.path.dirname(os.environ.get("SLUICE_FAKE_DRIVER", ""))
    if not os.path.exists(os.path.join(folder, NAME)):
        pytest.skip("there is no CUDA runtime, and no tests/fake/cudart64_12.dll: SLUICE_FAKE_RUNTIME names its folder")
    return folder


@pytest.fixture
def folders(gpu, runtime, monkeypatch):
    """What `import cuda_link` finds for whom."""
    if not package_folder():
        pytest.skip(f"SLUICE_CUDA_LINK names no folder with cuda-link's package (it is '{PEERS}')")
    stand_in = importlib.util.find_spec("sluice.cuda_link")
    if not stand_in:
        pytest.fail("there is no sluice.cuda_link")
    monkeypatch.setenv("LD_LIBRARY_PATH", search_path(runtime))
    ours = pathlib.Path(stand_in.origin).parent / "stand_in"
    return {"cuda-link": package_folder(), "sluice": ours, "sluice-classes": ours}


def has_classes(kind):
    """Is a program of this kind written with the classes of before 1.5?"""
    return kind == "sluice-classes" or (CLASSES and kind == "cuda-link")


class Peers:
    """Starts peer.py, and gives the processes of a test one name for their channel."""

    def __init__(self, folders, start):
        self.folders, self.start_one = folders, start
        self.name = f"sluice-test-{os.getpid()}-{secrets.token_hex(4)}"

    def start(self, kind, role, name=None):
        peer = self.start_one(self.folders[kind], f"class-{role}" if has_classes(kind) else role, name or self.name)
        peer.expect("here")
        return peer

    def remove(self):
        for path in itertools.chain(SHM.glob(f"{self.name}*"), SHM.glob(f".{self.name}*")):
            path.unlink(missing_ok=True)


@pytest.fixture
def peers(folders):
    with child.children(HERE / "peer.py", 40) as start:
        peers = Peers(folders, start)
        yield peers
    peers.remove()


def ask(peer, command):
    peer.write(command)
    return peer.read()


PAIRS = [("cuda-link", "cuda-link"), ("cuda-link", "sluice"), ("sluice", "cuda-link")]
KINDS = ["cuda-link", "sluice"]
if CLASSES:
    PAIRS += [("cuda-link", "sluice-classes"), ("sluice-classes", "cuda-link")]
    KINDS.append("sluice-classes")


def pytest_generate_tests(metafunc):
    if "pair" in metafunc.fixturenames:
        metafunc.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-to-{pair[1]}")
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", KINDS)


class Two:
    """An exporter and an importer of one channel."""

    def __init__(self, peers, pair):
        self.peers, self.pair, self.name = peers, pair, peers.name
        self.exporter = self.importer = None

    def export(self, spec):
        self.exporter = self.exporter or self.peers.start(self.pair[0], "export")
        assert ask(self.exporter, f"open {spec}") == "open"

    def connect(self, spec="", role="import"):
        self.importer = self.peers.start(self.pair[1], role)
        return ask(self.importer, f"open {spec}")

    def connect_again(self):
        """An importer that was closed, in its process; the first one, too."""
        return ask(self.importer, "open") if self.importer else self.connect()

    def send(self, number):
        assert ask(self.exporter, f"send {number}") == "PUBLISHED"

    def take(self, passed="NO_FRAME RECONNECTING"):
        return ask(self.importer, f"take {passed}")


@pytest.fixture
def two(peers, pair):
    return Two(peers, pair)


@pytest.fixture
def segment(peers):
    return SHM / peers.name


@pytest.fixture
def native(gpu, peers):
    """Sluice's own interface on the same channel."""
    made = []

    def make(kind, **params):
        made.append(kind(f"cipd:{peers.name}", device=gpu.device, **params))
        return made[-1]

    yield make
    for each in made:
        each.close()
