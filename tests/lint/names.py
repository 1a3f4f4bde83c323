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

# A pattern, and what to write.
NAMES = [
    (r"\bsl_bare\w*|\b(?:reader|writer)->bare\b", "ops"),
    (r"\bsl_(?:park|unpark|may_park|sync_park|sync_unpark)\w*", "gpu_wait"),
    (r"\bsl_(?:behind|follow|flight|withdraw|apart|errand|publish|sent|lines|due|prepare|staged|gate)_\w+",
     "stream_wait, reader_semaphores, in_flight, deferred_cancel, background, host_func, begin or commit, send_cache, prefetch, "
     "completion_estimate, session_open, peer_copy, poll_fd"),
    (r"\b(?:un)?told_\w+|\buntold\b|\btell_\w+", "reported, unreported, report_"),
    (r"\b(?:astray|spoiled|spoilt)\b", "wrong_device, poisoned"),
    (r"\b(?:desks?|errands?|heed\w*)\b", "fence_pool, host_func"),
    (r"\bSELDOM\b|\bOFTEN\b|\bNEARLY\b|\bA_FEW\b", "a name that says what is counted, and its unit"),
]
WORDS = [
    (r"\bin vain\b", "what happens instead"),
    (r"\bto mend\b|\bthe mend\b", "to fix, the fix"),
    (r"\bseldom\b", "rarely, or how often"),
    (r"\bcomes? behind\b", "comes after, is ordered after"),
    (r"\b(?:is|are|was|were) told\b", "gets, is reported"),
    (r"\bbesides that\b", "also"),
    (r"\bin the way of\b", "the thing that blocks"),
]


def problems(root, patterns):
    found = []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or path.name == "names.py" or not path.is_file():
                continue
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                for pattern, instead in patterns:
                    if word := re.search(pattern, line, re.I if patterns is WORDS else 0):
                        found.append(f"{path.relative_to(root)}:{number}: \"{word[0]}\": write {instead}")
    return found


def main():
    root = pathlib.Path(sys.argv[1])
    lint = Lint()
    lint.check("names are the field's terms", problems(root, NAMES))
    lint.check("sentences are plain", problems(root, WORDS))
    lint.finish()


main()
