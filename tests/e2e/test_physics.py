"""Rows of docs/physics.md on the real engine and the real API server, each with its neighbour.

One story on one rack: an `up` that the host refuses in several ways and that converges after each
repair; then what Kubernetes says of things that are set wrong.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from rack.cluster.api import ApiError
from tests.e2e.cluster import (
    COLLECTIONS,
    IMMICH_IMAGE,
    NAMESPACE,
    OPERATOR,
    POLICY,
    PRODUCT,
    WORKERS,
    Cluster,
    Object,
    claim,
    deployment,
    pod,
    runtime_class,
    until,
)
from tests.e2e.site import Done, Site, running_site

pytestmark = pytest.mark.e2e

UP = "up --yes --skip-preview"
CARD = {"node": "pve", "path": "0000:01:00", "id": "10de:2204", "subsystem-id": "10de:1467"}
MAPPING = ",".join(f"{key}={value}" for key, value in {**CARD, "iommugroup": 14}.items())
MAPPINGS = "/cluster/mapping/pci"
VMS = "/nodes/pve/qemu"
WORKER_VM = 111
FOREIGN_VM = 900
HOSTNAME = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def site(programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site of this story alone."""
    with running_site(tmp_path_factory.mktemp("physics")) as made:
        yield made


def vms(site: Site) -> dict[int, str]:
    """What every VM does."""
    return {one["vmid"]: one["status"] for one in site.proxmox(VMS)}


def finish(site: Site, task: str) -> None:
    """Wait until a task of the host has ended."""
    path = f"/nodes/pve/tasks/{task}/status"
    until(f"end of {task}", lambda: site.proxmox(path)["status"] == "stopped")


class Breakage:
    """Something that is wrong while a test runs, and is put right after it."""

    def begin(self, site: Site) -> None:
        """Break it."""

    def end(self, site: Site) -> None:
        """Mend it."""


class HeldCard(Breakage):
    """The card is mapped a second time, and a running VM has it by that mapping."""

    def begin(self, site: Site) -> None:
        site.proxmox(MAPPINGS, "POST", id="desktop", map=MAPPING)
        device = "mapping=desktop,pcie=1"
        made = site.proxmox(VMS, "POST", vmid=FOREIGN_VM, machine="q35", hostpci0=device)
        finish(site, made)
        finish(site, site.proxmox(f"{VMS}/{FOREIGN_VM}/status/start", "POST"))
        assert vms(site)[FOREIGN_VM] == "running"

    def end(self, site: Site) -> None:
        finish(site, site.proxmox(f"{VMS}/{FOREIGN_VM}/status/stop", "POST"))
        finish(site, site.proxmox(f"{VMS}/{FOREIGN_VM}", "DELETE"))
        site.proxmox(f"{MAPPINGS}/desktop", "DELETE")


class WrongGroup(Breakage):
    """The stack file says another IOMMU group than the card's."""

    def begin(self, site: Site) -> None:
        site.write_stack(site.document().replace("iommuGroup: 14", "iommuGroup: 16"))

    def end(self, site: Site) -> None:
        site.write_stack(site.document())


class LostMapping(Breakage):
    """Somebody has removed the card's mapping."""

    def begin(self, site: Site) -> None:
        site.proxmox(f"{MAPPINGS}/k8s-worker-1-gpu0", "DELETE")

    def end(self, site: Site) -> None:
        site.proxmox(MAPPINGS, "POST", id="k8s-worker-1-gpu0", map=MAPPING, description="RTX 3090")


class NoIommu(Breakage):
    """The firmware has the IOMMU switched off since the host's last boot."""

    def begin(self, site: Site) -> None:
        site.fault("iommu-off", "pve")
        assert site.rack("power-cycle pve").code == 0

    def end(self, site: Site) -> None:
        site.mend()
        assert site.rack("power-cycle pve").code == 0


