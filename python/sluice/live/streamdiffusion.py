# SPDX-License-Identifier: MIT
"""StreamDiffusion on live links: run(wrapper, "td_config.yaml"). docs/live-streamdiffusion.md"""
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from . import Live
from ._adapter import Parameters, log, ranged, tensor

MODEL = (-1.0, 1.0)  # its images
PREPARED = "full", "initialize"  # kinds of guidance for which update_prompt() forgets the negative prompt


def run(wrapper: Any, config: Any = None, /, **overrides: Any) -> None:
    """Runs StreamDiffusion until the loop is stopped. `wrapper` is a StreamDiffusionWrapper, or the class StreamDiffusion itself as
    PyPI's release 0.1.1 has it; `config` and `overrides` are those of Live, or `config` is a Live. Size, dtype and device are the
    wrapper's."""
    stream = getattr(wrapper, "stream", wrapper)
    if isinstance(config, Live):
        return _loop(wrapper, stream, config)
    device = str(stream.device)
    overrides = {"size": (stream.width, stream.height), "dtype": str(stream.dtype).removeprefix("torch."),
                 "device": "host" if device == "cpu" else "cuda:0" if device == "cuda" else device, **overrides}
    with Live(config, **overrides) as live:
        _loop(wrapper, stream, live)


def _loop(wrapper: Any, stream: Any, live: Live) -> None:
    engine: _Wrapped | _Plain = _Wrapped(wrapper, live) if hasattr(wrapper, "update_stream_params") else _Plain(stream, live)
    delay = stream.denoising_steps_num - 1 if stream.use_denoising_batch else 0
    if live.settings.engine.delay != delay:
        log.warning("engine.delay is %d, and StreamDiffusion answers %d frames later: set it to %d, or metadata and times are those of "
                    "other frames", live.settings.engine.delay, delay, delay)
    for shot in live:
        with shot:
            if live.size != (stream.width, stream.height):
                raise ValueError(f"size is {live.size[0]}x{live.size[1]}, and this StreamDiffusion was made for {stream.width}x"
                                 f"{stream.height}: make another one, and call run() with it")
            if shot.changed:
                engine.apply(shot.changed, shot.params)
            result = engine(shot, ranged(tensor(shot.input), live.settings.input.range, MODEL))
            shot.send(None if result is None else ranged(result, MODEL, live.settings.input.range))


def _pairs(value: Any) -> Any:
    """[[text, weight], ...], as OSC and YAML have it, as tuples."""
    return [tuple(each) for each in value]


class _Wrapped:
    """StreamDiffusionWrapper: parameters by update_stream_params(), one control tensor for all ControlNets. It calls wrapper.stream,
    as wrapper.img2img() would copy the result to the host or pack it."""
    NAMES: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
        "prompt": ("prompt_list", lambda text: [(text, 1.0)]), "prompt_list": ("prompt_list", _pairs),
        "seed_list": ("seed_list", _pairs), "t_list": ("t_index_list", list), "t_index_list": ("t_index_list", list),
        "controlnets": ("controlnet_config", list)}

    def __init__(self, wrapper: Any, live: Live) -> None:
        self.wrapper, self.live = wrapper, live
        built = inspect.signature(type(wrapper).__init__).parameters  # what it was made with cannot change
        self.parameters = Parameters(wrapper.update_stream_params, built)
        self.scales: list[float] | None = None  # of the ControlNets, as they are set

    def apply(self, changed: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        given = {}
        if "prompt_list" in changed or "prompt" not in changed:  # of the two the list is the newer form
            changed = {name: value for name, value in changed.items() if name != "prompt"}
        for name, value in changed.items():
            name, form = self.NAMES.get(name, (name, lambda value: value))
            given[name] = form(value)
        if given.pop("controlnet_config", None) is not None:
            self.scales = None  # sent with their scales, see _control
        given = self.parameters.taken(given)
        if given:
            self.wrapper.update_stream_params(**given)

    def _control(self, shot: Any) -> None:
        """The wanted state of the ControlNets, if it changed: a scale is 0 while its control is off. Then their image."""
        nets = [each for each in shot.params.get("controlnets") or () if each.get("enabled", True)]
        names = self.live.controls
        if not nets or not names:
            return
        of_nets = [names[min(number, len(names) - 1)] for number in range(len(nets))]
        controls = [shot.control(name) for name in of_nets]
        scales = [(nets[number].get("conditioning_scale", 1.0) if number else self.live.settings.controls[name].scale)
                  if control.on else 0.0 for number, (name, control) in enumerate(zip(of_nets, controls))]
        if scales != self.scales:
            self.scales = scales
            self.wrapper.update_stream_params(
                controlnet_config=[{**net, "conditioning_scale": scale} for net, scale in zip(nets, scales)])
        for number, control in enumerate(controls):
            if control.on:
                self.wrapper.update_control_image(number, tensor(control.image))

    def __call__(self, shot: Any, image: Any) -> Any:
        self._control(shot)
        result = self.wrapper.stream(image)
        module = getattr(self.wrapper.stream, "_controlnet_module", None)
        seen = next((each for each in getattr(module, "controlnet_images", ()) if each is not None), None)
        if seen is not None and self.live.settings.preview.enabled:
            self.live.preview(seen)
        return None if getattr(self.wrapper.stream, "last_frame_was_skipped", False) else result


class _Plain:
    """StreamDiffusion of release 0.1.1, whose three stages are called: its __call__ looks for negative values in each image, for
    which the CPU waits for the GPU."""

    def __init__(self, stream: Any, live: Live) -> None:
        self.stream = stream
        self.parameters = Parameters(stream.prepare, inspect.signature(type(stream).__init__).parameters)
        if live.controls:
            log.warning("controls.%s: this StreamDiffusion has no ControlNets", live.controls[0])

    def apply(self, changed: Mapping[str, Any], params: Mapping[str, Any]) -> None:
        changed = self.parameters.taken(changed)
        if set(changed) == {"prompt"} and self.stream.cfg_type not in PREPARED:
            self.stream.update_prompt(changed["prompt"])
        elif set(changed) == {"delta"}:
            self.stream.delta = changed["delta"]
        elif changed:
            self.stream.prepare(**self.parameters.taken({"prompt": "", **params}))  # empties its batch

    def __call__(self, shot: Any, image: Any) -> Any:
        import torch
        stream = self.stream
        with torch.no_grad():
            if stream.similar_image_filter:
                image = stream.similar_filter(image)
                if image is None:
                    return None
            return stream.decode_image(stream.predict_x0_batch(stream.encode_image(image)))
