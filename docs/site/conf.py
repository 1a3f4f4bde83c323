# SPDX-License-Identifier: MIT
"""Sphinx's settings for the site: see docs/site/build. The sources are the tree itself, all pages as they are."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(root / "docs/site"), str(root / "bench")]
import manual
import tables
import words

project = "Sluice"
release = re.search(r"version: '([\d.]+)'", (root / "meson.build").read_text())[1]
author = "the authors of Sluice"
html_title = f"Sluice {release}"

root_doc = "docs/site/index"
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "docs/site/*.md",
                    "bench/README.md", "examples/README.md", "models/README.md",
                    "tests/README.md"]
exclude_patterns = ["build*"]

extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc"]
# A name in a declaration that leads nowhere is an error, but for those of libc and of whole headers.
nitpicky = True
nitpick_ignore_regex = [("c:identifier", r"u?int(8|16|32|64|ptr)_t|size_t"), ("ref", r"\w+_8h")]
html_theme = "furo"
html_extra_path = ["redirect"]
html_static_path = ["static"]
html_js_files = [("versions.js", {"defer": "defer"})]
html_show_copyright = False

# Headings get the names that links in the pages use.
myst_heading_anchors = 4

# C: Doxygen reads the headers, Breathe makes pages of what it found.
headers = sorted(path.name for path in (root / "include/sluice").glob("*.h"))
breathe_projects_source = {"sluice": (str(root / "include/sluice"), headers)}
breathe_default_project = "sluice"
breathe_domain_by_extension = {"h": "c"}
breathe_show_define_initializer = True
breathe_show_enumvalue_initializer = True
breathe_doxygen_config_options = {
    "OPTIMIZE_OUTPUT_FOR_C": "YES",
    "STRIP_FROM_INC_PATH": str(root / "include"),
    "EXCLUDE_SYMBOLS": "SLUICE_API SLUICE_*_ENTRY",
    "MACRO_EXPANSION": "YES",
    "PREDEFINED": "SLUICE_API=",
    "JAVADOC_AUTOBRIEF": "YES",
    "EXTRACT_ALL": "YES",
    "INPUT_FILTER": f"{sys.executable} {root}/docs/site/doxygen-filter.py",
    "WARN_IF_UNDOCUMENTED": "NO",
    "WARN_AS_ERROR": "YES",
}
# A function and the struct that it fills in have one name, which C allows and Sphinx does not know.
suppress_warnings = ["duplicate_declaration.c"]

# Python: words from the built package. What functions return is often said in words, which are no names to follow.
default_role = "code"
nitpick_ignore_regex += [("py:class", ".*")]
autodoc_use_legacy_class_based = True # the other way takes no signature from words.py where it finds none itself


def add_figures(_, __, source):
    """The tables and pictures that pages of the repository leave to the site."""
    source[0] = tables.site_page(source[0], tables.Figures(), "/build-site/figures")


def setup(app):
    manual.write(root, root / "build-site/man")
    app.connect("source-read", add_figures)
    app.connect("autodoc-process-signature", words.signature)
    app.connect("autodoc-process-docstring", words.process)