@pytest.mark.parametrize(
    ("wrong", "says", "may_run"),
    [
        (HeldCard(), "PCI device '0000:01:00.0' already in use by VMID '900'", {101, 112, 900}),
        (LostMapping(), "PCI device mapping not found for 'k8s-worker-1-gpu0'", {101, 112}),
        (
            WrongGroup(),
            "'iommugroup' does not match for 'k8s-worker-1-gpu0' (14 != 16)",
            {101, 112},
        ),
        (NoIommu(), "unexpected property 'iommugroup' configured for device", {101}),
    ],
    ids=["held", "mapping", "group", "iommu"],
)
def test_an_up_stops_at_the_vms_start_and_the_vm_is_there(
    site: Site, wrong: Breakage, says: str, may_run: set[int]
) -> None:
    wrong.begin(site)
    try:
        done = site.pulumi(UP)
        found = vms(site)
    finally:
        wrong.end(site)
    assert done.code != 0
    layer = done.text.partition("proxmoxve:index:VmLegacy (k8s-worker-1-vm):")[2]
    assert says in layer.partition("\n\n")[0], done.text
    assert found[WORKER_VM] == "stopped"
    assert {vm for vm, status in found.items() if status == "running"} <= may_run
    assert "kubernetes:helm.sh/v3:Release" not in {one["type"] for one in site.resources()}


RAW = """
import pulumi
import pulumi_proxmoxve as proxmoxve

card = proxmoxve.VmLegacyHostpciArgs(device="hostpci0", pcie=True, {device})
provider = proxmoxve.Provider("proxmox", endpoint="{endpoint}", insecure=True)
proxmoxve.VmLegacy(
    "vm", node_name="pve", vm_id=901, machine="q35", started=False, hostpcis=[card],
    opts=pulumi.ResourceOptions(provider=provider),
)
"""


def test_a_raw_address_is_refused_to_a_token_and_a_mapping_is_not(site: Site) -> None:
    folder = site.folder / "raw"
    folder.mkdir()
    (folder / "Pulumi.yaml").write_text((site.folder / "Pulumi.yaml").read_text())
    endpoint = f"https://127.0.0.1:{8006 + site.shift}"
    program = folder / "__main__.py"
    site.shell("pulumi --non-interactive -C raw stack init raw")

    def up(device: str) -> Done:
        program.write_text(RAW.format(device=device, endpoint=endpoint))
        return site.shell(f"pulumi --non-interactive -C raw {UP}")

    refused = up('id="0000:01:00"')
    assert refused.code != 0
    assert "only root can set 'hostpci0' config for non-mapped devices" in refused.text
    taken = up('mapping="k8s-worker-1-gpu0"')
    assert taken.code == 0, taken.text
    gone = site.shell("pulumi --non-interactive -C raw destroy --yes --skip-preview")
    assert gone.code == 0, gone.text


@pytest.fixture(scope="module")
def repaired(site: Site) -> Done:
    """The next `up` after all that."""
    return site.pulumi(UP)


def test_after_the_repairs_the_next_up_converges(site: Site, repaired: Done) -> None:
    assert repaired.code == 0, repaired.text
    assert vms(site) == {101: "running", 111: "running", 112: "running"}
    done = site.pulumi("preview --refresh --json")
    changes = {kind for kind, count in json.loads(done.out)["changeSummary"].items() if count}
    assert changes == {"same"}, done.out


@pytest.fixture(scope="module")
def healthy(site: Site, repaired: Done) -> Cluster:
    """The cluster of that `up`; the stack's own app leaves its card to the tests."""
    assert repaired.code == 0, repaired.text
    cluster = Cluster(site.folder / "rack" / "kubeconfig")
    app = "/apis/apps/v1/namespaces/immich/deployments/immich-machine-learning"
    cluster.api.merge(app, {"spec": {"replicas": 0}})
    cluster.make({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}})
    folder = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    until("default service account", lambda: cluster.api.list(folder))
    until("end of the app", lambda: not cluster.api.list("/api/v1/namespaces/immich/pods"))
    return cluster


@pytest.fixture
def cluster(healthy: Cluster) -> Iterator[Cluster]:
    """The same with both cards free, before a test and after it."""
    until("ready operator", healthy.is_ready)
    yield healthy
    healthy.clear()


