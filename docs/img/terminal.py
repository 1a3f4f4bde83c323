#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws a terminal's text with its colours as a PNG. usage: tmux capture-pane -epN | terminal.py OUT.png (needs Pillow)"""
import re
import sys

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono"
SIZE = 15
MARGIN = 14
BACKGROUND, FOREGROUND = "#14181d", "#d5d9de"
COLOURS = ["#14181d", "#f0655c", "#7dc46b", "#e2b93d", "#5fa8e8", "#c586d8", "#4fb9b4", "#d5d9de"]
DIM = "#8a929c"


def style(codes, now):
    """The style after an SGR sequence."""
    for code in map(int, codes.split(";") if codes else ["0"]):
        if code == 0:
            now = {}
        elif code in (1, 2, 7):
            now = {**now, code: True}
        elif 30 <= code <= 37 or 90 <= code <= 97:
            now = {**now, "colour": code % 10}
        elif code == 39:
            now = {key: value for key, value in now.items() if key != "colour"}
    return now


def cells(lines):
    """For each line (text, style) of its runs. A style lasts over the end of a line."""
    now = {}
    for line in lines:
        runs = []
        for part in re.split(r"(\x1b\[[\d;]*m)", line):
            if part.startswith("\x1b"):
                now = style(part[2:-1], now)
            elif part:
                runs.append((part, now))
        yield runs


def main():
    lines = list(cells(sys.stdin.read().rstrip("\n").split("\n")))
    plain, bold = (ImageFont.truetype(FONTS + end, SIZE) for end in (".ttf", "-Bold.ttf"))
    width, height = plain.getlength("x"), SIZE + 5
    columns = max(sum(len(text) for text, _ in line) for line in lines)
    image = Image.new("RGB", (int(columns * width) + 2 * MARGIN, len(lines) * height + 2 * MARGIN), BACKGROUND)
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        x, y = MARGIN, MARGIN + row * height
        for text, now in line:
            ink, paper = COLOURS[now["colour"]] if "colour" in now else DIM if now.get(2) else FOREGROUND, BACKGROUND
            if now.get(7):
                ink, paper = paper, ink
                draw.rectangle((x, y - 1, x + len(text) * width - 1, y + height - 2), fill=paper)
            draw.text((x, y), text, font=bold if now.get(1) else plain, fill=ink)
            x += len(text) * width
    image.save(sys.argv[1], optimize=True)


main()
