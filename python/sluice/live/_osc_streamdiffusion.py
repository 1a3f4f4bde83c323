# SPDX-License-Identifier: MIT
"""StreamDiffusionTD's OSC addresses, both ways. docs/live-osc.md lists them, and what differs."""
import os
import threading
import time
from typing import Any

from ._config import check
from ._osc import Asked, Running, Sender, from_json, several
from ._settings import Setting
from ._values import parse

STREAMING = 30  # pictures until "local_starting" becomes "local_streaming"
SECOND = 1.0


def _is(type: str, default: Any, *choices: str) -> Setting:
    return Setting("", type, default, "", choices=choices)


TEXT, INT, FLOAT, TOGGLE = _is("str", ""), _is("int", 0), _is("float", 0.0), _is("bool", False)

# Addresses with one value that is a parameter of the engine.
PARAMS: dict[str, tuple[str, Setting]] = {
    "/prompt": ("prompt", TEXT),
    "/negative_prompt": ("negative_prompt", TEXT),
    "/seed": ("seed", INT),
    "/guidance_scale": ("guidance_scale", FLOAT),
    "/delta": ("delta", FLOAT),
    "/num_inference_steps": ("num_inference_steps", INT),
    "/prompt_interpolation_method": ("prompt_interpolation_method", TEXT),
    "/seed_interpolation_method": ("seed_interpolation_method", TEXT),
    "/sdmode": ("sdmode", _is("str", "", "txt2img", "img2img")),
    "/ipadapter_scale": ("ipadapter_scale", FLOAT),
    "/ipadapter_enable": ("use_ipadapter", TOGGLE),
    "/latent_feedback_strength": ("latent_feedback_strength", FLOAT),
}
COMMANDS: dict[str, tuple[str, str, str]] = {  # the command, and what is answered where
    "/start_streaming": ("play", "/streaming_status", "started"),
    "/stop_streaming": ("pause", "/streaming_status", "stopped"),
    "/pause": ("pause", "/streaming_status", "paused"),
    "/play": ("play", "/streaming_status", "resumed"),
    "/stop": ("stop", "/application_status", "stopping"),
    "/process_frame": ("process_frame", "", ""),
    "/frame_ack": ("frame_ack", "", ""),
}
STATES = {"starting": "local_loading_models", "ready": "local_ready", "paused": "local_streaming", "error": "local_error",
          "stopped": "local_offline"}


class StreamDiffusionDialect:
    def __init__(self) -> None:
        self._used = True  # what /use_controlnet said
        self._back: list[str] | None = None  # the controls that /use_controlnet 1 switches on; None: all

    def understand(self, address: str, values: list[Any], asked: Asked) -> bool:
        if address in COMMANDS:
            name, where, answer = COMMANDS[address]
            asked.commands.append((name,))
            if where:
                asked.notices.append((where, answer))
        elif address == "/get_status":
            asked.replies.append(("/status", asked.status()))
        elif address == "/ipadapter_update":
            asked.changes["params.ipadapter_update"] = asked.value("params.ipadapter_update", 0) + 1
        elif address in PARAMS:
            name, setting = PARAMS[address]
            self._param(name, parse(setting, _one(values)), asked)
        elif address.startswith("/fx/"):
            self._effect(address, values, asked)
        elif handler := self.HANDLERS.get(address):
            handler(self, values, asked)
        else:
            return False
        return True

    def _param(self, name: str, value: Any, asked: Asked) -> None:
        asked.changes[f"params.{name}"] = value
        if name in ("prompt", "seed") and asked.value(f"params.{name}_list") is not None:
            asked.changes[f"params.{name}_list"] = [[value, 1.0]]  # the later one is in force
        if name == "sdmode":
            asked.notices.append(("/mode_status", value))

    def _effect(self, address: str, values: list[Any], asked: Asked) -> None:
        parts = address.split("/")[2:]
        if len(parts) != 2 or not all(parts):
            raise ValueError("must be /fx/PROCESSOR/PARAM with a value")
        effects = dict(asked.value("params.fx") or {})
        effects[parts[0]] = {**effects.get(parts[0], {}), parts[1]: several(values)}
        asked.changes["params.fx"] = effects

    def _steps(self, values: list[Any], asked: Asked) -> None:
        steps = from_json(values[0]) if len(values) == 1 and isinstance(values[0], str) else values
        if not isinstance(steps, list) or not steps:
            raise ValueError("must be whole numbers")
        asked.changes["params.t_index_list"] = [parse(INT, each) for each in steps]

    def _prompts(self, values: list[Any], asked: Asked) -> None:
        asked.changes["params.prompt_list"] = _weighted(_one(values), TEXT)

    def _seeds(self, values: list[Any], asked: Asked) -> None:
        asked.changes["params.seed_list"] = _weighted(_one(values), INT)

    def _adapter(self, values: list[Any], asked: Asked) -> None:
        wanted = from_json(_one(values))
        if not isinstance(wanted, dict):
            raise ValueError("must be a JSON object")
        asked.changes["params.ipadapter_config"] = wanted

    def _most(self, values: list[Any], asked: Asked) -> None:
        rate = parse(FLOAT, _one(values))
        asked.changes["max_fps"] = check(asked.settings, "max_fps", rate) if rate > 0 else None

    def _use_controls(self, values: list[Any], asked: Asked) -> None:
        """Off: no control acts. On: those act again that did, with the scale that they have by now."""
        on, names = parse(TOGGLE, _one(values)), list(asked.settings.controls)
        acting = [name for name in names if asked.value(f"controls.{name}.enabled")]
        if not names:
            asked.changes["params.use_controlnet"] = on
        elif not on:
            self._back = acting or self._back if self._used else self._back
            asked.changes.update({f"controls.{name}.enabled": False for name in names})
        elif not self._used or not acting:
            back = names if self._back is None else self._back
            asked.changes.update({f"controls.{name}.enabled": True for name in names if name in back})
        self._used = on

    def _controls(self, values: list[Any], asked: Asked) -> None:
        """The wanted state of all ControlNets: the control images of those that are not in it are switched off."""
        entries = from_json(_one(values))
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            raise ValueError("must be a JSON list of objects")
        wanted = [{**each, "conditioning_scale": parse(FLOAT, each.get("conditioning_scale", 1.0)),
                   "enabled": parse(TOGGLE, each.get("enabled", True))} for each in entries]
        changes: dict[str, Any] = {"params.controlnets": wanted}
        acting, names = [], list(asked.settings.controls)
        for name in names:
            mine = [each for each in wanted if len(names) == 1 or name in (each.get("preprocessor"), each.get("model_id"))
                    or name in str(each.get("model_id")).replace("/", "-").split("-")]
            used = next((each for each in mine if each["enabled"]), None)
            if used:
                acting.append(name)
                scale = f"controls.{name}.scale"
                changes[scale] = check(asked.settings, scale, used["conditioning_scale"])
            changes[f"controls.{name}.enabled"] = used is not None and self._used
        self._back = acting
        asked.changes.update(changes)

    HANDLERS = {"/t_list": _steps, "/prompt_list": _prompts, "/seed_list": _seeds, "/ipadapter_config": _adapter,
                 "/max_fps": _most, "/use_controlnet": _use_controls, "/controlnets": _controls}


