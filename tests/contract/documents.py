"""Every document of Talos that the program writes, as strict models.

Facts: Talos' own schema of v1.13.9 (its names are in facts/), and for what came with a version, its
configuration reference of 1.11 and 1.12.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.alias_generators import to_camel

DOCUMENTS_SINCE = (1, 12)


class Strict(BaseModel):
    """Knows its keys and their types, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True, alias_generator=to_camel)


class Install(Strict):
    """What the first upgrade installs."""

    image: Annotated[str, Field(pattern=r"^[^/]+/nocloud-installer/[^/:]+:v\d+\.\d+\.\d+")]


class Module(Strict):
    """A kernel module to load."""

    name: str


class Kernel(Strict):
    """Kernel modules."""

    modules: list[Module]


class Vip(Strict):
    """An address that control planes share."""

    ip: str


class Selector(Strict):
    """A network card by its driver."""

    driver: str


class Interface(Strict):
    """A network card, up to 1.11."""

    device_selector: Selector
    vip: Vip


class Network(Strict):
    """Name and cards, up to 1.11."""

    hostname: str | None = None
    interfaces: list[Interface] | None = None


class Machine(Strict):
    """The machine's part that the program writes."""

    install: Install | None = None
    kernel: Kernel | None = None
    sysctls: dict[str, str] | None = None
    network: Network | None = None
    node_taints: dict[str, Annotated[str, Field(pattern=r"^[^:]*:(No|PreferNo)\w+$")]] | None = None


class Cluster(Strict):
    """The cluster's part that the program writes."""

    allow_scheduling_on_control_planes: bool


class Main(Strict):
    """The document without a kind."""

    machine: Machine | None = None
    cluster: Cluster | None = None


class Document(Strict):
    """Any other document."""

    api_version: Literal["v1alpha1"]


class HostnameConfig(Document):
    """The node's name, from 1.12 on."""

    kind: Literal["HostnameConfig"]
    auto: Literal["off"]
    hostname: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]


class LinkSelector(Strict):
    """A network card by an expression."""

    match: str


class LinkAliasConfig(Document):
    """A name for a network card, from 1.12 on."""

    kind: Literal["LinkAliasConfig"]
    name: str
    selector: LinkSelector


class Layer2VIPConfig(Document):
    """An address that control planes share, from 1.12 on."""

    kind: Literal["Layer2VIPConfig"]
    name: str
    link: str


OTHERS: TypeAdapter[Any] = TypeAdapter(
    Annotated[HostnameConfig | LinkAliasConfig | Layer2VIPConfig, Field(discriminator="kind")]
)


class SystemExtensions(Strict):
    """Extensions of an image."""

    official_extensions: Annotated[
        list[Annotated[str, Field(pattern=r"^siderolabs/[a-z0-9-]+$")]], Field(min_length=1)
    ]


class Customization(Strict):
    """What a schematic changes."""

    system_extensions: SystemExtensions | None = None


class Schematic(Strict):
    """The image factory's document."""

    customization: Customization


def check(document: dict[str, Any], line: tuple[int, int]) -> None:
    """Check one document for a version of Talos.

    Raises:
        ValidationError, AssertionError: Talos of that version would not take it.
    """
    if "kind" in document:
        assert line >= DOCUMENTS_SINCE, f"{document['kind']} came with Talos 1.12"
        OTHERS.validate_python(document)
        return
    main = Main.model_validate(document)
    network = main.machine.network if main.machine else None
    assert network is None or line < DOCUMENTS_SINCE, "machine.network is refused from 1.12 on"
