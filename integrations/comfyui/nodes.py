# SPDX-License-Identifier: MIT
"""The nodes. An IMAGE is a tensor (B, H, W, 3) of float32, 0 to 1; a MASK (B, H, W) is 1 where the picture is transparent."""
import json
import logging

import torch

import sluice

from .channels import Channels
from .source import Source

CHANNELS = Channels()
FITS = ["cover", "inside", "stretch"]
SIZE = ("INT", {"default": 0, "min": 0, "max": 16384, "tooltip": "pixels; 0: as the picture is, or in proportion to the other side"})
FIT = (FITS, {"tooltip": "if the sides are in another proportion: cut off, leave a border, or stretch"})


def _working_device():
    """Where ComfyUI wants pictures that are in host memory."""
    try:
        from comfy.model_management import intermediate_device
    except ImportError:
        return torch.device("cpu")
    return intermediate_device()


def _extent(shape):
    """(height, width) of a tensor with a picture: (H, W), (H, W, C), (C, H, W), each also in a batch of 1."""
    if len(shape) == 4 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) == 3:
        return shape[:2] if shape[2] in (1, 3, 4) else shape[1:]
    if len(shape) != 2:
        raise ValueError(f"Sluice In: frames of shape {tuple(shape)} are no pictures: (H, W), (H, W, C) or (C, H, W) are")
    return shape


def _size(width, height, wide, high):
    """The size asked for, where 0 is the picture's own, or in proportion to the other side."""
    if width and height:
        return width, height
    if width or height:
        scale = width / wide if width else height / high
        return max(1, round(wide * scale)), max(1, round(high * scale))
    return wide, high


def _has_alpha(array):
    if array.pixel_format:
        return array.pixel_format in ("rgba", "bgra", "rgbaf16le", "rgbaf32le") and array.alpha != "opaque"
    return array.ndim > 2 and array.shape[-1] == 4


def _read(frame, width, height, fit, device):
    """(IMAGE, MASK, sequence, metadata) of a frame. On a GPU all of it is queued, and the frame ends behind it."""
    array = frame[0]
    high, wide = (array.height, array.width) if array.pixel_format else _extent(array.shape)
    width, height = _size(width, height, wide, high)
    where = "cpu" if frame.device == "host" else frame.device
    picture = torch.empty((height, width, 4 if _has_alpha(array) else 3), dtype=torch.float32, device=where)
    sluice.convert(picture, frame, fit=fit, layout="HWC")
    if array.dtype.startswith("float"):
        picture.clamp_(0, 1)
    if device == "cpu":
        picture = picture.cpu()
    elif where == "cpu":
        picture = picture.to(_working_device())
    mask = 1 - picture[..., 3] if picture.shape[2] == 4 else torch.zeros_like(picture[..., 0])
    return picture[None, ..., :3].contiguous(), mask[None], frame.sequence, _as_json(frame.meta)


def _as_json(meta):
    text = meta.decode("utf-8", "replace")
    try:
        json.loads(text)
    except ValueError:
        return json.dumps({"text": text} if text else {})
    return text


class SluiceIn:
    """The newest picture of a channel."""
    CATEGORY = "sluice"
    FUNCTION = "receive"
    RETURN_TYPES = ("IMAGE", "MASK", "INT", "STRING")
    RETURN_NAMES = ("image", "mask", "frame", "metadata")

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"channel": ("STRING", {"default": "camera"})},
            "optional": {
                "timeout": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 600.0, "step": 0.1,
                                      "tooltip": "seconds to wait for a writer and its first frame"}),
                "width": SIZE,
                "height": SIZE,
                "fit": FIT,
                "missing": (["error", "last image"], {"tooltip": "what to do if the channel has no writer any more"}),
                "device": (["channel", "cpu"], {"tooltip": "channel: pictures of a channel on a GPU stay there"}),
            },
        }

    @staticmethod
    def _use(channel, width, height, fit, device):
        return CHANNELS.use(("in", channel, device, width, height, fit), lambda: Source(channel))

    @classmethod
    def IS_CHANGED(cls, channel=None, timeout=1.0, width=0, height=0, fit="cover", missing="error", device="channel"):
        never_equal = float("nan")
        if not channel or None in (width, height, fit, device):  # from another node: not known yet
            return never_equal
        with cls._use(channel, width, height, fit, device) as source:
            token = source.is_changed()
            if token is None and missing == "last image":
                token = source.under
            return token or never_equal

    def receive(self, channel, timeout=1.0, width=0, height=0, fit="cover", missing="error", device="channel"):
        with self._use(channel, width, height, fit, device) as source:
            return source.get(timeout, missing == "last image", lambda frame: _read(frame, width, height, fit, device))


