"""GPUs from DCGM's metrics and from nvidia-smi, and both together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpu_passthrough.watch.sample import GpuSample, from_dcgm, from_smi, merged
from tests.watch.cluster import SMI, dcgm

HELD = GpuSample(
    node="w1", uuid="GPU-1", name="NVIDIA GeForce RTX 3090", bus_id="00000000:01:00.0",
    source="dcgm", pods=("apps/ml-0",), index=1, utilisation=75, used_mib=801, total_mib=24576,
    temperature_c=61, power_w=268.4,
)  # fmt: skip


def test_dcgm_tells_everything_of_a_card() -> None:
    assert from_dcgm(dcgm(1), "w1") == [HELD]


def test_dcgm_s_free_card_has_no_pod() -> None:
    assert from_dcgm(dcgm(1, pod=""), "w1") == [replace(HELD, pods=())]


def test_a_card_that_two_pods_share_is_one_card() -> None:
    (found,) = from_dcgm(dcgm(1) + dcgm(1, pod="ml-1"), "w1")
    assert found == replace(HELD, pods=("apps/ml-0", "apps/ml-1"))


def test_reserved_memory_counts_for_the_total() -> None:
    text = dcgm(1) + 'DCGM_FI_DEV_FB_RESERVED{UUID="GPU-1"} 424\n'
    assert from_dcgm(text, "w1")[0].total_mib == 25000


def test_values_that_are_missing_or_no_numbers_stay_unknown() -> None:
    text = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} NaN\nDCGM_FI_DEV_FB_USED{UUID="GPU-1"} 5\n'
    (found,) = from_dcgm(text, "w1")
    assert (found.utilisation, found.used_mib, found.total_mib) == (None, 5, None)
    assert (found.name, found.index) == ("", None)


def test_other_metrics_name_no_gpu() -> None:
    assert from_dcgm('go_goroutines 7\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 1\n', "w1") == []


def test_nvidia_smi_tells_the_same_but_the_node_s_number() -> None:
    wanted = replace(HELD, source="nvidia-smi", index=None)
    assert from_smi(SMI.format(gpu=1), "w1", "apps/ml-0") == [wanted]


def test_what_nvidia_smi_does_not_know_stays_unknown() -> None:
    text = "GPU-1, A card, 00000000:01:00.0, [N/A], 1, 2, [Not Supported], nan\n"
    (found,) = from_smi(text, "w1", "apps/ml-0")
    assert (found.utilisation, found.used_mib, found.temperature_c, found.power_w) == (
        None, 1, None, None,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "No devices were found", "a, b, c, d, e, f, g, h"])
def test_other_answers_of_nvidia_smi_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="nvidia-smi answered"):
        from_smi(text, "w1", "apps/ml-0")


def test_the_first_source_of_a_card_stays_with_every_pod() -> None:
    other = replace(HELD, source="nvidia-smi", pods=("apps/ml-1",), index=None)
    earlier = replace(HELD, uuid="GPU-0", bus_id="00000000:00:00.0")
    assert merged([HELD, other, earlier]) == [
        earlier,
        replace(HELD, pods=("apps/ml-0", "apps/ml-1")),
    ]
