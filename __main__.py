"""The chain from the PCI bus to the pod: every layer waits for the one below it.

A stack that starts higher up, at machines or at a cluster that exist, says nothing about the
layers below, and nothing of them is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pulumi
from pulumi import ResourceOptions

from components.gpu_app import GpuApp, GpuAppArgs, create_namespace
from components.gpu_operator_release import GpuOperatorRelease, GpuOperatorReleaseArgs
from components.nvidia_runtime_class import NvidiaRuntimeClass, NvidiaRuntimeClassArgs
from components.proof import prove
from components.providers import kubernetes_provider, machine_providers
from components.proxmox_gpu_vm import ProxmoxGpuVm, ProxmoxGpuVmArgs
from components.readiness import Access, class_gate, gpu_gate, namespace_gate
from components.talos_cluster import (
    TalosCluster,
    TalosClusterArgs,
    TalosIdentity,
    TalosIdentityArgs,
    administrator,
)
from components.talos_image import boot_images
from components.talos_nvidia_node import TalosNvidiaNode, TalosNvidiaNodeArgs
from gpu_passthrough.config import Cluster, KubernetesAccess, Node, Stack
from gpu_passthrough.kubeapi import with_context
from gpu_passthrough.load import load_stack
from gpu_passthrough.problems import ConfigurationError
from gpu_passthrough.recover.unfinished import backend, refusal, unfinished

Vms = dict[str, ProxmoxGpuVm]
Nodes = dict[str, TalosNvidiaNode]


@dataclass(frozen=True)
class Foundation:
    """What everything in Kubernetes stands on."""

    cluster: str
    """What makes it this cluster and no other."""
    access: Access
    layers: list[pulumi.Resource] = field(default_factory=list)
    """Cluster and configured machines: there before anything in Kubernetes."""
    dies_with: pulumi.Resource | None = None
    """Without this machine there is nothing left to take anything out of."""


def configuration() -> Stack:
    """Read the stack; what is wrong with it ends the run before anything is made."""
    steps = unfinished(backend(), pulumi.get_project(), pulumi.get_stack())
    if steps and not pulumi.runtime.is_dry_run():
        raise pulumi.RunError(refusal(steps, pulumi.get_stack()))
    try:
        return load_stack()
    except ConfigurationError as error:
        raise pulumi.RunError(str(error)) from None


def machines(
    stack: Stack, cluster: Cluster, identity: TalosIdentity, options: ResourceOptions
) -> tuple[Vms, Nodes]:
    """Layers 1 and 2: for each machine a VM that owns its cards, and Talos with their driver."""
    vms: Vms = {}
    nodes: Nodes = {}
    images = boot_images(stack, cluster, options)
    for name, machine in stack.members.items():
        image, on_vm = images[bool(machine.gpus)], options
        if stack.proxmox and isinstance(machine, Node):
            vms[name] = ProxmoxGpuVm(
                name,
                ProxmoxGpuVmArgs(
                    node=machine,
                    site=stack.proxmox,
                    image=image.file_id(machine.host),
                    timeout_s=stack.timeouts.vm_create,
                    protect=stack.protect,
                ),
                options,
            )
            below = ResourceOptions(depends_on=[vms[name]], deleted_with=vms[name].vm)
            on_vm = ResourceOptions.merge(options, below)
        nodes[name] = TalosNvidiaNode(
            name,
            TalosNvidiaNodeArgs(
                machine=machine,
                cluster=cluster,
                installer=image.installer,
                machine_secrets=identity.machine_secrets,
                client_configuration=identity.client_configuration,
                taint=stack.gpu_taint,
                reset_on_destroy=name not in vms,
                timeout_s=stack.timeouts.talos_apply,
            ),
            on_vm,
        )
    return vms, nodes


def talos_cluster(stack: Stack, cluster: Cluster) -> Foundation:
    """Layers 1 and 2, as far as the stack builds them itself, and the cluster on top of them."""
    options = ResourceOptions(providers=machine_providers(cluster, stack.proxmox))
    vms: Vms = {}
    nodes: Nodes = {}
    if stack.talos:
        client = administrator(stack.talos)
    else:
        args = TalosIdentityArgs(talos_version=cluster.talos_version, protect=stack.protect)
        identity = TalosIdentity(cluster.name, args, options)
        client = identity.client_configuration
        vms, nodes = machines(stack, cluster, identity, options)
    below = ResourceOptions(depends_on=[nodes[name] for name in stack.control_planes if nodes])
    made = TalosCluster(
        cluster.name,
        TalosClusterArgs(
            control_planes=list(stack.control_planes.values()),
            client_configuration=client,
            bootstrap=stack.talos is None,
            timeout_s=stack.timeouts.kubernetes_ready,
        ),
        ResourceOptions.merge(options, below),
    )
    pulumi.export("talosconfig", made.talosconfig)
    return Foundation(
        cluster=cluster.name,
        access=Access(kubeconfig=made.kubeconfig),
        layers=[made, *nodes.values()],
        dies_with=next((vms[name].vm for name in stack.control_planes if vms), None),
    )


def existing_cluster(access: KubernetesAccess) -> Foundation:
    """A Kubernetes cluster that exists: nothing below it is the stack's."""
    text = with_context(access.kubeconfig.get_secret_value(), access.context)
    kubeconfig = pulumi.Output.secret(text)
    return Foundation(
        cluster=pulumi.get_stack(), access=Access(kubeconfig=kubeconfig, context=access.context)
    )


