#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/errors.md from the table of results in include/sluice/base.h and the causes and mends below.

usage: generate-errors.py [--check]     --check changes nothing and fails if the page is not up to date
"""
import pathlib
import re
import sys

# name: (when it comes, what to do)
RESULTS = {
    "OK": ("The call is done; its outputs are written.", "Nothing."),
    "TIMEOUT": ("No frame came within the time-out; or a writer does not answer because it is stopped; or nothing changed "
                "in a watched folder.",
                "Try again, or do something else. `sluice info CHANNEL` says whether the writer is stopped."),
    "NO_SLOT": ("`begin` found no free slot: readers hold them, a waiting writer has in-order readers that have not "
                "read, or a GPU still works on them. The frame counts as dropped.",
                "Skip this frame. If it happens often: the sentence names who holds which slots; a larger `max_slots`, a "
                "smaller `hold`, or `lease_timeout_ns` help. See [policies.md](policies.md)."),
    "NO_WRITER": ("The channel had no writer within the time-out: it has not started, or it died and was not restarted.",
                  "Try again: the reader connects by itself when a writer comes."),
    "NOT_READY": ("Work queued on a stream has not finished; or this thread has no current stream.",
                  "Ask again later, or synchronize."),
    "CLOSED": ("The writer closed the channel, and this reader has read what there was.",
               "End; or go on calling `acquire`: the reader finds the next writer of that name by itself."),
    "AGAIN": ("A frame was there, but the writer took it back repeatedly while it was being acquired, or its memory "
              "had not arrived within the time-out.",
              "Try again. It is returned with short time-outs only."),
    "E_INVALID": ("An argument is out of its range, a pointer is NULL, a stream is zero, a struct's `size` was never set.",
                  "Correct the call; the sentence names the argument. Start structs from their initialisers."),
    "E_HANDLE": ("The handle passed is not of this kind.", "Correct the call."),
    "E_STALE": ("A frame was used after its end (already committed, cancelled or released), or with another writer or "
                "reader than its own. Or a stream or an event was used whose device was reset or closed.",
                "Correct the order of calls. After a reset create new streams and events."),
    "E_NAME": ("A channel's name is empty, too long, has a character that is not allowed, or an unknown scheme.",
               "1 to 64 letters, digits, `.`, `_`, `-`; no dot at the start; no `.lock` or `.tmp` at the end."),
    "E_FORMAT": ("A format contradicts itself, or arrays do not match a channel's by name, data type or shape.",
                 "The sentence names the array and the field. See [formats.md](formats.md)."),
    "E_CAPACITY": ("A frame's new shape takes more bytes than its format allows.",
                   "Cancel the frame, `sluice_writer_reformat`, begin again; `send` of a writer opened with `resize` does so by "
                   "itself."),
    "E_LIMIT": ("A reader holds its `hold` frames; `hold` or `depth` is more than the channel has; all places for readers "
                "are taken; metadata is too long.",
                "Release a frame, or ask for less, or raise the writer's limit; the sentence names it."),
    "E_NOT_FOUND": ("No writer has this channel in the folder that was searched. Or a frame has no array of that name.",
                    "Start the writer; compare `SLUICE_DIR` and `XDG_RUNTIME_DIR` of both programs. The sentence names "
                    "the folder, and another one if the channel lives there. See [environment.md](environment.md)."),
    "E_EXISTS": ("A live writer has this name.", "Close it (the sentence has its process ID), or use another name."),
    "E_PERMISSION": ("The folder or the peer is not trusted: wrong owner or mode, or a user who is not listed; or "
                     "a reader asks for write access and may not have it.",
                     "`uids` or `gids` on both sides and a folder in `SLUICE_DIR`; see [containers.md](containers.md)."),
    "E_VERSION": ("The two programs use different versions of the wire, or one needs a feature that the other lacks.",
                  "Update the older one; the sentence has both ranges."),
    "E_PROTOCOL": ("The peer sent something that the wire does not allow, or a frame's header is damaged.",
                   "Check the peer: it is broken, hostile, or not Sluice."),
    "E_NO_MEMORY": ("Memory ran out. Slots are allocated in full when they are created, so memory cannot run out later.",
                    "Use fewer or smaller slots; the sentence says how much was requested."),
    "E_NO_DESCRIPTORS": ("The process or the system has no file descriptor left.",
                         "Raise `RLIMIT_NOFILE` (`ulimit -n`)."),
    "E_SYSTEM": ("A system call failed for a reason that has no result of its own.",
                 "The sentence has the call and the system's reason."),
    "E_UNSUPPORTED": ("This release or this machine cannot do it: the device does not exist, the kernel is too old, or "
                      "only a later release knows a field.",
                      "`sluice doctor` says what this machine can do."),
    "E_LOST": ("The writer evicted this reader because it held a frame longer than `lease_timeout_ns` or seemed to be "
               "dead. What was read since then may not have been whole. On a GPU also: a frame acquired ahead of its readiness "
               "was never finished ([gpu.md](gpu.md#ahead-of-readiness)).",
               "Discard what was made from that frame. The reader reconnects by itself. Hold frames for a shorter time, "
               "or raise the writer's limit."),
    "E_FORKED": ("Sluice was used in a child made by `fork` whose parent uses it.",
                 "Start such processes with `exec` (in Python: the spawn method), or fork before the first call."),
    "E_BUSY": ("The format cannot change while frames are begun, or while readers hold frames of earlier formats; a "
               "stream is some thread's current stream; in builds without `NDEBUG`: two threads use one writer, or acquire "
               "from one reader, at the same time; a reader fetches while 256 of its copies are under way.",
               "End what is in use first; open one reader per thread; wait for a ticket."),
    "E_CAPTURING": ("The stream is capturing a graph, which the call would invalidate.",
                    "Call after the capture has ended."),
    "E_WRONG_DEVICE": ("A stream or event belongs to another device than the one it is used with; or a reader's `device` is of "
                       "another kind than its channel's.",
                       "Use one of the same device. Each `sluice_device_open` opens a separate device; a frame accepts streams "
                       "of any device that is on its GPU."),
    "E_NOT_RECORDED": ("An event that was never recorded was queried.", "Record it first."),
    "E_NO_TIMING": ("The time between events was requested, and one was created without `SLUICE_EVENT_TIMING`.",
                    "Create both with it."),
    "E_DRIVER": ("A device's driver reported a failure, or a kernel of this process crashed. Never on `host`.",
                 "The sentence has the driver's own words. See [gpu.md](gpu.md#when-a-kernel-crashes)."),
    "E_CLOSED": ("A writer, reader, device or watch was used after the program had closed it, or a stream or an event after the "
                 "program had destroyed it; or a reader was closed while a call waited in it.",
                 "Correct the order of calls."),
    "E_CORRUPT": ("Stored data is damaged or cut short. No call of this release returns it.",
                  "For recordings see [recording.md](recording.md): the command says what is wrong in its own words."),
    "E_COMPILE": ("A kernel's source has an error, or uses what the host does not run.",
                  "The sentence is the compiler's first error, `sluice_compile_log` has all; see "
                  "[kernels.md](kernels.md#on-the-cpu)."),
    "E_CAPTURE": ("A stream was not joined before the end of a capture, something invalidated the capture, or the stream captures "
                  "nothing.",
                  "The sentence says which; capture again."),
    "E_ORDER": ("Under `SLUICE_CHECK=streams`: a kernel uses memory that another stream's work may still use.",
                "Record an event behind the earlier work, and let this stream wait for it."),
}

HEAD = """\
<!-- Made by docs/generate-errors.py: change that, not this. -->
# Results and errors

