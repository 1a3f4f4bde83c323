# SPDX-License-Identifier: MIT
"""What is installed: the command, the stubs, the docs of every name, how long an import takes."""
import ast
import builtins
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

import sluice

PACKAGE = pathlib.Path(sluice.__file__).parent


def test_the_command_comes_with_it():
    for command in ([sys.executable, "-m", "sluice"], [str(pathlib.Path(sys.executable).parent / "sluice")]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and sluice.__version__ in done.stdout
    with sluice.Writer("seen", shape=4):
        done = subprocess.run([sys.executable, "-m", "sluice", "ls"], capture_output=True, text=True, timeout=20)
        assert "seen" in done.stdout
    assert subprocess.run([sys.executable, "-m", "sluice", "nonsense"], capture_output=True, timeout=20).returncode != 0


def test_one_version():
    assert importlib.metadata.version("sluice") == sluice.__version__
    assert importlib.metadata.requires("sluice") and all("extra ==" in each for each in importlib.metadata.requires("sluice"))


def test_import_is_quick_and_needs_nothing(run):
    out = run("""
import sys, time
started = time.perf_counter()
import sluice
print((time.perf_counter() - started) * 1000)
assert not {"numpy", "asyncio", "typing", "torch"} & set(sys.modules), sys.modules.keys()
""")
    assert float(out) < 20


def test_without_numpy(run):
    run("""
import sys
import tarfile
import zipfile
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
    assert len({each.result for each in results}) == len(results) == 31
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


def test_everything_has_words():
    for name in sluice.__all__:
        thing = getattr(sluice, name)
        assert thing.__doc__, name
        for attribute, value in vars(thing).items() if isinstance(thing, type) else ():
            if not attribute.startswith("_") and callable(value):
                assert value.__doc__, f"{name}.{attribute}"


@pytest.mark.limit(200)
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
                              env=environment, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_is_of_the_limited_interface():
    wheel = os.environ.get("SLUICE_WHEEL")
    if not wheel:
        pytest.skip("SLUICE_WHEEL names no wheel: run-tests sets it")
    names = zipfile.ZipFile(wheel).namelist()
    assert "-abi3-" in wheel and "sluice/_sluice.abi3.so" in names and "sluice/bin/sluice" in names
    assert {"sluice/py.typed", "sluice/__init__.pyi", "sluice/__init__.py"} <= set(names)
    assert not [name for name in names if name.endswith((".a", ".h")) or "libsluice" in name]


def test_the_extension_keeps_the_library_to_itself():
    """Another libsluice in the process is another library: none of its symbols are ours or theirs."""
    extension = next(PACKAGE.glob("_sluice*.so"))
    done = subprocess.run(["nm", "--dynamic", "--defined-only", str(extension)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no nm here")
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["PyInit__sluice"]


def test_the_source_distribution_is_whole(tmp_path):
    root = pathlib.Path(__file__).parents[2]
    if subprocess.run(["git", "-C", root, "cat-file", "-e", "HEAD:python/src/module.c"], capture_output=True).returncode:
        pytest.skip("not committed: a source distribution is made of what is")
    code = f"import mesonpy; print(mesonpy.build_sdist({str(tmp_path)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True, timeout=100)
    names = tarfile.open(next(tmp_path.glob("*.tar.gz"))).getnames()
    have = {name.partition("/")[2] for name in names}
    need = subprocess.run(["git", "-C", root, "ls-tree", "-r", "--name-only", "HEAD", "include", "src", "tools", "python",
                           "meson.build", "meson_options.txt", "pyproject.toml", "LICENSE", "README.md"],
                          check=True, capture_output=True, text=True).stdout.split()
    assert set(need) <= have
