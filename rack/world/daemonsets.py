"""The daemon sets that the operator makes of a ClusterPolicy.

Names, init containers, waits and labels are the real ones (assets/ of NVIDIA/gpu-operator at
v24.9.2 and v26.3.1); volumes are those that decide whether a pod is admitted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rack.world.nodefacts import Frozen
from rack.world.policy import PolicyView

Manifest = dict[str, Any]

DEPLOY: Final = "nvidia.com/gpu.deploy."
IMEX_WAIT_UNTIL: Final = (25, 3)
"""Up to here GFD waits for the driver's own marker as well."""
_VALIDATIONS: Final = "/run/nvidia/validations"
_TOLERATION: Final = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


class Operand(Frozen):
    """One part of the operator that runs on GPU nodes."""

    state: str
    """Name of the state in the operator's log and conditions."""
    name: str
    """Name of the daemon set."""
    section: str
    """Part of the ClusterPolicy that switches it on; empty: always on."""
    deploy: str
    """Which of the node's labels lets it run."""


OPERANDS: Final = (
    Operand(
        state="state-driver", name="nvidia-driver-daemonset", section="driver", deploy="driver"
    ),
    Operand(
        state="state-container-toolkit",
        name="nvidia-container-toolkit-daemonset",
        section="toolkit",
        deploy="container-toolkit",
    ),
    Operand(
        state="state-operator-validation",
        name="nvidia-operator-validator",
        section="",
        deploy="operator-validator",
    ),
    Operand(
        state="state-device-plugin",
        name="nvidia-device-plugin-daemonset",
        section="devicePlugin",
        deploy="device-plugin",
    ),
    Operand(
        state="state-dcgm-exporter",
        name="nvidia-dcgm-exporter",
        section="dcgmExporter",
        deploy="dcgm-exporter",
    ),
    Operand(
        state="gpu-feature-discovery",
        name="gpu-feature-discovery",
        section="gfd",
        deploy="gpu-feature-discovery",
    ),
    Operand(
        state="state-mig-manager",
        name="nvidia-mig-manager",
        section="migManager",
        deploy="mig-manager",
    ),
)
"""In the order in which the operator goes through its states."""


def daemon_sets(view: PolicyView, namespace: str, os_tag: str) -> tuple[Manifest, ...]:
    """What is to run, in the operator's order.

    Args:
        view: the ClusterPolicy.
        namespace: where it is to run.
        os_tag: the nodes' operating system in the driver image's tag, for example talosv1.13.9.

    """
    wanted = [one for one in OPERANDS if not one.section or view.has(one.section)]
    return tuple(_daemon_set(one, view, namespace, os_tag) for one in wanted)


def _daemon_set(operand: Operand, view: PolicyView, namespace: str, os_tag: str) -> Manifest:
    common = view.section("daemonsets")
    labels = {"app": operand.name, "app.kubernetes.io/managed-by": "gpu-operator"}
    on_delete = operand.name == "nvidia-driver-daemonset"
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": operand.name,
            "namespace": namespace,
            "labels": labels,
        },
        "spec": {
            "selector": {"matchLabels": {"app": operand.name}},
            "updateStrategy": _strategy(common, on_delete),
            "template": {
                "metadata": {
                    "labels": {**(common.get("labels") or {}), **labels},
                    "annotations": dict(common.get("annotations") or {}),
                },
                "spec": _pod(operand, view, os_tag),
            },
        },
    }


