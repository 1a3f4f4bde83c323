# SPDX-License-Identifier: MIT
"""python/bench_gpu.py, as far as it needs no PyTorch: on the fake driver, where its times mean nothing."""
import json
import os
import pathlib
import subprocess
import sys

import pytest
from peer_runtime import is_of_classes, package_folder

BENCH = pathlib.Path(__file__).resolve().parents[1] / "bench_gpu.py"
QUADRANTS = BENCH.parents[1] / "bench/python_quadrants.py"
OURS = {"get_frame_numpy", "get_frame_numpy_pipelined", "export", "get_frame_numpy_slept", "export_slept", "get_frame_numpy_washed",
        "export_washed", "export_awake"}
STREAMS = {"default": True, "own": False}  # that frames are exported on, and whether a goal is set


@pytest.mark.limit(900)
def test_calls_of_cuda_links_interface_are_measured(gpu, tmp_path):
    if not gpu.fake:
        pytest.skip("dev/gpu-check runs it on a GPU")
    link = package_folder()
    more = ["--cuda-link", str(link)] if link else []
    file = tmp_path / "figures.json"
    so_far, said = [], []
    process = subprocess.Popen([sys.executable, str(BENCH), "--quick", "-o", str(file), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": "0"})
    for line in process.stderr:  # at each step the file has what was before
        said.append(line)
        so_far += [json.loads(file.read_text())] if file.exists() else []
    assert process.wait() == 0, "".join(said)
    assert not process.stdout.read()
    figures = json.loads(file.read_text())
    assert so_far[0]["unfinished"] and len(so_far[0]["rows"]) < len(figures["rows"]) and "unfinished" not in figures
    found = {(row["bench"].removeprefix("py_gpu_link_"), row["params"].get("way")) for row in figures["rows"]}
    assert {(name, "sluice.cuda_link") for name in OURS} | {("py_gpu_floor_pinned_copy", None)} <= found
    assert not figures["failed"] and all(row["n"] in (40, 50) for row in figures["rows"])  # fewer where they sleep
    awake = {row["params"]["stream"]: "goal_ns" in row for row in figures["rows"]
             if row["bench"] == "py_gpu_link_export_awake" and row["params"]["way"] == "sluice.cuda_link"}
    assert awake == STREAMS
    launches = [row for row in figures["rows"] if row["bench"] == "py_gpu_kernel_launch"]
    assert {(row["params"]["way"], row["params"]["stream"], "goal_ns" in row, "limit_p50_ns" in row) for row in launches} == \
        {(way, stream, ours, ours) for stream in ("explicit", "default")
         for way, ours in (("sluice", True), ("sluice, Kernel.on()", True), ("the driver, from C", False))}
    theirs = {name for name, way in found if way == "cuda-link"}
    missing = {each["rows"]: each["why"] for each in figures["missing"]}
    if link:
        assert theirs == OURS - ({"get_frame_numpy_pipelined"} if is_of_classes(link) else set()), missing
    else:
        assert not theirs and "cuda_link" in missing["cuda-link"]
    assert any("py_gpu_*" in rows for rows in missing)  # those that need PyTorch and a GPU that it sees


def test_without_a_gpu_it_says_so():
    done = subprocess.run([sys.executable, str(BENCH)], capture_output=True, text=True, timeout=500,
                          env={**os.environ, "SLUICE_CUDA_DRIVER": "/nowhere/libcuda.so", "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 77 and "nothing is measured" in done.stderr and not done.stdout


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_beside_quadrants(gpu, device):
    if not gpu.fake:
        pytest.skip("dev/gpu-check runs it on a GPU")
    done = subprocess.run([sys.executable, str(QUADRANTS), device, "--quick"], stdout=subprocess.PIPE, text=True, timeout=500)
    report = json.loads(done.stdout.splitlines()[-1])
    ours = {(row["bench"].removeprefix("py_gpu_quadrants_"), row["params"].get("raises")) for row in report["rows"] if row["params"]["way"] == "sluice"}
    closed = {("launch", None), ("closed_launch", "StreamClosedError"), ("closed_synchronize", "StreamClosedError")}
    assert ours == closed | ({("with_end", "nothing"), ("graph", "nothing")} if device == "cuda" else set())
    assert {each["way"] for each in report["missing"]} <= {"quadrants"} and not report["failed"]
