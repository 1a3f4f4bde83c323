# SPDX-License-Identifier: MIT
"""What the sources of sluice.live never call where a frame passes: waits for the GPU, and copies through host memory. Each of them stalls
the loop, or breaks a capture on another thread (docs/live-captures.md)."""
import ast
import pathlib

import pytest
import sluice.live

LIVE = pathlib.Path(sluice.live.__file__).parent
APART = {"guard.py", "calibrate.py"}  # no frame passes them
NO_CUDA = {"_osc.py", "_osc_sluice.py", "_osc_streamdiffusion.py", "_report.py", "_counters.py", "_changes.py"}
WAITS = {"item", "tolist", "cpu", "nonzero", "synchronize", "device_synchronize", "query", "pin_memory", "is_pinned", "to_numpy", "asnumpy"}
ALLOWED = {("_pace.py", "bound", "synchronize"),  # the one wait of the loop
           ("_recorder.py", "wait", "synchronize")}  # on the recorder's own thread
MAKES = {"zeros", "empty", "ones", "full", "zeros_pinned", "empty_pinned", "nan_to_num", "copy_", "isnan"}  # may allocate or copy
MEMORY = {"_memory", "memory"}  # objects of _tensors.py, which do it right


def offences(source, name="_session.py"):
    """Line and reason of each call that has no place there."""
    found = []

    def visit(node, function="", relaxed=False):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        if isinstance(node, ast.With):
            relaxed = relaxed or any(isinstance(item.context_expr, ast.Call) and getattr(item.context_expr.func, "id", "") == "relaxed"
                                     for item in node.items)
        if isinstance(node, ast.Subscript) and any(isinstance(part, ast.List) and part.elts and all(
                isinstance(each, ast.Constant) for each in part.elts) for part in ast.walk(node.slice)):
            found.append((node.lineno, "a list as an index is copied from host memory"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called, of = node.func.attr, node.func.value
            if called in WAITS and (name, function, called) not in ALLOWED:
                found.append((node.lineno, f"{called}() waits for the GPU"))
            if any(word.arg == "pin_memory" for word in node.keywords) and not relaxed:
                found.append((node.lineno, "pin_memory outside of relaxed()"))
            if called in MAKES and not relaxed and getattr(of, "attr", getattr(of, "id", "")) not in MEMORY | {"np"} \
                    and not is_for_host(node, name):
                found.append((node.lineno, f"{called}() outside of relaxed()"))
        if name in NO_CUDA and isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = {each.name for each in node.names} | {getattr(node, "module", "") or ""}
            found.extend((node.lineno, f"{module}: this thread calls no CUDA") for module in modules & {"torch", "cupy", "ctypes", "sluice"})
        for child in ast.iter_child_nodes(node):
            visit(child, function, relaxed)

    visit(ast.parse(source))
    return found


def is_for_host(call, name):
    """NumPy's branches of ArrayMemory."""
    return name == "_tensors.py" and ast.unparse(call.func).startswith("self._arrays.")


@pytest.mark.parametrize("path", sorted(path for path in LIVE.glob("*.py") if path.name not in APART), ids=lambda path: path.name)
def test_nothing_waits_for_the_gpu_or_copies_through_the_host(path):
    assert offences(path.read_text(), path.name) == []


@pytest.mark.parametrize("source", [
    "x = picture[..., [2, 1, 0]]", "scale = control.scale.item()", "torch.cuda.synchronize()", "event.query()", "x = picture.cpu()",
    "x = torch.zeros(3, device=device)", "x = torch.zeros(3, pin_memory=True)", "x.copy_(y)", "with torch.no_grad(): x = torch.empty(3)",
])
def test_an_offence_is_found(source):
    assert offences(source)
    assert offences(f"def bound():\n    {source}", "_session.py"), "what is allowed in one file is not in another"


@pytest.mark.parametrize("source", ["import torch", "from torch import cuda", "import sluice", "import ctypes"])
def test_osc_and_reports_call_no_cuda(source):
    assert offences(source, "_osc.py") and not offences(source, "_session.py")