def _strategy(common: Mapping[str, Any], on_delete: bool) -> Manifest:
    if on_delete or common.get("updateStrategy") == "OnDelete":
        return {"type": "OnDelete"}
    at_once = (common.get("rollingUpdate") or {}).get("maxUnavailable", "1")
    count = int(at_once) if str(at_once).isdigit() else at_once
    return {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": count}}


def _pod(operand: Operand, view: PolicyView, os_tag: str) -> Manifest:
    common = view.section("daemonsets")
    init, containers, volumes = _CONTENTS[operand.name](view, os_tag)
    pod: Manifest = {
        "nodeSelector": {f"{DEPLOY}{operand.deploy}": "true"},
        "tolerations": list(common.get("tolerations") or [_TOLERATION]),
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        "serviceAccountName": operand.name.removesuffix("-daemonset"),
        "automountServiceAccountToken": False,
        "initContainers": init,
        "containers": containers,
        "volumes": [_host_path("run-nvidia-validations", _VALIDATIONS), *volumes],
    }
    if operand.name != "nvidia-driver-daemonset" and not view.uses_nri_plugin:
        pod["runtimeClassName"] = view.runtime_class
    return pod


Contents = tuple[list[Manifest], list[Manifest], list[Manifest]]


def _validator(view: PolicyView, os_tag: str) -> Contents:
    image = view.image("validator")
    root = {"DRIVER_INSTALL_DIR": view.driver_root, "DRIVER_INSTALL_DIR_CTR_PATH": view.driver_root}
    own: dict[str, Mapping[str, str]] = {
        "driver": {"WITH_WAIT": "true", **root},
        "toolkit": {"WITH_WAIT": "false", "NVIDIA_VISIBLE_DEVICES": "all"},
        "cuda": {"WITH_WAIT": "false"},
        "plugin": {"WITH_WAIT": "false", "WITH_WORKLOAD": "false"},
    }
    everywhere = view.env("validator")
    init = [
        _container(
            f"{step}-validation",
            image,
            ["sh", "-c"],
            ["nvidia-validator"],
            {"COMPONENT": step, **env, **everywhere, **view.validator_env(step)},
        )
        for step, env in own.items()
    ]
    says = "echo all validations are successful; while true; do sleep 86400; done"
    main = _container("nvidia-operator-validator", image, ["sh", "-c"], [says])
    return init, [main], [_host_path("driver-install-dir", view.driver_root), _HOST_ROOT]


def _device_plugin(view: PolicyView, os_tag: str) -> Contents:
    env = {
        "PASS_DEVICE_SPECS": "true",
        "FAIL_ON_INIT_ERROR": "true",
        "DEVICE_ID_STRATEGY": "uuid",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "all",
        **view.env("devicePlugin"),
        "DEVICE_LIST_STRATEGY": ",".join(view.device_list_strategy),
    }
    main = _container(
        "nvidia-device-plugin",
        view.image("devicePlugin"),
        ["/bin/sh", "-c"],
        ["/bin/entrypoint.sh"],
        env,
    )
    init = [_wait(view, "toolkit-validation", "toolkit-ready"), *_config(view, "devicePlugin")]
    root = _host_path("driver-install-dir", view.driver_root, "DirectoryOrCreate")
    return init, [main], [root, _HOST_ROOT]


def _feature_discovery(view: PolicyView, os_tag: str) -> Contents:
    init = [_wait(view, "toolkit-validation", "toolkit-ready")]
    if view.line <= IMEX_WAIT_UNTIL:
        init.append(_wait(view, "gpu-feature-discovery-imex-init", "driver-ready"))
    init += _config(view, "gfd")
    env = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all", **view.env("gfd")}
    name = "gpu-feature-discovery"
    return init, [_container(name, view.image("gfd"), [name], [], env)], []


def _dcgm_exporter(view: PolicyView, os_tag: str) -> Contents:
    env = {
        "DCGM_EXPORTER_LISTEN": ":9400",
        "DCGM_EXPORTER_KUBERNETES": "true",
        "NVIDIA_VISIBLE_DEVICES": "all",
        **view.env("dcgmExporter"),
    }
    main = _container("nvidia-dcgm-exporter", view.image("dcgmExporter"), [], [], env)
    main["ports"] = [{"name": "metrics", "containerPort": 9400}]
    return [_wait(view, "toolkit-validation", "toolkit-ready")], [main], []


def _mig_manager(view: PolicyView, os_tag: str) -> Contents:
    main = _container("nvidia-mig-manager", view.image("migManager"))
    return [_wait(view, "toolkit-validation", "toolkit-ready")], [main], [_HOST_ROOT]


def _driver(view: PolicyView, os_tag: str) -> Contents:
    section = view.section("driver")
    manager = section.get("manager") or {}
    manager_image = f"{manager.get('repository')}/{manager.get('image')}:{manager.get('version')}"
    init = _container("k8s-driver-manager", manager_image, ["driver-manager"], ["uninstall_driver"])
    image = f"{view.image('driver')}-{os_tag}"
    main = _container("nvidia-driver-ctr", image, ["nvidia-driver"], ["init"])
    return [init], [main], [_HOST_ROOT]


def _toolkit(view: PolicyView, os_tag: str) -> Contents:
    root = {"DRIVER_INSTALL_DIR": view.driver_root, "DRIVER_INSTALL_DIR_CTR_PATH": view.driver_root}
    validator = _container(
        "driver-validation",
        view.image("validator"),
        ["sh", "-c"],
        ["nvidia-validator"],
        {"COMPONENT": "driver", "WITH_WAIT": "true", **root, **view.validator_env("driver")},
    )
    main = _container("nvidia-container-toolkit-ctr", view.image("toolkit"))
    target = str(view.section("toolkit").get("installDir") or "/usr/local/nvidia")
    install = _host_path("toolkit-install-dir", target, "DirectoryOrCreate")
    return [validator], [main], [install, _HOST_ROOT]


_CONTENTS: Final = {
    "nvidia-driver-daemonset": _driver,
    "nvidia-container-toolkit-daemonset": _toolkit,
    "nvidia-operator-validator": _validator,
    "nvidia-device-plugin-daemonset": _device_plugin,
    "nvidia-dcgm-exporter": _dcgm_exporter,
    "gpu-feature-discovery": _feature_discovery,
    "nvidia-mig-manager": _mig_manager,
}


def _config(view: PolicyView, section: str) -> list[Manifest]:
    """What picks a node's entry of the device plugin's configuration, where there is one."""
    named = view.section("devicePlugin").get("config") or {}
    if not named.get("name"):
        return []
    env = {"ONESHOT": "true", "DEFAULT_CONFIG": str(named.get("default") or "")}
    return [_container("config-manager-init", view.image(section), ["config-manager"], [], env)]


def _wait(view: PolicyView, name: str, marker: str) -> Manifest:
    """An init container that waits for a file of the validator."""
    thing = "nvidia container stack" if marker == "toolkit-ready" else "the driver"
    script = (
        f"until [ -f {_VALIDATIONS}/{marker} ]; do echo waiting for {thing} to be setup; sleep 5;"
        " done"
    )
    return _container(name, view.image("validator"), ["sh", "-c"], [script])


def _container(
    name: str,
    image: str,
    command: list[str] | None = None,
    args: list[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Manifest:
    found: Manifest = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "run-nvidia-validations", "mountPath": _VALIDATIONS}],
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
    }
    if command:
        found["command"] = command
    if args:
        found["args"] = args
    return found


def _host_path(name: str, path: str, kind: str = "") -> Manifest:
    """A folder of the node; without a kind nothing is checked or made."""
    if path == _VALIDATIONS:
        kind = "DirectoryOrCreate"
    return {"name": name, "hostPath": {"path": path, "type": kind}}


_HOST_ROOT: Final = _host_path("host-root", "/")
