# SPDX-License-Identifier: MIT
"""integrations/scope: its input, a subclass of Scope's InputSource where Scope is installed, else of a class with the same abstract
methods."""
import abc
import dataclasses
import importlib
import importlib.metadata
import importlib.util
import inspect
import pathlib
import sys
import tomllib
import types

import numpy as np
import pytest

import sluice
from eventually import wait_until

FOLDER = pathlib.Path(__file__).parents[2] / "integrations" / "scope"
# InputSource at 68b0f95, src/scope/core/inputs/interface.py: its methods and their arguments
ABSTRACT = {"list_sources": ["timeout_ms"], "connect": ["identifier"], "receive_frame": ["timeout_ms"], "disconnect": []}
OTHERS = {"is_available": [], "get_source_resolution": ["identifier", "timeout_ms"], "close": []}
VARIABLES = ["source_id", "source_name", "source_description"]
HAS_SCOPE = importlib.util.find_spec("scope") is not None


def base_class():
    """As much of Scope as the plugin imports."""
    def method(self):
        raise NotImplementedError

    members = {name: abc.abstractmethod(method) for name in ABSTRACT}
    members["close"] = lambda self: self.disconnect()
    return abc.ABCMeta("InputSource", (), members)


@pytest.fixture
def plugin(monkeypatch):
    if not HAS_SCOPE:
        core, inputs = types.ModuleType("scope.core"), types.ModuleType("scope.core.inputs")
        core.hookimpl = lambda function: function
        inputs.InputSource = base_class()
        inputs.InputSourceInfo = dataclasses.make_dataclass("InputSourceInfo", ["name", "identifier", ("metadata", dict, None)])
        for module in (types.ModuleType("scope"), core, inputs):
            monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("scope_sluice")
    del sys.modules["scope_sluice"]


@pytest.fixture
def source(plugin):
    made = plugin.SluiceInputSource()
    yield made
    made.close()


def rgba(values, alpha=255):
    return np.full((4, 6, 4), [*values, alpha], np.uint8)


@pytest.mark.skipif(not HAS_SCOPE, reason="Scope is not installed")
def test_the_names_are_those_of_scope(plugin):
    base = importlib.import_module("scope.core.inputs").InputSource
    assert base.__abstractmethods__ == set(ABSTRACT) and issubclass(plugin.SluiceInputSource, base)
    for name, arguments in {**ABSTRACT, **OTHERS}.items():
        assert [each for each in inspect.signature(getattr(base, name)).parameters if each not in ("self", "cls")] == arguments


@pytest.mark.skipif(not HAS_SCOPE, reason="Scope is not installed")
def test_scope_finds_it_by_the_hook(plugin):
    """As its plugin manager calls it."""
    pluggy = importlib.import_module("pluggy")
    manager = pluggy.PluginManager("scope")
    manager.add_hookspecs(importlib.import_module("scope.core.plugins.hookspecs").ScopeHookSpec)
    manager.register(plugin)
    found = []
    manager.hook.register_nodes(register=found.append)
    assert found == [plugin.SluiceInputSource]


def test_it_has_all_methods_and_names(plugin):
    made = plugin.SluiceInputSource
    assert not made.__abstractmethods__ and all(isinstance(getattr(made, name), str) for name in VARIABLES)
    for name, arguments in {**ABSTRACT, **OTHERS}.items():
        own = [each for each in inspect.signature(getattr(made, name)).parameters if each not in ("self", "cls")]
        assert own == arguments, name
    found = []
    plugin.register_nodes(found.append)
    assert found == [made] and made.is_available()


def test_the_entry_point_is_the_module(plugin):
    about = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
    (value,) = about["entry-points"]["scope"].values()  # Scope refuses packages with more than one
    assert about["name"] == "scope-sluice"
    assert importlib.metadata.EntryPoint("scope_sluice", value, "scope").load() is plugin


def test_channels_with_pictures_are_listed(source):
    with sluice.Writer("camera", {"image": sluice.Image("nv12", 64, 36)}), sluice.Writer("tensor", shape=(3, 20, 30)), \
            sluice.Writer("numbers", shape=(7,)):
        found = source.list_sources()
        assert [(each.identifier, each.metadata["width"], each.metadata["height"]) for each in found] == [("camera", 64, 36),
                                                                                                   ("tensor", 30, 20)]
        assert found[0].name.startswith("camera (") and found[0].metadata["device"] == "host"
        assert source.get_source_resolution("camera") == (64, 36) and source.get_source_resolution("tensor", timeout_ms=60000) == (30, 20)
        assert source.get_source_resolution("numbers") is None
    assert source.list_sources() == [] and source.get_source_resolution("camera") is None
    assert source.get_source_resolution("cipd:camera") is None


@pytest.mark.parametrize("order, first", [("rgba", [10, 20, 30]), ("bgra", [30, 20, 10])])
def test_frames_are_rgb(source, order, first):
    with sluice.Writer("camera", {"image": sluice.Image(order, 6, 4)}) as writer:
        assert source.connect("camera") is True
        assert source.receive_frame(timeout_ms=0) is None
        writer.send(rgba((10, 20, 30)))
        frame = source.receive_frame(timeout_ms=60000)
        assert frame.shape == (4, 6, 3) and frame.dtype == np.uint8 and frame[0, 0].tolist() == first
        writer.send(rgba((1, 2, 3)))
        writer.send(rgba((7, 7, 7)))
        assert source.receive_frame(timeout_ms=60000)[0, 0].tolist() == [7, 7, 7]  # the newest
        assert frame[0, 0].tolist() == first and frame.flags.writeable  # memory of its own
        assert source.receive_frame(timeout_ms=1) is None
        source.disconnect()
        assert source.receive_frame() is None
        wait_until(lambda: writer.stats().readers == 0)


def test_tensors_are_pictures_too(source):
    with sluice.Writer("tensor", shape=(3, 4, 6), dtype="float32") as writer:
        assert source.connect("tensor")
        writer.send(np.ones((3, 4, 6), np.float32))
        assert source.receive_frame(timeout_ms=60000).tolist() == np.full((4, 6, 3), 255).tolist()
    with sluice.Writer("numbers", shape=(7,)) as writer:
        assert source.connect("numbers")
        writer.send(np.zeros(7, np.uint8))
        with pytest.raises(ValueError, match=r"shape \(7,\) are no pictures"):
            source.receive_frame(timeout_ms=60000)


def test_a_writer_may_come_later_and_come_back(source, caplog):
    with sluice.Writer("other", shape=(2, 2)):
        assert source.connect("camera") is True
    assert "'camera' has no writer yet; these have: other" in caplog.text
    assert source.receive_frame(timeout_ms=1) is None
    for value in (1, 2):
        with sluice.Writer("camera", {"image": sluice.Image("rgba", 6, 4)}) as writer:
            writer.send(rgba((value,) * 3))
            frames = []
            wait_until(lambda: frames.append(source.receive_frame(timeout_ms=100)) or frames[-1] is not None)
            assert frames[-1][0, 0].tolist() == [value] * 3
        assert source.receive_frame(timeout_ms=1) is None


def test_the_first_channel_is_taken_where_none_is_named(source, caplog):
    assert source.connect("") is False and "no channel has a writer" in caplog.text
    with sluice.Writer("a", {"image": sluice.Image("rgba", 6, 4)}) as writer, sluice.Writer("b", shape=(2, 2)):
        assert source.connect("")
        writer.send(rgba((5, 5, 5)))
        assert source.receive_frame(timeout_ms=60000)[0, 0].tolist() == [5, 5, 5]
    assert source.connect("no/name") is False and "no/name" in caplog.text