def operator_to_pod(stack: Stack, base: Foundation) -> None:
    """Layers 3 to 5: the operator, the RuntimeClass, and the pods that claim the cards."""
    limits = stack.timeouts
    kubernetes = kubernetes_provider(base.cluster, base.access, limits.kubernetes_ready)

    def after(*below: pulumi.Resource) -> ResourceOptions:
        return ResourceOptions(
            providers=[kubernetes], depends_on=list(below), deleted_with=base.dies_with
        )

    gpus_ready = gpu_gate(base.access, stack)
    unclaimed = namespace_gate(base.access)
    operator = GpuOperatorRelease(
        "gpu-operator",
        GpuOperatorReleaseArgs(
            operator=stack.gpu_operator,
            talos_version=stack.cluster.talos_version if stack.cluster else None,
            taint=stack.gpu_taint,
            ready=gpus_ready,
            unclaimed=unclaimed,
            timeout_s=limits.operator_ready,
        ),
        after(*base.layers),
    )
    runtime_class = NvidiaRuntimeClass(
        stack.runtime_class.name,
        NvidiaRuntimeClassArgs(
            runtime_class=stack.runtime_class,
            made_by_operator=stack.runtime_class.name == operator.runtime_class,
            ready=gpus_ready,
            unclaimed=class_gate(base.access, stack.runtime_class),
        ),
        after(operator),
    )
    namespaces: dict[str, pulumi.Input[str]] = {stack.gpu_operator.namespace: operator.namespace}
    namespaces |= {
        app.namespace: app.namespace for app in stack.apps.values() if not app.create_namespace
    }
    apps: list[pulumi.Resource] = []
    for name, app in stack.apps.items():
        if app.namespace not in namespaces:
            namespaces[app.namespace] = create_namespace(
                app.namespace, unclaimed, after(*base.layers)
            )
        args = GpuAppArgs(
            app=app,
            namespace=namespaces[app.namespace],
            gpu_resource=stack.gpu_resource,
            taint=stack.gpu_taint,
            protect=stack.protect,
            timeout_s=limits.app_ready,
        )
        apps.append(GpuApp(name, args, after(runtime_class)).deployment)
    prove(stack, base.access, [runtime_class, *apps])


def cards(stack: Stack) -> list[dict[str, str]]:
    """Which card is where: the inventory that the stack gives to Kubernetes."""
    return [
        {"node": name, **gpu.model_dump(include={"card", "path"})}
        for name, machine in stack.gpu_nodes.items()
        for gpu in machine.gpus
    ]


def build(stack: Stack) -> None:
    """Build the chain from where the stack starts."""
    if stack.kubernetes:
        base = existing_cluster(stack.kubernetes)
    elif stack.cluster:
        base = talos_cluster(stack, stack.cluster)
    else:
        raise pulumi.RunError("The stack has neither cluster nor kubernetes: nothing to stand on.")
    operator_to_pod(stack, base)
    pulumi.export("kubeconfig", base.access.kubeconfig)
    pulumi.export("gpus", cards(stack))


build(configuration())
