# SPDX-License-Identifier: MIT
"""Man pages as HTML, by mandoc, for docs/site/man-pages.md."""
import pathlib
import re
import subprocess


def write(root, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for page in (root / "man").glob("*.[0-9]"):
        html = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", page], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        html = re.sub(r'<table class="(head|foot)">.*?</table>', "", html, flags=re.S)
        # Many pages become one: their own anchors would be there many times.
        html = re.sub(r' id="[^"]*"|<a class="permalink"[^>]*>(.*?)</a>', r"\1", html, flags=re.S)
        html = re.sub(r"(</?)h1\b", r"\1h3", html)
        html = re.sub(r'<a class="Xr">(sluice[\w-]*)\((\d)\)</a>', r'<a href="#\1\2">\1(\2)</a>', html)
        html = re.sub(r'<a class="Xr">(.*?)</a>', r"\1", html)
        (folder / f"{page.name}.html").write_text(html)
