#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Everything has an entry in the site. usage: site.py ROOT [BUILT]

Every page is in its navigation, every header, man page and name of the Python package in its references. With BUILT, the
folder that `make site` builds, also: every function is in what was built, and every link there leads somewhere.
"""
import html.parser
import pathlib
import re
import sys
import urllib.parse
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "lint"))
import api
from lint import Lint


def navigation(root):
    """Pages in the site's navigation, as paths from the root without their ending."""
    blocks = re.findall(r"^```\{toctree\}\n(.*?)^```", (root / "docs/site/index.md").read_text(), re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    entries = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
    return {entry.removeprefix("/") if entry.startswith("/") else f"docs/site/{entry}" for entry in entries}


def pages(root):
    found = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("docs/site/*.md"), *root.glob("bench/*.md"),
             *root.glob("models/*.md"), *root.glob("examples/*.md"), *root.glob("tests/*.md")]
    return {str(page.relative_to(root).with_suffix("")) for page in found} - {"docs/site/index"}


def differences(wanted, there, what):
    return [f"{name} is not {what}" for name in sorted(wanted - there)] + \
        [f"{name} is {what}, but is not there" for name in sorted(there - wanted)]


def headers(root):
    wanted = {path.name for path in (root / "include/sluice").glob("*.h")} - {"sluice.h"}
    there = {name for page in (root / "docs/site").glob("*.md")
             for name in re.findall(r"\{autodoxygenfile\} (\S+)", page.read_text())}
    return differences(wanted, there, "in the reference of C")


def man_pages(root):
    wanted = {page.name for page in (root / "man").glob("*.[0-9]")}
    text = (root / "docs/site/man-pages.md").read_text()
    return differences(wanted, set(re.findall(r"/man/(\S+)\.html", text)), "in man-pages.md")


def python_names(root):
    """Functions, and classes that are not exceptions, must be placed by hand."""
    stubs = (root / "python/sluice/__init__.pyi").read_text()
    wanted = set(re.findall(r"^(?:def|class) ([A-Za-z]\w*)(?!\w*\((?:\w*Error|Exception)\b)", stubs, re.M))
    page = (root / "docs/site/python.md").read_text()
    there = set(re.findall(r"^\.\. auto(?:class|function):: (\w+)", page, re.M))
    apart = set(re.findall(r"\w+", page.partition(":exclude-members:")[2].partition("```")[0]))
    return differences(wanted, there, "in the reference of Python") + \
        differences(there, apart, "kept out of the section of exceptions")


def inventory(built):
    """(kind, name) of all that the site has an entry for, as Sphinx lists it."""
    data = (built / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(data).decode().splitlines()
    return {(kind, name) for name, kind, *_ in (line.split(" ") for line in lines if len(line.split(" ")) > 2)}


def built_functions(root, built):
    there = {name for kind, name in inventory(built) if kind == "c:function"}
    declared = {name for path in (root / "include/sluice").glob("*.h") for name, _ in api.functions(path.read_text())}
    return [f"{name} is not in the site" for name in sorted(declared - there)]


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.add(attributes.get("id"))
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.add(attributes[name])


def built_links(built):
    problems, found = [], {path.resolve(): Page(path) for path in built.rglob("*.html")}
    for path, page in found.items():
        for link in sorted(page.links):
            parts = urllib.parse.urlsplit(link)
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            anchor = urllib.parse.unquote(parts.fragment)
            if parts.scheme or parts.netloc:
                continue
            if not target.exists():
                problems.append(f"{path.relative_to(built.resolve())}: {link}: no such file")
            elif anchor and target in found and anchor not in found[target].anchors:
                problems.append(f"{path.relative_to(built.resolve())}: {link}: no such anchor")
    return problems


def main():
    root = pathlib.Path(sys.argv[1])
    lint = Lint()
    lint.check("every page is in the navigation", differences(pages(root), navigation(root), "in the navigation"))
    lint.check("every header has a page", headers(root))
    lint.check("every man page is there", man_pages(root))
    lint.check("every name of the Python package has an entry", python_names(root))
    if len(sys.argv) > 2:
        built = pathlib.Path(sys.argv[2])
        lint.check("every function is in the site", built_functions(root, built))
        lint.check("links in the site", built_links(built))
    lint.finish()


main()
