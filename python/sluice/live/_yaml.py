# SPDX-License-Identifier: MIT
"""YAML with the line and column of each key and value."""
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 1 << 20
MAX_NODES = 10_000
MAX_DEPTH = 50
INSTALL = "PyYAML is not installed: pip install 'sluice-frames[live]'"
TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value, of a file, of an option or of a program's dictionary."""
    key: str
    key_at: str  # FILE:LINE:COLUMN, or another origin
    at: str  # of the value
    value: Any  # as settings take it: a scalar of YAML is its text
    children: "list[Entry] | None"  # if the value is a mapping
    plain: Any  # the value in Python's types


class Broken(Exception):
    """Not to be read: where, and why."""

    def __init__(self, at: str, why: str) -> None:
        super().__init__(f"{at}: {why}")
        self.why = why


def entries_of(mapping: Mapping[Any, Any], at: str) -> list[Entry]:
    """Of a dictionary."""
    return [Entry(str(key), at, at, value, entries_of(value, at) if isinstance(value, Mapping) else None, value)
            for key, value in mapping.items()]


def read(path: str) -> tuple[list[Entry], list[tuple[str, str]]]:
    """The keys of a file; and what is wrong in it, each with its place."""
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Broken(path, f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise Broken(f"{path}:1:1", f"the file is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        raise Broken(f"{path}:{before.count(10) + 1}:{len(before) - before.rfind(10)}", "the file is not UTF-8") from None
    document = _Document(text, lambda line, column: f"{path}:{line + 1}:{column + 1}")
    root = document.root()
    if root.children is None and root.value is not None:
        raise Broken(root.at, "must be keys and values")
    return root.children or [], document.problems


def entry_of(text: str, at: str) -> Entry:
    """Of the value of an option or a variable. What begins with a bracket, a brace or a quote is YAML; else it is one scalar."""
    document = _Document(text, lambda line, column: at)
    entry = document.root() if text.lstrip()[:1] in tuple("[{\"'") else document.scalar()
    if document.problems:
        raise Broken(*document.problems[0])
    return entry


class _Document:
    def __init__(self, text: str, place: Callable[[int, int], str]) -> None:
        try:
            import yaml  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise Broken(place(0, 0), INSTALL) from None
        self.yaml, self.text, self.place = yaml, text, place
        self.loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.problems: list[tuple[str, str]] = []
        self.left = MAX_NODES

    def scalar(self) -> Entry:
        self.constructor = self.loader("")
        return self._entry(self._scalar(self.constructor.resolve(self.yaml.ScalarNode, self.text, (True, False)), self.text))

    def _scalar(self, tag: str, text: str) -> Any:
        return self.yaml.ScalarNode(tag, text, self.yaml.Mark("", 0, 0, 0, None, None))

    def root(self) -> Entry:
        unprintable = self.yaml.reader.Reader.NON_PRINTABLE.search(self.text)
        if unprintable:
            before = self.text[: unprintable.start()]
            place = self.place(before.count("\n"), len(before) - before.rfind("\n") - 1)
            raise Broken(place, f"the character {unprintable.group()!r} cannot be in YAML")
        try:
            self._measure()
            self.constructor = self.loader(self.text)
            return self._entry(self.constructor.get_single_node() or self._scalar(f"{TAG}null", ""))
        except self.yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            tab = "\n".join(self.text.split("\n")[mark.line :])[mark.column : mark.column + 1] == "\t"
            raise Broken(self._at(mark), "a tab: YAML is indented by spaces" if tab else f"no YAML: {error.problem}") from None

    def _at(self, mark: Any) -> str:
        return self.place(mark.line, mark.column)

    def _problem(self, node: Any, path: str, why: str) -> None:
        self.problems.append((self._at(node.start_mark), f"{path}: {why}" if path else why))

    def _measure(self) -> None:
        """Before anything is built of it."""
        yaml, nodes, depth, documents = self.yaml, 0, 0, 0
        for event in yaml.parse(self.text, self.loader):
            nodes += isinstance(event, yaml.NodeEvent)
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            documents += isinstance(event, yaml.DocumentStartEvent)
            for wrong, sentence in ((nodes > MAX_NODES, f"more than {MAX_NODES:,} values"), (depth > MAX_DEPTH, "nested too deeply"),
                                    (documents > 1, "a second document")):
                if wrong:
                    raise Broken(self._at(event.start_mark), sentence)

    def _entry(self, node: Any, path: str = "", depth: int = 0, key: Any = None) -> Entry:
        """A value with all that is in it. An alias counts as much as what it stands for."""
        self.left -= 1
        key_at = self._at((key or node).start_mark)
        if self.left < 0 or depth > MAX_DEPTH:
            raise Broken(key_at, f"{'.'.join(path.split('.')[:2])}: more than {MAX_NODES:,} values behind aliases")
        value: Any = node.value
        plain: Any = None
        children: list[Entry] | None = None
        if node.tag != {"sequence": f"{TAG}seq", "mapping": f"{TAG}map"}.get(node.id, node.tag):
            self._problem(node, path, f"the tag {node.tag.replace(TAG, '!!')} has no meaning here")
        elif node.id == "sequence":
            parts = [self._entry(each, path, depth + 1) for each in value]
            value, plain = [each.value for each in parts], [each.plain for each in parts]
        elif node.id == "mapping":
            members = self._members(node, path, depth)
            value, plain, children = {}, {name: each.plain for name, each in members.items()}, list(members.values())
        else:
            value, plain = (None if node.tag == f"{TAG}null" else value), self._construct(node, path)
        return Entry(key.value if key else "", key_at, self._at(node.start_mark), value, children, plain)

    def _construct(self, node: Any, path: str) -> Any:
        try:
            return self.constructor.construct_object(node)
        except Exception:  # PyYAML raises whatever its converters meet
            self._problem(node, path, f"{node.value[:60]!r} is no {node.tag.replace(TAG, '!!')}")
            return None

    def _members(self, node: Any, path: str, depth: int) -> dict[Any, Entry]:
        """By their keys in Python's types; those that it merges first."""
        own: dict[Any, Entry] = {}
        merged: dict[Any, Entry] = {}
        seen: dict[str, int] = {}
        for key, value in node.value:
            inside = f"{path}.{key.value}" if path else str(key.value)
            several = value.value if value.id == "sequence" else [value]
            if key.id == "scalar" and key.value in seen:
                self._problem(key, inside, f"is in line {seen[key.value]} already")
            if key.id != "scalar":
                self._problem(key, path, "a key must be a text")
            elif key.tag != f"{TAG}merge":
                own[self._construct(key, inside)] = self._entry(value, inside, depth + 1, key)
            elif any(each.id != "mapping" for each in several):
                self._problem(value, path, "<< must have keys and values")
            else:
                for each in reversed(several):
                    merged.update(self._members(each, inside, depth + 1))
            seen.setdefault(str(key.value), key.start_mark.line + 1)
        return {**merged, **own}
