# SPDX-License-Identifier: MIT
"""Tests with the command and NVIDIA's tools: doctor, the command's channels on a GPU, Nsight Systems, compute-sanitizer."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time

from gpucheck.suite import OUT_OF_TIME, Suite, run

COMMANDS = "play, snap, bridge, top, demo, bench on the GPU"


def machine():
    """Returns the GPUs that nvidia-smi lists."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,uuid,memory.total,compute_cap",
             "--format=csv,noheader"]
    try:
        text = subprocess.run(query, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    keys = ("name", "driver", "uuid", "memory", "compute")
    return [dict(zip(keys, map(str.strip, line.split(",")))) for line in text.splitlines() if line.strip()]


def doctor(folder, out):
    """Reports each line of `sluice doctor` about a GPU as a test; doctor.log has the full output."""
    run([folder / "tools/sluice", "doctor"], out / "doctor.log", 60)
    status, text, seconds = run([folder / "tools/sluice", "doctor", "--json"], out / "doctor.json", 60)
    try:
        lines = [line for line in json.loads(text)["findings"] if line["device"]]
    except (ValueError, KeyError):
        lines = []
    tap = "".join(f"{'not ok' if line['state'] == 'bad' else 'ok'} {number} - "
                  f"{line['device']}.{line['topic'].replace(' ', '_')}\n# {line['text']}\n"
                  for number, line in enumerate(lines, 1))
    return Suite("sluice doctor, each GPU", tap or text, status if lines else 1, seconds)


def said_by(programs):
    """Ends the programs and returns their output. They may not end if the GPU hangs."""
    said = b""
    for program in programs:
        program.terminate()
        try:
            said += program.communicate(timeout=20)[1]
        except subprocess.TimeoutExpired:
            program.kill()
            said += f"{program.args[1]} does not end\n".encode()
    return said


def snap(sluice, device, path, log, channels, pixels="nv12"):
    """Plays the test picture on a device and snaps a frame. Returns its bytes, or none on failure."""
    path.unlink(missing_ok=True)
    player = subprocess.Popen([sluice, "play", "test", "camera", "--pattern", "--size", "320x240", "--format", pixels,
                               "--fps", "0.2", "--device", device], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env=dict(os.environ, SLUICE_DIR=channels))
    try:
        run([sluice, "snap", "camera", path, "--timeout", "20"], log, 60, SLUICE_DIR=channels)
    finally:
        said = said_by([player])
    with log.open("ab") as file:
        file.write(said)
    return path.read_bytes() if path.exists() else b""


def bridge(sluice, out, channels):
    """Bridges the test picture from host memory to a cipd: channel on the GPU and back, with a process for each step. Returns a
    frame of the result, and the output of the programs."""
    path, wire = out / "snap-bridge.npy", f"cipd:gpu-check-{os.getpid()}"
    path.unlink(missing_ok=True)
    lines = (["play", "test", "camera", "--pattern", "--size", "320x240", "--format", "bgra", "--fps", "0.05"],
             ["bridge", "camera", wire, "--device", "cuda:0"], ["bridge", wire, "back", "--device", "host"])
    environment = dict(os.environ, SLUICE_DIR=channels, CUDALINK_ACTIVATION_BARRIER="0")
    running = [subprocess.Popen([sluice, *line], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
               for line in lines]
    try:
        _, said, _ = run([sluice, "snap", "back", path, "--timeout", "30"], out / "snap-bridge.log", 60, SLUICE_DIR=channels)
    finally:
        said += said_by(reversed(running)).decode(errors="replace")
    (out / "snap-bridge.log").write_text(said)
    return path.read_bytes() if path.exists() else b"", said


def top(sluice, out, channels):
    """Returns whether `top` shows the same GPU metrics as nvidia-smi, and its output."""
    environment = dict(os.environ, SLUICE_DIR=channels)
    player = subprocess.Popen([sluice, "play", "test", "camera", "--pattern", "--size", "320x240", "--device", "cuda:0"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    try:
        run([sluice, "snap", "camera", out / "snap-top.npy", "--timeout", "20"], out / "snap-top.log", 60, SLUICE_DIR=channels)
        _, said, _ = run([sluice, "top", "--once", "--json", "--interval", "0.2"], out / "top.json", 60, SLUICE_DIR=channels)
    finally:
        more = said_by([player]).decode(errors="replace")
    try:
        told = json.loads(said)
        where = next(each["gpu"] for each in told["channels"] if each["name"] == "camera")  # other programs may use other GPUs
        found = next(each for each in told["gpus"] if each["uuid"] == where)
        gpu = next(each for each in machine() if each["uuid"] == found["uuid"])
    except (ValueError, KeyError, StopIteration) as error:
        return False, f"{error!r}: {said[-500:]}{more}"
    size = int(gpu["memory"].split()[0]) << 20
    wrong = [f"{key} is {found.get(key)}" for key, least in (("memory_total", 0.95), ("memory_used", 0))
             if not least < (found.get(key) or -1) / size < 1.05]
    return not wrong, "\n".join([*wrong, said[-500:] + more])


def tap_of(results):
    """Converts a list of (name, passed, output) to TAP."""
    return "".join(f"{'ok' if well else 'not ok'} {number} - command.{name}\n"
                   + "".join(f"# {line}\n" for line in text.splitlines()[-6:])
                   for number, (name, well, text) in enumerate(results, 1))


def frames(folder, out):
    """Checks that a frame played and snapped on a GPU is the same as in host memory, also through cuda-link's protocol."""
    sluice, began = folder / "tools/sluice", time.monotonic()
    with tempfile.TemporaryDirectory() as channels:
        pictures = [snap(sluice, device, out / f"snap-{device[:4]}.npy", out / f"snap-{device[:4]}.log", channels)
                    for device in ("host", "cuda:0")]
        results = [("play_and_snap", len(pictures[0]) > 320 * 240 and pictures[0] == pictures[1],
                    (out / "snap-cuda.log").read_text())]
        through, said = bridge(sluice, out, channels)
        plain = snap(sluice, "host", out / "snap-bgra.npy", out / "snap-bgra.log", channels, "bgra")
        results.append(("bridge_through_cuda_link", len(plain) > 320 * 240 and plain == through, said))
        results.append(("top", *top(sluice, out, channels)))
    return Suite(COMMANDS, tap_of(results), 0, time.monotonic() - began)


def plays(folder, out, name, *arguments):
    """Runs a subcommand on the GPU: demo or bench."""
    with tempfile.TemporaryDirectory() as channels:
        status, text, seconds = run([folder / "tools/sluice", name, *arguments, "--device", "cuda:0"], out / f"{name}.log", 120,
                                    SLUICE_DIR=channels)
    return Suite(COMMANDS, tap_of([(name, status == 0, text)]), 0, seconds)


def find_nsys():
    """Finds nsys. NVIDIA's toolkit has it in the folder of Nsight Compute, which is not in PATH."""
    found = shutil.which("nsys")
    return found or next((str(each) for each in sorted(pathlib.Path("/opt/nvidia").glob("*/*/*/*/nsys"))), None)


def ranges_in(nsys, collected, log):
    """Returns {name: count} of the NVTX ranges that nsys collected, or an error message. The nsys of Nsight Compute does not make a
    report by itself; the importer in its folder does, if it gets the path of its libraries."""
    report, tables = collected.with_suffix(".nsys-rep"), collected.with_suffix(".sqlite")
    importer = next(iter(sorted(pathlib.Path(nsys).resolve().parent.parent.glob("*/QdstrmImporter"))), None)
    if importer and not report.exists():
        run([importer, "-i", collected, "-o", report], log, 60, append=True, LD_LIBRARY_PATH=str(importer.parent))
    if not report.exists():
        return "this nsys only collects, and no QdstrmImporter beside it runs: see nsight.log"
    run([nsys, "export", "--type=sqlite", "--force-overwrite=true", "-o", tables, report], log, 60, append=True)
    with contextlib.closing(sqlite3.connect(tables)) as database:
        return dict(database.execute("SELECT coalesce(e.text, s.value), count(*) FROM NVTX_EVENTS e LEFT JOIN StringIds s "
                                     "ON s.id = e.textId WHERE e.end IS NOT NULL GROUP BY 1"))


PLAYED, RECORDED = 100, 50  # frames
RANGES = {"write camera": PLAYED, "send": PLAYED, "read camera": RECORDED, "fetch": RECORDED}


def nsight(folder, out):
    """Checks docs/profiling.md: both processes of a channel in one report of Nsight Systems, with a range for each frame."""
    title, sluice, began, nsys, log = "ranges in Nsight Systems", folder / "tools/sluice", time.monotonic(), find_nsys(), out / "nsight.log"
    if not nsys:
        return Suite(title, "ok 1 - nsight.ranges # SKIP there is no nsys here\n", 0, 0)
    with tempfile.TemporaryDirectory() as channels:
        both = (f"'{sluice}' play test camera --device cuda:0 --size 320x240 --frames {PLAYED} --quiet & "
                f"'{sluice}' record camera '{channels}/take.slr' --frames {RECORDED} --timeout 30 --quiet; wait")
        run([nsys, "profile", "--trace=cuda,nvtx", "--force-overwrite=true", "-o", pathlib.Path(channels) / "both.nsys-rep", "sh", "-c", both],
            log, 90, SLUICE_DIR=channels, SLUICE_NVTX="1")
        found = ranges_in(nsys, pathlib.Path(channels) / "both.qdstrm", log)
    if isinstance(found, str):
        return Suite(title, f"ok 1 - nsight.ranges # SKIP {found}\n", 0, time.monotonic() - began)
    tap = "".join(f"{'ok' if found.get(name, 0) >= count else 'not ok'} {number} - nsight.{name.replace(' ', '_')}\n# {found.get(name, 0)} of {count}\n"
                  for number, (name, count) in enumerate(RANGES.items(), 1))
    return Suite(title, tap, 0, time.monotonic() - began)


def find_sanitizer():
    found = shutil.which("compute-sanitizer")
    return found or next((str(each) for each in sorted(pathlib.Path("/usr/local").glob("cuda*/bin/compute-sanitizer"))), None)


def memcheck(folder, log, name, **environment):
    """Runs a test under compute-sanitizer. Returns (output, status, seconds, number of errors or None if it was not checked)."""
    command = [find_sanitizer(), "--tool", "memcheck", "--target-processes", "all",
               "--report-api-errors", "no", "--error-exitcode", "9", folder / "tests/gpu/gpu", name]
    status, text, seconds = run(command, log, 200, append=True, **{"SLUICE_TEST_SCALE": "0.1", **environment})
    errors = [int(each) for each in re.findall(r"ERROR SUMMARY: (\d+) error", text)]
    return text, status, seconds, sum(errors) if errors else None


def sanitize(folder, title, log, name, **environment):
    """Runs a test under compute-sanitizer, in all its processes. The test's output counts, not the exit status, which may report
    killed processes."""
    text, status, seconds, errors = memcheck(folder, log, name, **environment)
    suite = Suite(title, text, 0 if status in (1, 9) or name in text and status != OUT_OF_TIME else status, seconds)
    if errors:
        lines = [line for line in text.splitlines() if line.startswith("=========")][:8]
        suite.failed[f"{name} (memory errors)"] = [f"{errors} errors", *lines]
    if errors is None and not suite.skipped:
        suite.failed[f"{name} (memory not looked at)"] = text.splitlines()[-8:]
    return suite


def control(folder, title, log, name, **environment):
    """Checks that compute-sanitizer finds the error of a test whose kernel writes out of bounds in a process that it starts."""
    text, _, seconds, errors = memcheck(folder, log, name, **environment)
    said = "".join(f"# {line}\n" for line in text.splitlines()[-8:])
    return Suite(title, f"{'ok' if errors else 'not ok'} 1 - memcheck.finds_what_a_kernel_breaks\n{said}", 0, seconds)
