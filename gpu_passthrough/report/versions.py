"""The versions of a stack, and the verdict on their combination."""

from __future__ import annotations

from gpu_passthrough import compatibility
from gpu_passthrough.config import Stack
from gpu_passthrough.report.facts import Fact

SEPARATE = "Compatibility: "


def versions(stack: Stack) -> list[Fact]:
    """What the stack pins, from the system up."""
    found: list[Fact] = []
    if cluster := stack.cluster:
        extensions = cluster.extensions
        found += [
            ("Talos", cluster.talos_version),
            ("Kubernetes", cluster.kubernetes_version),
            ("NVIDIA extensions", f"{extensions.kernel_modules}, {extensions.channel}"),
        ]
        it = compatibility.combination(stack)
        driver = extensions.driver or (it.shipped_driver() if it else None)
        found.append(("NVIDIA driver", str(driver or "unknown")))
    operator = stack.gpu_operator.version
    found.append(("GPU Operator", operator))
    found.append(("GPU feature discovery", compatibility.gfd_version(operator) or "unknown"))
    found += [(f"CUDA of {name}", app.cuda) for name, app in stack.apps.items() if app.cuda]
    return found


def verdict(stack: Stack) -> tuple[str, str]:
    """Level of the combination, and what there is to know about it."""
    found = compatibility.verdict(stack)
    return found.level, found.text.removeprefix(SEPARATE)
