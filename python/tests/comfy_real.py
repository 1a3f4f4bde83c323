# SPDX-License-Identifier: MIT
"""ComfyUI's own executor on our nodes, in a process of its own.

    comfy_real.py FOLDER CACHE    FOLDER is ComfyUI's; prints as JSON how often each node had run, and what was seen of the output

`nodes` is ours alone: ComfyUI's own module of that name loads all of its models' code."""
import asyncio
import collections
import copy
import json
import sys
import types

import numpy as np

import sluice
from comfy_kit import load_nodes

PROMPT = {"in": {"class_type": "SluiceIn", "inputs": {"channel": "camera"}},
          "out": {"class_type": "SluiceOut", "inputs": {"image": ["in", 0], "channel": "painted", "metadata": ["in", 3]}}}


class Server:
    """What the executor asks of the web server."""
    client_id, last_node_id, last_prompt_id, sockets_metadata = "test", None, None, {}

    def send_sync(self, event, data, client=None):
        pass


def main(folder, cache):
    sys.path.insert(0, folder)
    sys.argv = ["main.py", "--cpu"]
    nodes = sys.modules["nodes"] = types.ModuleType("nodes")
    nodes.before_node_execution, nodes.interrupt_processing = lambda: None, lambda value=True: None
    import comfy.options
    comfy.options.enable_args_parsing()
    import execution

    runs, executor = collections.Counter(), execution.PromptExecutor(Server(), execution.CacheType[cache], 10)

    def counted(kind):
        function = getattr(kind, kind.FUNCTION)

        def call(self, **inputs):
            runs[kind.__name__] += 1
            return function(self, **inputs)

        setattr(kind, kind.FUNCTION, call)
        return kind

    def execute():
        prompt = copy.deepcopy(PROMPT)  # each comes from a browser, as text
        outputs = asyncio.run(execution.validate_prompt("test", prompt, None))[2]
        executor.execute(prompt, "test", {"client_id": "test"}, outputs)
        assert executor.success, executor.status_messages

    with load_nodes() as module, sluice.Writer("camera", sluice.Image("rgba", 64, 48)) as camera, \
            sluice.Reader("painted", wait=None) as painted:
        nodes.NODE_CLASS_MAPPINGS = {name: counted(kind) for name, kind in module.NODE_CLASS_MAPPINGS.items()}
        sessions, said, last = set(), [], None
        for number in range(1000):
            if number % 2 == 0:
                camera.send(np.full((48, 64, 4), number % 256, np.uint8), meta={"n": number})
            execute()
            if frame := painted.latest():
                with frame:
                    sessions.add(frame.session)
                    last = frame.meta_json["n"], int(frame.numpy()[0, 0, 0])
            if number in (0, 1, 2, 999):
                said.append(dict(runs))
        print(json.dumps({"runs": said, "sessions": len(sessions), "last": last}))


if __name__ == "__main__":
    main(*sys.argv[1:])
