"""Computes on every GPU that it can reach, and prints one line of JSON about it.

Sent into pods as text: only the standard library, and onnxruntime where the image has it.
"""

# mypy: ignore-errors
# Runs in any image with Python 3, so that it says no types and uses no newer syntax.
import ctypes
import glob
import json


def cuda():
    """Load the driver's library and let each card copy and fill memory."""
    found = {"path": "", "init": -1, "driver": 0, "gpus": [], "error": ""}
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {**found, "error": str(error)}
    found["path"] = loaded_from("libcuda.so.1")
    found["init"] = library.cuInit(0)
    if found["init"] != 0:
        return {**found, "error": f"cuInit gives {found['init']}"}
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(count))
    found["driver"] = version.value
    found["gpus"] = [compute(library, number) for number in range(count.value)]
    return found


def loaded_from(name):
    """Path of a loaded library, as the kernel shows it; empty where it does not."""
    try:
        with open("/proc/self/maps") as maps:
            paths = [line.split()[-1] for line in maps if "/" in line]
    except OSError:
        return ""
    start = name.split(".so")[0] + ".so"
    return next((path for path in paths if path.rsplit("/", 1)[-1].startswith(start)), "")


def compute(library, number):
    """Fill half of a buffer on the card, and see that exactly that half has changed."""
    device, context, address = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    name = ctypes.create_string_buffer(128)
    words = 1024
    sent = (ctypes.c_uint32 * words)(*range(words))
    back = (ctypes.c_uint32 * words)()
    size = ctypes.c_size_t(4 * words)
    steps = (
        ("cuDeviceGet", lambda: library.cuDeviceGet(ctypes.byref(device), number)),
        ("cuDeviceGetName", lambda: library.cuDeviceGetName(name, 128, device)),
        ("cuCtxCreate", lambda: library.cuCtxCreate_v2(ctypes.byref(context), 0, device)),
        ("cuMemAlloc", lambda: library.cuMemAlloc_v2(ctypes.byref(address), size)),
        ("cuMemcpyHtoD", lambda: library.cuMemcpyHtoD_v2(address, sent, size)),
        (
            "cuMemsetD32",
            lambda: library.cuMemsetD32_v2(address, 0xC0FFEE, ctypes.c_size_t(words // 2)),
        ),
        ("cuCtxSynchronize", library.cuCtxSynchronize),
        ("cuMemcpyDtoH", lambda: library.cuMemcpyDtoH_v2(back, address, size)),
        ("cuMemFree", lambda: library.cuMemFree_v2(address)),
    )
    for step, call in steps:
        code = call()
        if code != 0:
            return {"name": name.value.decode(), "computes": False, "error": f"{step} gives {code}"}
    expected = [0xC0FFEE] * (words // 2) + list(range(words // 2, words))
    right = list(back) == expected
    error = "" if right else "the card gave back other numbers than it was told to make"
    return {"name": name.value.decode(), "computes": right, "error": error}


def model():
    """The smallest ONNX model: one number in, the same number out."""

    def field(number, body):
        return bytes([number << 3 | 2, len(body)]) + body

    dimension = field(1, b"\x08\x01")
    tensor = b"\x08\x01" + field(2, dimension)
    kind = field(2, field(1, tensor))
    graph = (
        field(1, field(1, b"x") + field(2, b"y") + field(4, b"Identity"))
        + field(2, b"probe")
        + field(11, field(1, b"x") + kind)
        + field(12, field(1, b"y") + kind)
    )
    return b"\x08\x08" + field(7, graph) + field(8, field(1, b"") + b"\x10\x0d")


def onnx():
    """The execution provider that a session really gets; it falls back without an error."""
    try:
        import onnxruntime
    except ImportError:
        return None
    built = onnxruntime.get_available_providers()
    wanted = [one for one in built if one.startswith("CUDA")] + ["CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(model(), providers=wanted)
    except Exception as error:
        return {"built": built, "got": [], "error": str(error)}
    return {"built": built, "got": session.get_providers(), "error": ""}


def main():
    """Print what was found."""
    devices = sorted(glob.glob("/dev/nvidia[0-9]*"))
    print(json.dumps({"devices": devices, "cuda": cuda(), "onnx": onnx()}))


main()
