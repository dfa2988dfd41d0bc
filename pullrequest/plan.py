"""Makes the plan of one stack: its configuration is judged, then the engine asked."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpu_passthrough import compatibility
from gpu_passthrough.config import Stack
from gpu_passthrough.load import DEFAULTS, load_stack_file
from gpu_passthrough.problems import ConfigurationError
from pullrequest import charts, engine, events, kinds, outage, touched, unseen
from pullrequest.events import Preview, Step
from pullrequest.model import LONGEST_LIST, Change, Outage, Outcome, Plan, Verdict, clip

CHART = "gpu-operator"
REPOSITORY = "repositoryOpts.repo"
NO_PLUGIN = re.compile(r"download and install resource plugin|no resource plugin '")
NO_STATE = (
    "The state: this run has none for the stack, as in a pull request from a fork or before the"
    " first up. So everything appears as created, and nothing as changed."
)
EMPTY_STATE = "The state: it has nothing of this stack yet, so everything appears as created."
NO_SECRETS = (
    "Secrets: they are stand-ins here, because without the stack's key nobody can read them."
)
STAND_INS = (
    "The providers' own rules: their plugins could not be downloaded, and stand-ins checked the"
    " inputs."
)
IN_KUBECONFIG = (
    "The Kubernetes API: its address is in the secret kubeconfig, so nobody asked for it."
)
DRIFT = "Drift: what somebody changed by hand shows only in a preview with --refresh."


def stack_at(checkout: Path, commit: str, stack: str) -> Stack | ConfigurationError | None:
    """A stack as it is at a commit; None where it has no file there."""
    with tempfile.TemporaryDirectory() as folder:
        name = f"Pulumi.{stack}.yaml"
        for path in (name, DEFAULTS):
            try:
                text = touched.git(checkout, "show", f"{commit}:{path}")
            except touched.GitError:
                if path == name:
                    return None
                continue
            copy = Path(folder) / path
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(text)
        try:
            return load_stack_file(Path(folder) / name)
        except ConfigurationError as error:
            return error


def _level(stack: Stack | ConfigurationError | None) -> str | None:
    if stack is None:
        return None
    return (
        "refused" if isinstance(stack, ConfigurationError) else compatibility.verdict(stack).level
    )


def verdict(after: Stack, before: Stack | ConfigurationError | None) -> Verdict:
    """What the combination was worth, and what it becomes."""
    found = compatibility.verdict(after)
    text = found.text.removeprefix("Compatibility: ").removeprefix(f"{found.level}. ")
    return Verdict(before=_level(before), after=found.level, text=clip(text))


def _without_stand_in(step: Step, url: str) -> Step:
    """A release as it would be with its own chart repository."""
    kept = [one for one in step.properties if one.path != REPOSITORY or one.after != url]
    return replace(step, properties=tuple(kept))


def own_repository(preview: Preview, url: str) -> None:
    """Take a stand-in for the chart repository out of what the engine saw."""
    steps = []
    for step in preview.steps:
        own = _without_stand_in(step, url)
        if own.op == "update" and step.properties and not own.properties:
            preview.unchanged += 1
        else:
            steps.append(own)
    preview.steps = steps


def changes(preview: Preview) -> list[Change]:
    """The resources that would not stay as they are; what people have to know first comes first."""
    order = {"replace": 0, "delete": 1, "update": 2, "import": 3, "create": 4}
    listed = sorted(
        (step for step in preview.steps if step.custom),
        key=lambda one: (order[one.op], kinds.place(one.type), one.name),
    )
    return [
        Change(
            op=step.op,
            kind=clip(kinds.name(step.type)),
            name=clip(step.name),
            properties=step.properties,
            loses=kinds.LOSES.get(step.type) if step.op in ("replace", "delete") else None,
        )
        for step in listed
    ]


def _ask(made: engine.Site, stand_ins: Path | None) -> tuple[Preview, list[str]]:
    """Preview in the copy, and what it could not see for want of state and plugins."""
    notes = []
    if not engine.has_state(made):
        engine.without_state(made)
        notes.append(NO_STATE)
        notes += [NO_SECRETS] if made.has_secrets else []
    preview = events.read(made.preview())
    if stand_ins and not preview.known and any(map(NO_PLUGIN.search, preview.errors)):
        path = made.environment["PATH"]
        made.environment["PATH"] = os.pathsep.join([path, str(stand_ins.resolve())])
        preview = events.read(made.preview())
        notes.append(STAND_INS)
    elif not preview.known and not notes:
        notes.append(EMPTY_STATE)
    return preview, notes


def _previewed(
    checkout: Path, stack: str, loaded: Stack, stand_ins: Path | None
) -> tuple[Preview, list[str]]:
    blind = unseen.blind(loaded)
    with ExitStack() as stays:
        folder = Path(stays.enter_context(tempfile.TemporaryDirectory(prefix="preview-")))
        changed: Mapping[str, Any] = {}
        if any(one.part == "charts" for one in blind):
            version = loaded.gpu_operator.version
            url = stays.enter_context(charts.repository(CHART, version))
            changed = {"gpuOperator": {"repository": url}}
        made = engine.site(folder, checkout, stack, changed)
        preview, notes = _ask(made, stand_ins)
        if changed:
            own_repository(preview, changed["gpuOperator"]["repository"])
    notes += [str(one) for one in blind]
    notes += [IN_KUBECONFIG] if loaded.kubernetes else []
    return preview, notes if not preview.known else [*notes, DRIFT]


def _refusal(preview: Preview, found: Verdict) -> str | None:
    """Why `up` would not do it; None where it would."""
    broken = sorted({one.policy for one in preview.violations if one.level == "mandatory"})
    if broken:
        return f"it breaks {', '.join(broken)}"
    if preview.protected:
        return f"{', '.join(preview.protected[:3])} would have to go and is protected"
    return "the combination cannot work" if found.after == "refused" else None


def _outcome(preview: Preview, refusal: str | None) -> Outcome:
    if refusal:
        return "refused"
    return "planned" if preview.finished and not preview.errors else "failed"


def _refused(stack: str, error: ConfigurationError, before: str | None) -> Plan:
    """The plan of a configuration that cannot work: the engine is not even asked."""
    count = len(error.problems)
    return Plan(
        stack=stack,
        outcome="refused",
        refusal=f"the configuration has {count} problem{'s' if count > 1 else ''}",
        verdict=Verdict(before=before, after="refused", text="See the problems above."),
        problems=tuple(clip(one.render()) for one in error.problems[:LONGEST_LIST]),
    )


def make(checkout: Path, stack: str, base: str | None, stand_ins: Path | None = None) -> Plan:
    """The plan of a stack as it is in the checkout, against its state and against a base commit."""
    before = stack_at(checkout, base, stack) if base else None
    try:
        loaded = load_stack_file(checkout / f"Pulumi.{stack}.yaml")
    except ConfigurationError as error:
        return _refused(stack, error, _level(before))
    found = verdict(loaded, before)
    try:
        preview, notes = _previewed(checkout, stack, loaded, stand_ins)
    except engine.EngineError as error:
        return Plan(stack=stack, outcome="failed", verdict=found, problems=(clip(str(error)),))
    was = before if isinstance(before, Stack) else None
    return told(stack, preview, found, notes, outage.outages(preview.steps, loaded, was))


def told(
    stack: str, preview: Preview, found: Verdict, notes: list[str], outages: list[Outage]
) -> Plan:
    """The plan of a preview, within the bounds of what a plan may hold."""
    listed = changes(preview)
    refusal = _refusal(preview, found)
    return Plan(
        stack=stack,
        outcome=_outcome(preview, refusal),
        refusal=refusal and clip(refusal),
        changes=tuple(listed[:LONGEST_LIST]),
        left_out=max(0, len(listed) - LONGEST_LIST),
        unchanged=preview.unchanged,
        outages=tuple(outages[:LONGEST_LIST]),
        verdict=found,
        violations=tuple(preview.violations[:LONGEST_LIST]),
        problems=tuple(preview.errors[:LONGEST_LIST]),
        unseen=tuple(clip(note) for note in notes),
    )
