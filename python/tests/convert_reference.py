# SPDX-License-Identifier: MIT
"""What sluice.convert has to compute, in double precision: the definition."""
import dataclasses

import numpy as np

U8, U16, F16, F32 = "u1", "<u2", "<f2", "<f4"
# element type, family, then for each component: plane, offset and step in elements, columns and rows that share it
FORMATS = {
    "rgba": (U8, "rgb", [(0, 0, 4), (0, 1, 4), (0, 2, 4), (0, 3, 4)]),
    "bgra": (U8, "rgb", [(0, 2, 4), (0, 1, 4), (0, 0, 4), (0, 3, 4)]),
    "rgb24": (U8, "rgb", [(0, 0, 3), (0, 1, 3), (0, 2, 3)]),
    "bgr24": (U8, "rgb", [(0, 2, 3), (0, 1, 3), (0, 0, 3)]),
    "gray": (U8, "gray", [(0, 0, 1)]),
    "gray16": (U16, "gray", [(0, 0, 1)]),
    "grayf32": (F32, "gray", [(0, 0, 1)]),
    "rgbaf16": (F16, "rgb", [(0, 0, 4), (0, 1, 4), (0, 2, 4), (0, 3, 4)]),
    "rgbaf32": (F32, "rgb", [(0, 0, 4), (0, 1, 4), (0, 2, 4), (0, 3, 4)]),
    "nv12": (U8, "yuv", [(0, 0, 1), (1, 0, 2, 2, 2), (1, 1, 2, 2, 2)]),
    "yuv420p": (U8, "yuv", [(0, 0, 1), (1, 0, 1, 2, 2), (2, 0, 1, 2, 2)]),
    "p010": (U16, "yuv", [(0, 0, 1), (1, 0, 2, 2, 2), (1, 1, 2, 2, 2)]),
    "yuyv422": (U8, "yuv", [(0, 0, 2), (0, 1, 4, 2, 1), (0, 3, 4, 2, 1)]),
    "uyvy422": (U8, "yuv", [(0, 1, 2), (0, 0, 4, 2, 1), (0, 2, 4, 2, 1)]),
    "yuv444p": (U8, "yuv", [(0, 0, 1), (1, 0, 1), (2, 0, 1)]),
    "yuv422p10": (U16, "yuv", [(0, 0, 1), (1, 0, 1, 2, 1), (2, 0, 1, 2, 1)]),
    "rgba64": (U16, "rgb", [(0, 0, 4), (0, 1, 4), (0, 2, 4), (0, 3, 4)]),
    "yuv422p": (U8, "yuv", [(0, 0, 1), (1, 0, 1, 2, 1), (2, 0, 1, 2, 1)]),
}
WEIGHTS = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 5: (0.299, 0.114), 6: (0.299, 0.114), 7: (0.212, 0.087), 9: (0.2627, 0.0593)}


@dataclasses.dataclass
class Picture:
    """An image, or with format "tensor" one whose components are given, with scale and bias."""
    format: str
    components: list  # of rows and columns of numbers
    matrix: int = 0
    range: int = 0  # 1 limited, 2 full
    alpha: str = ""  # "straight", "premultiplied", "opaque"
    scale: tuple = (1, 1, 1, 1)
    bias: tuple = (0, 0, 0, 0)

    def __post_init__(self):
        self.height, self.width = self.components[0].shape
        self.family = ("gray" if len(self.components) == 1 else "rgb") if self.format == "tensor" else FORMATS[self.format][1]
        self.named = self.matrix
        self.matrix = self.matrix or (1 if self.height >= 720 else 6)
        if self.matrix == 255 and self.family == "yuv":
            self.family, self.components = "rgb", [self.components[i] for i in (2, 0, 1)]
        self.kr, self.kb = WEIGHTS.get(self.matrix, WEIGHTS[6])
        self.is_yuv = self.format in FORMATS and FORMATS[self.format][1] == "yuv"
        self.has_alpha = len(self.components) == 4 and self.alpha != "opaque"

    def most(self):
        return 1 if self.components[0].dtype.kind == "f" else 1023 if self.format in ("p010", "yuv422p10") else np.iinfo(self.components[0].dtype).max

    def steps(self, i):
        """A component's stored number is component * mul + add."""
        most = self.most()
        if self.format == "tensor":
            return self.scale[i] * most, self.bias[i] * most
        chroma = self.family == "yuv" and i > 0
        unit = {255: 1, 1023: 4, 65535: 256}.get(most, 0)
        limited = self.range == 1 or (self.range == 0 and self.is_yuv)
        if not unit or not limited or i == 3:
            return most, 128 * unit if chroma else 0
        return (224 if chroma else 219) * unit, (128 if chroma else 16) * unit