def _one(values: list[Any]) -> Any:
    if len(values) != 1:
        raise ValueError(f"takes one value, not {len(values)}")
    return values[0]


def _weighted(value: Any, of: Setting) -> list[list[Any]]:
    pairs = from_json(value)
    if not isinstance(pairs, list) or not pairs or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError("must be JSON, [[what, weight], ...]")
    return [[parse(of, what), parse(FLOAT, weight)] for what, weight in pairs]


class Telemetry:
    """What StreamDiffusionTD is sent: for each picture, and each second. Its thread sleeps until one of them is due."""

    def __init__(self, live: Running, sender: Sender) -> None:
        self._live, self._sender, self._open = live, sender, True
        self._state, self._error_at = "", 0.0
        self._vram = _Vram(live.settings.device)
        self._say_state("local_starting_server")
        self._thread = threading.Thread(target=self._run, name="sluice osc out", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._open = False
        self._live.counters.wake()
        self._thread.join()
        self._vram.close()
        self._say_state("local_offline")

    def _run(self) -> None:
        counters, sent, seconds, due = self._live.counters, self._live.counters.sent, 0, time.monotonic()
        while self._open:
            if time.monotonic() >= due:
                self._each_second(seconds)
                seconds, due = seconds + 1, time.monotonic() + SECOND
            count = counters.wait(sent, due - time.monotonic())
            if count != sent:
                sent = count
                self._sender.send("/framecount", count)
                self._sender.send("/frame_ready", count)
                self._sender.send("/stream-info/fps", counters.rate)
            self._changes()

    def _each_second(self, seconds: int) -> None:
        self._sender.send("/server_active", 1)
        self._state = ""  # said again
        for link, address in (("output", "/stream-info/output-name"), ("preview", "/stream-info/controlnet-processed-name")):
            found = self._live.counters.links.get(link)
            if found and found.channel:
                self._sender.send(address, found.channel.removeprefix("cipd:"))
        memory = None if seconds % 2 else self._vram.read()
        if memory:
            self._sender.send("/vram/total", memory[0])
            self._sender.send("/vram/used", memory[1])

    def _changes(self) -> None:
        counters = self._live.counters
        if counters.state == "streaming":
            state = "local_streaming" if counters.sent >= STREAMING else "local_starting"
        else:
            state = STATES.get(counters.state, "local_loading_models")
        if state != self._state:
            self._say_state(state)
        if counters.error_at != self._error_at:
            self._error_at = counters.error_at
            self._sender.send("/stream-info/error", counters.error)
            self._sender.send("/stream-info/error-time", int(counters.error_at * 1000))

    def _say_state(self, state: str) -> None:
        self._state = state
        self._sender.send("/stream-info/state", state)


class _Vram:
    """The memory of the loop's GPU, from NVML, which calls no CUDA."""

    def __init__(self, device: str) -> None:
        self._observer: Any = None
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        try:
            number = int(device.removeprefix("cuda:"))
            number = int(visible.split(",")[number]) if visible else number
        except (ValueError, IndexError):  # host, or a GPU by its UUID
            return
        from ..cuda_link.nvml_observer import NVMLObserver
        observer = NVMLObserver(number, enabled=True)
        if observer.start():
            self._observer = observer

    def read(self) -> tuple[float, float] | None:
        """GiB in all, and in use."""
        figures = self._observer.snapshot() if self._observer else {}
        return (figures["mem_total_mb"] / 1024, figures["mem_used_mb"] / 1024) if "mem_total_mb" in figures else None

    def close(self) -> None:
        if self._observer:
            self._observer.stop()
