"""Whatever a configuration says, Talos answers: it never falls over."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rack.world.machine import Machine
from rack.world.talos_error import TalosError
from tests.model.talosworld import NOW, booted, changed, documents, text

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 70000),
    st.sampled_from(["", "x", "off", "v1.34.4", "kubelet:v1.34.4", "b64=", "https://x", "a:b"]),
)
VALUES = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=2),
    st.dictionaries(st.sampled_from(["name", "crt", "key", "a", "auto"]), SCALARS, max_size=2),
    st.lists(
        st.fixed_dictionaries({}, optional={"addresses": st.lists(SCALARS), "vip": SCALARS}),
        max_size=1,
    ),
)
PATHS = st.sampled_from(
    [
        *("machine", "cluster", "version", "persist", "machine.type", "machine.ca.crt"),
        *("machine.network", "machine.network.interfaces", "machine.kernel", "machine.features"),
        *("machine.kernel.modules", "machine.nodeLabels", "machine.nodeTaints", "machine.kubelet"),
        *("machine.kubelet.image", "machine.install", "machine.acceptedCAs", "machine.token"),
        *("machine.nodeAnnotations", "machine.features.hostDNS", "machine.kubelet.extraConfig"),
        *("cluster.controlPlane", "cluster.network", "cluster.network.podSubnets", "cluster.ca"),
        *("cluster.etcd", "cluster.apiServer", "cluster.apiServer.admissionControl"),
        *("cluster.clusterName", "cluster.token", "cluster.allowSchedulingOnControlPlanes"),
        *("cluster.serviceAccount", "cluster.aggregatorCA", "cluster.controlPlane.endpoint"),
    ]
)


def use(machine: Machine, configuration: str) -> None:
    """Apply; where Talos takes it, everything that reads it has to work."""
    try:
        machine.apply(configuration, NOW)
        machine.bootstrap(NOW)
    except TalosError:
        pass
    machine.facts()
    _ = machine.cluster, machine.addresses
    machine.config.accepted_certificates("machine")


@settings(max_examples=150, deadline=None)
@given(
    role=st.sampled_from(["controlplane", "worker"]),
    changes=st.lists(st.tuples(PATHS, VALUES), min_size=1, max_size=2),
)
def test_any_value_anywhere_is_taken_or_refused(role: str, changes: list[tuple[str, Any]]) -> None:
    found = documents(role)
    for path, value in changes:
        try:
            found = changed(found, path, value)
        except (AttributeError, TypeError):
            return  # an earlier change left nothing to put a key into
    use(booted(), text(found))


@settings(max_examples=60, deadline=None)
@given(fields=st.dictionaries(st.sampled_from(["auto", "hostname", "name"]), VALUES, max_size=3))
def test_any_document_beside_it_is_taken_or_refused(fields: dict[str, Any]) -> None:
    for kind in ("HostnameConfig", "LinkConfig", "KernelModuleConfig"):
        document = {"apiVersion": "v1alpha1", "kind": kind, **copy.deepcopy(fields)}
        use(booted(), text([documents()[0], document]))


def test_keys_may_come_by_a_merge() -> None:
    merged = text(documents()).replace(
        "  type: worker", "  sysctls: {<<: {a: '1'}, b: '2'}\n  type: worker"
    )
    assert "<<" in merged
    use(booted(), merged)
