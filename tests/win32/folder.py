# SPDX-License-Identifier: MIT
"""The folder that users of Windows copy, in a CPython for Windows that has no sluice: what tests/win32/run runs under Wine. Prints TAP.

usage: folder.py HOME PIP ROLES        HOME: the folder; PIP: the wheel of pip; ROLES: python/tests/cuda_link_roles.py
The CPython is the embeddable one, so it stands for TouchDesigner's, and a copy of it for a virtual environment.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import zipfile

from role import Role

HOME, PIP, ROLES = map(pathlib.Path, sys.argv[1:4])
SHAPE = (4, 6, 4)
PLAIN = {name: value for name, value in os.environ.items() if name not in ("SLUICE_LIB_PATH", "CUDALINK_LIB_PATH")}
IMPORT = f"import sys; sys.path.insert(0, {str(HOME)!r}); import sluice_path, sluice; print(sluice_path.added); print(sluice.__version__)"
ROLE = f"""
import sys
sys.path.insert(0, {str(HOME)!r})
import runpy, sluice_path
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def said(*command, code=0, **variables):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**PLAIN, **variables}, timeout=300)
    assert done.returncode == code, (command, done.returncode, done.stdout)
    return done.stdout


def added(code=IMPORT, **variables):
    """The folder that sluice_path found, and the package was imported from."""
    return pathlib.Path(said(sys.executable, "-c", code, **variables).splitlines()[0])


# ---- sluice_path.py ----


def by_variable():
    for given in (HOME / "lib", HOME):
        assert added(SLUICE_LIB_PATH=str(given)) == HOME / "lib", given
    assert added(CUDALINK_LIB_PATH=str(HOME / "lib")) == HOME / "lib"


def beside_the_project():
    with tempfile.TemporaryDirectory() as project:
        shutil.copytree(HOME / "lib", os.path.join(project, "sluice", "lib"))
        code = f"import builtins, types; builtins.project = types.SimpleNamespace(folder={project!r}); {IMPORT}"
        assert added(code) == pathlib.Path(project, "sluice", "lib")


def where_it_is_not():
    text = said(sys.executable, "-c", IMPORT, code=1, SLUICE_LIB_PATH=r"C:\windows")
    assert r"ImportError: there is no sluice in SLUICE_LIB_PATH (C:\windows), CUDALINK_LIB_PATH (not set)" in text, text


def leaves_cuda_link_alone():
    """cuda-link's component looks for a package cuda_link where these variables point to."""
    assert not list(HOME.glob("**/lib/cuda_link")), "the component would take it for its own"
    code = IMPORT + "; import importlib.util; assert not importlib.util.find_spec('cuda_link')"
    assert added(code, SLUICE_LIB_PATH=str(HOME)) == HOME / "lib"


# ---- frames, from the folder on both sides ----


def program(*arguments):
    """One of cuda-link's, on sluice.cuda_link of the folder."""
    return Role("-c", ROLE, str(ROLES), *arguments, env={**PLAIN, "SLUICE_LIB_PATH": str(HOME)})


def frames():
    """sluice.cuda_link sends and receives; here is the API, and the command of the folder looks."""
    sys.path.append(str(HOME / "lib"))
    import sluice
    name = f"sluice folder {os.getpid()}"
    other = program("export", name, *map(str, SHAPE), "uint8", "3", "for_testing")
    target = memoryview(bytearray(96)).cast("B", SHAPE)
    with sluice.Reader(f"cipd:{name}", device="cuda:0") as reader:
        assert other.ask("export", 5) == "PUBLISHED"
        with reader.next(60) as frame:
            frame.copy_to(target)
        assert target.tobytes() == bytes([5]) * 96
        told = json.loads(said(HOME / "bin" / "sluice.exe", "info", f"cipd:{name}", "--json"))
        assert (told["state"], told["frames"], told["dtype"]) == ("running", 1, "uint8"), told
    other.ask("close")
    other.end()
    with sluice.Writer(f"cipd:{name} back", shape=SHAPE, device="cuda:0") as writer:
        other = program("import", f"{name} back", "for_testing")
        writer.send(memoryview(bytes([3]) * 96).cast("B", SHAPE))
        told = other.ask("until", "get")
        assert (told["outcome"], told["value"], told["whole"]) == ("NEW_FRAME", 3, True), told
        other.ask("close")
        other.end()


# ---- install.py ----


