# SPDX-License-Identifier: MIT
"""What is installed: the command, the stubs, the docs of every name, how long an import takes."""
import ast
import base64
import builtins
import hashlib
import importlib.metadata
import importlib.util
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile

import pytest

import sluice
from eventually import SECONDS

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = pathlib.Path(sluice.__file__).parent
DISTRIBUTION = re.search(r'^name = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]


def test_the_command_comes_with_it():
    script = shutil.which("sluice")
    assert script and pathlib.Path(script).read_bytes().startswith(b"#!")  # the package's own, not the system's
    for command in ([sys.executable, "-m", "sluice"], [script]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0 and sluice.__version__ in done.stdout
    with sluice.Writer("seen", shape=4):
        done = subprocess.run([sys.executable, "-m", "sluice", "ls"], capture_output=True, text=True, timeout=SECONDS)
        assert "seen" in done.stdout
    assert subprocess.run([sys.executable, "-m", "sluice", "nonsense"], capture_output=True, timeout=SECONDS).returncode != 0


def test_one_version():
    assert importlib.metadata.version(DISTRIBUTION) == sluice.__version__
    requires = importlib.metadata.requires(DISTRIBUTION)
    assert requires and all("extra ==" in each for each in requires)


def test_the_distribution_has_a_name_of_its_own():
    """The name that pip knows is in one place; `sluice` there is another project."""
    own = [str(each) for each in importlib.metadata.files(DISTRIBUTION)]
    assert "sluice/__init__.py" in own and DISTRIBUTION != "sluice"
    page = (ROOT / "docs" / "python.md").read_text()
    assert f"`{DISTRIBUTION}`" in page


def test_import_is_quick_and_needs_nothing(run):
    took = [tuple(map(float, run("""
import sys, time
before = set(sys.modules)  # the interpreter's own start may bring some
started = time.process_time()
import sluice
took = time.process_time() - started
brought = set(sys.modules) - before
brought -= {"typing"} if sys.version_info < (3, 10) else set()  # importlib's own there
assert not {"numpy", "asyncio", "typing", "torch"} & brought, brought
started = time.process_time()
import asyncio
print(took * 1000, (time.process_time() - started) * 1000)
""").split())) for _ in range(5)]
    ours, asyncios = map(min, zip(*took))  # ms of the processor, and the least: others may be busy
    assert ours < asyncios / (2 if sys.version_info >= (3, 10) else 1), took  # which is 20 ms where asyncio takes 40


def test_without_numpy(run):
    run("""
import sys
sys.modules["numpy"] = None
import sluice
with sluice.Writer("plain", shape=(2, 3), dtype="uint16") as writer, sluice.Reader("plain") as reader:
    with writer.frame() as frame:
        frame.view()[1, 2] = 513
    frame = reader.next()
    assert memoryview(frame)[1, 2] == 513 and frame.view().tolist() == [[0, 0, 0], [0, 0, 513]]
    try:
        frame.numpy()
    except ImportError:
        pass
    else:
        raise SystemExit("no ImportError")
""")


def test_one_exception_a_result():
    results = [value for value in vars(sluice).values()
               if isinstance(value, type) and issubclass(value, sluice.Error) and value is not sluice.Error]
    closed, kinds = sluice.ClosedError, [sluice.StreamClosedError, sluice.EventClosedError, sluice.StaleHandleError]
    assert [issubclass(each, closed) for each in kinds] == [True, True, False]  # kinds of one of them
    assert issubclass(closed, sluice.StaleError) and closed.result != sluice.StaleError.result
    assert all(issubclass(each, sluice.StaleError) and issubclass(each, RuntimeError) for each in kinds)
    of_results = [each for each in results if each not in kinds]
    assert len({each.result for each in of_results}) == len(of_results) == 35
    for each in results:
        assert each.__module__ == "sluice" and each.__doc__ and not hasattr(builtins, each.__name__)
        assert str(each("text")) == "text"
    bases = {"Timeout": TimeoutError, "NotFoundError": FileNotFoundError, "ExistsError": FileExistsError,
             "AccessError": PermissionError, "CapacityError": BufferError, "FormatError": ValueError,
             "NoMemoryError": MemoryError, "Closed": EOFError, "NoWriter": TimeoutError}
    for name, base in bases.items():
        assert issubclass(getattr(sluice, name), base)


def test_the_table_of_the_header_and_ours_are_one():
    header = pathlib.Path(__file__).parents[2] / "include" / "sluice" / "base.h"
    numbers = {int(line.split(",")[1]) for line in header.read_text().splitlines()
               if line.strip().startswith("X(") and line.count(",") >= 2}
    assert numbers - {0} == {value.result for value in vars(sluice).values()
                             if isinstance(value, type) and issubclass(value, sluice.Error) and value is not sluice.Error}


RESULTS = re.findall(r'^    X\((\w+), (-?\d+), "(.*?)"\)', (ROOT / "include" / "sluice" / "base.h").read_text(), re.M)
OTHER_NAMES = {"NO_SLOT": "NoFreeSlot", "E_NAME": "ChannelNameError", "E_PERMISSION": "AccessError", "E_SYSTEM": "SystemCallError",
               "E_CAPTURING": "CaptureError", "E_CAPTURE": "InvalidCaptureError"}
# ^ where the result's own would be a built-in's, or Python has a word for it


@pytest.mark.parametrize("name, number, text", [pytest.param(*each, id=each[0]) for each in RESULTS if each[0] != "OK"])
def test_each_result_has_its_exception(name, number, text):
    """By the name that follows from the result's, with its number and text, in the stubs and in the page."""
    derived = "".join(word.capitalize() for word in name.removeprefix("E_").split("_")) + "Error" * name.startswith("E_")
    called = OTHER_NAMES.get(name, derived)
    kind = getattr(sluice, called)
    assert (kind.__name__, kind.result, kind.__doc__) == (called, int(number), text)
    stubs = ast.parse((PACKAGE / "__init__.pyi").read_text())
    bases = next(node.bases for node in stubs.body if isinstance(node, ast.ClassDef) and node.name == called)
    assert [base.id for base in bases] == [base.__name__ for base in kind.__bases__]
    page = (ROOT / "docs" / "python.md").read_text()
    row = next((line for line in page.splitlines() if line.startswith("| ") and f"`{called}`" in line.split("|")[1]), None)
    assert row, f"docs/python.md has no row for {called}"
    for base in kind.__bases__:
        assert base is sluice.Error or f"`{base.__name__}`" in row, base


def test_everything_has_words():
    told = {}
    for name in sluice.__all__:
        thing = getattr(sluice, name)
        told[name] = thing.__doc__
        for attribute, value in vars(thing).items() if isinstance(thing, type) else ():
            if not attribute.startswith("_") and (callable(value) or inspect.isdatadescriptor(value)):
                told[f"{name}.{attribute}"] = value.__doc__
                if callable(value):  # test_signatures.py compares the arguments with the stubs
                    told[f"{name}.{attribute}"] = f"{inspect.signature(getattr(thing, attribute))} {value.__doc__}"
    assert [name for name, text in told.items() if not text or len(text) < 5] == []
    assert len(told) > 150
    for name, text in told.items():
        if name.endswith("_ns"):
            assert "nanoseconds" in text.lower() or "monotonic_ns" in text, name
        if name != "Writer.like" and re.search(r"timeout|wait=", text.partition("->")[0]):  # its options are Writer's
            assert "seconds" in text, name
    for name, words in {"Array.shape": "extents", "Array.strides": "bytes", "Frame.shape": "first array",
                        "Array.width": "pixels", "Array.height": "rows", "Array.nbytes": "bytes"}.items():
        assert words in told[name], name


def test_calls_that_fail_say_by_what():
    expected = {
        "Reader": "NotFoundError AccessError VersionError LimitError ChannelNameError", "Reader.latest": "Closed",
        "Writer": "ExistsError FormatError ChannelNameError AccessError NoMemoryError UnsupportedError",
        "Reader.next": "Timeout NoWriter Closed LimitError LostError", "Writer.frame": "NoFreeSlot",
        "Writer.send": "NoFreeSlot FormatError TypeError", "Writer.reformat": "BusyError", "Frame.release": "LostError",
        "WriterFrame.reshape": "CapacityError", "WriterFrame.commit": "StaleError", "Array.numpy": "FormatError",
        "Frame.view": "ValueError", "channels": "AccessError", "Frame.numpy": "Timeout", "Frame.copy": "Timeout",
        "Frame.fetch": "Timeout", "Frame.copy_to": "Timeout",
    }
    for name, errors in expected.items():
        owner, _, attribute = name.partition(".")
        text = getattr(getattr(sluice, owner), attribute).__doc__ if attribute else getattr(sluice, owner).__doc__
        for error in errors.split():
            assert re.search(rf"\b{error}\b", text), f"{name}: {error}"
            assert hasattr(sluice, error) or hasattr(builtins, error)


def test_what_hands_out_a_slots_memory_warns():
    for name in ("torch", "cupy", "view", "__dlpack__", "__cuda_array_interface__"):
        for thing in (sluice.Frame, sluice.WriterFrame, sluice.Array):
            if hasattr(thing, name):
                assert "CUDA" in getattr(thing, name).__doc__ and "context" in getattr(thing, name).__doc__, (thing, name)


def test_extras_of_the_frameworks():
    extras = importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra")
    assert {"numpy", "opencv", "torch", "ml-dtypes", "kernels"} <= set(extras)


@pytest.mark.limit(900)
def test_stubs_are_complete_and_strict(tmp_path):
    pytest.importorskip("mypy")
    assert (PACKAGE / "py.typed").exists()
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    named = {node.name for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    assert set(sluice.__all__) <= named
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nignore_missing_imports = true\n")
    environment = {**os.environ, "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    for command in (["mypy.stubtest", "sluice", "--ignore-missing-stub", "--mypy-config-file", str(config)],
                    ["mypy", "--strict", str(pathlib.Path(__file__).parent / "typing_usage.py")]):
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path,
                              env=environment, timeout=400)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_is_of_the_limited_interface():
    wheel = os.environ.get("SLUICE_WHEEL")
    if not wheel:
        pytest.skip("SLUICE_WHEEL names no wheel: run-tests sets it")
    names = zipfile.ZipFile(wheel).namelist()
    if sysconfig.get_config_var("Py_GIL_DISABLED") or sys.version_info < (3, 11):  # these take none but wheels of their own
        assert "-abi3-" not in wheel
    else:
        assert "-cp311-abi3-" in wheel and "sluice/_sluice.abi3.so" in names
    assert "sluice/bin/sluice" in names
    assert {"sluice/py.typed", "sluice/__init__.pyi", "sluice/__init__.py"} <= set(names)
    headers = {f"sluice/include/sluice/{each.name}" for each in (ROOT / "include" / "sluice").glob("*.h*") if each.suffix != ".in"}
    assert headers | {"sluice/include/sluice/version.h", "sluice/lib/libsluice.so.0", "sluice/lib/pkgconfig/sluice.pc"} <= set(names)
    assert not [name for name in names if name.endswith(".a")]


def test_a_wheel_of_a_newer_python_is_for_3_11_too(tmp_path):
    pytest.importorskip("mesonpy", reason="meson-python is not installed")
    spec = importlib.util.spec_from_file_location("sluice_backend", ROOT / "packages" / "python" / "sluice_backend.py")
    spec.loader.exec_module(backend := importlib.util.module_from_spec(spec))
    old, about = tmp_path / "sluice_frames-1-cp313-abi3-linux_x86_64.whl", "sluice_frames-1.dist-info/WHEEL"
    with zipfile.ZipFile(old, "w") as file:
        program = zipfile.ZipInfo("sluice/bin/sluice")
        program.external_attr = 0o100755 << 16
        file.writestr(program, b"program")
        file.writestr(about, "Wheel-Version: 1.0\nTag: cp313-abi3-linux_x86_64\n")
        file.writestr("sluice_frames-1.dist-info/RECORD", f"sluice/bin/sluice,sha256=x,7\n{about},sha256=old,1\n")
    assert backend.retag(old) == "sluice_frames-1-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(tmp_path / "sluice_frames-1-cp311-abi3-linux_x86_64.whl") as file:
        text = file.read(about)
        assert text == b"Wheel-Version: 1.0\nTag: cp311-abi3-linux_x86_64\n"
        assert file.getinfo("sluice/bin/sluice").external_attr >> 16 == 0o100755
        digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).decode().rstrip("=")
        assert file.read("sluice_frames-1.dist-info/RECORD").decode() == f"sluice/bin/sluice,sha256=x,7\n{about},sha256={digest},{len(text)}\n"
    assert not old.exists()


def compile_against(package, tmp_path, flags):
    """The README's programs in C, which meet, in the folder `tmp_path`."""
    for program in ("writer", "reader"):
        done = subprocess.run(["cc", ROOT / "examples" / f"{program}.c", *flags, "-o", tmp_path / program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    libraries = subprocess.run(["ldd", tmp_path / "reader"], capture_output=True, text=True).stdout
    used = [os.path.realpath(line.split()[2]) for line in libraries.splitlines() if "libsluice" in line]
    assert used == [f"{package.resolve()}/lib/libsluice.so.0"]
    with subprocess.Popen([tmp_path / "writer"]) as writer, subprocess.Popen([tmp_path / "reader"], stdout=subprocess.PIPE) as reader:
        assert reader.stdout.readline().startswith(b"frame ")
        reader.kill()
        writer.kill()


@pytest.mark.parametrize("moved", [False, True])
def test_c_programs_use_the_library_of_the_package(tmp_path, moved, monkeypatch):
    if not shutil.which("cc"):
        pytest.skip("no C compiler here")
    package = PACKAGE
    if moved:
        package = shutil.copytree(PACKAGE, tmp_path / "elsewhere" / "sluice")
        monkeypatch.setenv("PYTHONPATH", str(package.parent))
    told = {option: subprocess.run([sys.executable, "-m", "sluice", option], check=True, capture_output=True, text=True, cwd=tmp_path)
            .stdout.strip() for option in ("--cflags", "--libs", "--pkgconfigdir")}
    assert told["--cflags"] == f"-I{package}/include" and f"-L{package}/lib " in told["--libs"]
    compile_against(package, tmp_path, f"{told['--cflags']} {told['--libs']}".split())
    if not shutil.which("pkg-config"):
        return
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "sluice"], check=True, capture_output=True, text=True,
                           env={**os.environ, "PKG_CONFIG_PATH": told["--pkgconfigdir"]}).stdout.split()
    compile_against(package, tmp_path, flags)


def test_an_interpreter_without_a_gil_stays_so(run):
    out = run("import sys; has = getattr(sys, '_is_gil_enabled', lambda: True); a = has(); import sluice; print(a, has())")
    assert out in ("True True\n", "False False\n")


def test_the_extension_keeps_the_library_to_itself():
    """Another libsluice in the process is another library: none of its symbols are ours or theirs."""
    extension = next(PACKAGE.glob("_sluice*.so"))
    done = subprocess.run(["nm", "--dynamic", "--defined-only", str(extension)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no nm here")
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["PyInit__sluice"]
