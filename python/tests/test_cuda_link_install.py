# SPDX-License-Identifier: MIT
"""Programs that say `import cuda_link`, and get sluice.cuda_link: by install(), or by `python -m sluice.cuda_link`."""
import os
import sys

import pytest

SAYS = """
import sys
import cuda_link
from cuda_link import Importer, ImportSpec
from cuda_link.exporter import Exporter
from cuda_link.cuda_ipc_importer import CUDAIPCImporter
from cuda_link.cuda_runtime_types import CudaIpcError
from cuda_link import shm_protocol, activation_barrier
import cuda_link.nvml_observer
import sluice.cuda_link
assert cuda_link is sluice.cuda_link and Exporter is sluice.cuda_link.Exporter is cuda_link.Exporter
assert CUDAIPCImporter is cuda_link.CUDAIPCImporter and CudaIpcError is cuda_link.CudaIpcError
assert cuda_link.nvml_observer.NVMLObserver is cuda_link.NVMLObserver
"""
SPAWNS = SAYS + """
import multiprocessing, os, subprocess

def child(queue):
    import cuda_link
    queue.put(cuda_link.__name__)

if __name__ == "__main__":
    assert sys.argv[1:] == ["one", "--two"], sys.argv
    assert os.path.basename(__file__) == "program.py" and __import__("beside").VALUE == 5
    for method in ("spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(queue.get(timeout=200))
        process.join()
    sys.stdout.flush()
    subprocess.run([sys.executable, "-c", "import cuda_link; print(cuda_link.__name__)"], check=True)
"""


def test_install(run):
    assert run("import sluice.cuda_link; sluice.cuda_link.install(); sluice.cuda_link.install()\n" + SAYS) == ""


@pytest.mark.parametrize("statement", [
    "import cuda_link._env as found", "import cuda_link.importer as found",
    "import streams._compat.cuda_ipc as found", "import streams._compat.cuda_ipc; found = streams._compat.cuda_ipc",
    "from streams._compat import cuda_ipc as found", "import streams._compat.cuda_ipc.importer as found",
    "import streams._compat.cuda_ipc._cuda_adapters as found",
])
def test_each_way_to_import_it(tmp_path, run, statement):
    """Also if the package that contains the copy is not imported."""
    copy = tmp_path / "streams" / "_compat" / "cuda_ipc"
    copy.mkdir(parents=True)
    (copy / "__init__.py").write_text("raise ImportError('this is the copy')\n")
    out = run(f"import sys, sluice.cuda_link as link; sys.path.insert(0, {str(tmp_path)!r}); spec = link.__spec__\n"
              f"link.install(); link.install('streams._compat.cuda_ipc'); link.install('streams._compat.cuda_ipc')\n{statement}\n"
              "assert link.__spec__ is spec and found.__spec__.name == found.__name__\nprint(found.__name__)")
    assert out.startswith("sluice.cuda_link")


def test_install_does_not_take_the_place_of_another(run):
    done = run("import sys, types; other = types.ModuleType('cuda_link'); other.__path__ = ['elsewhere'];"
               "other.__file__ = 'elsewhere/__init__.py'; sys.modules['cuda_link'] = other;"
               "import sluice.cuda_link; sluice.cuda_link.install()", check=False)
    assert "elsewhere" in done.stderr and "RuntimeError" in done.stderr


@pytest.mark.linux("PYTHONPATH in the package of CPython to embed")
def test_an_unedited_program_runs(tmp_path, run):
    """Its own processes, too, however they are started."""
    (tmp_path / "program.py").write_text(SPAWNS)
    (tmp_path / "beside.py").write_text("VALUE = 5\n")
    code = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'sluice.cuda_link', *{!r}], check=True)"
    assert run(code.format([str(tmp_path / "program.py"), "one", "--two"])) == "sluice.cuda_link\n" * 3


@pytest.mark.linux("PYTHONPATH in the package of CPython to embed")
def test_an_unedited_module_runs(tmp_path, run):
    (tmp_path / "module_of_theirs.py").write_text(SAYS + "print(__name__, sys.argv[1:])\n")
    command = [sys.executable, "-m", "sluice.cuda_link", "-m", "module_of_theirs", "a"]
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))  # which may have the package itself
    out = run(f"import subprocess; subprocess.run({command!r}, check=True)", env={"PYTHONPATH": path})
    assert out == "__main__ ['a']\n"


def test_a_copy_of_cuda_link_in_another_package(tmp_path, run):
    """As StreamDiffusion has one."""
    copy = tmp_path / "streams" / "_compat" / "cuda_ipc"
    copy.mkdir(parents=True)
    for folder in (copy, copy.parent, copy.parent.parent):
        (folder / "__init__.py").write_text("raise ImportError('no CUDA runtime')\n" if folder == copy else "")
    (tmp_path / "program.py").write_text("""
from streams._compat.cuda_ipc import CUDAIPCImporter
from streams._compat.cuda_ipc.cuda_ipc_exporter import CUDAIPCExporter
import sluice.cuda_link
assert CUDAIPCImporter is sluice.cuda_link.CUDAIPCImporter and CUDAIPCExporter is sluice.cuda_link.CUDAIPCExporter
print("ours")
""")
    command = [sys.executable, "-m", "sluice.cuda_link", "--as", "streams._compat.cuda_ipc", str(tmp_path / "program.py")]
    assert run(f"import subprocess; subprocess.run({command!r}, check=True)") == "ours\n"


def test_examples_of_theirs_find_what_they_take_from_the_console(tmp_path, run):
    """They begin with that, and look for another cuda_link where it is missing."""
    (tmp_path / "program.py").write_text("""
from cuda_link._console import install_console_ctrl_handler, run_with_watchdog
import threading
done = []
state = install_console_ctrl_handler("[receiver]", lambda: done.append(1), defer_close=True)
print(state.stop_requested, state.shutdown_via)
run_with_watchdog(lambda: done.append(2), 60, "importer.close()", "[receiver]")
run_with_watchdog(threading.Event().wait, 0.01, "exporter.close()", "[sender]")
print(done)
""")
    command = [sys.executable, "-m", "sluice.cuda_link", str(tmp_path / "program.py")]
    assert run(f"import subprocess; subprocess.run({command!r}, check=True)").splitlines() == [
        "False None", "[sender] exporter.close() takes longer than 0.01 s: it is left alone", "[2]"]


def test_it_says_how_it_is_called(run):
    for arguments, status in ((["--help"], 0), ([], 2)):
        done = run(f"import sys, runpy; sys.argv = ['x', *{arguments}];"
                   "runpy.run_module('sluice.cuda_link', run_name='__main__')", check=False)
        assert done.returncode == status and "python -m sluice.cuda_link" in done.stdout + done.stderr