class _Sink:
    """A channel that is written: four bytes a pixel, of the size of the picture sent last."""

    def __init__(self, channel, device):
        self.channel, self.device = channel, device
        self.writer = self.format = None

    def send(self, picture, width, height, fit, timeout, meta):
        """The sequence of its frame; 0 if no slot was free in time."""
        format = sluice.Image("bgra" if self.channel.startswith("cipd:") else "rgba", width, height,
                              alpha="straight" if picture.shape[2] == 4 else "opaque")
        if self.writer is None:
            self.writer = sluice.Writer(self.channel, format, device=self.device)
        elif format != self.format:
            self.writer.reformat(format)
        self.format = format
        try:
            with self.writer.frame(timeout, meta=meta) as frame:
                sluice.convert(frame, picture, fit=fit, layout="HWC")
        except sluice.NoFreeSlot as error:
            logging.warning("Sluice Out: %s", error)
            return 0
        return frame.sequence

    def close(self):
        if self.writer is not None:
            self.writer.close()


def _with_alpha(image, mask):
    """(B, H, W, 4) of an IMAGE and a MASK of any size."""
    mask = mask.reshape(-1, 1, *mask.shape[-2:]).to(image)
    if mask.shape[-2:] != image.shape[1:3]:
        mask = torch.nn.functional.interpolate(mask, size=tuple(image.shape[1:3]), mode="bilinear")
    alpha = (1 - mask).permute(0, 2, 3, 1).expand(image.shape[0], -1, -1, -1)
    return torch.cat((image[..., :3], alpha), dim=-1)


class SluiceOut:
    """Each picture of a batch becomes a frame of a channel."""
    CATEGORY = "sluice"
    FUNCTION = "send"
    OUTPUT_NODE = True
    RETURN_TYPES = ("INT",)
    RETURN_NAMES = ("frame",)

    @classmethod
    def INPUT_TYPES(cls):
        return {
            "required": {"image": ("IMAGE",), "channel": ("STRING", {"default": "painted"})},
            "optional": {
                "mask": ("MASK",),
                "metadata": ("STRING", {"forceInput": True, "tooltip": "JSON, up to 4,096 bytes: for readers of the frame"}),
                "timeout": ("FLOAT", {"default": 1.0, "min": 0.0, "max": 600.0, "step": 0.1,
                                      "tooltip": "seconds to wait for a free slot; then the picture is not sent"}),
                "width": SIZE,
                "height": SIZE,
                "fit": FIT,
            },
        }

    def send(self, image, channel, mask=None, metadata="", timeout=1.0, width=0, height=0, fit="cover"):
        try:
            metadata and json.loads(metadata)
        except ValueError as error:
            raise ValueError(f"Sluice Out: `metadata` is not JSON: {error}") from None
        if channel.startswith("cipd:") and not image.is_cuda:  # those channels are on GPUs
            image = image.to("cuda")
        if mask is not None:
            image = _with_alpha(image, mask)
        device = f"cuda:{image.device.index or 0}" if image.is_cuda else "host"
        CHANNELS.close(lambda key: key[:2] == ("out", channel) and key[2] != device)
        width, height = _size(width, height, image.shape[2], image.shape[1])
        with CHANNELS.use(("out", channel, device), lambda: _Sink(channel, device)) as sink:
            for picture in image.detach():
                sequence = sink.send(picture, width, height, fit, timeout, metadata)
        return (sequence,)
