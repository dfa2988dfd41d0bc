"""Proof by computing: on every card, in both ways to ask for it, and in each app's own pod."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from gpu_passthrough.checks.finding import Finding
from gpu_passthrough.config import App, Stack
from gpu_passthrough.verify.check import ALLOW, Check
from gpu_passthrough.verify.cluster import (
    OWN,
    Cluster,
    ForbiddenError,
    Object,
    Probed,
    program,
    read_answer,
)
from gpu_passthrough.verify.pods import PodError, run
from gpu_passthrough.verify.state import (
    DONE,
    State,
    cards_by_node,
    claimed,
    gpu_container,
    is_ready,
)

BY_CLAIM: Final = Check("compute-claim", "A pod that claims a free GPU computes on it", "app")
BY_CLASS: Final = Check(
    "compute-class", "A pod with the RuntimeClass alone reaches the driver", "runtime-class"
)
NO_CLAIM: Final = Check("no-claim", "A pod without class and claim sees no GPU", "app")
IN_APP: Final = Check("compute-app", "The app's own pod computes on its GPU", "app")
BY_HOLDER: Final = Check("compute-holder", "A pod that holds a GPU computes on it", "app")
PROVIDER: Final = Check("provider", "The app's inference session gets the GPU", "app")
VISIBLE: Final = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
"""Asks the toolkit for every card of the node; only for pods that claim none."""
CAPABILITIES: Final = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}
"""Which of the driver's libraries are injected; images that do not say get fewer."""


NAME: Final = "app.kubernetes.io/name"
PROBE_S: Final = 60.0
"""Longest run of the probe in an app's own pod."""
NO_PYTHON: Final = (
    'exec: "python3"',
    "python3: not found",
    "python3: no such file",
    "python3: No such file",
)
"""How runtimes and shells say that an image has no Python."""
WITH_PYTHON: Final = (
    "Look by hand: kubectl exec POD -- nvidia-smi. The probe's own pods use the image of the first"
    " app with a GPU: put one with Python 3 there."
)
NO_NODE: Final = "Is there a node with a card, is it ready, does it offer nvidia.com/gpu?"
AT_ONCE: Final = 8
"""Nodes on which the probe runs at the same time."""


@dataclass(frozen=True)
class Prober:
    """Runs the probe in pods of the stack's namespace, with an app's image: it is there already."""

    cluster: Cluster
    stack: Stack
    seconds: float
    """Longest wait for one pod."""
    asks_holders: bool = False
    """Run it also in pods of others that hold a GPU."""

    @property
    def app(self) -> App | None:
        """The app whose image the probe uses: the first one that claims a GPU."""
        claiming = (one for one in self.stack.apps.values() if one.gpus)
        return next(claiming, None)

    def run(self, app: App, node: str, *, gpus: int, runtime: bool) -> Probed:
        """Run the probe on a node."""
        container: Object = {
            "name": "probe",
            "image": app.image,
            "command": ["python3", "-c", program()],
            "env": [CAPABILITIES, VISIBLE] if runtime and not gpus else [CAPABILITIES],
        }
        if gpus:
            container["resources"] = {"limits": {self.stack.gpu_resource: str(gpus)}}
        spec: Object = {
            "containers": [container],
            "affinity": _on(node),
            "tolerations": [{"operator": "Exists"}],
        }
        if runtime:
            spec["runtimeClassName"] = self.stack.runtime_class.name
        return self.cluster.probe_pod(spec, app.namespace, self.seconds)


def _on(node: str) -> Object:
    """By the node's name: its label kubernetes.io/hostname may differ, and taints still count."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def driver_of(stack: Stack) -> str | None:
    """Version of the nodes' driver; None where the stack does not say."""
    return stack.cluster.extensions.driver if stack.cluster else None


def on_nodes(prober: Prober, state: State, down: Collection[str] = ()) -> Iterator[Finding]:
    """Each GPU node: by claim where a card is free, by class alone, and without either.

    down: nodes of which the host says that they do not run; Kubernetes notices later.
    """
    app = prober.app
    if app is None:
        why = "the stack has no app whose image could be used"
        yield BY_CLAIM.unknown("every node", why, best_effort=not prober.stack.proof)
        return
    nodes = {
        name: cards
        for name, cards in cards_by_node(prober.stack, state).items()
        if name not in down and name in state.nodes and is_ready(state.nodes[name])
    }
    if not nodes and not down:
        why = "there is no GPU node to compute on"
        yield BY_CLAIM.unknown("every node", why, best_effort=False, fix=NO_NODE)
    _sweep(prober.cluster, state)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        work = pool.map(lambda one: list(_on_node(prober, state, app, *one)), nodes.items())
        for found in work:
            yield from found


