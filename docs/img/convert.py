#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws docs/img/convert.png: what sluice.convert makes of one picture. usage: convert.py (needs sluice, NumPy and Pillow)"""
import pathlib

import numpy as np
import sluice
from PIL import Image, ImageDraw, ImageFont

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans"
INK, PAPER, GRAY = "#1d2733", "#f7f8fa", (0.82, 0.85, 0.89)
CELL, GAP, CAPTION = 200, 24, 40
CELLS = [
    ("fit=\"stretch\"", {"fit": "stretch"}),
    ("fit=\"inside\"", {"fit": "inside", "border": GRAY}),
    ("fit=\"cover\"", {"fit": "cover"}),
    ("flip=\"horizontal\"", {"flip": "horizontal"}),
    ("crop=(115, 80, 180, 180)", {"crop": (115, 80, 180, 180)}),
    ("filter=\"nearest\"", {"crop": (183, 92, 24, 24), "filter": "nearest"}),
    ("filter=\"smooth\"", {"crop": (183, 92, 24, 24), "filter": "smooth"}),
]


def font(size, name=""):
    return ImageFont.truetype(FONT + name + ".ttf", size)


def scenery(width=640, height=360):
    """Sky, sun, hill and a house, drawn larger and made smaller, so that its edges are soft."""
    image = Image.new("RGB", (4 * width, 4 * height), "#8fc7f0")
    draw = ImageDraw.Draw(image)
    draw.ellipse((1400, 240, 1800, 640), fill="#f6c343")
    draw.ellipse((-600, 840, 1700, 2600), fill="#4f9d69")
    draw.ellipse((1100, 960, 3400, 2700), fill="#3d8059")
    draw.rectangle((560, 620, 1000, 1000), fill="#f7f1e3")
    draw.polygon([(500, 620), (780, 380), (1060, 620)], fill="#c0504d")
    draw.rectangle((720, 780, 840, 1000), fill="#6b4f3a")
    return image.resize((width, height), Image.BOX)


picture = scenery()
sheet = Image.new("RGB", (4 * (CELL + GAP) + GAP, 2 * (CELL + CAPTION + GAP) + GAP), PAPER)
draw = ImageDraw.Draw(sheet)
for number, (words, settings) in enumerate([("the frame: 640 x 360", None), *CELLS]):
    left, top = GAP + number % 4 * (CELL + GAP), GAP + number // 4 * (CELL + CAPTION + GAP)
    if settings is None:
        cell = picture.resize((CELL, CELL * 9 // 16), Image.LANCZOS)
        sheet.paste(cell, (left, top + (CELL - cell.height) // 2))
    else:
        made = np.empty((CELL, CELL, 3), np.uint8)
        sluice.convert(made, np.asarray(picture), **settings)
        sheet.paste(Image.fromarray(made), (left, top))
        draw.rectangle((left, top, left + CELL - 1, top + CELL - 1), outline=INK)
    draw.text((left + CELL // 2, top + CELL + 18), words, fill=INK, font=font(14, "Mono" if settings else ""), anchor="mm")
sheet.quantize(96, dither=Image.Dither.NONE).save(pathlib.Path(__file__).with_name("convert.png"), optimize=True)
