"""What onnxruntime says and does when its CUDA provider does not work.

Texts and fallback: onnxruntime 1.19 and later (onnxruntime_inference_collection.py,
core/providers/cuda/cuda_call.cc), as users of Immich posted them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rack.world.cuda_errors import ERRORS

CUDA: Final = "CUDAExecutionProvider"
CPU: Final = "CPUExecutionProvider"
TENSORRT: Final = "TensorrtExecutionProvider"
_FRAME: Final = "*************** EP Error ***************"
_SOURCE: Final = "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc"


def failure(code: int, hostname: str) -> str:
    """The exception's text for a CUDA error number."""
    return (
        f"CUDA failure {code}: {ERRORS[code][1]} ; GPU=-1 ; hostname={hostname} ; file={_SOURCE} ;"
        " line=67 ; expr=cudaGetDeviceCount(&num_devices); "
    )


def creation_messages(code: int, wanted: Sequence[str], hostname: str) -> list[str]:
    """What is printed before the session goes on without the provider."""
    text = failure(code, hostname)
    return [
        f"[E:onnxruntime:Default, cuda_call.cc:123 CudaCall] {text}",
        _FRAME,
        f"EP Error {_SOURCE}:60 static onnxruntime::CUDAExecutionProviderInfo"
        " onnxruntime::CUDAExecutionProviderInfo::FromProviderOptions(const"
        " onnxruntime::ProviderOptions&) [ONNXRuntimeError] : 1 : FAIL :"
        f' provider_options_utils.h:187 Parse Failed to parse provider option "device_id": {text}',
        f" when using {list(wanted)}",
        f"Falling back to {[CPU]} and retrying.",
        "*" * len(_FRAME),
    ]
