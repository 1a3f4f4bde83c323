#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the extension's docstrings from the stubs: docstrings.py HEADER STUB...

Editors show what the stubs say, and help() what the extension says; the texts are in the stubs only. The header has a macro for
each: DOC_Frame for a class, DOC_Frame_release for what is in it, DOC_channels for a function of the module. Names are without
their outer underscores: that of _Frame.__dlpack__ is DOC_Frame_dlpack. A method without a text has its signature.
"""
import ast
import inspect
import json
import pathlib
import sys


def signature(function, in_class):
    """The line that CPython takes for the signature: "release($self)"."""
    given = function.args
    for each in ast.walk(given):
        if isinstance(each, ast.arg):
            each.annotation = None
    if not in_class:
        (given.posonlyargs or given.args).insert(0, ast.arg("module"))
    return f"{function.name}(${ast.unparse(given)})\n--\n\n"


def entries(body, owner=""):
    """(macro, signature, words) of all that is in a class or a stub."""
    for node, after in zip(body, [*body[1:], None]):
        name, line, words = getattr(node, "name", ""), "", ""
        if isinstance(node, ast.ClassDef):
            yield from entries(node.body, name)
            words = ast.get_docstring(node)
        elif isinstance(node, ast.FunctionDef) and (name.endswith("__") or not name.startswith("_")):
            words = ast.get_docstring(node)
            if not any(ast.unparse(each).startswith(("property", f"{name}.")) for each in node.decorator_list):
                line = signature(node, bool(owner))
        elif isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            name, words = node.target.id, inspect.cleandoc(after.value.value)
        if line or words:
            yield "_".join(each.strip("_") for each in ("DOC", owner, name) if each), line, words or ""


def macros(stubs):
    """{macro: text}; of overloads, that of the one that has words."""
    found = {}
    for macro, line, words in (each for stub in stubs for each in entries(ast.parse(stub.read_text()).body)):
        if words and found.get(macro, ("", ""))[1]:
            sys.exit(f"docstrings.py: two texts are {macro}")
        if words or macro not in found:
            found[macro] = line, words
    return {macro: line + words for macro, (line, words) in found.items()}


def main():
    header, *stubs = map(pathlib.Path, sys.argv[1:])
    lines = [f"#define {macro} {json.dumps(text)}\n" for macro, text in macros(stubs).items()]
    header.write_text("/* Made by docstrings.py. */\n" + "".join(lines))


main()
