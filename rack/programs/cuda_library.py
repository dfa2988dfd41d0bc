"""The CUDA driver library of a pod: memory and devices as far as programs check them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from rack.programs.container import Gpu
from rack.programs.device_memory import DeviceMemory
from rack.world.cuda_errors import ERRORS

SUCCESS: Final = 0
INVALID_VALUE: Final = 1
OUT_OF_MEMORY: Final = 2
NOT_INITIALISED: Final = 3
INVALID_DEVICE: Final = 101
INVALID_CONTEXT: Final = 201
MIB: Final = 1024 * 1024
_FIRST_ADDRESS: Final = 0x7F_0000_0000
_MAJOR, _MINOR, _PROCESSORS = 75, 76, 16
"""Numbers of device attributes."""


class Function:
    """A function of a library; ctypes' attributes may be set and do not matter."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.restype: Any = ctypes.c_int
        self.argtypes: Any = None

    def __call__(self, *args: Any) -> int:
        """Call it; the result is an error number."""
        return int(self._call(*args))


class Library:
    """A shared library whose functions are the methods `do_*`."""

    def __getattr__(self, name: str) -> Function:
        if name.startswith("do_"):
            raise AttributeError(name)
        # The names without a number are there as well, for programs that are older.
        call = getattr(self, f"do_{name}", None) or getattr(self, f"do_{name}_v2", None)
        if call is None:
            raise AttributeError(f"undefined symbol: {name} (simulated rack)")
        function = Function(call)
        setattr(self, name, function)
        return function

    def __getitem__(self, name: str) -> Function:
        return self.__getattr__(name)


def number(value: Any) -> int:
    """An integer argument, plain or as a ctypes value."""
    found = getattr(value, "value", value)
    return 0 if found is None else int(found)


def write(pointer: Any, value: int) -> None:
    """Store a number where a pointer argument points: byref, pointer, or an array."""
    target = getattr(pointer, "_obj", None)
    if target is None:
        target = pointer.contents if hasattr(pointer, "contents") else pointer
    if hasattr(target, "value"):
        target.value = value
    else:
        target[0] = value


