# SPDX-License-Identifier: MIT
"""The modules of dev/gpu-check."""