def components(format, planes, bottom_up=False):
    """The components of an image, of its planes as arrays."""
    views = []
    for plane, offset, step, *_ in FORMATS[format][2]:
        rows = planes[plane].reshape(len(planes[plane]), -1)[:, offset::step]
        views.append(rows[::-1] if bottom_up else rows)
    return views


def between(size, shared, siting):
    """For each pixel the two samples of chroma around it, and the part of the second."""
    x = np.arange(size)
    if shared == 1 or siting == "repeat":
        return x // shared, x // shared, np.zeros(size)
    place = x / 2 if siting == "together" else (x - 0.5) / 2
    first = np.floor(place).astype(int)
    return np.clip(first, 0, size // 2 - 1), np.clip(first + 1, 0, size // 2 - 1), place - first


def sitings(chroma):
    """Between columns, and between rows."""
    return {"left": ("together", "apart"), "centre": ("apart", "apart"), "top_left": ("together", "together"),
            "repeat": ("repeat", "repeat")}[chroma]


def decode(p, chroma):
    """Rows of columns of R G B A."""
    shape = p.height, p.width
    numbers = []
    for i, view in enumerate(p.components):
        mul, add = p.steps(i)
        v = view.astype(np.float64)
        v = (np.floor(v / 64) if p.format == "p010" else v) - add
        v = v / mul
        x0, x1, xp = between(shape[1], shape[1] // v.shape[1], sitings(chroma)[0])
        y0, y1, yp = between(shape[0], shape[0] // v.shape[0], sitings(chroma)[1])
        if v.shape != shape:
            v = v[:, x0] * (1 - xp) + v[:, x1] * xp
            v = v[y0] * (1 - yp)[:, None] + v[y1] * yp[:, None]
        numbers.append(v)
    if p.family == "yuv":
        y, u, v = numbers
        r, b = y + 2 * (1 - p.kr) * v, y + 2 * (1 - p.kb) * u
        numbers = [r, (y - p.kr * r - p.kb * b) / (1 - p.kr - p.kb), b]
    elif p.family == "gray":
        numbers = numbers * 3
    alpha = numbers[3] if p.has_alpha else np.ones(shape)
    return np.stack(numbers[:3] + [alpha], axis=-1)


def store(p, i, values):
    mul, add = p.steps(i)
    values, view = values * mul + add, p.components[i]
    if view.dtype.kind == "u":
        values = np.floor(np.clip(values, 0, p.most()) + 0.5)
        values = values * 64 if p.format == "p010" else values
    view[...] = values.astype(view.dtype)


def triangle_pairs(v, axis, siting):
    """Shared by two: a triangle around the sample's place; edges repeat."""
    v = np.moveaxis(v, axis, 0)
    at = np.arange(0, len(v), 2)
    taps = {"together": {-1: 1 / 4, 0: 1 / 2, 1: 1 / 4}, "apart": {-1: 1 / 8, 0: 3 / 8, 1: 3 / 8, 2: 1 / 8},
            "repeat": {0: 1 / 2, 1: 1 / 2}}[siting]
    return np.moveaxis(sum(w * v[np.clip(at + d, 0, len(v) - 1)] for d, w in taps.items()), 0, axis)


def encode(p, rgba, chroma):
    r, g, b, a = np.moveaxis(rgba, -1, 0)
    if p.family == "rgb":
        for i, values in enumerate([r, g, b, np.ones_like(a) if p.alpha == "opaque" else a][:len(p.components)]):
            store(p, i, values)
        return
    luma = p.kr * r + (1 - p.kr - p.kb) * g + p.kb * b
    store(p, 0, luma)
    for i, values in enumerate([(b - luma) / (2 * (1 - p.kb)), (r - luma) / (2 * (1 - p.kr))] if p.family == "yuv" else [], 1):
        height, width = p.components[i].shape
        if width < p.width:
            values = triangle_pairs(values, 1, sitings(chroma)[0])
        if height < p.height:
            values = triangle_pairs(values, 0, sitings(chroma)[1])
        store(p, i, values)


def resize_weights(count, at, size, per, cut, filter):
    """A row for each of `size` pixels, with what each of `count` adds to it."""
    places = (np.arange(size) + 0.5) * per + cut
    if filter == "nearest":
        return np.eye(count)[np.clip(np.floor(places + 1e-11).astype(int), 0, count - 1)]
    radius = max(1, per) if filter == "smooth" else 1
    away = np.abs(np.arange(count) - (places - 0.5)[:, None]) / radius
    weights = np.maximum(0, 1 - away)
    return weights / weights.sum(axis=1, keepdims=True)


def geometry(counts, sizes, fit):
    """For each dimension: at, size, per, cut."""
    ratios = [c / s for c, s in zip(counts, sizes)]
    found = []
    for count, size in zip(counts, sizes):
        at, shown, per, cut = 0, size, count / size, 0
        if fit == "inside":
            shown = min(size, max(1, int(np.floor(count / max(ratios) + 0.5))))
            at, per = (size - shown) // 2, count / shown
        elif fit == "cover":
            per = min(ratios)
            cut = (count - size * per) / 2
        found.append((at, shown, per, cut))
    return found


def convert(to, frm, crop=None, fit="stretch", filter="smooth", flip="", border=(0, 0, 0, 1), chroma="left"):
    x, y, width, height = crop or (0, 0, frm.width, frm.height)
    rgba = decode(frm, chroma)[y:y + height, x:x + width]
    rgba = rgba[:, ::-1] if "h" in flip else rgba
    rgba = rgba[::-1] if "v" in flip else rgba
    columns, rows = geometry((width, height), (to.width, to.height), fit)
    exact = all(per == 1 and cut == int(cut) for _, _, per, cut in (columns, rows))
    both, was = frm.has_alpha and to.has_alpha, frm.alpha == "premultiplied"
    becomes = to.alpha == "premultiplied" if to.alpha and (frm.alpha or not frm.has_alpha) else was and frm.has_alpha
    if not both:
        rgba[..., 3] = 1
    multiply = both and not was and (becomes or (filter != "nearest" and not exact))
    if multiply:
        rgba[..., :3] *= rgba[..., 3:]
    if to.family == "gray" and not to.named:
        matrix = frm.matrix if frm.named != 255 else 1 if frm.height >= 720 else 6
        to.kr, to.kb = WEIGHTS[matrix]
    out = np.empty((to.height, to.width, 4))
    out[...] = border
    if becomes and to.has_alpha:
        out[..., :3] *= out[..., 3:]
    if exact:
        left, top = int(columns[3]), int(rows[3])
        shown = rgba[top:top + rows[1], left:left + columns[1]].copy()
    else:
        wx, wy = (resize_weights(c, *g, filter) for c, g in zip((width, height), (columns, rows)))
        shown = np.tensordot(wx, np.tensordot(wy, rgba, (1, 0)), (1, 1)).transpose(1, 0, 2)
    if both and (was or multiply) and not becomes:
        alpha = shown[..., 3:]
        shown[..., :3] = np.divide(shown[..., :3], alpha, out=np.zeros_like(shown[..., :3]), where=alpha > 0)
    out[rows[0]:rows[0] + rows[1], columns[0]:columns[0] + columns[1]] = shown
    encode(to, out, chroma)
