"""The provider: the plugin protocol's calls, spread over resources and functions."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from pulumi.provider.experimental import provider as protocol

from rack.plugins import difference
from rack.plugins.contract import (
    UNKNOWN,
    PartialCreationError,
    Plain,
    PluginError,
    Signature,
    contains_unknown,
    decode,
    own_type,
)
from rack.plugins.package import package_schema
from rack.plugins.proxmoxve import file, state
from rack.plugins.proxmoxve.client import Client
from rack.plugins.proxmoxve.file import File
from rack.plugins.proxmoxve.functions import FUNCTIONS
from rack.plugins.proxmoxve.mapping import PciMapping
from rack.plugins.proxmoxve.options import SCHEMA
from rack.plugins.proxmoxve.resource import Context, Found, Resource
from rack.plugins.proxmoxve.vm import VmLegacy
from rack.plugins.server import WarningProvider

RESOURCES: Final[Mapping[str, Resource]] = {
    state.TOKEN: VmLegacy(),
    "proxmoxve:hardware/mapping/pci:Pci": PciMapping(),
    file.TOKEN: File(),
}
ENVIRONMENT: Final = {
    "endpoint": "PROXMOX_VE_ENDPOINT",
    "apiToken": "PROXMOX_VE_API_TOKEN",
    "insecure": "PROXMOX_VE_INSECURE",
}
ENGINE_PROPERTIES: Final = frozenset({"version", "pluginDownloadURL", "__internal", "__defaults"})
"""What the engine adds to a provider's configuration."""

WORKERS: Final = 32
"""Operations at once; nearly all of their time they wait for the host."""

T = TypeVar("T")


