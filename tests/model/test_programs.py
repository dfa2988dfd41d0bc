"""Programs of a pod, and that they compute from nothing but the pod's view."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rack.programs import container, launch
from rack.programs.process import Process
from rack.world.nodefacts import NodeFacts
from rack.world.podview import PodView
from tests.model.podworld import IMMICH, RTX_3090, RTX_4070, node, pod, started

BIN = Path(__file__).parents[2] / "rack" / "programs" / "bin"
MIB = 1024 * 1024
PRELUDE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
context = ctypes.c_void_p()
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
at = ctypes.c_uint64()
"""


@dataclass
class Done:
    code: int
    out: str
    err: str


def view_of(
    image: str = IMMICH, at: NodeFacts | None = None, runtime: str = "nvidia", gpus: int = 1
) -> PodView:
    """A pod from inside; without arguments it has the RTX 3090 and Immich's image."""
    facts = at or node(RTX_3090)
    return started(pod(image, runtime=runtime, gpus=gpus), facts, *facts.gpus[:gpus]).view


def run(*argv: str, stdin: str = "", **of_pod: Any) -> Done:
    """Run a program in a pod; in this process, as far as the program is not Python."""
    found = container.of_pod(view_of(**of_pod).model_dump(mode="json"))
    out, err = io.StringIO(), io.StringIO()
    env = dict(found.env)
    process = Process(found, list(argv), env, stdin=io.StringIO(stdin), out=out, err=err)
    return Done(launch.run(process), out.getvalue(), err.getvalue())


def executed(folder: Path, *argv: str) -> Done:
    """Run a program as `kubectl exec` does: as a file, with the pod's view in another."""
    file = folder / "pod.json"
    file.write_text(view_of().model_dump_json())
    env = {"RACK_POD": str(file), "RACK_CONTAINER": "main", "RACK_PYTHON": sys.executable}
    command = [str(BIN / argv[0]), *argv[1:]]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("argv", "out"),
    [
        (("nvidia-smi", "-L"), f"GPU 0: {RTX_3090.name} (UUID: {RTX_3090.uuid})\n"),
        (("sh", "-c", "echo $HOSTNAME | tr a-z A-Z"), "ML-0\n"),
        (("python3", "-c", "import onnxruntime; print(6 * 7)"), "42\n"),
    ],
)
def test_programs_are_files(tmp_path: Path, argv: tuple[str, ...], out: str) -> None:
    assert executed(tmp_path, *argv) == Done(0, out, "")


def test_a_file_keeps_exit_status_and_both_streams(tmp_path: Path) -> None:
    done = executed(tmp_path, "ls", "/nowhere")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("ls: cannot access")


def test_a_containers_own_command_writes_one_log() -> None:
    view = view_of().model_dump(mode="json")
    script = "echo one; echo two >&2; exit 3"
    assert launch.run_command(view, "main", ["sh", "-c", script]) == (3, "one\ntwo\n")


def test_the_documents_first_check() -> None:
    lines = run("nvidia-smi").out.splitlines()
    assert "Driver Version: 580.178.04" in lines[2]
    assert "CUDA Version: 13.0" in lines[2]
    assert any("NVIDIA GeForce RTX 3090  " in line and "24576MiB" not in line for line in lines)
    assert any("MiB /  24576MiB |" in line for line in lines)
    assert {len(line) for line in lines[1:] if line} == {91}


def test_a_long_name_is_cut_in_the_table_alone() -> None:
    at = node(RTX_4070)
    assert "NVIDIA GeForce RTX 4070 ...  " in run("nvidia-smi", at=at).out
    listed = run("nvidia-smi", "-L", at=at).out
    assert listed == f"GPU 0: {RTX_4070.name} (UUID: {RTX_4070.uuid})\n"


def test_queries() -> None:
    form = "--format=csv,noheader,nounits"
    done = run("nvidia-smi", "--query-gpu=name,memory.total,compute_cap", form)
    assert done.out == "NVIDIA GeForce RTX 3090, 24576, 8.6\n"
    headed = run("nvidia-smi", "--query-gpu=memory.total", "--format=csv").out
    assert headed == "memory.total [MiB]\n24576 MiB\n"
    wrong = run("nvidia-smi", "--query-gpu=colour", "--format=csv")
    assert wrong.code == 2
    assert 'Field "colour" is not a valid field to query.' in wrong.out


def test_nvidia_smi_is_there_only_when_injected() -> None:
    done = run("nvidia-smi", runtime="")
    assert done.code == 127
    assert 'exec: "nvidia-smi": executable file not found in $PATH' in done.err


def test_a_card_by_its_number() -> None:
    assert run("nvidia-smi", "-L", "-i", "0").code == 0
    missing = run("nvidia-smi", "-L", "-i", "4")
    assert (missing.code, missing.out) == (6, "No devices were found matching '4'\n")


def test_the_documents_fifth_check_says_nothing_about_the_card() -> None:
    code = "import onnxruntime as ort; print(ort.get_available_providers())"
    wanted = "['TensorrtExecutionProvider', 'CUDAExecutionProvider', 'CPUExecutionProvider']\n"
    assert run("python3", "-c", code).out == wanted
    assert run("python3", "-c", code, runtime="").out == wanted


