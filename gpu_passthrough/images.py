"""What an image's name says about the CUDA in it."""

from __future__ import annotations

import re

from gpu_passthrough.config import App

_NVIDIA = re.compile(r"(?:^|/)nvidia/cuda:(\d{1,2}\.\d{1,2})")
"""NVIDIA's own images: the tag begins with CUDA's version."""
_TAGGED = re.compile(r":[^:/]*\bcuda-?(\d{1,2}\.\d{1,2})")
"""Images built on them, PyTorch's for example: 2.8.0-cuda12.9-cudnn9-runtime."""
_COMPILES = re.compile(r"cuda-sample")
"""Images whose program the driver compiles for cards that are newer than its CUDA."""


def cuda(app: App) -> str | None:
    """The CUDA version of an app's image: what the stack says, else what the tag says."""
    if app.cuda:
        return app.cuda
    if _COMPILES.search(app.image):
        return None
    found = _NVIDIA.search(app.image) or _TAGGED.search(app.image)
    return found[1] if found else None
