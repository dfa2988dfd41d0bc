"""The plugin: checks, differences and dispatch to the resources and functions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pulumi.provider.experimental import provider as protocol
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import CheckFailure

from rack.plugins import difference
from rack.plugins.contract import (
    Plain,
    PluginError,
    Schema,
    contains_unknown,
    decode,
    own_type,
)
from rack.plugins.server import WarningProvider
from rack.plugins.talos.bootstrap import Bootstrap
from rack.plugins.talos.client import OFFICIAL_FACTORY, Rack
from rack.plugins.talos.configuration_apply import ConfigurationApply
from rack.plugins.talos.functions import FUNCTIONS
from rack.plugins.talos.kubeconfig import Kubeconfig
from rack.plugins.talos.resource import Clock, Resource
from rack.plugins.talos.schematic_resource import Schematic
from rack.plugins.talos.secrets_resource import Secrets

RESOURCES: Final[Mapping[str, type[Resource]]] = {
    kind.token: kind for kind in (Secrets, Schematic, ConfigurationApply, Bootstrap, Kubeconfig)
}
ENGINE_KEYS: Final = frozenset({"version", "pluginDownloadURL", "__internal", "__defaults"})
"""What the engine itself adds to a provider's configuration."""

WORKERS: Final = 64
"""Operations at once; nearly all of their time they wait for a machine."""

T = TypeVar("T")