class DriverLibrary(Library):
    """libcuda.so.1."""

    def __init__(self, gpus: tuple[Gpu, ...], cuda: str, result: int) -> None:
        self._gpus = gpus
        self._result = result
        major, _, minor = cuda.partition(".")
        self._version = int(major or 0) * 1000 + int(minor or 0) * 10
        self._is_ready = False
        self._contexts: dict[int, int] = {}
        """Device of each context."""
        self._current: int | None = None
        self._memory: dict[int, tuple[int, DeviceMemory]] = {}
        """Device and content of each allocation, by its address."""
        self._next = _FIRST_ADDRESS

    def do_cuInit(self, flags: Any) -> int:  # noqa: N802 - the driver's names
        """Start; everything else needs it."""
        if number(flags):
            return INVALID_VALUE
        self._is_ready = self._result == SUCCESS
        return self._result

    def do_cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        """Newest CUDA, as 13000 for 13.0; works before cuInit."""
        write(version, self._version)
        return SUCCESS

    def do_cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        """Number of cards."""
        if not self._is_ready:
            return NOT_INITIALISED
        write(count, len(self._gpus))
        return SUCCESS

    def do_cuDeviceGet(self, device: Any, ordinal: Any) -> int:  # noqa: N802
        """A card by its number."""
        if not self._is_ready:
            return NOT_INITIALISED
        if not 0 <= number(ordinal) < len(self._gpus):
            return INVALID_DEVICE
        write(device, number(ordinal))
        return SUCCESS

    def _gpu(self, device: Any) -> Gpu | None:
        index = number(device)
        return self._gpus[index] if 0 <= index < len(self._gpus) else None

    def do_cuDeviceGetName(self, name: Any, length: Any, device: Any) -> int:  # noqa: N802
        """Name of a card, cut to the buffer."""
        gpu = self._gpu(device)
        if gpu is None:
            return INVALID_DEVICE
        text = gpu.name.encode()[: number(length) - 1] + b"\0"
        ctypes.memmove(name, text, len(text))
        return SUCCESS

    def do_cuDeviceTotalMem_v2(self, size: Any, device: Any) -> int:  # noqa: N802
        """Memory of a card in bytes."""
        gpu = self._gpu(device)
        if gpu is None:
            return INVALID_DEVICE
        write(size, gpu.memory_mib * MIB)
        return SUCCESS

    def do_cuDeviceGetAttribute(self, value: Any, attribute: Any, device: Any) -> int:  # noqa: N802
        """Compute capability and number of multiprocessors."""
        gpu = self._gpu(device)
        if gpu is None:
            return INVALID_DEVICE
        known = {
            _MAJOR: gpu.compute_capability[0],
            _MINOR: gpu.compute_capability[1],
            _PROCESSORS: 80,
        }
        if number(attribute) not in known:
            return INVALID_VALUE
        write(value, known[number(attribute)])
        return SUCCESS

    def do_cuDeviceComputeCapability(self, major: Any, minor: Any, device: Any) -> int:  # noqa: N802
        """Compute capability of a card."""
        gpu = self._gpu(device)
        if gpu is None:
            return INVALID_DEVICE
        write(major, gpu.compute_capability[0])
        write(minor, gpu.compute_capability[1])
        return SUCCESS

    def do_cuCtxCreate_v2(self, context: Any, flags: Any, device: Any) -> int:  # noqa: N802
        """Make a context on a card, which becomes the current one."""
        if not self._is_ready:
            return NOT_INITIALISED
        if self._gpu(device) is None:
            return INVALID_DEVICE
        handle = 0x1000 * (len(self._contexts) + 1)
        self._contexts[handle] = number(device)
        self._current = handle
        write(context, handle)
        return SUCCESS

    def do_cuCtxDestroy_v2(self, context: Any) -> int:  # noqa: N802
        """Remove a context and everything in it."""
        if self._contexts.pop(number(context), None) is None:
            return INVALID_CONTEXT
        self._current = None
        return SUCCESS

    def do_cuCtxSynchronize(self) -> int:  # noqa: N802
        """Wait for the card, which has done everything already."""
        return INVALID_CONTEXT if self._current is None else SUCCESS

    def do_cuMemGetInfo_v2(self, free: Any, total: Any) -> int:  # noqa: N802
        """Free and whole memory of the current card in bytes."""
        if self._current is None:
            return INVALID_CONTEXT
        device = self._contexts[self._current]
        write(free, self._free(device))
        write(total, self._gpus[device].memory_mib * MIB)
        return SUCCESS

    def _free(self, device: int) -> int:
        gpu = self._gpus[device]
        taken = sum(content.size for at, content in self._memory.values() if at == device)
        return (gpu.memory_mib - gpu.used_mib) * MIB - taken

    def do_cuMemAlloc_v2(self, address: Any, size: Any) -> int:  # noqa: N802
        """Reserve memory on the current card."""
        if self._current is None:
            return INVALID_CONTEXT
        if number(size) <= 0:
            return INVALID_VALUE
        device = self._contexts[self._current]
        if number(size) > self._free(device):
            return OUT_OF_MEMORY
        self._memory[self._next] = (device, DeviceMemory(number(size)))
        write(address, self._next)
        self._next += -(-number(size) // 0x200) * 0x200
        return SUCCESS

    def do_cuMemFree_v2(self, address: Any) -> int:  # noqa: N802
        """Give memory back."""
        return INVALID_VALUE if self._memory.pop(number(address), None) is None else SUCCESS

    def _range(self, address: Any, size: int) -> tuple[DeviceMemory, int] | None:
        """The allocation that has that part, and where; None where it is not all in one."""
        at = number(address)
        for start, (_, content) in self._memory.items():
            if start <= at and at + size <= start + content.size:
                return content, at - start
        return None

    def do_cuMemcpyHtoD_v2(self, target: Any, source: Any, size: Any) -> int:  # noqa: N802
        """Copy to the card."""
        found = self._range(target, number(size))
        if found is None:
            return INVALID_VALUE
        memory, at = found
        memory.write(at, ctypes.string_at(_address(source), number(size)))
        return SUCCESS

    def do_cuMemcpyDtoH_v2(self, target: Any, source: Any, size: Any) -> int:  # noqa: N802
        """Copy from the card."""
        found = self._range(source, number(size))
        if found is None:
            return INVALID_VALUE
        memory, at = found
        ctypes.memmove(_address(target), memory.read(at, number(size)), number(size))
        return SUCCESS

    def do_cuMemsetD32_v2(self, target: Any, value: Any, count: Any) -> int:  # noqa: N802
        """Fill memory with a 32-bit number."""
        found = self._range(target, number(count) * 4)
        if found is None:
            return INVALID_VALUE
        memory, at = found
        memory.fill(at, (number(value) & 0xFFFFFFFF).to_bytes(4, "little"), number(count))
        return SUCCESS

    def do_cuGetErrorName(self, error: Any, name: Any) -> int:  # noqa: N802
        """Name of an error number."""
        return _text(error, name, 0)

    def do_cuGetErrorString(self, error: Any, text: Any) -> int:  # noqa: N802
        """Text of an error number."""
        return _text(error, text, 1)


class CudaRuntime(Library):
    """libcudart of the image: what its first calls say."""

    def __init__(self, gpus: tuple[Gpu, ...], cuda: str, result: int) -> None:
        self._gpus, self._result = gpus, result
        major, _, minor = cuda.partition(".")
        self._version = int(major or 0) * 1000 + int(minor or 0) * 10

    def do_cudaGetDeviceCount(self, count: Any) -> int:  # noqa: N802
        """Number of cards, or why there is none."""
        write(count, 0 if self._result else len(self._gpus))
        return self._result

    def do_cudaDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        """Newest CUDA of the driver; 0 without one."""
        write(version, self._version)
        return SUCCESS


_KEPT: list[Any] = []
"""Texts that programs hold pointers to."""


def _text(error: Any, target: Any, which: int) -> int:
    found = ERRORS.get(number(error))
    if found is None:
        return INVALID_VALUE
    text = ctypes.c_char_p(found[which].encode())
    _KEPT.append(text)
    pointer = getattr(target, "_obj", target)
    pointer.value = text.value
    return SUCCESS


def _address(value: Any) -> Any:
    """The address behind an argument that is a host's memory."""
    target = getattr(value, "_obj", value)
    if isinstance(target, int | bytes):
        return target
    if isinstance(target, ctypes.c_void_p | ctypes.c_char_p):
        return ctypes.cast(target, ctypes.c_void_p).value
    if hasattr(target, "contents"):
        return ctypes.addressof(target.contents)
    return ctypes.addressof(target)
