"""The package onnxruntime of a pod: which providers it lists, and which a session really gets.

It evaluates no model. What it lists is what the wheel was built with, GPU or not; the truth is
what a session got (onnxruntime 1.19 and later).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any, Final

from rack.programs.container import Container
from rack.world.onnx import CPU, CUDA, TENSORRT, creation_messages

_NO_TENSORRT: Final = (
    "[E:onnxruntime:Default, provider_bridge_ort.cc:2251 TryGetProviderInfo_TensorRT]"
    " /onnxruntime_src/onnxruntime/core/session/provider_bridge_ort.cc:1844"
    " onnxruntime::Provider& onnxruntime::ProviderLibrary::Get() [ONNXRuntimeError] : 1 : FAIL :"
    " Failed to load library libonnxruntime_providers_tensorrt.so with error: libnvinfer.so.10:"
    " cannot open shared object file: No such file or directory\n"
)
_LENGTH_DELIMITED: Final = 2


class InvalidProtobuf(RuntimeError):  # noqa: N818 - the package's name
    """The model is no ONNX file."""


class NoSuchFile(RuntimeError):  # noqa: N818 - the package's name
    """The model is not there."""


def module(container: Container) -> types.ModuleType:
    """The package for a container."""
    built_with: list[str] = list(container.image["providers"])

    class SessionOptions:
        """Options of a session; kept, and without effect."""

    class NodeArg:
        """An input or output of a model."""

    class InferenceSession:
        """A session with a model on the first provider that works."""

        def __init__(
            self,
            path_or_bytes: str | bytes,
            sess_options: object = None,
            providers: Sequence[str | tuple[str, Any]] | None = None,
            provider_options: object = None,
            **kwargs: object,
        ) -> None:
            _check_model(container, path_or_bytes)
            names = [one if isinstance(one, str) else one[0] for one in providers or ()]
            self._providers = _resolve(container, names, built_with)

        def get_providers(self) -> list[str]:
            """The providers that this session really has."""
            return list(self._providers)

        def get_inputs(self) -> list[NodeArg]:
            """Inputs of the model, which nobody has read."""
            return []

        get_outputs = get_inputs

        def run(self, *args: object, **kwargs: object) -> list[Any]:
            """Evaluate the model: the rack cannot."""
            raise NotImplementedError("simulated rack: models are loaded, not evaluated")

    found = types.ModuleType("onnxruntime", "simulated rack: onnxruntime without evaluation")
    members: dict[str, Any] = {
        "__version__": container.image["onnxruntime"],
        "__file__": "/opt/venv/lib/python3.11/site-packages/onnxruntime/__init__.py",
        "InferenceSession": InferenceSession,
        "SessionOptions": SessionOptions,
        "NodeArg": NodeArg,
        "get_available_providers": lambda: list(built_with),
        "get_all_providers": lambda: list(built_with),
        "get_device": lambda: "GPU" if CUDA in built_with else "CPU",
        "set_default_logger_severity": lambda level: None,
    }
    for name, member in members.items():
        setattr(found, name, member)
    return found


def _resolve(container: Container, names: list[str], built_with: list[str]) -> list[str]:
    """The providers that a session gets, in their order; the CPU is always the last one."""
    if not names and len(built_with) > 1 and built_with[0] in (TENSORRT, CUDA):
        raise ValueError(
            f"This ORT build has {built_with} enabled. Since ORT 1.9, you are required to"
            " explicitly set the providers parameter when instantiating InferenceSession. For"
            f" example, onnxruntime.InferenceSession(..., providers={built_with}, ...)"
        )
    wanted = [name for name in names if name in built_with] or [CPU]
    if len(wanted) < len(set(names)):
        sys.stderr.write(
            f"UserWarning: Specified provider '{next(n for n in names if n not in built_with)}' is"
            f" not in available provider names.Available providers: '{', '.join(built_with)}'\n"
        )
    if TENSORRT in wanted:
        sys.stderr.write(_NO_TENSORRT)
        wanted = [name for name in wanted if name != TENSORRT] or [CPU]
    code = container.view["runtime_result"]
    if CUDA in wanted and code:
        hostname = container.view["hostname"]
        first, *rest = creation_messages(code, wanted, hostname)
        sys.stderr.write(f"{first}\n")
        sys.stdout.write("\n".join(rest) + "\n")
        wanted = [name for name in wanted if name != CUDA]
    return [*(name for name in wanted if name != CPU), CPU]


def _check_model(container: Container, model: str | bytes) -> None:
    """A model is protobuf; a file of it has to be in the pod."""
    if isinstance(model, str):
        entry = container.tree.get(model)
        if entry is None:
            raise NoSuchFile(
                f"[ONNXRuntimeError] : 3 : NO_SUCHFILE : Load model from {model} failed:Load model"
                f" {model} failed. File doesn't exist"
            )
        return
    if not _is_protobuf(bytes(model)):
        raise InvalidProtobuf(
            "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : Failed to load model because protobuf"
            " parsing failed."
        )


def _is_protobuf(data: bytes) -> bool:
    """The bytes are a message with at least one field that ends where the bytes end."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if tag < 8 or kind not in (0, 1, _LENGTH_DELIMITED, 5):
            return False
        if kind == 0:
            _, at = _varint(data, at)
        elif kind == _LENGTH_DELIMITED:
            length, at = _varint(data, at)
            at += length
        else:
            at += 8 if kind == 1 else 4
    return 0 < len(data) == at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, len(data) + 1
