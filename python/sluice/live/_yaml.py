# SPDX-License-Identifier: MIT
"""YAML with the line and column of each key and value."""
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

MAX_BYTES = 1 << 20
MAX_NODES = 10_000
MAX_DEPTH = 50
INSTALL = "PyYAML is not installed: pip install 'sluice-frames[live]'"


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value, of a file, of an option or of a program's dictionary."""
    key: str
    key_at: str  # FILE:LINE:COLUMN, or another origin
    at: str  # of the value
    value: Any  # as settings take it: a scalar of YAML is its text
    children: "list[Entry] | None"  # if the value is a mapping
    plain: Callable[[], Any]  # the value in Python's types


class Broken(Exception):
    """Not to be read: where, and why."""

    def __init__(self, at: str, why: str) -> None:
        super().__init__(f"{at}: {why}")
        self.why = why


def entries_of(mapping: Mapping[Any, Any], at: str) -> list[Entry]:
    """Of a dictionary."""
    return [Entry(str(key), at, at, value, entries_of(value, at) if isinstance(value, Mapping) else None, partial(_same, value))
            for key, value in mapping.items()]


def _same(value: Any) -> Any:
    return value


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
    return document.entries(), document.problems


def entry_of(text: str, at: str) -> Entry:
    """Of the value of an option or a variable. What begins with a bracket, a brace or a quote is YAML; else it is one scalar."""
    document = _Document(text, lambda line, column: at)
    entry = document.entry("", at, document.root() if text.lstrip()[:1] in tuple("[{\"'") else document.scalar())
    if document.problems:
        raise Broken(*document.problems[0])
    return entry


class _Document:
    def __init__(self, text: str, place: Callable[[int, int], str]) -> None:
        try:
            import yaml  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            raise Broken(place(0, 0), INSTALL) from None
        self.yaml = yaml
        self.text = text
        self.place = place
        self.loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self.problems: list[tuple[str, str]] = []

    def entries(self) -> list[Entry]:
        root = self.root()
        if root is None or root.tag == "tag:yaml.org,2002:null":
            return []
        if not isinstance(root, self.yaml.MappingNode):
            raise Broken(self.at(root.start_mark), "must be keys and values")
        return self.entry("", "", root).children or []

    def root(self) -> Any:
        """The nodes, checked, so that none of them fails later."""
        unprintable = self.yaml.reader.Reader.NON_PRINTABLE.search(self.text)
        if unprintable:
            before = self.text[: unprintable.start()]
            place = self.place(before.count("\n"), len(before) - before.rfind("\n") - 1)
            raise Broken(place, f"the character {unprintable.group()!r} cannot be in YAML")
        try:
            self._measure()
            self.constructor = self.loader(self.text)
            root = self.constructor.get_single_node()
        except self.yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            lines = self.text.split("\n")
            tab = mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t"
            raise Broken(self.at(mark), "a tab: YAML is indented by spaces" if tab else f"no YAML: {error.problem}") from None
        left = iter(range(MAX_NODES))
        if root is not None:
            self._check(root, "", left)
        return root

    def scalar(self) -> Any:
        self.constructor = self.loader("")
        tag = self.constructor.resolve(self.yaml.ScalarNode, self.text, (True, False))
        return self.yaml.ScalarNode(tag, self.text)

    def at(self, mark: Any) -> str:
        return self.place(mark.line, mark.column)

    def problem(self, node: Any, path: str, why: str) -> None:
        self.problems.append((self.at(node.start_mark), f"{path}: {why}" if path else why))

    def plain(self, node: Any) -> Any:
        try:
            return self.constructor.construct_object(node, deep=True)
        except Exception:
            return None  # one of `problems`

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
                    raise Broken(self.at(event.start_mark), sentence)

    def _check(self, node: Any, path: str, left: Iterator[int], depth: int = 0) -> None:
        """An alias counts as much as what it stands for."""
        if next(left, None) is None or depth > MAX_DEPTH:
            raise Broken(self.at(node.start_mark), f"{'.'.join(path.split('.')[:2])}: more than {MAX_NODES:,} values behind aliases")
        own = {"sequence": "tag:yaml.org,2002:seq", "mapping": "tag:yaml.org,2002:map"}.get(node.id, node.tag)
        if node.tag != own:
            self.problem(node, path, f"the tag {node.tag.replace('tag:yaml.org,2002:', '!!')} has no meaning here")
        elif node.id == "scalar":
            try:
                if node.tag != "tag:yaml.org,2002:merge":
                    self.constructor.construct_object(node)
            except Exception:  # PyYAML raises whatever its converters meet
                self.problem(node, path, f"{node.value[:60]!r} is no {node.tag.replace('tag:yaml.org,2002:', '!!')}")
        elif node.id == "sequence":
            for each in node.value:
                self._check(each, path, left, depth + 1)
        else:
            self._check_mapping(node, path, left, depth)

    def _check_mapping(self, node: Any, path: str, left: Iterator[int], depth: int) -> None:
        seen: dict[str, Any] = {}
        pairs, node.value = node.value, []  # those that can be used
        for key, value in pairs:
            merged = value.value if value.id == "sequence" else [value]
            if key.id != "scalar":
                self.problem(key, path, "a key must be a text")
                continue
            if key.tag == "tag:yaml.org,2002:merge" and any(each.id != "mapping" for each in merged):
                self.problem(value, path, "<< must have keys and values")
                continue
            node.value.append((key, value))
            inside = f"{path}.{key.value}" if path else key.value
            if key.value in seen:
                first = seen[key.value].start_mark.line + 1
                self.problem(key, inside, f"is in line {first} already")
            seen.setdefault(key.value, key)
            self._check(key, inside, left, depth + 1)
            self._check(value, inside, left, depth + 1)

    def entry(self, key: str, key_at: str, node: Any) -> Entry:
        at = key_at if node.start_mark is None else self.at(node.start_mark)
        value: Any = node.value
        children = None
        if isinstance(node, self.yaml.MappingNode):
            self.constructor.flatten_mapping(node)
            own = {name.value: (name, each) for name, each in node.value}  # the file's own behind those that it merges
            children = [self.entry(name.value, self.at(name.start_mark), each) for name, each in own.values()]
            value = {}
        elif isinstance(node, self.yaml.SequenceNode):
            value = [self.entry("", "", each).value for each in node.value]
        elif node.tag == "tag:yaml.org,2002:null":
            value = None
        return Entry(key, key_at, at, value, children, lambda: self.plain(node))
