#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/img/slots.png: four slots, the words that say who uses them, a writer and two readers. usage: slots.py (needs Pillow)"""
import pathlib

from PIL import Image, ImageDraw, ImageFont

FONTS = "/usr/share/fonts/truetype/dejavu/DejaVuSans"
INK, GREY, PAPER = "#1d2733", "#66727f", "#f7f8fa"
WRITER, READER_A, READER_B, FREE = "#d9822b", "#2f7fd1", "#2d9a5f", "#9aa5b1"
SLOTS = [  # the frame, its state, the colour, slot_seq, the leases of A and B
    ("frame 40", "held by reader A", READER_A, "40", "40", "0"),
    ("being written", "by the writer", WRITER, "MARK", "0", "0"),
    ("frame 42", "free to be reused", FREE, "42", "0", "0"),
    ("frame 43", "newest, held by B", READER_B, "43", "0", "43"),
]
LEFT, WIDTH, GAP = 330, 240, 22
TOP, HEIGHT = 170, 120

image = Image.new("RGB", (1420, 660), PAPER)
draw = ImageDraw.Draw(image)


def font(size, name=""):
    return ImageFont.truetype(FONTS + name + ".ttf", size)


def text(x, y, words, size=22, ink=INK, name="", anchor="mm"):
    draw.text((x, y), words, fill=ink, font=font(size, name), anchor=anchor)


def tint(colour, part):
    """The colour, mixed with white."""
    return tuple(int(255 - (255 - int(colour[at:at + 2], 16)) * part) for at in (1, 3, 5))


def box(x, y, width, height, colour, part=0.18):
    draw.rounded_rectangle((x, y, x + width, y + height), 12, fill=tint(colour, part), outline=colour, width=3)


def arrow(x, start, end, colour):
    draw.line((x, start, x, end), fill=colour, width=4)
    back = -12 if end > start else 12
    draw.polygon([(x, end), (x - 8, end + back), (x + 8, end + back)], fill=colour)


def middle(slot):
    return LEFT + slot * (WIDTH + GAP) + WIDTH // 2


def process(slot, words, colour, calls):
    box(middle(slot) - 105, 24, 210, 50, colour, 0.3)
    text(middle(slot), 49, words, 24, name="-Bold")
    text(middle(slot) + 16, 112, calls, 19, GREY, "Mono", "lm")


process(0, "reader A", READER_A, "acquired")
process(1, "writer", WRITER, "begin")
process(3, "reader B", READER_B, "acquired")
arrow(middle(0), TOP - 6, 78, READER_A)
arrow(middle(1), 78, TOP - 6, WRITER)
arrow(middle(3), TOP - 6, 78, READER_B)

text(40, TOP + HEIGHT // 2 - 14, "slots", 24, name="-Bold", anchor="lm")
text(40, TOP + HEIGHT // 2 + 18, "shared memory", 19, GREY, anchor="lm")
for slot, (frame, state, colour, *_) in enumerate(SLOTS):
    box(middle(slot) - WIDTH // 2, TOP, WIDTH, HEIGHT, colour)
    text(middle(slot), TOP + 24, f"slot {slot}", 19, GREY)
    text(middle(slot), TOP + 58, frame, 25, name="-Bold")
    text(middle(slot), TOP + 92, state, 20)

ROWS = [("slot_seq", "the writer stores it", 3), ("lease of A", "reader A stores it", 4), ("lease of B", "reader B stores it", 5)]
for row, (name, owner, column) in enumerate(ROWS):
    y = 350 + row * 76
    text(40, y - 12, name, 22, name="Mono-Bold", anchor="lm")
    text(40, y + 16, owner, 19, GREY, anchor="lm")
    for slot, words in enumerate(SLOTS):
        value, colour = words[column], words[2]
        used = value != "0"
        x = middle(slot) - WIDTH // 2
        draw.rectangle((x, y - 26, x + WIDTH, y + 26), fill=tint(colour, 0.35) if used else "#ffffff", outline="#c3cad2", width=2)
        text(middle(slot), y, value, 22, INK if used else "#a3adb8", "Mono-Bold" if used else "Mono")

text(40, 596, "head", 22, name="Mono-Bold", anchor="lm")
text(40, 624, "the writer stores it", 19, GREY, anchor="lm")
draw.rectangle((LEFT, 584, LEFT + WIDTH, 636), fill=tint(READER_B, 0.35), outline="#c3cad2", width=2)
text(middle(0), 610, "43, slot 3", 22, name="Mono-Bold")
text(LEFT + WIDTH + GAP, 610, "The next slot to be reused is 2: slots 0 and 3 have leases.", 21, GREY, anchor="lm")

image.quantize(64, dither=Image.Dither.NONE).save(pathlib.Path(__file__).with_suffix(".png"), optimize=True)
