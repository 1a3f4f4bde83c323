# SPDX-License-Identifier: MIT
"""help() and inspect.signature() know the arguments of all that the package exports: those of the stubs."""
import ast
import inspect
import pathlib
import pydoc

import pytest

import sluice

STUBS = pathlib.Path(sluice.__file__).with_name("__init__.pyi")
TREE = ast.parse(STUBS.read_text())
CLASSES = {each.name: each for each in TREE.body if isinstance(each, ast.ClassDef)}
KINDS = {inspect.Parameter.POSITIONAL_ONLY: "posonlyargs", inspect.Parameter.POSITIONAL_OR_KEYWORD: "args",
         inspect.Parameter.VAR_POSITIONAL: "vararg", inspect.Parameter.KEYWORD_ONLY: "kwonlyargs",
         inspect.Parameter.VAR_KEYWORD: "kwarg"}


def members(thing):
    """Names in the class, and in the extension's one that it is made on."""
    return sorted({name for each in thing.__mro__ if each.__module__.startswith("sluice") for name in vars(each)})


def every_callable():
    """Functions, types that are called, and methods: (name, the thing, its name in the stubs)."""
    for name in sorted(set(dir(sluice)) - {"annotations"}):
        thing = getattr(sluice, name)
        if name.startswith("_"):
            continue
        if inspect.isbuiltin(thing) or inspect.isfunction(thing):
            yield name, thing
        if not isinstance(thing, type) or issubclass(thing, Exception) or inspect.isfunction(thing.__init__):
            continue
        if "__new__" in vars(thing) and not issubclass(thing, tuple):
            yield name, thing
        if issubclass(thing, tuple):  # named ones, whose methods are Python's own
            continue
        for method in members(thing):
            own = inspect.getattr_static(thing, method)
            listed = own.__class__.__name__ in ("method_descriptor", "classmethod_descriptor", "function", "classmethod")
            if listed and (not method.startswith("_") or method.endswith("__")):
                yield f"{name}.{method}", getattr(thing, method)


EVERY = dict(every_callable())


def parameters(function):
    """(name, kind, whether it has a default), as inspect has them."""
    return [(each.name, KINDS[each.kind], each.default is not each.empty) for each in inspect.signature(function).parameters.values()]


def in_stubs(function):
    """The same of a function in the stubs."""
    given, found = function.args, []
    plain = [(each, "posonlyargs") for each in given.posonlyargs] + [(each, "args") for each in given.args]
    for i, (each, kind) in enumerate(plain):
        found.append((each.arg, kind, i >= len(plain) - len(given.defaults)))
    if given.vararg:
        found.append((given.vararg.arg, "vararg", False))
    found += [(each.arg, "kwonlyargs", default is not None) for each, default in zip(given.kwonlyargs, given.kw_defaults)]
    if given.kwarg:
        found.append((given.kwarg.arg, "kwarg", False))
    return found


def stub_of(name):
    """All its overloads, without self and cls; none if the stubs do not have it, as dunders of protocols."""
    owner, _, method = name.rpartition(".")
    if name in CLASSES:
        owner, method = name, "__init__"
    bodies = [TREE.body] if not owner else []
    while owner:
        bodies.append(CLASSES[owner].body)
        base = next((each.id for each in CLASSES[owner].bases if isinstance(each, ast.Name) and each.id in CLASSES), None)
        owner = base
    for body in bodies:
        found = [each for each in body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) and each.name == method]
        if not found and method == "__init__":
            found = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == "__new__"]
        if found:
            return [in_stubs(each)[bool("." in name or name in CLASSES):] for each in found]
    return []


def test_there_are_many():
    assert len(EVERY) > 90 and {"Writer", "Reader.next", "Stream", "Stream.from_handle", "Event.wait", "channels", "reset", "Frame.__array__"} <= set(EVERY)


@pytest.mark.parametrize("name", EVERY)
def test_it_has_a_signature(name):
    thing = EVERY[name]
    found = parameters(thing)
    if not isinstance(thing, type) and found and found[0][0] == "self":
        found = found[1:]
    overloads = stub_of(name)
    names = [[each[0] for each in stub] for stub in overloads]
    if name.rpartition(".")[2].startswith("__"):
        return
    assert overloads, f"the stubs have no {name}"
    assert any([each[0] for each in found] == each for each in names), (found, names)
    if len(overloads) == 1:
        assert found == overloads[0]


def test_help_shows_it():
    text = pydoc.plain(pydoc.render_doc(sluice.Reader))
    assert "next(self, /, timeout=None, *, stream=None)" in text and "next(timeout=None" not in text and "\n--\n" not in text


def words_of(owner):
    """{name: its docstring in the stubs} of a class, with its bases; "" is the class."""
    node = CLASSES[owner]
    found = {name: text for base in node.bases if getattr(base, "id", None) in CLASSES for name, text in words_of(base.id).items()}
    found[""] = ast.get_docstring(node)
    for each, after in zip(node.body, [*node.body[1:], None]):
        if isinstance(each, ast.FunctionDef) and ast.get_docstring(each):
            found[each.name] = ast.get_docstring(each)
        elif isinstance(each, ast.AnnAssign) and isinstance(after, ast.Expr):
            found[each.target.id] = inspect.cleandoc(after.value.value)
    return {name: text for name, text in found.items() if text}


@pytest.mark.parametrize("owner", ["Array", "Frame", "Kernel", "WriterFrame", "Reader", "Writer"])
def test_editors_show_what_help_says(owner):
    kind, words = getattr(sluice, owner), words_of(owner)
    in_c = [name for name in members(kind) if not name.startswith("_") and inspect.getattr_static(kind, name).__class__.__name__ in
            ("method_descriptor", "getset_descriptor", "member_descriptor")]
    assert len(in_c) > 5 and [name for name in in_c if name not in words] == []
    for name, text in words.items():
        assert (inspect.getattr_static(kind, name) if name else kind).__doc__ == text, name
