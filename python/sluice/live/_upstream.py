# SPDX-License-Identifier: MIT
"""StreamDiffusion's td_config.yaml, as it is. Its keys for the transport become settings of ours, those of the picture become settings
or parameters, and all others are the engine's."""
import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._settings import Setting
from ._values import closest, did_you_mean, parse
from ._yaml import Entry

ENVIRONMENT = "SDTD_CUDA_IPC_OUTPUT"  # 1 stands for use_cuda_ipc_output: true, where the file does not say
DEFAULT = "default of td_config.yaml"


@dataclass(frozen=True)
class Key:
    name: str
    type: str
    default: Any
    to: str  # the setting that it becomes; nothing if it is one of several keys that make it
    note: str = ""
    low: float | None = None
    high: float | None = None

    @property
    def becomes(self) -> str:
        return (self.to and f"`{self.to}`") + self.note


# By the keys of forkni/StreamDiffusion, branch SDTD_040_beta_release, of May 2026. Misspelt ones are refused.
TRANSPORT = (
    Key("use_cuda_ipc_input", "bool", False, "", "`input.channel` is `cipd:` and the name below; false: the native channel "
                                                 "`input_mem_name`, if the file names one, else `input.enabled: false`"),
    Key("use_cuda_ipc_output", "bool", False, "", "`output.channel` is `cipd:` and the name below; false: the native channel "
                                                  "`output_mem_name`, if the file names one, else `output.enabled: false`"),
    Key("cuda_ipc_shm_name", "str", None, "", "name for `output.channel`"),
    Key("cuda_ipc_num_slots", "int", 2, "output.slots", ", also for the preview; one slot becomes two", 1, 10),
    Key("use_cuda_ipc_controlnet", "bool", False, "", "`controls.cn.enabled`: one link for all ControlNets, which acts only with "
                                                      "`use_controlnet` or `controlnets`"),
    Key("send_controlnet_preview", "bool", False, "preview.enabled"),
    Key("cuda_ipc_cn_processed_shm_name", "str", None, "", "name for `preview.channel`"),
    Key("td_settings.cuda_ipc_input_shm_name", "str", None, "", "name for `input.channel`; unset: `input_mem_name` and `_input_ipc`"),
    Key("td_settings.cuda_ipc_control_shm_name", "str", None, "",
        "name for `controls.cn.channel`; unset: `input_mem_name` and `_control_ipc`"),
    Key("td_settings.input_mem_name", "str", "input_stream", "", "`input.channel`, if `use_cuda_ipc_input` is false"),
    Key("td_settings.output_mem_name", "str", "sd_to_td", "", "`output.channel`, if `use_cuda_ipc_output` is false"),
    Key("td_settings.osc_transmit_port", "int", 8247, "osc.listen", ": the name is seen from TouchDesigner's side", 1, 65535),
    Key("td_settings.osc_receive_port", "int", 8248, "osc.send", ": the name is seen from TouchDesigner's side", 1, 65535),
    Key("td_settings.debug_mode", "bool", False, "report.debug"),
)
ENGINE = (
    Key("width", "int", 512, "", "`size`", 8, 16384),
    Key("height", "int", 512, "", "`size`", 8, 16384),
    Key("dtype", "str", "float16", "dtype"),
    Key("device", "str", "cuda", "device"),
    Key("prompt", "any", None, "params.prompt"),
    Key("negative_prompt", "any", None, "params.negative_prompt"),
    Key("seed", "int", 2, "params.seed"),
    Key("guidance_scale", "float", 1.2, "params.guidance_scale"),
    Key("delta", "float", 1.0, "params.delta"),
    Key("num_inference_steps", "int", 50, "params.num_inference_steps", "", 1),
    Key("t_index_list", "list", [0, 16, 32, 45], "params.t_index_list", "; `engine.delay` is one less than it has members"),
    Key("cfg_type", "str", "self", "params.cfg_type"),
    Key("use_denoising_batch", "bool", True, "params.use_denoising_batch", "; false: `engine.delay` is 0"),
    Key("frame_buffer_size", "int", 1, "params.frame_buffer_size", "", 1),
    Key("controlnets", "list", [], "params.controlnets",
        "; `conditioning_scale` of the first that is enabled is `controls.cn.scale`"),
)
KEYS = {key.name: key for key in (*TRANSPORT, *ENGINE)}


def is_upstream(entries: Sequence[Entry]) -> bool:
    return any(entry.key == "td_settings" or re.match(r"use_cuda_ipc_|cuda_ipc_", entry.key) for entry in entries)