@pytest.mark.parametrize(("runtime", "first"), [("nvidia", "CUDA"), ("", "CPU")])
def test_what_a_session_really_gets(runtime: str, first: str) -> None:
    code = (
        "import onnxruntime as ort\n"
        "names = ['CUDAExecutionProvider', 'CPUExecutionProvider']\n"
        "print(ort.InferenceSession(b'\\x08\\x07', providers=names).get_providers())"
    )
    done = run("python3", "-c", code, runtime=runtime)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith(f"['{first}ExecutionProvider'")
    assert ("CUDA failure 35" in done.err) == (first == "CPU")


def test_a_session_needs_a_model_and_providers() -> None:
    code = "import onnxruntime as ort; ort.InferenceSession({}, providers=['CPUExecutionProvider'])"
    assert "INVALID_PROTOBUF" in run("python3", "-c", code.format("b'no'")).err
    assert "NO_SUCHFILE" in run("python3", "-c", code.format("'/cache/model.onnx'")).err
    bare = "import onnxruntime as ort; ort.InferenceSession(b'\\x08\\x07')"
    assert "explicitly set the providers" in run("python3", "-c", bare).err


def test_onnxruntime_is_in_its_images_alone() -> None:
    done = run("python3", "-c", "import onnxruntime", image="python:3.12")
    assert done.code == 1
    assert "ModuleNotFoundError: No module named 'onnxruntime'" in done.err


def test_cuda_computes_in_the_cards_memory() -> None:
    code = PRELUDE + (
        "assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(4096)) == 0\n"
        "assert cuda.cuMemsetD32_v2(at, 0xCAFE, ctypes.c_size_t(1024)) == 0\n"
        "back = (ctypes.c_uint32 * 1024)()\n"
        "assert cuda.cuMemcpyDtoH_v2(back, at, ctypes.c_size_t(4096)) == 0\n"
        "print(set(back), cuda.cuCtxSynchronize(), cuda.cuMemFree_v2(at), cuda.cuMemFree_v2(at))"
    )
    assert run("python3", "-c", code).out == "{51966} 0 0 1\n"


@pytest.mark.parametrize(("mib", "expected"), [(20_000, 0), (24_576, 2)])
def test_memory_ends_where_the_cards_does(mib: int, expected: int) -> None:
    code = PRELUDE + f"print(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t({mib * MIB})))"
    assert run("python3", "-c", code).out == f"{expected}\n"


def test_a_large_memory_is_filled_and_read_across_pages() -> None:
    code = PRELUDE + (
        "size = 20_000 << 20\n"
        "assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size)) == 0\n"
        "assert cuda.cuMemsetD32_v2(at, 7, ctypes.c_size_t(size // 4)) == 0\n"
        "middle = ctypes.c_uint64(at.value + (1 << 20) - 4)\n"
        "assert cuda.cuMemcpyHtoD_v2(middle, (ctypes.c_uint32 * 2)(8, 9), 8) == 0\n"
        "back = (ctypes.c_uint32 * 4)()\n"
        "assert cuda.cuMemcpyDtoH_v2(back, ctypes.c_uint64(middle.value - 4), 16) == 0\n"
        "print(list(back))"
    )
    assert run("python3", "-c", code).out == "[7, 8, 9, 7]\n"


def test_bytes_go_to_the_card_and_back() -> None:
    code = PRELUDE + (
        "cuda.cuMemAlloc_v2(ctypes.byref(at), 8)\n"
        "cuda.cuMemcpyHtoD_v2(at, ctypes.create_string_buffer(b'passed!'), 8)\n"
        "out = ctypes.create_string_buffer(8)\n"
        "print(cuda.cuMemcpyDtoH_v2(out, at, 8), out.value, cuda.cuMemcpyDtoH_v2(out, at, 9))"
    )
    assert run("python3", "-c", code).out == "0 b'passed!' 1\n"


def test_cuda_needs_its_order() -> None:
    code = (
        "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int()\n"
        "print(c.cuDeviceGetCount(ctypes.byref(n)), c.cuDriverGetVersion(ctypes.byref(n)), n.value)"
    )
    assert run("python3", "-c", code).out == "3 0 13000\n"


def test_libcuda_is_there_only_when_injected() -> None:
    done = run("python3", "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')", runtime="")
    assert done.code == 1
    assert "libcuda.so.1: cannot open shared object file" in done.err
    assert "pod_loader" not in done.out


def test_python_sees_the_pods_files_and_variables() -> None:
    code = (
        "import os, pathlib; library = '/usr/local/lib/libcuda.so.1'\n"
        "print(os.environ['DEVICE'], os.path.exists(library),"
        f" pathlib.Path({str(Path(__file__).parents[2])!r}).exists())"
    )
    assert run("python3", "-c", code).out == "cuda True False\n"


def test_ls_expands_nothing() -> None:
    done = run("ls", "/usr/local/lib/libcuda.so*")
    assert done.code == 2
    assert done.err == (
        "ls: cannot access '/usr/local/lib/libcuda.so*': No such file or directory\n"
    )


