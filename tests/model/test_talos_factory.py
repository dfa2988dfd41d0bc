"""Schematics, releases and images of the image factory."""

from __future__ import annotations

import pytest

from rack.world.errors import Refused
from rack.world.extensions import official, resolve
from rack.world.factory import accept, find_release, image, installer
from rack.world.releases import releases, version_order
from rack.world.schematic import InvalidSchematic, parse
from tests.model.talosworld import NONFREE_LTS, schematic_text, talos_image

VANILLA = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", VANILLA),
        ("customization: {}", VANILLA),
        (
            "customization: {extraKernelArgs: [], systemExtensions: {officialExtensions: []}}",
            VANILLA,
        ),
        ("overlay: {image: '', name: ''}", VANILLA),
        (
            schematic_text("siderolabs/qemu-guest-agent"),
            "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515",
        ),
        (
            schematic_text(*NONFREE_LTS),
            "af8eb82417d3deaa94d2ef19c3b590b0dac1b2549d0b9b35b3da2bc325de75f7",
        ),
        (
            schematic_text(*reversed(NONFREE_LTS)),
            "5403e11558d4c91d0def590ecef8bff265ffdc297352726d46b13a1aa8dc3622",
        ),
        (
            "customization: {extraKernelArgs: [noapic, nolapic]}",
            "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
        ),
        (
            "customization: {meta: [{key: 10, value: foo}], extraKernelArgs: []}",
            "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
        ),
        (
            "overlay: {name: rpi_generic, image: siderolabs/sbc-raspberrypi}",
            "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
        ),
        (
            "customization: {secureboot: {includeWellKnownCertificates: true}}",
            "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
        ),
        (
            "customization: {diskImage: {sectorSize: 4096}}",
            "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea",
        ),
    ],
)
def test_a_schematic_has_the_id_that_the_factory_gives_it(text: str, expected: str) -> None:
    assert parse(text).id == expected


def test_order_of_keys_and_comments_do_not_change_an_id() -> None:
    one = "customization:\n  extraKernelArgs: [a]\n  meta: [{key: 1, value: x}]\n"
    other = "# note\ncustomization:\n  meta: [{value: x, key: 1}]\n  extraKernelArgs: ['a']\n"
    assert parse(one).id == parse(other).id


def test_the_canonical_text_quotes_what_would_read_as_something_else() -> None:
    arguments = "['1', 'yes', '1:20', '', 'a: b', '-x', 'console=ttyS0,115200']"
    text = parse(f"customization: {{extraKernelArgs: {arguments}}}").text
    lines = [line.strip() for line in text.splitlines()[2:]]
    assert lines == [
        '- "1"',
        '- "yes"',
        '- "1:20"',
        '- ""',
        "- 'a: b'",
        "- -x",
        "- console=ttyS0,115200",
    ]
    assert text.startswith("customization:\n    extraKernelArgs:\n        - ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("customisation: {}", "line 1: field customisation not found in type schematic.Schematic"),
        ("customization:\n  extensions: []", "line 2: field extensions not found"),
        ("customization: {extraKernelArgs: noapic}", "cannot unmarshal `noapic` into []string"),
        ("customization: {meta: [{key: 256, value: x}]}", "cannot unmarshal `256` into uint8"),
        ("customization: {bootloader: lilo}", "cannot unmarshal `lilo` into bootloader"),
        ("owner: somebody", "owner field is only supported in Enterprise edition"),
        ("", "EOF"),
        ("[]", "cannot unmarshal into schematic.Schematic"),
        ("a: [", "yaml: "),
    ],
)
def test_what_is_no_schematic_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidSchematic) as refusal:
        parse(text)
    assert message in str(refusal.value)


def test_posting_an_invalid_schematic_is_a_bad_request() -> None:
    with pytest.raises(Refused) as refusal:
        accept("foo: 1")
    assert refusal.value.status == 400


def test_an_image_knows_its_extensions_and_their_versions() -> None:
    found = talos_image(*NONFREE_LTS, "siderolabs/qemu-guest-agent")
    assert found.talos_version == "v1.13.9"
    assert (found.platform, found.arch, found.format) == ("nocloud", "amd64", "qcow2")
    assert {e.name: e.version for e in found.extensions} == {
        "nonfree-kmod-nvidia-lts": "580.178.04-v1.13.9",
        "nvidia-container-toolkit-lts": "580.178.04-v1.19.1",
        "qemu-guest-agent": "11.0.2",
    }


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("nocloud-amd64.raw", ("nocloud", "amd64", "raw", False)),
        ("nocloud-amd64.raw.xz", ("nocloud", "amd64", "raw.xz", False)),
        ("nocloud-arm64.qcow2", ("nocloud", "arm64", "qcow2", False)),
        ("metal-amd64-secureboot.iso", ("metal", "amd64", "iso", True)),
        ("digital-ocean-amd64.raw.gz", ("digital-ocean", "amd64", "raw.gz", False)),
    ],
)
def test_a_file_name_says_platform_processor_and_format(
    file: str, expected: tuple[str, str, str, bool]
) -> None:
    found = talos_image(file=file)
    assert (found.platform, found.arch, found.format, found.secure_boot) == expected


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"/image/{'0' * 64}/v1.13.9/nocloud-amd64.qcow2", 404, "not found"),
        (f"/image/{VANILLA}/v1.13.99/nocloud-amd64.qcow2", 404, "version 1.13.99 is not available"),
        (f"/image/{VANILLA}/v1.13.9/nocloud-sparc.qcow2", 400, "invalid profile path"),
        (f"/image/{VANILLA}/v1.13.9/nocloud-amd64.txt", 400, "invalid profile path"),
        ("/elsewhere", 404, "no route"),
    ],
)
def test_an_image_that_does_not_exist_is_refused(path: str, status: int, message: str) -> None:
    with pytest.raises(Refused) as refusal:
        image({}, path)
    assert refusal.value.status == status
    assert message in refusal.value.message


