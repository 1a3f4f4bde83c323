# SPDX-License-Identifier: MIT
"""For pages that name a test in each row of a table: each of these tests is there, and is built."""
import re


def table(text, first):
    """The cells of the rows of the table whose first column has this title."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith(f"| {first} |")), len(lines))
    for line in lines[start + 2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def fault(root, name):
    """The error in the name of a test; None if there is none. Without a test it is a file of them."""
    folder, _, rest = name.partition("/")
    stem, _, test = rest.partition(".")
    path = root / (f"python/tests/{stem}.py" if folder == "python" else f"tests/{folder}/{stem}.c")
    if not path.exists():
        return f"{name}: there is no {path.relative_to(root)}"
    if folder == "python":
        return None if re.search(rf"^def {re.escape(test)}\(", path.read_text(), re.M) else f"{name}: no such test"
    built = (path.parent / "meson.build").read_text()
    if folder == "fuzz":
        return None if not test and f"'{stem}'" in built else f"{name}: no such fuzzer is built"
    if f"'{stem}.c'" not in built:
        return f"{name}: {path.name} is not built"
    if not test:
        return None if folder == "fault" else f"{name}: no test is named"
    return None if re.search(rf"^TEST(?:_TIMEOUT)?\({re.escape(test)}[,)]", path.read_text(), re.M) else f"{name}: no such test"


def check(lint, root, page, counts):
    """`counts`: of each table, by the title of its first column, how many rows it has, which are numbered."""
    text = (root / page).read_text()
    for first, count in counts.items():
        rows = list(table(text, first))
        numbers = [row[0] for row in rows]
        lint.check(f"there are {count} of {first}", [] if numbers == [str(n) for n in range(1, count + 1)] else [f"there are {numbers}"])
        for row in rows:
            names = re.findall(r"`([^`]+)`", row[-1])
            lint.check(f"{first} {row[0]} has tests", [each for each in (fault(root, name) for name in names) if each] if names else ["no test is named"])
