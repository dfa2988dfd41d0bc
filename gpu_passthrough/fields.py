"""The small types that a configuration is made of.

Each carries its pattern into the JSON Schema, so that an editor checks it while typing, and a
validator where a pattern cannot say enough. Validators raise ValueError with words for people.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

Raw = dict[str, Any]
"""A configuration, or a part of it, as plain values."""

ENCRYPTED = "(encrypted in the stack file)"
"""Stands for a secret's value where only the file is read, without its key."""


def _ipv4(value: str) -> str:
    try:
        return str(IPv4Address(value))
    except AddressValueError:
        raise ValueError(
            f"{value!r} is not an IPv4 address; write it as four numbers from 0 to 255,"
            " for example 192.168.20.21"
        ) from None


def _cidr(value: str) -> str:
    address, slash, length = value.partition("/")
    if not (slash and length.isdigit() and int(length) <= 32):
        raise ValueError(
            f"{value!r} is not a network; write address and prefix length, for example"
            f" {address or '192.168.20.0'}/24"
        )
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        raise ValueError(f"{value!r} is not an IPv4 network, for example 192.168.20.0/24") from None
    if str(network.network_address) != address:
        raise ValueError(f"{value!r} has host bits set; the network is {network}")
    return value


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or any(character.isspace() for character in value):
        raise ValueError(f"{value!r} is not a URL; for example https://192.168.20.10:8006")
    return value


def _api_url(value: str) -> str:
    if not _url(value).startswith("https://"):
        raise ValueError(
            f"{value!r} is not an https URL; the API speaks TLS only, and a token or a"
            " certificate must not travel in the clear"
        )
    return value


PciPath = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}$",
        description="Domain, bus and device, without the function: all functions are passed.",
    ),
]
PciId = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$", description="vendor:device, for example 10de:2204"),
]
HostName = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$")]
StorageId = Annotated[str, Field(pattern=r"^[A-Za-z][-A-Za-z0-9_.]{0,98}[A-Za-z0-9]$")]
BridgeName = Annotated[str, Field(pattern=r"^[A-Za-z][-A-Za-z0-9_.]{0,14}$")]
DnsLabel = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
Ipv4 = Annotated[str, Field(pattern=r"^\d{1,3}(\.\d{1,3}){3}$"), AfterValidator(_ipv4)]
Cidr = Annotated[str, AfterValidator(_cidr)]
Url = Annotated[str, AfterValidator(_url)]
ApiUrl = Annotated[str, Field(pattern=r"^https://"), AfterValidator(_api_url)]
TalosVersion = Annotated[str, Field(pattern=r"^v\d{1,3}\.\d{1,3}\.\d{1,3}(-[a-z]+\.\d{1,3})?$")]
KubernetesVersion = Annotated[str, Field(pattern=r"^v\d{1,3}\.\d{1,3}\.\d{1,3}$")]
ChartVersion = Annotated[str, Field(pattern=r"^v\d{1,3}\.\d{1,3}\.\d{1,3}$")]
DriverVersion = Annotated[str, Field(pattern=r"^\d{3}\.\d{2,3}(\.\d{2})?$")]
CudaVersion = Annotated[str, Field(pattern=r"^\d{1,2}\.\d{1,2}$")]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
LabelKey = Annotated[str, Field(pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9][-A-Za-z0-9_.]{0,62}$")]
