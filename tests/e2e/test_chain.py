"""The document's system, from an empty rack to nothing left, through the real engine.

The tests tell one story and run in this order; each asks rack, cluster or state.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.site import Site

pytestmark = [pytest.mark.e2e]

LAYERS = (
    "gpu-passthrough:index:ProxmoxGpuVm",
    "gpu-passthrough:index:TalosNvidiaNode",
    "gpu-passthrough:index:GpuOperatorRelease",
    "gpu-passthrough:index:NvidiaRuntimeClass",
    "gpu-passthrough:index:GpuApp",
)
IMMICH = "-n immich exec deploy/immich-machine-learning --"
LONGEST_UP = 60
"""Seconds that `pulumi up` may take with the programs at hand."""
LONGEST_VERIFY = 20
"""Seconds that `verify` may take."""


def previewed(site: Site, *flags: str) -> dict[str, int]:
    """How many resources each kind of operation would touch."""
    done = site.pulumi(f"preview --json {' '.join(flags)}")
    assert done.code == 0, done.text
    return {k: v for k, v in json.loads(done.out)["changeSummary"].items() if v}


def until(site: Site, what: str, path: str, wanted: str, seconds: int = 40) -> None:
    """Wait until a field of an object has a value."""
    done = site.kubectl(f"wait {what} --for=jsonpath='{path}'={wanted} --timeout={seconds}s")
    assert done.code == 0, done.text + site.kubectl(f"describe {what}").out


def test_a_first_preview_on_an_empty_rack_shows_the_whole_chain(site: Site) -> None:
    done = site.pulumi("preview --json")
    assert done.code == 0, done.text
    steps = json.loads(done.out)["steps"]
    types = {step["newState"]["type"] for step in steps}
    assert set(LAYERS) <= types
    assert {step["op"] for step in steps} == {"create"}
    assert site.proxmox("/nodes/pve/qemu") == []
    assert site.resources() == []


def test_a_wrong_configuration_is_one_error_and_leaves_nothing(site: Site) -> None:
    right = site.document()
    site.write_stack(right.replace("memoryMib: 8192", "memmoryMib: 8192"))
    try:
        done = site.pulumi("up --yes --skip-preview")
    finally:
        site.write_stack(right)
    assert done.code != 0
    assert "memmoryMib" in done.text
    assert "memoryMib" in done.text.replace("memmoryMib", "")
    assert "Traceback" not in done.text
    assert site.resources() == []
    assert site.proxmox("/nodes/pve/qemu") == []


def test_up_ends_with_the_app_running_on_a_gpu_node(site: Site) -> None:
    started = time.monotonic()
    done = site.pulumi("up --yes --skip-preview")
    took = time.monotonic() - started
    assert done.code == 0, done.text
    pods = site.get("pods -n immich")["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    assert pods[0]["spec"]["nodeName"] in ("k8s-worker-1", "k8s-worker-2")
    assert took < LONGEST_UP, f"up took {took:.0f} s"


def test_the_state_holds_every_layer_and_no_plain_secret(site: Site) -> None:
    types = [one["type"] for one in site.resources()]
    assert [layer for layer in LAYERS if layer not in types] == []
    exported = site.pulumi("stack export").out
    kubeconfig = site.pulumi("stack output kubeconfig --show-secrets").out
    key = kubeconfig.partition("client-key-data: ")[2].split()[0]
    assert len(key) > 100
    assert key not in exported
    assert "PRIVATE KEY" not in exported


def secrets_in(value: Any) -> Iterator[str]:
    """Every secret text of an exported state that is long enough to be one."""
    if isinstance(value, list):
        for one in value:
            yield from secrets_in(one)
    elif isinstance(value, dict) and "plaintext" in value:
        yield from texts_in(json.loads(value["plaintext"]))
    elif isinstance(value, dict):
        for one in value.values():
            yield from secrets_in(one)


def texts_in(value: Any) -> Iterator[str]:
    """The texts in a secret value; of a whole document, its long words."""
    if isinstance(value, str):
        yield from filter(is_key, value.split())
    elif isinstance(value, list):
        for one in value:
            yield from texts_in(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts_in(one)


def is_key(word: str) -> bool:
    """Whether a word of a secret is one itself: certificates and names beside it are public."""
    if not re.fullmatch(r"[A-Za-z0-9+/=]{40,}", word):
        return False
    try:
        return b"CERTIFICATE" not in base64.b64decode(word)
    except ValueError:
        return False


def test_no_secret_is_in_plain_form_anywhere(site: Site) -> None:
    plain = json.loads(site.pulumi("stack export --show-secrets").out)
    secrets = set(secrets_in(plain))
    assert len(secrets) > 8
    shown = {
        "state": site.pulumi("stack export").out,
        "preview": site.pulumi("preview --diff").text,
        "preview as JSON": site.pulumi("preview --json").text,
        "outputs": site.pulumi("stack output --json").text,
        "overview": site.shell("python -m gpu_passthrough overview").text,
        "log of the rack": (site.folder / "rack" / "daemon.log").read_text(),
        "processes": site.shell("ps -A -ww -o command").out,
    }
    for place, text in shown.items():
        found = [one for one in secrets if one in text]
        assert found == [], f"{place}: {len(found)} secrets"


def test_gpus_per_node_as_the_document_asks(site: Site) -> None:
    done = site.shell(
        "kubectl get nodes -o custom-columns=\\\n"
        r"'NAME:.metadata.name,GPU:.status.allocatable.nvidia\.com/gpu'"
    )
    rows = [line.split() for line in done.out.splitlines()]
    assert rows == [
        ["NAME", "GPU"],
        ["k8s-cp-1", "<none>"],
        ["k8s-worker-1", "1"],
        ["k8s-worker-2", "1"],
    ]


def test_labels_of_the_first_worker_as_the_document_asks(site: Site) -> None:
    done = site.shell(
        "kubectl get node k8s-worker-1 -o json | \\\n"
        "  jq '.metadata.labels | with_entries(select(.key | startswith(\"nvidia\")))'"
    )
    labels = json.loads(done.out)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-GeForce-RTX-3090"
    assert labels["nvidia.com/gpu.memory"] == "24576"
    assert labels["nvidia.com/gpu.compute.major"] == "8"
    assert labels["nvidia.com/gpu.family"] == "ampere"


def test_the_second_worker_has_the_other_card(site: Site) -> None:
    labels = site.get("node k8s-worker-2")["metadata"]["labels"]
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-GeForce-RTX-4070-Ti-SUPER"
    assert labels["nvidia.com/gpu.memory"] == "16376"
    assert labels["nvidia.com/gpu.compute.minor"] == "9"


def test_nvidia_smi_in_the_pod_shows_card_and_driver(site: Site) -> None:
    node = site.get("pods -n immich")["items"][0]["spec"]["nodeName"]
    card = {"k8s-worker-1": "NVIDIA GeForce RTX 3090", "k8s-worker-2": "RTX 4070 Ti SUPER"}[node]
    table = site.kubectl(f"{IMMICH} nvidia-smi")
    assert table.code == 0, table.text
    assert "580.178.04" in table.out
    listed = site.kubectl(f"{IMMICH} nvidia-smi -L")
    assert card in listed.out


def test_the_onnx_providers_are_the_documents(site: Site) -> None:
    done = site.shell(
        f"kubectl {IMMICH} \\\n  python3 -c "
        '"import onnxruntime as ort; print(ort.get_available_providers())"'
    )
    assert done.out.strip() == (
        "['TensorrtExecutionProvider', 'CUDAExecutionProvider', 'CPUExecutionProvider']"
    ), done.text


def test_the_documents_sixth_command_says_missing_and_the_corrected_one_proves(
    site: Site,
) -> None:
    printed = site.shell(
        f"kubectl {IMMICH} \\\n  ls /usr/local/nvidia/lib64/libcuda.so* 2>/dev/null "
        '&& echo "injected" || echo "missing"'
    )
    assert printed.out.strip() == "missing"
    proof = site.shell(
        f"kubectl {IMMICH} python3 -c "
        "'import ctypes; print(ctypes.CDLL(\"libcuda.so.1\").cuInit(0))'"
    )
    assert proof.out.strip() == "0", proof.text
    cache = site.kubectl(f"{IMMICH} sh -c 'ldconfig -p | grep libcuda.so.1'")
    assert "libcuda.so.1" in cache.out, cache.text


def pod(name: str, selector: str = "{}") -> str:
    """A command that makes a pod which claims one GPU."""
    spec = (
        f'{{"spec":{{"runtimeClassName":"nvidia","nodeSelector":{selector},'
        f'"containers":[{{"name":"{name}","image":"nvidia/cuda:12.9.1-base-ubuntu24.04",'
        f'"command":["sleep","infinity"],"resources":{{"limits":{{"nvidia.com/gpu":"1"}}}}}}]}}}}'
    )
    return f"run {name} --image=nvidia/cuda:12.9.1-base-ubuntu24.04 --overrides='{spec}'"


@pytest.fixture
def pods(site: Site) -> Iterator[None]:
    """Pods that a test makes in the default namespace are gone afterwards."""
    yield
    site.kubectl("delete pods --all --wait --timeout=30s")


@pytest.mark.usefixtures("pods")
def test_a_second_pod_gets_the_other_card_and_a_third_stays_pending(site: Site) -> None:
    assert site.kubectl(pod("second")).code == 0
    until(site, "pod/second", "{.status.phase}", "Running")
    holder = site.get("pods -n immich")["items"][0]["spec"]["nodeName"]
    assert {site.get("pod second")["spec"]["nodeName"], holder} == {
        "k8s-worker-1",
        "k8s-worker-2",
    }
    assert site.kubectl(pod("third")).code == 0
    until(site, "pod/third", "{.status.conditions[0].reason}", "Unschedulable")
    third = site.get("pod third")
    assert third["status"]["phase"] == "Pending"
    assert "Insufficient nvidia.com/gpu" in third["status"]["conditions"][0]["message"]


@pytest.mark.usefixtures("pods")
def test_a_pod_pinned_by_product_lands_on_that_card(site: Site) -> None:
    holder = site.get("pods -n immich")["items"][0]["spec"]["nodeName"]
    free = next(name for name in ("k8s-worker-1", "k8s-worker-2") if name != holder)
    product = site.get(f"node {free}")["metadata"]["labels"]["nvidia.com/gpu.product"]
    assert site.kubectl(pod("pinned", f'{{"nvidia.com/gpu.product":"{product}"}}')).code == 0
    until(site, "pod/pinned", "{.status.phase}", "Running")
    assert site.get("pod pinned")["spec"]["nodeName"] == free
    assert product.split("-")[-1] in site.kubectl("exec pinned -- nvidia-smi -L").out


@pytest.mark.usefixtures("pods")
def test_a_pod_without_a_claim_sees_no_gpu(site: Site) -> None:
    made = site.kubectl("run none --image=busybox:1.37 --command -- sleep infinity")
    assert made.code == 0, made.text
    until(site, "pod/none", "{.status.phase}", "Running")
    done = site.kubectl("exec none -- sh -c 'ls /dev/nvidia*'")
    assert done.code != 0
    assert "/dev/nvidia0" not in done.out


@pytest.mark.parametrize("flags", [(), ("--refresh",)], ids=["plain", "refresh"])
def test_a_preview_right_after_shows_no_change(site: Site, flags: tuple[str, ...]) -> None:
    assert set(previewed(site, *flags)) == {"same"}


def test_preflight_agrees_with_the_running_stack(site: Site) -> None:
    done = site.shell("python -m gpu_passthrough preflight --json Pulumi.dev.yaml")
    assert done.code == 0, done.text
    assert json.loads(done.out)["counts"].keys() == {"passed", "could-not-tell"}


def test_verify_proves_the_whole_chain(site: Site) -> None:
    started = time.monotonic()
    done = site.shell("python -m gpu_passthrough verify --json Pulumi.dev.yaml")
    took = time.monotonic() - started
    assert done.code == 0, done.text
    found = json.loads(done.out)
    assert found["counts"].keys() == {"passed"}, done.out
    computing = {one["subject"] for one in found["findings"] if one["id"] == "compute-class"}
    assert computing == {"k8s-worker-1", "k8s-worker-2"}
    assert took < LONGEST_VERIFY
    left = site.get("pods -A -l app.kubernetes.io/name=gpu-verify")["items"]
    assert left == []


PLUGIN = "patch clusterpolicy cluster-policy --type merge -p"


def test_an_up_with_proof_fails_where_a_gpu_cannot_be_used(site: Site) -> None:
    site.write_stack(site.document() + '  gpu-passthrough:proof: "true"\n')
    try:
        good = site.pulumi("up --yes --skip-preview")
        assert good.code == 0, good.text
        assert "checks passed" in good.text
        off = '\'{"spec":{"devicePlugin":{"enabled":false}}}\''
        assert site.kubectl(f"{PLUGIN} {off}").code == 0
        bad = site.pulumi("up --yes --skip-preview")
        preview = site.pulumi("preview")
    finally:
        site.kubectl(f"{PLUGIN} {off.replace('false', 'true')}")
        site.write_stack(site.document())
    assert bad.code != 0
    assert "The proof failed" in bad.text
    assert "Broken layer: operator" in bad.text
    assert "devicePlugin.enabled: false" in bad.text
    assert "Traceback" not in bad.text
    assert preview.code == 0, preview.text
    for node in ("k8s-worker-1", "k8s-worker-2"):
        until(site, f"node {node}", r"{.status.allocatable.nvidia\.com/gpu}", "1")


def test_preflight_refuses_a_full_storage(site: Site, fault: Callable[..., None]) -> None:
    fault("storage-full", "pve", "local-lvm")
    done = site.shell("python -m gpu_passthrough preflight dev --brief")
    assert done.code == 1, done.text
    assert "0 MiB are free" in done.out


def test_verify_names_the_runtime_class_that_is_gone(site: Site) -> None:
    """The other layers are in docs/diagnosis.md; this one comes back by itself."""
    assert site.kubectl("delete runtimeclass nvidia").code == 0
    done = site.shell("python -m gpu_passthrough verify Pulumi.dev.yaml --no-host")
    assert (done.code, "Broken layer: runtime-class" in done.out) == (1, True), done.text
    assert site.kubectl("-n gpu-operator rollout restart deployment gpu-operator").code == 0
    wait = "until kubectl get runtimeclass nvidia; do sleep 0.3; done"
    assert site.shell(f"timeout 40 bash -c '{wait}'").code == 0


def test_the_rack_is_light(site: Site) -> None:
    status = json.loads(site.rack("status --json").out)
    assert status["resident_mib"] < 1536


def test_destroy_leaves_nothing(site: Site) -> None:
    done = site.pulumi("destroy --yes --skip-preview")
    assert done.code == 0, done.text
    assert site.resources() == []
    assert site.proxmox("/nodes/pve/qemu") == []
    assert site.proxmox("/cluster/mapping/pci") == []
    for storage in ("local", "local-lvm"):
        assert site.proxmox(f"/nodes/pve/storage/{storage}/content") == []


def test_a_second_up_gives_the_same(site: Site) -> None:
    done = site.pulumi("up --yes --skip-preview")
    assert done.code == 0, done.text
    pods = site.get("pods -n immich")["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Running"]
    assert set(previewed(site)) == {"same"}
    assert site.pulumi("destroy --yes --skip-preview").code == 0
    assert site.resources() == []