class ProxmoxVe(WarningProvider):
    """The stand-in for the official provider, on one Proxmox VE host."""

    def __init__(self) -> None:
        self._client: Client | None = None
        self._cancelled = threading.Event()
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="operation")

    async def _run(self, action: Callable[[], T]) -> T:
        """Run a blocking action beside the protocol's event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, action)

    async def get_schema(self, request: protocol.GetSchemaRequest) -> protocol.GetSchemaResponse:
        """Return the schema, for the tools that ask for it."""
        return protocol.GetSchemaResponse(package_schema(SCHEMA))

    async def check_config(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        """Refuse unknown and mistyped provider configuration."""
        failures = SCHEMA.check(SCHEMA.provider, _configuration(decode(request.new_inputs)))
        return protocol.CheckResponse(request.new_inputs, failures)

    async def configure(self, request: protocol.ConfigureRequest) -> protocol.ConfigureResponse:
        """Take the configuration; the host is not asked for anything yet.

        Secrets are not accepted as such: the engine then hands them over in the clear and marks
        the same properties of the answers as secret itself.
        """
        given = _configuration(decode(request.args))
        values = {**_environment(), **{k: v for k, v in given.items() if v is not None}}
        self._client = self._make_client(values)
        return protocol.ConfigureResponse(supports_preview=True)

    def _make_client(self, values: Plain) -> Client | None:
        used = {name: values.get(name) for name in ENVIRONMENT}
        if contains_unknown(used):
            return None
        endpoint, token = str(used["endpoint"] or ""), str(used["apiToken"] or "")
        return Client(endpoint.rstrip("/"), token, bool(used["insecure"]), self._cancelled)

    def _connected(self) -> Client:
        client = self._client
        if client is None:
            raise PluginError(
                "the Proxmox host is needed now, but the provider's endpoint or token is known only"
                " after `pulumi up` made the resource that it comes from"
            )
        for value, name in ((client.endpoint, "endpoint"), (client.token, "apiToken")):
            if not value:
                raise PluginError(
                    f"the provider's `{name}` is not set: give it to proxmoxve.Provider or in"
                    f" {ENVIRONMENT[name]}"
                )
        return client

    def _context(self, urn: str) -> Context:
        return Context(self._connected(), partial(self.warn, urn))

    async def check(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        """Hold inputs against the schema; fill in defaults and, without a name, a name."""
        properties = SCHEMA.resource(request.type).inputs
        inputs = SCHEMA.with_defaults(properties, decode(request.new_inputs))
        if "name" in properties and "name" not in inputs:
            old = decode(request.old_inputs).get("name")
            inputs["name"] = old or _auto_name(request.name, request.random_seed)
        failures = SCHEMA.check(properties, inputs)
        return protocol.CheckResponse(SCHEMA.encode(properties, inputs), failures)

    async def diff(self, request: protocol.DiffRequest) -> protocol.DiffResponse:
        """Compare the state with new inputs, without the host."""
        properties = SCHEMA.resource(request.type).inputs
        old, new = decode(request.old_state), decode(request.new_inputs)
        kinds = difference.compare(SCHEMA, properties, old, new)
        kinds = RESOURCES[own_type(request.type)].refine(kinds, old, new)
        ignored = tuple(request.ignore_changes)
        kinds = {path: kind for path, kind in kinds.items() if not _is_ignored(path, ignored)}
        return difference.response(
            kinds, delete_before_replace=_keeps_its_name(request.name, old, new)
        )

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        """Create a resource; a preview never asks the host."""
        signature = SCHEMA.resource(request.type)
        inputs = decode(request.properties)
        if request.preview:
            outputs = _foreseen(signature, inputs)
            return protocol.CreateResponse("", SCHEMA.encode(signature.outputs, outputs))
        resource = RESOURCES[own_type(request.type)]
        with _reporting(inputs):
            found = await self._run(lambda: resource.create(self._context(request.urn), inputs))
        return protocol.CreateResponse(
            found.resource_id, SCHEMA.encode(signature.outputs, found.outputs)
        )

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        """Read a resource by its id; without a state this is an import."""
        signature = SCHEMA.resource(request.type)
        before, inputs = decode(request.properties), decode(request.inputs)
        resource = RESOURCES[own_type(request.type)]
        found: Found | None = await self._run(
            lambda: resource.read(self._context(request.urn), request.resource_id, before)
        )
        if found is None:
            return protocol.ReadResponse("")
        read = _refreshed(inputs, found.outputs) if inputs else found.inputs
        return protocol.ReadResponse(
            found.resource_id,
            SCHEMA.encode(signature.outputs, found.outputs),
            SCHEMA.encode(signature.inputs, read),
        )

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        """Change a resource in place."""
        signature = SCHEMA.resource(request.type)
        old, new = decode(request.olds), decode(request.news)
        plan = difference.planned(SCHEMA, signature.inputs, old, new)
        if request.preview:
            return protocol.UpdateResponse(SCHEMA.encode(signature.outputs, {**old, **plan}))
        resource = RESOURCES[own_type(request.type)]
        with _reporting(new):
            outputs = await self._run(
                lambda: resource.update(self._context(request.urn), request.resource_id, old, plan)
            )
        return protocol.UpdateResponse(SCHEMA.encode(signature.outputs, outputs))

    async def delete(self, request: protocol.DeleteRequest) -> None:
        """Remove a resource."""
        resource, before = RESOURCES[own_type(request.type)], decode(request.properties)
        await self._run(
            lambda: resource.delete(self._context(request.urn), request.resource_id, before)
        )

    async def invoke(self, request: protocol.InvokeRequest) -> protocol.InvokeResponse:
        """Answer a function by asking the host."""
        signature = SCHEMA.function(request.tok)
        arguments = decode(request.args)
        if failures := SCHEMA.check(signature.inputs, arguments):
            return protocol.InvokeResponse(failures=failures)
        answer = await self._run(lambda: FUNCTIONS[request.tok](self._connected(), arguments))
        return protocol.InvokeResponse(SCHEMA.encode(signature.outputs, answer))

    async def cancel(self) -> None:
        """Stop everything that waits for the host."""
        self._cancelled.set()


@contextlib.contextmanager
def _reporting(inputs: Plain) -> Iterator[None]:
    """Let a partial creation report the inputs as the program gave them."""
    try:
        yield
    except PartialCreationError as error:
        error.inputs = inputs
        raise


def _configuration(values: Plain) -> Plain:
    """Return provider configuration as it was meant: SDKs send all but text as JSON in text."""
    meant = {}
    for name, value in values.items():
        if name in ENGINE_PROPERTIES:
            continue
        rule = SCHEMA.provider.get(name)
        if rule and rule.type != "string" and isinstance(value, str):
            with contextlib.suppress(json.JSONDecodeError):
                value = json.loads(value)
        meant[name] = value
    return meant


def _environment() -> Plain:
    found: Plain = {
        name: os.environ[variable]
        for name, variable in ENVIRONMENT.items()
        if os.environ.get(variable)
    }
    if "insecure" in found:
        found["insecure"] = found["insecure"].lower() in ("1", "t", "true")
    return found


def _auto_name(resource_name: str, seed: bytes) -> str:
    """Name a resource after the program's name for it, as the official plugin does."""
    digest = hashlib.sha256(seed or os.urandom(16)).hexdigest()
    return f"{resource_name}-{digest[:7]}"


def _keeps_its_name(resource_name: str, old: Plain, new: Plain) -> bool:
    """Tell whether old and new resource would meet under a name that the program chose."""
    name = new.get("name")
    if name is None or name != old.get("name"):
        return False
    start, _, end = str(name).rpartition("-")
    return not (start == resource_name and len(end) == 7)


def _is_ignored(path: str, ignored: tuple[str, ...]) -> bool:
    return any(path == name or path.startswith((f"{name}.", f"{name}[")) for name in ignored)


def _foreseen(signature: Signature, inputs: Plain) -> Plain:
    """Return what a preview knows of a resource to be created: outputs left open are unknown."""
    left_open = {
        name: UNKNOWN
        for name, rule in signature.outputs.items()
        if rule.computed or name not in signature.inputs
    }
    return {**left_open, **inputs}


def _refreshed(inputs: Any, outputs: Any) -> Any:
    """Return `inputs` with the values that the host reports, where it reports any."""
    if isinstance(inputs, dict) and isinstance(outputs, dict):
        return {name: _refreshed(old, outputs.get(name)) for name, old in inputs.items()}
    if isinstance(inputs, list) and isinstance(outputs, list) and len(inputs) == len(outputs):
        return [_refreshed(old, new) for old, new in zip(inputs, outputs, strict=True)]
    return outputs if outputs is not None else inputs
