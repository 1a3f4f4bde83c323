# SPDX-License-Identifier: MIT
"""Nodes of ComfyUI that read and write Sluice's channels. docs/live-comfyui.md"""
from .nodes import SluiceIn, SluiceOut

NODE_CLASS_MAPPINGS = {"SluiceIn": SluiceIn, "SluiceOut": SluiceOut}
NODE_DISPLAY_NAME_MAPPINGS = {"SluiceIn": "Sluice In", "SluiceOut": "Sluice Out"}
__all__ = ["NODE_CLASS_MAPPINGS", "NODE_DISPLAY_NAME_MAPPINGS"]
