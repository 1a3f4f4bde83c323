# SPDX-License-Identifier: MIT
"""The nodes of integrations/comfyui, loaded by their folder as ComfyUI does."""
import contextlib
import importlib.util
import pathlib
import sys

FOLDER = pathlib.Path(__file__).parents[2] / "integrations" / "comfyui"


@contextlib.contextmanager
def load_nodes():
    """The package, with no channels open yet; it is gone afterwards."""
    spec = importlib.util.spec_from_file_location("sluice_nodes", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
    module = sys.modules["sluice_nodes"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    module.nodes.CHANNELS.close(lambda _: True)
    for name in [each for each in sys.modules if each.partition(".")[0] == "sluice_nodes"]:
        del sys.modules[name]
