# SPDX-License-Identifier: MIT
"""What ComfyUI does with a prompt, as far as its cache goes: a node runs unless its class, what IS_CHANGED says, its values and those of
all nodes before it are as they were. NaN equals nothing. A prompt is {id: {"class_type", "inputs": {name: value, or [id, output]}}}."""
import collections
import logging


class Executor:
    def __init__(self, classes):
        self.classes = classes
        self.objects = {}
        self.cache = {}
        self.runs = collections.Counter()

    def execute(self, prompt):
        """{id: outputs} of every node. Raises what a node raises."""
        changed = {each: self._is_changed(prompt[each]) for each in prompt}
        keys = {each: self._key(each, prompt, changed) for each in prompt}
        self.cache = {key: outputs for key, outputs in self.cache.items() if key in keys.values()}
        results = {}
        for each in prompt:
            if self.classes[prompt[each]["class_type"]].__dict__.get("OUTPUT_NODE"):
                self._run(each, prompt, keys, results)
        return {each: self.cache[keys[each]] for each in prompt if keys[each] in self.cache}

    def _is_changed(self, node):
        kind = self.classes[node["class_type"]]
        if not hasattr(kind, "IS_CHANGED"):
            return False
        values = {name: None if isinstance(value, list) else value for name, value in node["inputs"].items()}
        try:
            return kind.IS_CHANGED(**values)
        except Exception:
            logging.exception("IS_CHANGED")
            return float("nan")

    def _key(self, each, prompt, changed):
        node = prompt[each]
        inputs = [(name, (self._key(value[0], prompt, changed), value[1]) if isinstance(value, list) else value)
                  for name, value in sorted(node["inputs"].items())]
        return node["class_type"], changed[each], tuple(inputs)

    def _run(self, each, prompt, keys, results):
        if each in results:
            return results[each]
        if keys[each] in self.cache:
            results[each] = self.cache[keys[each]]
            return results[each]
        node = prompt[each]
        kind = self.classes[node["class_type"]]
        values = {name: self._run(value[0], prompt, keys, results)[value[1]] if isinstance(value, list) else value
                  for name, value in node["inputs"].items()}
        known = kind.INPUT_TYPES()
        assert set(known["required"]) <= set(values) <= set(known["required"]) | set(known.get("optional", {}))
        node_object = self.objects.setdefault((each, kind), kind())
        self.runs[each] += 1
        results[each] = self.cache[keys[each]] = getattr(node_object, kind.FUNCTION)(**values)
        return results[each]