def _now() -> datetime:
    # X.509 knows no fractions of a second.
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class TalosProvider(WarningProvider):
    """Stand-in for the official plugin; it talks to a simulated rack only."""

    now: Clock = _now
    schema: Schema = field(default_factory=lambda: Schema.load("talos"))
    rack: Rack = field(default_factory=lambda: Rack(OFFICIAL_FACTORY))
    _cancelled: threading.Event = field(default_factory=threading.Event)
    _workers: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(WORKERS, thread_name_prefix="operation")
    )

    async def get_schema(self, request: protocol.GetSchemaRequest) -> protocol.GetSchemaResponse:
        """Name the package; SDKs bring their own schema."""
        del request
        return protocol.GetSchemaResponse(f'{{"name": "{self.schema.package}"}}')

    async def check_config(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        """Allow `imageFactoryUrl` only, and only a URL of a host."""
        given = {
            name: v for name, v in decode(request.new_inputs).items() if name not in ENGINE_KEYS
        }
        failures = self.schema.check(self.schema.provider, given)
        url = given.get("imageFactoryUrl")
        if not failures and isinstance(url, str) and (reason := _url_problem(url)):
            failures.append(CheckFailure("imageFactoryUrl", reason))
        return protocol.CheckResponse(request.new_inputs, failures)

    async def configure(self, request: protocol.ConfigureRequest) -> protocol.ConfigureResponse:
        """Remember the URL; nothing is contacted before a resource needs it."""
        url = decode(request.args).get("imageFactoryUrl")
        url = url if isinstance(url, str) and url else OFFICIAL_FACTORY
        self.rack = Rack(url.rstrip("/"), self._cancelled)
        # The engine marks outputs as secret where the input of that name is one.
        return protocol.ConfigureResponse(accept_secrets=False, supports_preview=True)

    async def check(self, request: protocol.CheckRequest) -> protocol.CheckResponse:
        """Check inputs against the schema, then against the resource's own rules."""
        signature = self.schema.resource(request.type)
        given = decode(request.new_inputs)
        failures = self.schema.check(signature.inputs, given)
        inputs = self.schema.with_defaults(signature.inputs, given)
        if not failures:
            problems = self._resource(request.type).problems(inputs)
            failures = [CheckFailure(name, reason) for name, reason in problems.items()]
        return protocol.CheckResponse(self.schema.encode(signature.inputs, inputs), failures)

    async def diff(self, request: protocol.DiffRequest) -> protocol.DiffResponse:
        """Compare state and inputs."""
        inputs = self.schema.resource(request.type).inputs
        old, new = decode(request.old_state), decode(request.new_inputs)
        found = difference.compare(self.schema, inputs, old, new)
        return difference.response(self._resource(request.type).adjust(found, old, new))

    async def create(self, request: protocol.CreateRequest) -> protocol.CreateResponse:
        """Make a resource, or say what it would be."""
        resource, inputs = self._resource(request.type), decode(request.properties)
        if request.preview:
            outputs = await self._run(resource.preview, inputs, None)
            return protocol.CreateResponse("", self._outputs(request.type, outputs))
        # Also for what is made without asking anybody: a real site's secrets are not its to make.
        await self._run(resource.rack.confirm)
        self._require_known(request.type, inputs)
        seconds = request.timeout or None
        made, outputs = await self._run(resource.create, inputs, seconds)
        return protocol.CreateResponse(made, self._outputs(request.type, outputs))

    async def read(self, request: protocol.ReadRequest) -> protocol.ReadResponse:
        """Return the state: the official plugin reads nothing back from machine or factory.

        What comes without a state is an import.
        """
        if not request.properties:
            imported = self._resource(request.type).imported(request.resource_id)
            values = self._outputs(request.type, imported)
            return protocol.ReadResponse(request.resource_id, values, values)
        known = decode(request.properties).get("id")
        current = known if isinstance(known, str) and known else request.resource_id
        return protocol.ReadResponse(current, request.properties, request.inputs)

    async def update(self, request: protocol.UpdateRequest) -> protocol.UpdateResponse:
        """Change a resource in place, or say what it would be."""
        resource = self._resource(request.type)
        old, inputs = decode(request.olds), decode(request.news)
        if request.preview:
            outputs = await self._run(resource.preview, inputs, old)
        else:
            self._require_known(request.type, inputs)
            seconds = request.timeout or None
            outputs = await self._run(resource.update, old, inputs, seconds)
        return protocol.UpdateResponse(self._outputs(request.type, outputs))

    async def delete(self, request: protocol.DeleteRequest) -> None:
        """Delete a resource; for most, nothing happens outside the state."""
        resource, old = self._resource(request.type), decode(request.properties)
        await self._run(resource.delete, old, request.timeout or None)

    async def invoke(self, request: protocol.InvokeRequest) -> protocol.InvokeResponse:
        """Call a function; with arguments that are still unknown there is no result."""
        signature = self.schema.function(request.tok)
        given = decode(request.args)
        failures = self.schema.check(signature.inputs, given)
        if failures:
            return protocol.InvokeResponse(None, failures)
        if request.tok not in FUNCTIONS:
            raise PluginError(
                f"{request.tok} is not part of the simulated rack; it has {', '.join(FUNCTIONS)}"
            )
        inputs = self.schema.with_defaults(signature.inputs, given)
        if contains_unknown(inputs):
            return protocol.InvokeResponse({})
        outputs = await self._run(FUNCTIONS[request.tok], self.rack, inputs)
        return protocol.InvokeResponse(self.schema.encode(signature.outputs, {**inputs, **outputs}))

    async def cancel(self) -> None:
        """Make everything that waits give up."""
        self._cancelled.set()

    async def _run(self, action: Callable[..., T], *arguments: Any) -> T:
        """Run a blocking action beside the protocol's event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, action, *arguments)

    def _resource(self, token: str) -> Resource:
        self.schema.resource(token)
        return RESOURCES[own_type(token)](self.rack, self.now)

    def _outputs(self, token: str, values: Plain) -> dict[str, PropertyValue]:
        present = {name: value for name, value in values.items() if value is not None}
        return self.schema.encode(self.schema.resource(token).outputs, present)

    @staticmethod
    def _require_known(token: str, inputs: Plain) -> None:
        unknown = [name for name, value in inputs.items() if contains_unknown(value)]
        if unknown:
            raise PluginError(f"{token}: not known yet: {', '.join(unknown)}")


def _url_problem(url: str) -> str:
    """Say why `url` is not the address of an image factory, or nothing."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"'imageFactoryUrl' is not a URL: {error}"
    extra: Any = parts.query or parts.fragment or parts.username or parts.path.strip("/")
    if parts.scheme not in ("http", "https") or not parts.hostname or extra:
        return "'imageFactoryUrl' must be http(s)://HOST[:PORT], such as http://127.0.0.1:8480"
    return ""
