# SPDX-License-Identifier: MIT
"""What `import cuda_link` gives: the same from both. Sluice's may have more, and its parameters more at the end."""
import ast
import json
import subprocess
import sys

import pytest

from conftest import CLASSES, DTYPES, HERE


def ask_for(folders, kind, what, *more):
    done = subprocess.run([sys.executable, str(HERE / "peer.py"), str(folders[kind]), what, *more], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def interfaces(folders):
    theirs = ask_for(folders, "cuda-link", "interface")
    return theirs, ask_for(folders, "sluice", "interface", *theirs)


# Its inner workings: what its importer makes for itself, and by which its own tests put something else in the driver's place. The
# runtime that others may call is looked at apart. Who makes an Exporter or an Importer calls open().
INNER = ("IPCConnection.(itself)", "FakeCUDAAdapter", "CudaPort", "ImporterCudaPort", "CTypesCUDAAdapter", "Exporter.(itself)", "Importer.(itself)", "Importer.from_connection", "activation_barrier.BarrierShmPort",
         "activation_barrier.RealShmAdapter", "cuda_runtime_types.cudaPos.(itself)", "cuda_runtime_types.cudaPitchedPtr.(itself)",
         "cuda_runtime_types.cudaExtent.(itself)", "cuda_runtime_types.cudaMemcpy3DParms.(itself)",
         "cuda_ipc_importer.torch", "cuda_ipc_importer.cp", "nvml_observer.pynvml")


def differences(name, theirs, ours):
    """Sentences about what a program of cuda-link's would miss."""
    if name in INNER:
        return []
    if ours == "missing":
        return [f"there is no {name}"]
    if isinstance(theirs, dict):
        if not isinstance(ours, dict):
            return [f"{name} is no class"]
        return [each for member in theirs for each in differences(f"{name}.{member}", theirs[member], ours.get(member, "missing"))]
    if isinstance(theirs, list):
        if not isinstance(ours, list) or ours[:len(theirs)] != theirs:
            return [f"{name} takes {ours}, not {theirs}"]
        return []
    return [] if theirs is None or theirs == ours or "value" in (theirs, ours) else [f"{name} is {ours}, not {theirs}"]


def test_names_and_signatures(interfaces):
    theirs, ours = interfaces
    if CLASSES:  # the usual name of a channel is another since 1.8
        theirs = json.loads(json.dumps(theirs).replace("cudalink_output_ipc", "cudalink_ipc_TD>>Python"))
    missing = [each for name, thing in theirs.items() for each in differences(name, thing, ours.get(name, "missing"))]
    assert not missing, "\n".join(missing)


def test_what_objects_have_inside(folders):
    """Each attribute is there, or it is said why not."""
    names = ask_for(folders, "cuda-link", "inside")
    assert any(name.endswith("Exporter.shm_handle") for name in names) and len(names) > 20
    told = ask_for(folders, "sluice", "inside", *names)
    unknown = [name for name in names if "AttributeError" in told[name] and " has no " + name.partition(".")[2] + ": " not in told[name]]
    assert not unknown, unknown


def test_the_wire(folders):
    if CLASSES:
        pytest.skip("this cuda-link has no module for the wire")
    theirs, ours = (ask_for(folders, kind, "wire") for kind in ("cuda-link", "sluice"))
    known = {(*theirs[dtype][0][:2], flags | theirs[dtype][0][2]) for dtype in DTYPES for flags in (0, 2, 4, 6)}
    for name, thing in theirs.items():
        if name.startswith("decoded") and ast.literal_eval(name.partition(" ")[2]) not in known:
            assert thing == "float32" and ours[name] == "refused"  # there is no telling how many bytes that has
        else:
            assert ours.get(name) == thing, name
