#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Words of a private dialect do not come back. usage: names.py ROOT

Names and sentences use the field's standard terms; docs/index.md#words has the few of our own that stay.
"""
import pathlib
import re
import sys

from lint import Lint

FOLDERS = ["src", "tools", "bench", "examples", "dev", "python/src", "python/sluice", "python/tests", "python/examples", "tests"]
SUFFIXES = {".c", ".h", ".py", ".build"}

# A pattern of whole words, and what to write.
NAMES = [
    (r"sl_bare\w*|(?:reader|writer)->bare", "ops"),
    (r"sl_(?:park|unpark|may_park|sync_park|sync_unpark)\w*", "gpu_wait"),
    (r"sl_(?:behind|follow|flight|withdraw|apart|errand|publish|sent|lines|due|prepare|staged|gate)_\w+",
     "stream_wait, reader_semaphores, in_flight, deferred_cancel, background, host_func, begin or commit, send_cache, prefetch, "
     "completion_estimate, session_open, peer_copy, poll_fd"),
    (r"(?:un)?told_\w+|untold|tell_\w+", "reported, unreported, report_"),
    (r"astray|spoiled|spoilt", "wrong_device, poisoned"),
    (r"desks?|errands?|heed\w*", "fence_pool, host_func"),
    (r"SELDOM|OFTEN|NEARLY|A_FEW", "a name that says what is counted, and its unit"),
]
WORDS = [
    (r"in vain", "what happens instead"),
    (r"to mend|the mend", "to fix, the fix"),
    (r"seldom", "rarely, or how often"),
    (r"comes? behind", "comes after, is ordered after"),
    (r"(?:is|are|was|were) told", "gets, is reported"),
    (r"besides that", "also"),
    (r"in the way of", "the thing that blocks"),
]


def problems(root, patterns, flags=0):
    """Searches each file once for all patterns."""
    words = re.compile(rf"\b(?:{'|'.join(f'({pattern})' for pattern, _ in patterns)})\b", flags)
    found = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or path.name == "names.py" or not path.is_file():
                continue
            text = path.read_text(errors="replace")
            for word in words.finditer(text):
                line = text.count("\n", 0, word.start()) + 1
                found.append(f"{path.relative_to(root)}:{line}: \"{word[0]}\": write {patterns[word.lastindex - 1][1]}")
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    lint = Lint()
    lint.check("names are the field's terms", problems(root, NAMES))
    lint.check("sentences are plain", problems(root, WORDS, re.I))
    lint.finish()


main()