Every call that can fail returns an `int`:

- **0**: done. Outputs are written only in this case.
- **positive**: not now. Nothing is wrong; try again or do something else.
- **negative**: a failure.

So `if (r < 0)` is true for every failure. `sluice_last_error()` returns a sentence for people: what failed, on what, and how to
fix it. Each thread has its own, about its last call that did not return 0. `sluice_result_name()` and
`sluice_result_text()` return the name and the text below. Numbers never change their meaning.

The comment of each call in the headers says which results it returns.
"""


def page(header):
    table = re.findall(r'^    X\((\w+), (-?\d+), "(.*?)"\)', header, re.M)
    names = {name for name, _, _ in table}
    for wrong in sorted(names ^ RESULTS.keys()):
        sys.exit(f"{sys.argv[0]}: {wrong} is in {'base.h' if wrong in names else 'this script'} alone")
    parts = [HEAD]
    for title, wanted in (("Done, and not now", lambda n: n >= 0), ("Failures", lambda n: n < 0)):
        parts.append(f"\n## {title}\n\n| result | number | text | when | what to do |\n| --- | --- | --- | --- | --- |\n")
        for name, number, text in table:
            if wanted(int(number)):
                cause, mend = RESULTS[name]
                parts.append(f"| `SLUICE_{name}` | {number} | {text} | {cause} | {mend} |\n")
    return "".join(parts)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    path = root / "docs/errors.md"
    text = page((root / "include/sluice/base.h").read_text())
    if sys.argv[1:] == ["--check"]:
        if not path.exists() or path.read_text() != text:
            sys.exit("docs/errors.md is not up to date: run docs/generate-errors.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        path.write_text(text)


main()
