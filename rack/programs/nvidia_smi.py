"""`nvidia-smi`: the table, the list and queries, from the cards that were injected.

Layout of driver 550 and later, where a long name is cut; `-L` and queries cut nothing.
"""

from __future__ import annotations

import datetime
from typing import Final

from rack.programs.container import Container, Gpu
from rack.programs.nvidia_query import query
from rack.programs.process import Main, Process

_NO_LIBRARY: Final = 12
_NO_DRIVER: Final = 9
_NO_DEVICE: Final = 6
_NAME_WIDTH: Final = 27

_TOP: Final = "+" + "-" * 89 + "+"
_SPLIT: Final = f"+{'-' * 41}+{'-' * 24}+{'-' * 22}+"
_HEAD: Final = (
    _SPLIT,
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    f"|{'=' * 41}+{'=' * 24}+{'=' * 22}|",
)
_PROCESSES: Final = (
    "",
    _TOP,
    f"|{' Processes:':<89}|",
    "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
    "|        ID   ID                                                               Usage      |",
    f"|{'=' * 89}|",
    f"|{'  No running processes found':<89}|",
    _TOP,
)


def problem(container: Container) -> tuple[int, str] | None:
    """Why NVML does not work here, as exit status and text; None where it does."""
    if container.library("libnvidia-ml.so.1") is None:
        return _NO_LIBRARY, (
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that"
            " the NVIDIA Display Driver is properly installed and present in your system.\n"
            "Please also try adding directory that contains libnvidia-ml.so to your system PATH."
        )
    if container.tree.get("/dev/nvidiactl") is None:
        return _NO_DRIVER, (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make"
            " sure that the latest NVIDIA driver is installed and running.\n"
        )
    return None if container.gpus else (_NO_DEVICE, "No devices were found")


def nvidia_smi(process: Process) -> int:
    """Show what there is; without arguments, the table."""
    args, gpus = list(process.args), list(process.container.gpus)
    if args in (["-h"], ["--help"]):
        process.say("NVIDIA System Management Interface (simulated rack)")
        process.say(
            "Supported here: -L, -q, -i, --query-gpu=..., --format=csv[,noheader][,nounits]"
        )
        return 0
    if found := problem(process.container):
        process.say(found[1])
        return found[0]
    wanted = _chosen(args, gpus)
    if isinstance(wanted, str):
        process.say(f"No devices were found matching '{wanted}'")
        return _NO_DEVICE
    if not args:
        process.say("\n".join(table(process.container, wanted)))
        return 0
    if args in (["-L"], ["--list-gpus"]):
        for gpu in wanted:
            process.say(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})")
        return 0
    if args in (["-q"], ["--query"]):
        process.say("\n".join(_report(process.container, wanted)))
        return 0
    if any(arg.startswith("--query-gpu") for arg in args):
        return query(process, args, wanted)
    if args[0].startswith("-"):
        return process.refuse(f"`{' '.join(args)}`")
    process.say(f"Invalid combination of input arguments. Please run '{process.name} -h' for help.")
    return 2


def _chosen(args: list[str], gpus: list[Gpu]) -> list[Gpu] | str:
    """Take -i out of the arguments: the cards that it names, or a name that no card has."""
    for index, arg in enumerate(args):
        name = arg.removeprefix("--id=").removeprefix("-i=")
        if arg in ("-i", "--id") and index + 1 < len(args):
            name = args.pop(index + 1)
        elif name == arg:
            continue
        args.pop(index)
        by_name = {**{str(gpu.index): gpu for gpu in gpus}, **{gpu.uuid: gpu for gpu in gpus}}
        names = name.split(",")
        unknown = next((one for one in names if one not in by_name), None)
        return unknown if unknown is not None else [by_name[one] for one in names]
    return gpus


def table(container: Container, gpus: list[Gpu]) -> list[str]:
    """The lines of the table."""
    version, cuda = container.driver_version, container.driver_cuda
    now = datetime.datetime.now(datetime.UTC).strftime("%a %b %e %H:%M:%S %Y")
    title = f" NVIDIA-SMI {version:<23}Driver Version: {version:<15}CUDA Version: {cuda:<9}"
    rows = [line for gpu in gpus for line in (*_row(gpu), _SPLIT)]
    return [f"{now}       ", _TOP, f"|{title}|", *_HEAD, *rows, *_PROCESSES]


def short(name: str) -> str:
    """A name as the table shows it: cut where it is too long."""
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 3]}..."


def _row(gpu: Gpu) -> tuple[str, str, str]:
    name = f" {gpu.index:>3}  {short(gpu.name):<{_NAME_WIDTH}}    Off "
    bus = f"   {gpu.bus_id} Off "
    state = f"{0:>3}%  {gpu.temperature_c:>3}C    P{8 if gpu.utilisation == 0 else 2}"
    power = f"{f'{gpu.power_w}W':>16} / {f'{gpu.power_limit_w}W':>5} "
    memory = f"{f'{gpu.used_mib}MiB':>11} / {f'{gpu.memory_mib}MiB':>9} "
    load = f"{f'{gpu.utilisation}%':>8}{'Default':>13} "
    nothing = f"{'N/A':>21} "
    return (
        f"|{name}|{bus}|{nothing}|",
        f"|{state}{power}|{memory}|{load}|",
        f"|{'':41}|{'':24}|{nothing}|",
    )


def _report(container: Container, gpus: list[Gpu]) -> list[str]:
    """A part of what -q says."""
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"{'Driver Version':<42}: {container.driver_version}",
        f"{'CUDA Version':<42}: {container.driver_cuda}",
        "",
        f"{'Attached GPUs':<42}: {len(gpus)}",
    ]
    for gpu in gpus:
        lines += [
            f"GPU {gpu.bus_id}",
            f"    {'Product Name':<38}: {gpu.name}",
            f"    {'Product Architecture':<38}: {gpu.architecture.title()}",
            f"    {'GPU UUID':<38}: {gpu.uuid}",
            f"    {'Minor Number':<38}: {gpu.minor}",
            "    FB Memory Usage",
            f"        {'Total':<34}: {gpu.memory_mib} MiB",
            f"        {'Used':<34}: {gpu.used_mib} MiB",
            f"        {'Free':<34}: {gpu.memory_mib - gpu.used_mib} MiB",
            "    Temperature",
            f"        {'GPU Current Temp':<34}: {gpu.temperature_c} C",
        ]
    return lines


PROGRAMS: Final[dict[str, Main]] = {"nvidia-smi": nvidia_smi}