def test_a_posted_schematic_is_known_and_talos_alone_always_is() -> None:
    schematic = accept(schematic_text(*NONFREE_LTS))
    path = f"/image/{schematic.id}/1.13.9/nocloud-amd64.qcow2"
    assert image({schematic.id: schematic}, path).schematic_id == schematic.id
    assert image({}, f"/image/{VANILLA}/v1.13.9/nocloud-amd64.qcow2").extensions == ()
    with pytest.raises(Refused, match="schematic ID"):
        image({}, path)


def test_an_extension_that_a_release_lacks_is_refused_for_that_release_only() -> None:
    name = "siderolabs/nfs-utils"
    assert talos_image(name, version="v1.12.6").extensions
    with pytest.raises(Refused) as refusal:
        talos_image(name, version="v1.11.6")
    assert refusal.value.status == 400
    assert f'official extension "{name}" is not available for Talos version v1.11.6' in (
        refusal.value.message
    )


def test_a_name_without_suffix_stands_for_the_long_term_driver() -> None:
    release = releases()["v1.13.9"]
    found = resolve("siderolabs/nonfree-kmod-nvidia", release)
    assert found is not None
    assert found.name == "nonfree-kmod-nvidia-lts"
    assert resolve("siderolabs/nonfree-kmod-nvidia-beta", release) is None
    assert resolve("nonfree-kmod-nvidia-lts", release) is None


@pytest.mark.parametrize(
    ("version", "lts", "production", "toolkit", "mode", "library"),
    [
        ("v1.11.6", "535.247.01", "570.172.08", "v1.17.8", "legacy", "/usr/local/glibc/usr/lib"),
        ("v1.12.6", "580.126.20", "570.211.01", "v1.18.2", "jit-cdi", "/usr/local/glibc/usr/lib"),
        ("v1.13.0", "580.126.20", "595.58.03", "v1.19.0", "jit-cdi", "/usr/local/lib"),
        ("v1.13.9", "580.178.04", "595.91.07", "v1.19.1", "jit-cdi", "/usr/local/lib"),
        ("v1.14.0-rc.1", "580.178.04", "595.91.07", "v1.19.1", "jit-cdi", "/usr/local/lib"),
    ],
)
def test_a_release_ships_its_own_drivers(
    version: str, lts: str, production: str, toolkit: str, mode: str, library: str
) -> None:
    release = find_release(version)
    assert (release.driver("lts"), release.driver("production")) == (lts, production)
    assert release.container_toolkit == toolkit
    assert (release.toolkit_mode, release.nvidia_library_path) == (mode, library)


def test_releases_are_sorted_and_complete() -> None:
    versions = list(releases())
    assert versions == sorted(versions, key=version_order)
    for release in releases().values():
        assert all(release.model_dump().values()), release.talos
        assert official(release)


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("1.30.14", "too old"),
        ("1.31.0", ""),
        ("v1.34.4", ""),
        ("1.36.99", ""),
        ("1.37.0", "too new"),
    ],
)
def test_a_release_runs_a_range_of_kubernetes_versions(version: str, problem: str) -> None:
    said = releases()["v1.13.9"].kubernetes_problem(version)
    assert problem in said
    assert bool(said) == bool(problem)


@pytest.mark.parametrize(
    ("running", "fits"),
    [("v1.10.9", False), ("v1.11.6", True), ("v1.13.0", True), ("v1.14.0-rc.1", True)],
)
def test_an_upgrade_reaches_two_minors_up_and_one_down(running: str, fits: bool) -> None:
    assert (not releases()["v1.13.9"].upgrade_problem(running)) is fits
    assert releases()["v1.11.6"].upgrade_problem("v1.13.9")


def test_an_installer_is_named_by_platform_schematic_and_version() -> None:
    schematic = accept(schematic_text(*NONFREE_LTS))
    known = {schematic.id: schematic}
    reference = f"factory.talos.dev/nocloud-installer/{schematic.id}:v1.13.8"
    found = installer(known, reference)
    assert (found.talos_version, found.platform) == ("v1.13.8", "nocloud")
    old_name = f"factory.talos.dev/installer/{schematic.id}:v1.13.8"
    assert installer(known, old_name).platform == "metal"
    secure = f"factory.talos.dev/nocloud-installer-secureboot/{schematic.id}:v1.13.8"
    assert installer(known, secure).secure_boot
    with pytest.raises(Refused, match="simulated rack pulls only"):
        installer(known, "ghcr.io/siderolabs/installer:v1.13.9")
    with pytest.raises(Refused, match="not found"):
        installer({}, reference)
