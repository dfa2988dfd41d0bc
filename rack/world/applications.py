"""What the programs of the known images do with the GPU that they find, or do not find."""

from __future__ import annotations

from typing import Final

from rack.world.container import Container
from rack.world.cuda_errors import ERRORS
from rack.world.onnx import CPU, CUDA, creation_messages
from rack.world.result import Result, exited, running

_MODEL: Final = "ViT-B-32__openai"
_MODEL_MIB: Final = 842
"""Memory of Immich's default model and of CUDA's own context on the card."""


def immich(container: Container) -> Result:
    """Immich's machine learning: without a usable GPU it works on the CPU, and only says so.

    The rack's Immich asks for its first search at once, so the model's load is in the log.
    """
    image = container.image.view
    wanted = [CUDA, CPU] if CUDA in image.providers else [CPU]
    lines = (
        "INFO     Starting gunicorn 23.0.0",
        "INFO     Listening at: http://[::]:3003 (7)",
        "INFO     Using worker: immich_ml.config.CustomUvicornWorker",
        "INFO     Booting worker with pid: 8",
        "INFO     Started server process [8]",
        "INFO     Waiting for application startup.",
        "INFO     Created in-memory cache with unloading after 300s of inactivity.",
        "INFO     Initialized request thread pool with 4 threads.",
        "INFO     Application startup complete.",
        f"INFO     Loading visual model '{_MODEL}' to memory",
        f"INFO     Setting execution providers to {wanted}, in descending order of preference",
    )
    uses_gpu = wanted[0] == CUDA and container.runtime_result == 0
    said: list[str] = []
    if wanted[0] == CUDA and not uses_gpu:
        said = creation_messages(container.runtime_result, wanted, container.hostname)
    result = running(*lines, *said)
    return result.model_copy(update={"used_mib": _MODEL_MIB}) if uses_gpu else result


def vector_add(container: Container) -> Result:
    """NVIDIA's vectorAdd sample."""
    lines = ["[Vector addition of 50000 elements]"]
    code = container.runtime_result
    if code == 209:
        lines.append("Copy input data from the host memory to the CUDA device")
        lines.append("CUDA kernel launch with 196 blocks of 256 threads")
        lines.append(f"Failed to launch vectorAdd kernel (error code {ERRORS[code][1]})!")
        return exited(1, lines=tuple(lines))
    if code:
        lines.append(f"Failed to allocate device vector A (error code {ERRORS[code][1]})!")
        return exited(1, lines=tuple(lines))
    lines += [
        "Copy input data from the host memory to the CUDA device",
        "CUDA kernel launch with 196 blocks of 256 threads",
        "Copy output data from the CUDA device to the host memory",
        "Test PASSED",
        "Done",
    ]
    return exited(0, lines=tuple(lines))


def shell(container: Container) -> Result:
    """A shell without a terminal reads the end of its input and ends."""
    return exited(0)


def unknown(container: Container) -> Result:
    """An image that the rack does not know is taken to serve."""
    return running()
