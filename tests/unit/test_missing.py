"""Secrets that a run needs and does not have: named at once, with the commands that set them."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_passthrough import missing
from gpu_passthrough.config import Stack
from gpu_passthrough.problems import Problem, where

from .stacks import changed

TOKEN = "pulumi@pve!gpu-passthrough=00000000-0000-0000-0000-000000000000"


def found(values: dict[str, Any], **environment: str) -> list[Problem]:
    return list(missing.secrets(Stack.model_validate(values), "homelab", environment))


def test_a_token_from_nowhere_is_missing_and_both_ways_to_give_it_are_told() -> None:
    (problem,) = found(changed())
    assert where(problem.path) == "proxmox.apiToken"
    assert "https://192.168.20.10:8006" in problem.message
    assert "export PROXMOX_VE_API_TOKEN=" in problem.fix
    assert (
        "pulumi config set --stack homelab --secret --path 'gpu-passthrough:proxmox.apiToken'"
        in problem.fix
    )


@pytest.mark.parametrize("token", ["", "hunter2", "root@pam", TOKEN.partition("=")[2]])
def test_a_variable_that_is_no_token_is_named_and_not_repeated(token: str) -> None:
    (problem,) = found(changed(), PROXMOX_VE_API_TOKEN=token)
    assert not token or token not in problem.render()


def test_a_token_from_the_environment_or_the_stack_is_enough() -> None:
    assert found(changed(), PROXMOX_VE_API_TOKEN=TOKEN) == []
    assert found(changed({"proxmox": {"apiToken": TOKEN}})) == []


def test_every_empty_secret_is_named() -> None:
    keys = {"caCertificate": "", "clientCertificate": "Y2E=", "clientKey": " "}
    values = {"gpuOperator": {"version": "v26.3.1"}, "talos": keys}
    assert [where(one.path) for one in found(values)] == ["talos.caCertificate", "talos.clientKey"]
    values = {"gpuOperator": {"version": "v26.3.1"}, "kubernetes": {"kubeconfig": ""}}
    assert [where(one.path) for one in found(values)] == ["kubernetes.kubeconfig"]


def test_a_stack_without_proxmox_needs_no_token() -> None:
    values = {"gpuOperator": {"version": "v26.3.1"}, "kubernetes": {"kubeconfig": "x"}}
    assert found(values) == []
