#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the pages say about the tree is true. usage: pages.py ROOT

Links lead to files and headings that exist; every environment variable, every shared word and every result is
on its page; pages that are generated are up to date.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
from lint import Lint

CODE = re.compile(r"^```.*?^```", re.S | re.M)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(path):
    """The names that a page's headings get."""
    names = set()
    for heading in re.findall(r"^#+ (.*)", CODE.sub("", path.read_text()), re.M):
        names.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return names


def links(root, page):
    problems = []
    for target in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name) if name else page
        if not path.exists():
            problems.append(f"{page.relative_to(root)}: {target}: no such file")
        elif anchor and anchor not in anchors(path):
            problems.append(f"{page.relative_to(root)}: {target}: no such heading")
    return problems


def variables(root):
    """Environment variables that programs and scripts read: name to the files that do."""
    found = {}
    for path in [*root.glob("src/**/*.c"), *root.glob("tools/**/*.c"), *root.glob("tests/harness/*.c"),
                 *root.glob("tests/gpu/*.c"), *root.glob("tests/multi/*.c")]:
        for name in re.findall(r'getenv\("(\w+)"\)', path.read_text()):
            found.setdefault(name, path.relative_to(root))
    for path in root.glob("python/**/*.py"):
        for name in re.findall(r'environ(?:\.get\(|\[)"(SLUICE_\w+)"', path.read_text()):
            found.setdefault(name, path.relative_to(root))
    for path in map(root.joinpath, ("tests/run", "python/run-tests", "tools/demo/run", "dev/setup", ".ci/run", "Makefile")):
        if path.exists():
            for name in re.findall(r"\$\{?(SLUICE_\w+|CI|PREFIX|LIBDIR|DESTDIR)\b", path.read_text().replace("$(", "${")):
                found.setdefault(name, path.relative_to(root))
    return found


def listed(page):
    """The code in the first column of the page's tables."""
    cells = re.findall(r"^\| ([^|]*) \|", page.read_text(), re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def headed(page):
    """What stands in code style in the page's headings."""
    return {name for heading in re.findall(r"^#+ (.*)", CODE.sub("", page.read_text()), re.M) for name in re.findall(r"`([^`]+)`", heading)}


def quotes(root):
    """What troubleshooting.md says that programs say: in quotes, in the first column."""
    cells = re.findall(r"^\| ([^|]*) \|", (root / "docs/troubleshooting.md").read_text(), re.M)
    said = "".join(path.read_text() for folder in ("include", "src", "tools") for path in (root / folder).rglob("*.[ch]"))
    return [f'nobody says "{quote}"' for cell in cells for quote in re.findall(r'"([^"]+)"', cell) if quote not in said]


def main():
    root = pathlib.Path(sys.argv[1])
    docs = root / "docs"
    lint = Lint()

    pages = [*sorted(root.glob("*.md")), *sorted(docs.glob("*.md")), *sorted(root.glob("bench/*.md")),
             *sorted(root.glob("models/*.md")), *sorted(root.glob("examples/*.md"))]
    for page in pages:
        lint.check(f"links in {page.relative_to(root)}", links(root, page))
    index = (docs / "index.md").read_text()
    lint.check("every page is in the index", [p.name for p in docs.glob("*.md")
                                             if p.name != "index.md" and f"({p.name})" not in index])

    named, used = listed(docs / "environment.md"), variables(root)
    lint.check("every variable is in environment.md", [f"{name} ({used[name]})" for name in sorted(used.keys() - named)])
    lint.check("every variable in environment.md is used",
               sorted(n for n in named - used.keys() if re.fullmatch(r"[A-Z][A-Z_]+", n)))

    layout = (root / "src/native/wire/layout.h").read_text()
    words = [w.strip(" ").partition("[")[0] for line in re.findall(r"^    sl_word(?:32)? ([^;]+);", layout, re.M)
             for w in line.split(",")]
    named = headed(docs / "memory-order.md")
    lint.check(f"{len(words)} shared words are in memory-order.md", sorted(set(words) - named))

    for name in ("errors", "live-settings"):
        check = subprocess.run([sys.executable, docs / f"generate-{name}.py", "--check"], text=True, stderr=subprocess.PIPE)
        lint.check(f"{name}.md is up to date", [check.stderr] if check.returncode else [])

    check = subprocess.run([sys.executable, root / "bench/document", "--check"], text=True, stderr=subprocess.PIPE)
    lint.check("figures of a GPU are those that are kept", [check.stderr] if check.returncode else [])

    lint.check("messages in troubleshooting.md", quotes(root))

    lines = len((docs / "architecture.md").read_text().splitlines())
    lint.check("architecture.md fits on a page", [f"{lines} lines"] if lines > 100 else [])
    lint.finish()


main()
