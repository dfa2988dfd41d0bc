"""Events that the real engine printed, on the document's stack, and the stack itself.

Each file of `recorded` is one `pulumi preview --json` of Pulumi 3.274.1 with the policy pack,
cut down to what differs: first (no state), nothing (no change), app (another image and operator,
more memory for the control plane), machines (another VM id, less memory), gone (a node taken
out), rename (another name for the cluster), policy (a token in an app's env), protected (a
protected VM with another id), unreachable (no rack at all).
"""

from __future__ import annotations

from pathlib import Path

from gpu_passthrough.config import Stack
from gpu_passthrough.load import load_stack_file
from pullrequest import events, outage
from pullrequest.events import Preview
from pullrequest.model import Outage, Plan, Verdict
from pullrequest.plan import told

CHECKOUT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recorded"
VERDICT = Verdict(before="vendor-tested", after="vendor-tested", text="As Talos' own tests.")


def stack() -> Stack:
    return load_stack_file(CHECKOUT / "Pulumi.dev.yaml")


def preview(name: str) -> Preview:
    return events.read((RECORDED / f"{name}.jsonl").read_text().splitlines())


def outages(name: str) -> list[Outage]:
    return outage.outages(preview(name).steps, stack())


def plan(name: str) -> Plan:
    return told("dev", preview(name), VERDICT, [], outages(name))
