"""The management library of a pod, as far as a short check goes."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from rack.programs.container import Container
from rack.programs.cuda_library import SUCCESS, Library, number, write

_INVALID_ARGUMENT: Final = 2
_DRIVER_NOT_LOADED: Final = 9


class NvmlLibrary(Library):
    """libnvidia-ml.so.1; a device's handle is its number and one."""

    def __init__(self, container: Container) -> None:
        self._container = container

    def do_nvmlInit_v2(self) -> int:  # noqa: N802 - the library's names
        """Start."""
        has_driver = self._container.tree.get("/dev/nvidiactl") is not None
        return SUCCESS if has_driver else _DRIVER_NOT_LOADED

    def do_nvmlShutdown(self) -> int:  # noqa: N802
        """End."""
        return SUCCESS

    def do_nvmlSystemGetDriverVersion(self, text: Any, length: Any) -> int:  # noqa: N802
        """Version of the driver."""
        return _fill(text, length, self._container.driver_version)

    def do_nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        """Number of cards."""
        write(count, len(self._container.gpus))
        return SUCCESS

    def do_nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        """A card by its number."""
        if not 0 <= number(index) < len(self._container.gpus):
            return _INVALID_ARGUMENT
        write(handle, number(index) + 1)
        return SUCCESS

    def do_nvmlDeviceGetName(self, handle: Any, text: Any, length: Any) -> int:  # noqa: N802
        """Name of a card."""
        return _fill(text, length, self._container.gpus[number(handle) - 1].name)

    def do_nvmlDeviceGetUUID(self, handle: Any, text: Any, length: Any) -> int:  # noqa: N802
        """Identifier of a card."""
        return _fill(text, length, self._container.gpus[number(handle) - 1].uuid)


def _fill(buffer: Any, length: Any, text: str) -> int:
    content = text.encode()[: number(length) - 1] + b"\0"
    ctypes.memmove(buffer, content, len(content))
    return SUCCESS