def _sweep(cluster: Cluster, state: State) -> None:
    """Pods of a verification that was killed have ended by themselves, and are still listed."""
    for pod in state.pods:
        meta = pod["metadata"]
        is_own = (meta.get("labels") or {}).get(NAME) == OWN[NAME]
        if is_own and pod["status"].get("phase") in DONE:
            cluster.delete(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")


def _on_node(prober: Prober, state: State, app: App, name: str, cards: int) -> Iterator[Finding]:
    yield _tried(prober, BY_CLASS, app, name, cards, gpus=0, runtime=True)
    if free := state.free(name):
        # The device plugin gives one slot of a shared card to a pod, whatever is asked.
        gpus = 1 if prober.stack.gpu_operator.sharing else free
        yield _tried(prober, BY_CLAIM, app, name, gpus, gpus=gpus, runtime=True)
    else:
        yield BY_CLAIM.passed(name, "no free GPU; the holders' own pods are asked instead")
    yield from _holders(prober, state, name)
    yield _sees_nothing(prober, app, name)


def _holders(prober: Prober, state: State, name: str) -> Iterator[Finding]:
    """GPUs that somebody else's pods hold: those pods are asked, and nothing is taken away."""
    own = {(app.namespace, app_name) for app_name, app in prober.stack.apps.items()}
    for pod in state.holders(name):
        meta = pod["metadata"]
        if (meta["namespace"], (meta.get("labels") or {}).get(NAME)) in own:
            continue
        subject = f"{meta['namespace']}/{meta['name']}"
        if not prober.asks_holders:
            why = "it holds a GPU and is not the stack's; --holders runs the probe in it"
            yield BY_HOLDER.unknown(subject, why)
            continue
        probed = _probe_in(prober.cluster, pod, gpu_container(pod))
        if probed.problem:
            why = f"it holds a GPU, and the probe does not run in it: {probed.problem}"
            yield BY_HOLDER.unknown(subject, why)
        else:
            cards = 1 if prober.stack.gpu_operator.sharing else claimed(pod)
            yield judge(BY_HOLDER, subject, probed, cards, driver_of(prober.stack))


def _tried(
    prober: Prober, check: Check, app: App, node: str, wanted: int, *, gpus: int, runtime: bool
) -> Finding:
    try:
        probed = prober.run(app, node, gpus=gpus, runtime=runtime)
        return judge(check, node, probed, wanted, driver_of(prober.stack))
    except ForbiddenError as error:
        return check.unknown(
            node, f"the probe's pod is refused: {error}", best_effort=False, fix=ALLOW
        )


def _sees_nothing(prober: Prober, app: App, node: str) -> Finding:
    try:
        probed = prober.run(app, node, gpus=0, runtime=False)
    except ForbiddenError as error:
        return NO_CLAIM.unknown(
            node, f"the probe's pod is refused: {error}", best_effort=False, fix=ALLOW
        )
    if probed.problem:
        return NO_CLAIM.unknown(node, probed.problem, best_effort=False)
    devices = probed.answer["devices"]
    if not devices:
        return NO_CLAIM.passed(node, "no device")
    return NO_CLAIM.failed(
        node,
        f"it sees {', '.join(devices)}",
        "Pods take cards that nobody accounts for: the scheduler gives the same card to another.",
        "nvidia must not be containerd's default runtime; images that ask for all devices are"
        " served by it.",
        "a pod without runtimeClassName and limit",
        devices,
    )


def in_apps(
    cluster: Cluster, stack: Stack, state: State, only: str | None, down: Collection[str] = ()
) -> Iterator[Finding]:
    """Each app's own pods, which hold their cards; see `on_nodes` for `down`."""
    pods = [
        (app, pod)
        for name, app in stack.apps.items()
        if only in (None, name) and app.gpus
        for pod in state.pods_of(app.namespace, name)
        if is_ready(pod) and pod["spec"]["nodeName"] not in down
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for found in pool.map(lambda one: list(_in_app(cluster, stack, *one)), pods):
            yield from found


def _in_app(cluster: Cluster, stack: Stack, app: App, pod: Object) -> Iterator[Finding]:
    subject = pod["metadata"]["name"]
    container = gpu_container(pod) or pod["spec"]["containers"][0]["name"]
    probed = _probe_in(cluster, pod, container)
    cards = 1 if stack.gpu_operator.sharing else app.gpus
    yield judge(IN_APP, subject, probed, cards, driver_of(stack))
    if (session := (probed.answer or {}).get("onnx")) is not None:
        yield _provider(subject, session)


def _probe_in(cluster: Cluster, pod: Object, container: str) -> Probed:
    """Run the probe in a pod that exists."""
    try:
        text = run(cluster, pod, container, ["python3", "-c", program()], PROBE_S)
    except PodError as error:
        return Probed(problem=str(error))
    return read_answer(text)


def judge(
    check: Check, subject: str, probed: Probed, wanted: int, driver: str | None = None
) -> Finding:
    """What the probe's answer proves.

    driver: version of the nodes' driver; None where it is not known.
    """
    asked = "python3 -c <gpu_passthrough/verify/probe_program.py>"
    if any(words in probed.problem for words in NO_PYTHON):
        why = f"the image has no python3, which the probe needs: {probed.problem}"
        return check.unknown(subject, why, fix=WITH_PYTHON)
    if probed.problem:
        return check.failed(
            subject,
            probed.problem,
            "That a pod can use the card is not proven.",
            "Look at the pod's events: scheduling, sandbox, start of the container, in this order.",
            asked,
            probed.problem,
        )
    cuda: Mapping[str, Any] = probed.answer["cuda"]
    computing = [one["name"] for one in cuda["gpus"] if one["computes"]]
    if len(computing) < wanted:
        return check.failed(subject, *_why(cuda, wanted, len(computing), driver), asked, cuda)
    if other := _bundled(cuda["path"], driver):
        return check.failed(
            subject,
            f"it computes with {other}",
            "The image's own cuda-compat works on data-centre cards only, and hides the driver"
            " that was injected.",
            "Use an image without cuda-compat, or whose CUDA is not newer than the driver's.",
            asked,
            cuda,
        )
    where = cuda["path"] or "an unknown path"
    return check.passed(subject, f"{', '.join(computing)}; libcuda from {where}")


def _bundled(path: str, driver: str | None) -> str:
    """The library that was loaded, where it is not that of the node's driver."""
    version = path.rpartition("libcuda.so.")[2]
    if driver is None or "." not in version or version == driver:
        return ""
    return f"libcuda {version} from {path}, and the node's driver is {driver}"


NOT_LOADED: Final = -1
CODES: Final[Mapping[int, tuple[str, str]]] = {
    NOT_LOADED: (
        "The driver was not injected: CUDA ends with failure 35, or falls back to the CPU.",
        "Set runtimeClassName; without it the container gets no driver. With it, look at the"
        " toolkit extension of the node's image.",
    ),
    35: (
        "The library is older than the image's CUDA: it is not the node's driver, or that is too"
        " old.",
        "Set runtimeClassName, so that the node's driver is injected; or use an image of an older"
        " CUDA, or a newer driver extension.",
    ),
    100: (
        "The driver is there and sees no card.",
        "The limit nvidia.com/gpu is missing, or the card is not in the VM.",
    ),
    803: (
        "Library and kernel module are of different drivers.",
        "An image that brings its own libcuda: use one without. Or kernel module and toolkit of"
        " Talos are of two releases: look at the node's extensions.",
    ),
    804: (
        "The image's cuda-compat is newer than the driver, and that works on data-centre cards"
        " only.",
        "Use an image whose CUDA the driver has, or remove cuda-compat from it.",
    ),
}
"""What an error of cuInit means and what helps, by its number."""
ANY_CODE: Final = (
    "The driver is there, and cannot drive the card.",
    "talosctl dmesg | grep -i nvrm says why.",
)


def _why(
    cuda: Mapping[str, Any], wanted: int, found: int, driver: str | None
) -> tuple[str, str, str]:
    """Cause, consequence and fix of a probe that does not compute on enough cards."""
    library = f"; it is {other}" if (other := _bundled(cuda["path"], driver)) else ""
    if cuda["init"] == NOT_LOADED:
        return (f"libcuda.so.1 does not load: {cuda['error']}", *CODES[NOT_LOADED])
    if cuda["init"] != 0:
        return (f"{cuda['error']}{library}", *CODES.get(cuda["init"], ANY_CODE))
    errors = "; ".join(one["error"] for one in cuda["gpus"] if one["error"])
    return (
        f"{found} of {wanted} GPUs compute{f': {errors}' if errors else ''}{library}",
        "The app's work ends with an error, or on the CPU.",
        "A card that is there and does not compute: talosctl dmesg | grep -i xid",
    )


def _provider(subject: str, session: Mapping[str, Any]) -> Finding:
    got = session["got"]
    if any(one.startswith(("CUDA", "Tensorrt")) for one in got):
        return PROVIDER.passed(subject, got[0])
    if not any(one.startswith("CUDA") for one in session["built"]):
        return PROVIDER.unknown(subject, "the image's onnxruntime has no GPU provider")
    return PROVIDER.failed(
        subject,
        f"an inference session gets {', '.join(got) or 'nothing'}"
        f"{': ' + session['error'] if session['error'] else ''}",
        "The app works on the CPU, many times slower, and says so in one line of its log.",
        "Image and driver do not fit: is the image's CUDA newer than the driver's, does it have"
        " code for the card?",
        "onnxruntime.InferenceSession(...).get_providers()",
        session,
    )
