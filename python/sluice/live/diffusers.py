# SPDX-License-Identifier: MIT
"""A pipeline of diffusers on live links: run(pipe, live). docs/live-diffusers.md"""
from typing import Any

from . import Live
from ._adapter import Parameters, log, ranged, tensor

PIPELINE = (0.0, 1.0)  # always: a pipeline takes an image without a negative value for one of this range


def _check_steps(arguments: dict[str, Any]) -> None:
    steps, strength = arguments.get("num_inference_steps"), arguments.get("strength")
    if steps is not None and strength is not None and int(steps * strength) < 1:
        raise ValueError(f"num_inference_steps {steps} x strength {strength} is less than one step: set strength to {1 / steps:.3g} or more")


def run(pipe: Any, live: Live, **kwargs: Any) -> None:
    """Runs an image-to-image pipeline until the loop is stopped. Parameters of the loop are the pipeline's by name, before those in
    `kwargs`, and `seed` is a generator that starts again in each shot. Controls go to a ControlNet pipeline, in their order."""
    import torch

    parameters = Parameters(pipe.__call__)
    for name in ("image", "output_type"):
        if name not in parameters:
            raise TypeError(f"{type(pipe).__name__} takes no {name}: it must be an image-to-image pipeline")
    controls = live.controls if "control_image" in parameters else ()
    if live.controls and not controls:
        log.warning("controls.%s: %s takes no control_image", live.controls[0], type(pipe).__name__)
    seeded = "generator" in parameters
    arguments: dict[str, Any] = {}
    generator = None
    for shot in live:
        with shot:
            if shot.changed:
                wanted = {name: value for name, value in shot.params.items() if not (seeded and name == "seed")}
                wanted = {**kwargs, **parameters.taken(wanted)}
                try:
                    _check_steps(wanted)
                    arguments = wanted
                except ValueError as error:
                    if not arguments:
                        raise
                    log.warning("%s; what was set before stays", error)  # until the next change
            image = ranged(tensor(shot.input), live.settings.input.range, PIPELINE)
            given = {**arguments, "image": image, "output_type": "pt"}
            if seeded and "seed" in shot.params:
                generator = generator or torch.Generator(image.device)
                given["generator"] = generator.manual_seed(int(shot.params["seed"]))
            if controls:
                found = [shot.control(name) for name in controls]
                scales = [float(live.settings.controls[name].scale) if each.on else 0.0 for name, each in zip(controls, found)]
                images = [tensor(each.image) for each in found]
                given["control_image"], given["controlnet_conditioning_scale"] = (
                    (images, scales) if len(controls) > 1 else (images[0], scales[0]))
            shot.send(ranged(pipe(**given).images, PIPELINE, live.settings.input.range))