def test_replicas_above_the_cards_stay_pending(cluster: Cluster) -> None:
    cluster.make(deployment("many", replicas=2))
    until("two pods on two cards", lambda: cluster.is_rolled_out("many"))
    cluster.api.merge(f"{COLLECTIONS['Deployment']}/many", {"spec": {"replicas": 3}})
    third = until(
        "third pod",
        lambda: [one for one in cluster.pods("many") if not one["spec"].get("nodeName")],
    )[0]["metadata"]["name"]
    cluster.said(third, "FailedScheduling", "2 Insufficient nvidia.com/gpu")
    assert cluster.phase(third) == "Pending"
    nodes = sorted(one["spec"].get("nodeName", "") for one in cluster.pods("many"))
    assert nodes == ["", *WORKERS]


@pytest.fixture
def kata(cluster: Cluster) -> Iterator[None]:
    """A RuntimeClass whose handler is in no containerd of the cluster."""
    cluster.make(runtime_class("kata", "kata"))
    yield
    cluster.api.delete(f"{COLLECTIONS['RuntimeClass']}/kata")


@dataclass(frozen=True)
class Wrong:
    """How a pod is set wrong and what the cluster says, beside a pod that is set right."""

    wrong: dict[str, Any]
    right: dict[str, Any]
    reason: str
    says: str
    on: str = ""
    """Where the right one has to land."""


WRONG = {
    "product": Wrong(
        wrong={"on": {PRODUCT: "NVIDIA-GeForce-RTX-4090"}},
        right={"on": {PRODUCT: "NVIDIA-GeForce-RTX-3090"}},
        reason="FailedScheduling",
        says="2 node(s) didn't match Pod's node affinity/selector",
        on="k8s-worker-1",
    ),
    "handler": Wrong(
        wrong={"runtime": "kata"},
        right={"runtime": "nvidia"},
        reason="FailedCreatePodSandBox",
        says='no runtime for "kata" is configured',
    ),
}


@pytest.mark.usefixtures("kata")
@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_a_pod_that_nothing_places_or_starts_waits(cluster: Cluster, case: Wrong) -> None:
    cluster.make(pod("wrong", **case.wrong))
    cluster.said("wrong", case.reason, case.says)
    cluster.make(pod("right", **case.right))
    node = cluster.runs("right")
    assert case.on in ("", node)
    assert cluster.phase("wrong") == "Pending"


NO_CLASS = "no persistent volumes available for this claim and no storage class is set"


@pytest.mark.parametrize(
    ("storage_class", "reason", "says"),
    [
        ("longhorn", "ProvisioningFailed", 'storageclass.storage.k8s.io "longhorn" not found'),
        (None, "FailedBinding", NO_CLASS),
    ],
    ids=["unknown", "none"],
)
def test_a_claim_that_nobody_provisions_keeps_its_pod_pending(
    cluster: Cluster, storage_class: str | None, reason: str, says: str
) -> None:
    cluster.make(claim("wrong", storage_class), pod("wrong", claim="wrong", gpus=0))
    cluster.make(claim("right", "rack-block"), pod("right", claim="right", gpus=0))
    cluster.said("wrong", reason, says)
    cluster.said("wrong", "FailedScheduling", "pod has unbound immediate PersistentVolumeClaims")
    cluster.runs("right")
    assert cluster.named("PersistentVolumeClaim", "right")["status"]["phase"] == "Bound"
    assert cluster.named("PersistentVolumeClaim", "wrong")["status"]["phase"] == "Pending"
    assert cluster.phase("wrong") == "Pending"


def test_a_runtime_class_that_is_absent_rejects_the_pod(cluster: Cluster) -> None:
    says = 'pod rejected: RuntimeClass "absent" not found'
    assert says in cluster.refused(pod("absent", runtime="absent"))
    cluster.make(deployment("app", runtime="absent"))
    assert says in cluster.condition("app", "ReplicaFailure", "FailedCreate")
    assert cluster.pods("app") == []
    cluster.make(runtime_class("absent", "nvidia"))
    try:
        until("pod of the class", lambda: cluster.is_rolled_out("app"))
    finally:
        cluster.api.delete(f"{COLLECTIONS['RuntimeClass']}/absent")