def test_the_documents_sixth_check_is_wrong_on_a_healthy_pod() -> None:
    script = "ls {}/libcuda.so* 2>/dev/null && echo injected || echo missing"
    assert run("sh", "-c", script.format("/usr/local/nvidia/lib64")).out == "missing\n"
    assert run("sh", "-c", script.format("/usr/local/lib")).out.endswith("injected\n")
    bare = run("sh", "-c", script.format("/usr/local/lib"), runtime="")
    assert bare.out == "missing\n"


def test_ldconfig_lists_what_was_injected() -> None:
    script = "ldconfig -p | grep libcuda.so.1"
    done = run("sh", "-c", script)
    assert done.out == "\tlibcuda.so.1 (libc6,x86-64) => /usr/local/lib/libcuda.so.1\n"
    assert run("sh", "-c", script, runtime="").code == 1


def test_a_program_that_the_image_lacks() -> None:
    assert run("python3", "-c", "1", image="busybox", gpus=0).code == 127
    done = run("sh", "-c", "curl example.com; echo $?")
    assert done.out == "127\n"
    assert done.err == "sh: 1: curl: not found\n"


def test_the_drivers_programs_do_not_run_without_glibc() -> None:
    done = run("nvidia-smi", image="busybox")
    assert done.code == 126
    assert "no such file or directory" in done.err


@pytest.mark.parametrize(
    ("script", "out", "code"),
    [
        ("echo a b  c", "a b c\n", 0),
        ("echo 'a  b' \"$HOSTNAME\"", "a  b ml-0\n", 0),
        ("x=1; y=${x}2; echo $y ${z:-none} ${#y}", "12 none 2\n", 0),
        ("false || echo other", "other\n", 0),
        ("false && echo no; echo $?", "1\n", 0),
        ("true && false", "", 1),
        ("! false && echo yes", "yes\n", 0),
        ("(exit 3); echo $?", "3\n", 0),
        ("exit 4; echo never", "", 4),
        ("set -e; false; echo never", "", 1),
        ("set -e; if false; then :; fi; false || true; echo here", "here\n", 0),
        ("for i in 1 2; do echo n$i; done", "n1\nn2\n", 0),
        ("if [ -c /dev/nvidia0 ]; then echo gpu; else echo none; fi", "gpu\n", 0),
        ("[ -e /nowhere ] || echo none", "none\n", 0),
        ("echo $(echo inner | tr a-z A-Z)", "INNER\n", 0),
        ("printf '%s-%s\\n' a b c", "a-b\nc-\n", 0),
        ("echo b > /tmp/f; echo a >> /tmp/f; sort /tmp/f", "a\nb\n", 0),
        ("ls /nowhere 2>&1 | wc -l", "1\n", 0),
        ("cd /dev && ls nvidia? ", "nvidia0\n", 0),
        ("echo '*' /nothing/*", "* /nothing/*\n", 0),
        ("command -v nvidia-smi", "/usr/local/bin/nvidia-smi\n", 0),
        ("printf 'b\\na\\nb\\n' | sort | uniq -c | head -n 1", "      1 a\n", 0),
        ("echo a:b | cut -d: -f2; # a comment", "b\n", 0),
        ("env FOO=1 printenv FOO", "1\n", 0),
        ("FOO=2 printenv FOO; printenv FOO", "2\n", 1),
        ("python3 -c 'print(6*7)' | cat", "42\n", 0),
    ],
)
def test_shell(script: str, out: str, code: int) -> None:
    done = run("sh", "-c", script)
    assert (done.out, done.code) == (out, code), done.err


@pytest.mark.parametrize(
    "script",
    ["while true; do :; done", "sleep 1 &", "echo $((1+1))", "cat <<EOF", "case a in a) ;; esac"],
)
def test_what_the_shell_lacks_is_said_plainly(script: str) -> None:
    done = run("sh", "-c", script)
    assert done.code == 2
    assert "simulated rack" in done.err
    assert "not supported here" in done.err


@pytest.mark.parametrize("script", ["echo 'open", "if true; then", "&& true", "echo (", "| cat"])
def test_wrong_scripts(script: str) -> None:
    done = run("sh", "-c", script)
    assert done.code == 2
    assert "Syntax error" in done.err


def test_python_takes_a_program_from_stdin() -> None:
    assert run("python3", "-", stdin="print('from stdin')").out == "from stdin\n"


def test_a_program_without_a_pod_says_so() -> None:
    env = {"RACK_PYTHON": sys.executable}
    done = subprocess.run([str(BIN / "ls")], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 126
    assert "simulated rack: cannot read the pod's view" in done.stderr


def test_every_program_of_an_image_is_one_of_the_racks() -> None:
    from rack.world.images import _table

    named = {name for row in _table() for one in row["programs"] for name in _flat(one)}
    assert named - {path.name for path in BIN.iterdir()} == set()


def _flat(one: str | list[str]) -> list[str]:
    return [one] if isinstance(one, str) else one
