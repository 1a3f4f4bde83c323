# SPDX-License-Identifier: MIT
"""`python -m sluice.live live.yaml`, and the command `sluice-live`: runs the engine that a file of settings names."""
import argparse
import importlib
import importlib.util
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ._config import ConfigError, load
from ._settings import MAPS, Section, Setting, Settings, setting_of
from ._values import parse, text_of

PORT = 8588  # that `status` asks
USAGE = 2  # as for every command


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sluice-live", description="Runs an engine on live frames, as a file of settings says.",
                                     epilog="sluice-live status [[HOST:]PORT] asks a running loop how it does. docs/live-settings.md "
                                            "has every setting.")
    parser.add_argument("config", metavar="CONFIG", help="live.yaml, or StreamDiffusion's td_config.yaml")
    parser.add_argument("--set", dest="sets", action="append", default=[], metavar="PATH=VALUE",
                        help="a setting, such as controls.canny.scale=0.5; before the environment and the file")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--check", action="store_true", help="only check the settings; exit status 2 if they are wrong")
    only.add_argument("--print-config", action="store_true", help="only print all settings, each with where it is from")
    parser.add_argument("--duration", type=float, metavar="SECONDS", help="end after this time")
    parser.add_argument("--json", action="store_true", help="print the status each second, as JSON")
    parser.add_argument("--no-osc", action="store_true", help="neither listen to OSC nor send any")
    return parser.parse_args(argv)


class Engine:
    """The engine of the settings. It is built again when a shot asks for it."""

    def __init__(self, live: Any, make: Callable[..., Any]) -> None:
        self._live, self._make = live, make
        self._engine = self._build()

    def _build(self) -> Any:
        return self._make(self._live, **self._live.settings.engine.args)

    def __call__(self, shot: Any) -> Any:
        if shot.rebuild:
            self._engine = None  # its memory is free for the next one
        if self._engine is None:
            self._engine = self._build()
        return self._engine(shot)


def maker_of(settings: Settings, folder: str) -> Callable[..., Any]:
    """What engine.program names. FILE.py is relative to the folder of the settings, where modules are looked for, too."""
    program = settings.engine.program
    if program is None:
        raise ConfigError(["engine.program: is missing: name the engine as FILE.py:NAME or MODULE:NAME"])
    where, _, name = program.rpartition(":")
    path = os.path.join(folder, where)
    sys.path.insert(0, os.path.dirname(path) if where.endswith(".py") else folder)
    try:
        if where.endswith(".py"):
            if not os.path.isfile(path):
                raise ConfigError([f"{settings.origin('engine.program')}: engine.program: there is no file {path}"])
            spec = importlib.util.spec_from_file_location(os.path.basename(where)[:-3], path)
            assert spec and spec.loader
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise ConfigError([f"{settings.origin('engine.program')}: engine.program: {where} needs the module {error.name}, which is not "
                           "installed"]) from error
    if not callable(getattr(module, name, None)):
        raise ConfigError([f"{settings.origin('engine.program')}: engine.program: {where} has no {name} that can be called"])
    return getattr(module, name)  # type: ignore[no-any-return]


def run(given: argparse.Namespace) -> int:
    sets = given.sets + (["report.json=-"] if given.json else []) + (["osc.listen=", "osc.send="] if given.no_osc else [])
    runs = not given.check and not given.print_config
    if runs:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
    settings = load(given.config, sets)
    if given.print_config:
        print_settings(settings)
    if not runs:
        return 0
    if settings.report.debug:
        logging.getLogger().setLevel(logging.DEBUG)
    make = maker_of(settings, os.path.dirname(os.path.abspath(given.config)))
    import sluice
    from sluice.live import Live
    try:
        opened = Live(settings)
    except (OSError, ImportError, sluice.Error) as error:
        return fail(str(error), 1)
    signal.signal(signal.SIGHUP, lambda *_: None)  # while the engine is built; then the loop reads the file again
    with opened as live:
        engine = Engine(live, make)
        timer = threading.Timer(given.duration or 0, live.stop)
        timer.daemon = True
        if given.duration is not None:
            timer.start()
        live.run(engine)
        timer.cancel()
    return 0


def print_settings(settings: Settings) -> None:
    """As a file that load() reads, each with where it is from."""
    lines = list(_lines(settings, settings))
    width = min(60, max(len(text) for text, _ in lines))
    for text, origin in lines:
        print(f"{text:{width}}  # {origin}" if origin else text)
    if settings.passed:
        print(f"# passed on to the engine: {', '.join(settings.passed)}")


def _lines(settings: Settings, section: Any, above: str = "", indent: str = "") -> Iterator[tuple[str, str]]:
    """Text and origin of each line. Members of params and of engine.args have lines of their own."""
    for name, value in section.items():
        path = above + str(name)
        if isinstance(value, Section) or value and path in MAPS:
            yield f"{indent}{_yaml(name)}:", ""
            yield from _lines(settings, value, f"{path}.", f"{indent}  ")
        else:
            setting = setting_of(path)
            shown = value if setting is None or setting.type == "map" else text_of(setting, value)
            yield f"{indent}{_yaml(name)}: {_yaml(shown)}", settings.origin(path)


def _yaml(value: Any) -> str:
    import yaml  # type: ignore[import-untyped,unused-ignore]
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1 << 30, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def status(argv: list[str]) -> int:
    """Asks as StreamDiffusion's programs do, then by our own address."""
    parser = argparse.ArgumentParser(prog="sluice-live status", description="Asks a running loop how it does, by OSC.")
    parser.add_argument("address", nargs="?", default=PORT, metavar="[HOST:]PORT", help=f"its osc.listen; {PORT} if not given")
    try:
        address = parse(Setting("address", "address", PORT, ""), parser.parse_args(argv).address)
    except ValueError as error:
        parser.error(f"the address {error}")
    try:
        from pythonosc.osc_message import OscMessage
        from pythonosc.osc_message_builder import build_msg
    except ImportError:
        return fail("python-osc is not installed: pip install 'sluice-frames[live]'", 1)
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(2)
        asking.connect(address)
        for question, answer in (("/get_status", "/status"), ("/live/status", "/live/status")):
            try:
                asking.send(build_msg(question, []).dgram)
                message = OscMessage(asking.recv(65536))
                while message.address != answer:
                    message = OscMessage(asking.recv(65536))
            except TimeoutError:
                continue
            except OSError as error:
                return fail(f"nothing listens at {address[0]}:{address[1]}: {error.strerror}", 1)
            print(json.dumps(json.loads(message.params[0]), indent=2))
            return 0
    return fail(f"no answer from {address[0]}:{address[1]}", 4)


def fail(sentence: str, code: int) -> int:
    print(f"sluice-live: {sentence}", file=sys.stderr)
    return code


def main() -> int:
    argv = sys.argv[1:]
    if argv[:1] == ["status"]:
        return status(argv[1:])
    given = arguments(argv)
    try:
        return run(given)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