def translate(entries: Sequence[Entry], draft: Any, environ: Mapping[str, str]) -> dict[str, Any]:
    """Puts the file's values into `draft`; returns what is the engine's."""
    file = _File(draft)
    passed = file.read(entries)
    if "use_cuda_ipc_output" not in file.at and environ.get(ENVIRONMENT) == "1":
        file.values["use_cuda_ipc_output"], file.at["use_cuda_ipc_output"] = True, ENVIRONMENT
    file.link("input", "td_settings.cuda_ipc_input_shm_name", "_input_ipc")
    file.link("output", "cuda_ipc_shm_name", "")
    file.name("preview.channel", "cuda_ipc_cn_processed_shm_name")
    if file.at.keys() & {"use_cuda_ipc_controlnet", "td_settings.cuda_ipc_control_shm_name", "controlnets", "send_controlnet_preview"}:
        file.controls(bool(passed.get("use_controlnet")))
    file.others()
    if passed:
        draft.notes.append(f"passed on to the engine: {', '.join(passed)}")
    return passed


class _File:
    def __init__(self, draft: Any) -> None:
        self.draft = draft
        self.values: dict[str, Any] = {name: copy.copy(key.default) for name, key in KEYS.items()}
        self.at: dict[str, str] = {}  # the keys that the file has

    def read(self, entries: Sequence[Entry], above: str = "") -> dict[str, Any]:
        """Takes the keys that are known; returns the others."""
        transport = {key.name for key in TRANSPORT}
        passed = {}
        for entry in entries:
            name, elsewhere = above + entry.key, entry.key if above else f"td_settings.{entry.key}"
            if name in KEYS:
                self._take(KEYS[name], entry)
            elif elsewhere in transport:
                self.draft.problem(entry.key_at, entry.key, f"belongs {'to the top level' if above else 'into td_settings'}")
            elif name != "td_settings":
                if near := closest(entry.key, (key.rpartition(".")[2] for key in transport if key.startswith(above)), 0.88):
                    self.draft.problem(entry.key_at, entry.key, f"unknown{did_you_mean(near)}")
                passed[entry.key] = entry.plain
            elif entry.children is None and entry.value is not None:
                self.draft.problem(entry.at, name, "must be keys and values")
            elif rest := self.read(entry.children or (), "td_settings."):
                passed[name] = rest
        return passed

    def _take(self, key: Key, entry: Entry) -> None:
        value: Any = entry.plain if key.type in ("any", "list") else entry.value
        try:
            if key.type == "list" and not isinstance(value, (list, tuple)):
                raise ValueError("must be a list")
            if key.type not in ("any", "list"):
                value = parse(Setting(key.name, key.type, key.default, "", low=key.low, high=key.high), value)
        except ValueError as error:
            self.draft.problem(entry.at, entry.key, str(error))
            return
        self.values[key.name], self.at[key.name] = value, entry.at

    def put(self, path: str, value: Any, *keys: str) -> None:
        """A setting, which is from the first of these keys that the file has."""
        self.draft.put(path, value, next((self.at[key] for key in keys if key in self.at), DEFAULT))

    def name(self, path: str, key: str, suffix: str = "") -> None:
        """A channel of cuda-link's."""
        name = self.values[key] or suffix and self.values["td_settings.input_mem_name"] + suffix
        if name:
            self.put(path, f"cipd:{name}", key, "td_settings.input_mem_name")

    def link(self, link: str, key: str, suffix: str) -> None:
        """Without cuda-link there is upstream's shared memory, whose size no header tells: a native channel has its name."""
        switch, native = f"use_cuda_ipc_{link}", f"td_settings.{link}_mem_name"
        self.put(f"{link}.enabled", self.values[switch] or native in self.at, switch, native)
        if self.values[switch]:
            return self.name(f"{link}.channel", key, suffix)
        if native in self.at:
            self.put(f"{link}.channel", self.values[native], native)
        self.draft.notes.append(f"{link}: {switch} is false: " + (f"the native channel {self.values[native]}, not the shared memory of "
                                                                  "that name" if native in self.at else "no link"))

    def controls(self, use_controlnet: bool) -> None:
        networks = [each for each in self.values["controlnets"] if isinstance(each, Mapping) and each.get("enabled", True)]
        if networks:
            self.put("controls.cn.scale", networks[0].get("conditioning_scale", 1.0), "controlnets")
        linked, active = self.values["use_cuda_ipc_controlnet"], bool(networks) or use_controlnet
        self.put("controls.cn.enabled", linked and active, "use_cuda_ipc_controlnet")
        self.name("controls.cn.channel", "td_settings.cuda_ipc_control_shm_name", "_control_ipc")
        if linked and not active:
            self.draft.notes.append("controls.cn: use_cuda_ipc_controlnet acts only with use_controlnet or controlnets")

    def others(self) -> None:
        values = self.values
        values["cuda_ipc_num_slots"] = max(2, values["cuda_ipc_num_slots"])
        values["dtype"] = values["dtype"].removeprefix("torch.")
        self.put("size", (values["width"], values["height"]), "width", "height")
        delay = len(values["t_index_list"]) - 1 if values["use_denoising_batch"] else 0
        self.put("engine.delay", max(0, delay), "t_index_list", "use_denoising_batch")
        for key in KEYS.values():
            if key.to and (key.type != "any" or key.name in self.at):
                self.put(key.to, values[key.name], key.name)