def test_a_deleted_runtime_class_is_made_again_by_the_operator(cluster: Cluster) -> None:
    nvidia = f"{COLLECTIONS['RuntimeClass']}/nvidia"
    cluster.make(pod("before"))
    cluster.runs("before")
    cluster.api.delete(nvidia)
    says = 'RuntimeClass "nvidia" not found'
    until("refusal", lambda: says in cluster.refused(pod("between")))
    # The operator watches no RuntimeClass; a change of one of its daemon sets wakes it.
    cluster.api.delete(cluster.operand_pod("nvidia-dcgm-exporter"))
    made = until("RuntimeClass", lambda: cluster.api.get(nvidia))
    assert made["handler"] == "nvidia"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "ClusterPolicy"
    cluster.make(pod("after"))
    cluster.runs("after")
    assert cluster.phase("before") == "Running"


def restart(cluster: Cluster, name: str, **changes: Any) -> None:
    """Change the template of a Deployment, as `kubectl rollout restart` does."""
    template = {"metadata": {"annotations": {"restarted": str(changes)}}}
    path = f"{COLLECTIONS['Deployment']}/{name}"
    cluster.api.merge(path, {"spec": {"template": template, **changes}})


def test_a_rolling_update_with_a_volume_of_one_node_hangs(cluster: Cluster) -> None:
    cluster.make(claim("cache", "rack-block"), deployment("app", claim="cache"))
    until("first pod", lambda: cluster.is_rolled_out("app"))
    old = cluster.pods("app")[0]["metadata"]["name"]
    restart(cluster, "app")
    says = cluster.condition("app", "Progressing", "ProgressDeadlineExceeded")
    assert "has timed out progressing" in says
    new = next(one for one in cluster.pods("app") if one["metadata"]["name"] != old)
    multi_attach = "Multi-Attach error for volume"
    message = cluster.said(new["metadata"]["name"], "FailedAttachVolume", multi_attach)
    assert f"Volume is already used by pod(s) {old}" in message
    waiting = new["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ContainerCreating"
    assert cluster.phase(old) == "Running"
    restart(cluster, "app", strategy={"type": "Recreate", "rollingUpdate": None})
    until("pod of the new template", lambda: cluster.is_rolled_out("app"))


def test_on_one_node_the_same_update_rolls(cluster: Cluster) -> None:
    here = {HOSTNAME: WORKERS[0]}
    cluster.make(claim("cache", "rack-block"), deployment("app", claim="cache", gpus=0, on=here))
    until("first pod", lambda: cluster.is_rolled_out("app"))
    old = cluster.pods("app")[0]["metadata"]["name"]
    restart(cluster, "app")
    until("pod of the new template", lambda: cluster.is_rolled_out("app"))
    assert cluster.pods("app")[0]["metadata"]["name"] != old


def privileged() -> Object:
    """A pod that may do everything on its node."""
    found = pod("tool", gpus=0, runtime=None)
    found["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return found


NOT_PRIVILEGED = 'violates PodSecurity "baseline:latest"'


@pytest.mark.parametrize("namespace", [NAMESPACE, "kube-system", OPERATOR])
def test_pod_security_is_baseline_where_nobody_says_otherwise(
    cluster: Cluster, namespace: str
) -> None:
    message = cluster.refused(privileged(), namespace)
    assert (NOT_PRIVILEGED if namespace == NAMESPACE else "") in message
    assert bool(message) == (namespace == NAMESPACE)


def test_operands_need_a_privileged_namespace(cluster: Cluster) -> None:
    namespace = f"/api/v1/namespaces/{OPERATOR}"
    key = "pod-security.kubernetes.io/enforce"
    cluster.api.merge(namespace, {"metadata": {"labels": {key: None}}})
    try:
        until("refusal", lambda: cluster.refused(privileged(), OPERATOR))
        cluster.api.delete(cluster.operand_pod("nvidia-dcgm-exporter"))
        message = cluster.said("nvidia-dcgm-exporter", "FailedCreate", NOT_PRIVILEGED, OPERATOR)
        until("operator that is not ready", lambda: not cluster.is_ready())
    finally:
        cluster.api.merge(namespace, {"metadata": {"labels": {key: "privileged"}}})
    assert "hostPath volumes" in message
    until(
        "operand", lambda: cluster.daemon_set("nvidia-dcgm-exporter")["status"]["numberReady"] == 2
    )


def test_operands_go_where_they_tolerate_the_taint(cluster: Cluster) -> None:
    node = f"/api/v1/nodes/{WORKERS[1]}"
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoExecute"}
    before = cluster.get(POLICY)["spec"]["daemonsets"]["tolerations"]
    plugin = "nvidia-device-plugin-daemonset"

    def wanted(count: int) -> bool:
        return bool(cluster.daemon_set(plugin)["status"]["desiredNumberScheduled"] == count)

    def tolerate(*more: Object) -> None:
        change = {"daemonsets": {"tolerations": [*before, *more]}}
        cluster.api.merge(POLICY, {"spec": change})

    cluster.api.merge(node, {"spec": {"taints": [taint]}})
    try:
        until("daemon set without the node", lambda: wanted(1))
        until("node without a card", lambda: cluster.gpus(WORKERS[1]) == "0")
        assert cluster.gpus(WORKERS[0]) == "1"
        everywhere = [{"operator": "Exists"}]
        cluster.make(pod("app", on={HOSTNAME: WORKERS[1]}, tolerations=everywhere))
        cluster.said("app", "FailedScheduling", "Insufficient nvidia.com/gpu")
        until("operator content", lambda: cluster.get(POLICY)["status"]["state"] == "ready")
        tolerate({"key": "dedicated", "operator": "Exists"})
        until("daemon set with the node", lambda: wanted(2))
        assert cluster.runs("app") == WORKERS[1]
    finally:
        cluster.api.merge(node, {"spec": {"taints": None}})
        tolerate()


SESSION = (
    "import onnxruntime as ort; "
    "names = ['CUDAExecutionProvider', 'CPUExecutionProvider']; "
    "print(ort.InferenceSession(b'\\x08\\x07', providers=names).get_providers())"
)


FAILURE_35 = "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version"
NO_PROGRAM = 'exec: "nvidia-smi": executable file not found in $PATH'


def inside(site: Site, name: str, *command: str) -> Done:
    """Run a program in a pod."""
    return site.run("kubectl", "-n", NAMESPACE, "exec", name, "--", *command)


@pytest.mark.parametrize(
    ("runtime", "providers", "error", "lists"),
    [
        (None, "['CPUExecutionProvider']", FAILURE_35, NO_PROGRAM),
        ("nvidia", "['CUDAExecutionProvider', 'CPUExecutionProvider']", "", "GPU 0: NVIDIA "),
    ],
    ids=["without", "with"],
)
def test_an_app_without_a_runtime_class_falls_back_to_the_cpu(
    site: Site, cluster: Cluster, runtime: str | None, providers: str, error: str, lists: str
) -> None:
    cluster.make(pod("app", runtime=runtime, image=IMMICH_IMAGE))
    cluster.runs("app")
    done = inside(site, "app", "python3", "-c", SESSION)
    assert done.out.splitlines()[-1] == providers, done.text
    assert (error in done.text, "CUDA failure" in done.text) == (True, bool(error))
    assert lists in inside(site, "app", "nvidia-smi", "-L").text
    assert cluster.phase("app") == "Running"


def test_an_app_without_a_limit_uses_a_card_that_another_claims(
    site: Site, cluster: Cluster
) -> None:
    here = {HOSTNAME: WORKERS[0]}
    cluster.make(pod("claims", on=here), pod("takes", on=here, gpus=0))
    cluster.make(pod("neither", on=here, gpus=0, runtime=None))
    seen = {}
    for name in ("claims", "takes", "neither"):
        cluster.runs(name)
        seen[name] = inside(site, name, "nvidia-smi", "-L")
    assert seen["claims"].out.startswith("GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-")
    assert seen["takes"].out == seen["claims"].out
    assert NO_PROGRAM in seen["neither"].err


CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusterpolicies.nvidia.com"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
ROOT = "DRIVER_INSTALL_DIR"


def older(crd: Object, spec: Object) -> Object:
    """The CRD as if it came before `hostPaths`: every other part of a specification is known."""
    found = copy.deepcopy(crd)
    parts = {name: ANYTHING for name in spec if name != "hostPaths"}
    schema = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "properties": parts}
    return found


def driver_root(cluster: Cluster) -> str:
    """Where the validator looks for a driver that the host has not of its own."""
    template = cluster.daemon_set("nvidia-operator-validator")["spec"]["template"]
    env = template["spec"]["initContainers"][0]["env"]
    return next(str(one["value"]) for one in env if one["name"] == ROOT)


def changed(site: Site, value: str) -> Done:
    """An `up` with another value in the ClusterPolicy; the chart's upgrade leaves CRDs alone."""
    env = f"[{{name: ROUND, value: {value}}}]"
    values = f"{{operator: {{upgradeCRD: false}}, dcgmExporter: {{env: {env}}}}}"
    text = site.document()
    site.write_stack(text.replace("gpuOperator:\n", f"gpuOperator:\n    values: {values}\n"))
    return site.pulumi(UP)


@pytest.fixture
def policy(cluster: Cluster) -> Iterator[Object]:
    """The ClusterPolicy; its CRD is as it was when the test ends."""
    versions = cluster.get(CRD)["spec"]["versions"]
    yield cluster.get(POLICY)
    cluster.api.merge(CRD, {"spec": {"versions": versions}})


def replace_policy(cluster: Cluster, policy: Object, query: str) -> str:
    """Write the whole ClusterPolicy as somebody wrote it; the API server's words of refusal."""
    version = cluster.get(POLICY)["metadata"]["resourceVersion"]
    body = {**policy, "metadata": {**policy["metadata"], "resourceVersion": version}}
    try:
        cluster.api.replace(f"{POLICY}?dryRun=All&{query}", body)
    except ApiError as refusal:
        return refusal.message
    return ""


def test_a_crd_that_knows_fewer_values_refuses_the_policy(cluster: Cluster, policy: Object) -> None:
    sets = {**policy["spec"]["daemonsets"], "updateStrategy": "OnDelete"}
    wanted = {**policy, "spec": {**policy["spec"], "daemonsets": sets}}
    assert replace_policy(cluster, wanted, "fieldValidation=Warn") == ""
    crd = older(cluster.get(CRD), policy["spec"])
    parts = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    known = {"updateStrategy": {"type": "string", "enum": ["RollingUpdate"]}}
    parts["properties"]["daemonsets"] = {**ANYTHING, "properties": known}
    parts["properties"]["hostPaths"] = ANYTHING
    cluster.api.replace(CRD, crd)
    says = 'spec.daemonsets.updateStrategy: Unsupported value: "OnDelete"'
    until("refusal", lambda: says in replace_policy(cluster, wanted, "fieldValidation=Warn"))
    assert replace_policy(cluster, policy, "fieldValidation=Warn") == ""


def test_a_crd_that_is_older_than_the_chart_drops_what_it_does_not_know(
    site: Site, cluster: Cluster, policy: Object
) -> None:
    crd = cluster.get(CRD)
    assert driver_root(cluster) == policy["spec"]["hostPaths"]["driverInstallDir"] == "/usr/local"
    assert replace_policy(cluster, policy, "fieldValidation=Strict") == ""
    cluster.api.replace(CRD, older(crd, policy["spec"]))
    until("older CRD", lambda: "hostPaths" not in cluster.get(POLICY)["spec"])
    says = 'strict decoding error: unknown field "spec.hostPaths"'
    assert says in replace_policy(cluster, policy, "fieldValidation=Strict")
    done = changed(site, "first")
    assert done.code == 0, done.text
    assert "hostPaths" not in cluster.get(POLICY)["spec"]
    until("operator's own folder", lambda: driver_root(cluster) == "/run/nvidia/driver")
    cluster.api.merge(CRD, {"spec": {"versions": crd["spec"]["versions"]}})
    # Helm sends what differs between two manifests of its own: what was dropped stays away.
    done = changed(site, "second")
    assert done.code == 0, done.text
    assert "hostPaths" not in cluster.get(POLICY)["spec"]
    cluster.api.merge(POLICY, {"spec": {"hostPaths": policy["spec"]["hostPaths"]}})
    until("folder of the chart", lambda: driver_root(cluster) == "/usr/local")