def install(*arguments, code=0):
    return said(sys.executable, HOME / "install.py", *arguments, code=code)


def new_python(folder):
    """A CPython with pip and without sluice."""
    shutil.copytree(os.path.dirname(sys.executable), folder)
    with zipfile.ZipFile(PIP) as archive:
        archive.extractall(folder / "Lib" / "site-packages")
    (folder / "python311._pth").write_text("python311.zip\n.\nLib/site-packages\n")
    return folder / "python.exe"


def into_a_folder():
    with tempfile.TemporaryDirectory(prefix="sluice target ") as folder:
        target = pathlib.Path(folder, "a b")
        for _ in range(2):  # the second one replaces the first
            text = install("--target", target)
            assert f"in {target}" in text and "SLUICE_LIB_PATH" in text, text
            (target / "sluice" / "left_over.py").write_text("")
        install("--target", target)
        assert not (target / "sluice" / "left_over.py").exists()
        assert added(SLUICE_LIB_PATH=str(target)) == target


def into_pythons():
    with tempfile.TemporaryDirectory() as folder:
        system = new_python(pathlib.Path(folder, "Python311"))
        text = install("--python", system)
        assert f"in {system.parent / 'Lib' / 'site-packages' / 'sluice'}" in text and "Module Path" in text, text
        assert pathlib.Path(said(system, "-c", "import sluice; print(sluice.__path__[0])").strip()).is_relative_to(system.parent)
        assert "Successfully" in install("--td-python", system)
        venv = pathlib.Path(folder, "project", ".venv")
        new_python(venv / "Scripts")
        assert "Successfully" in install("--venv", venv)
        said(venv / "Scripts" / "python.exe", "-c", "import sluice.cuda_link")


def what_is_refused():
    assert "there is no " in install("--python", r"C:\none\python.exe", code=1)
    assert "not allowed with" in install("--python", "a", "--venv", "b", code=2)
    assert "one of the arguments --target" in install(code=2)
    assert "goes with --target" in install("--python", "a", "--set-path", code=2)
    text = install("--conda", "work", "--dry-run")
    assert 'conda run -n work python -m pip install --no-index --no-deps' in text, text
    assert "setx SLUICE_LIB_PATH" in install("--target", "there", "--set-path", "--dry-run") and not os.path.exists("there")


# ---- sluice-check.ps1, which needs PowerShell: what it starts ----


def words(listed, **values):
    """The arguments in a list of PowerShell's."""
    return [word.strip("'") if word.startswith("'") else values[word.strip("$")] for word in listed.split(", ")]


def what_the_check_starts():
    script = (HOME / "sluice-check.ps1").read_bytes()
    assert b"\r\n" in script and b"\n" not in script.replace(b"\r\n", b"") and script.isascii()
    text = script.decode()
    command = HOME / "bin" / "sluice.exe"
    with tempfile.TemporaryDirectory() as folder:
        values = {"channel": re.search(r"\$channel = '(.*)'", text)[1], "picture": os.path.join(folder, "sluice-check.png")}
        steps = [words(step, **values) for step in re.findall(r"Step '.*' \$Sluice @\((.*)\)", text)]
        assert [step[0] for step in steps] == ["--version", "doctor", "doctor", "ls", "snap", "info", "top"], steps
        play = words(re.search(r"\$play = @\((.*)\)", text)[1], **values)
        player = subprocess.Popen([str(command), *play], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=PLAIN)
        try:
            for step in steps:
                assert said(command, *step) or step[0] == "snap", step
            assert pathlib.Path(values["picture"]).read_bytes().startswith(b"\x89PNG")
            told = said(sys.executable, HOME / "sluice_check.py", values["channel"])
            assert f"in {HOME / 'lib' / 'sluice'}" in told and f"a frame of {values['channel']} came" in told, told
            print("#", told.splitlines()[-1])
        finally:
            player.kill()
            player.wait()


def main():
    tests = [by_variable, beside_the_project, where_it_is_not, leaves_cuda_link_alone, frames, into_a_folder, into_pythons, what_is_refused,
             what_the_check_starts]
    print(f"1..{len(tests)}", flush=True)
    for number, test in enumerate(tests, 1):
        title = "the folder: " + test.__name__.replace("_", " ")
        try:
            test()
            print(f"ok {number} - {title}", flush=True)
        except Exception:
            print(f"not ok {number} - {title}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
    os._exit(0)


main()
