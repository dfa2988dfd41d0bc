"""The plugin protocol around a provider: what the SDK's own server lacks.

The SDK's server turns every error into a Python traceback, has no partial creation, and cannot
compare provider configurations. This one subclasses it; `main` replaces the SDK's `main`.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc  # type: ignore[import-untyped]
import grpc.aio  # type: ignore[import-untyped]
from pulumi.provider.experimental.property_value import PropertyValue
from pulumi.provider.experimental.provider import Provider
from pulumi.provider.experimental.server import ProviderServicer
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS
from pulumi.runtime.proto import (
    engine_pb2,
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
    status_pb2,
)

from rack.plugins.contract import PartialCreationError, PluginError, Schema

GUARDED: Final = (
    "CheckConfig",
    "Configure",
    "Check",
    "Diff",
    "Create",
    "Read",
    "Update",
    "Delete",
    "Invoke",
)
"""Methods of the protocol whose errors the user reads."""

SHUTDOWN_GRACE_SECONDS: Final = 5.0
ENGINE_LOOK_SECONDS: Final = 30.0
"""A plugin whose engine was killed ends after this long at the latest; until then it goes on with
what it was told, as the official ones do."""

Method = Callable[[Any, Any], Awaitable[Any]]


class WarningProvider(Provider):
    """A provider that can show the user a warning beside a resource."""

    _engine = ""

    def connect(self, engine: str) -> None:
        """Take the address of the engine, which shows the warnings."""
        self._engine = engine

    def warn(self, urn: str, message: str) -> None:
        """Show a warning; without an engine, nowhere."""
        if self._engine:
            with grpc.insecure_channel(self._engine) as channel:
                severity = engine_pb2.LogSeverity.Value("WARNING")
                request = engine_pb2.LogRequest(severity=severity, message=message, urn=urn)
                engine_pb2_grpc.EngineStub(channel).Log(request)


class Servicer(ProviderServicer):
    """The SDK's servicer, with readable errors, partial creation and a configuration diff."""

    def __init__(self, provider: Provider, schema: Schema, engine: str) -> None:
        super().__init__([], schema.version, provider, engine_address=engine)
        self._schema = schema
        for name in GUARDED:
            setattr(self, name, self._guarded(getattr(self, name)))

    def _guarded(self, method: Method) -> Method:
        @functools.wraps(method)
        async def call(request: Any, context: Any) -> Any:
            try:
                return await method(request, context)
            except Exception as error:
                # The SDK wraps the provider's own exception into one with a traceback as text.
                cause = error.__context__ or error
                if isinstance(cause, PartialCreationError):
                    await self._abort_partial(context, request.urn, cause)
                if isinstance(cause, PluginError):
                    await context.abort(grpc.StatusCode.UNKNOWN, str(cause))
                raise

        return call

    async def _abort_partial(self, context: Any, urn: str, error: PartialCreationError) -> None:
        signature = self._schema.resource(urn.split("::")[2])
        detail = provider_pb2.ErrorResourceInitFailed(
            id=error.resource_id,
            properties=_struct(self._schema.encode(signature.outputs, error.outputs)),
            inputs=_struct(self._schema.encode(signature.inputs, error.inputs)),
            reasons=[error.reason],
        )
        code = grpc.StatusCode.UNKNOWN
        status = status_pb2.Status(code=code.value[0], message=error.reason)
        status.details.add().Pack(detail)
        metadata = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(code, error.reason, metadata)

    async def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Report changed provider configuration as an update; nothing in it replaces resources."""
        old, new = (PropertyValue.unmarshal_map(side) for side in (request.olds, request.news))
        changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
        response = provider_pb2.DiffResponse
        changes = response.DIFF_SOME if changed else response.DIFF_NONE
        return response(changes=changes, diffs=changed)


def _struct(values: dict[str, PropertyValue]) -> Any:
    return PropertyValue.marshal_map(values)


def main(provider: Provider, schema: Schema) -> None:
    """Serve `provider` to the engine whose address is the first argument, until it hangs up.

    SIGTERM and SIGINT cancel the operations under way and stop the server.
    """
    arguments = argparse.ArgumentParser(description=f"The simulated rack's {schema.package} plugin")
    arguments.add_argument("engine", nargs="?", default="", help="address of the Pulumi engine")
    known, _ = arguments.parse_known_args()
    asyncio.run(_serve(provider, schema, known.engine))


async def _serve(provider: Provider, schema: Schema, engine: str) -> None:
    server = grpc.aio.server(options=_GRPC_CHANNEL_OPTIONS)
    servicer = Servicer(provider, schema, engine)
    if isinstance(provider, WarningProvider):
        provider.connect(engine)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    stopped = asyncio.ensure_future(stop.wait())
    ended = asyncio.ensure_future(server.wait_for_termination())
    alone = asyncio.ensure_future(_until_gone(engine))
    await asyncio.wait({stopped, ended, alone}, return_when=asyncio.FIRST_COMPLETED)
    await provider.cancel()
    await server.stop(SHUTDOWN_GRACE_SECONDS)


async def _until_gone(engine: str, pause: float = ENGINE_LOOK_SECONDS) -> None:
    """Return when nobody listens at the engine's address any more; never without an engine."""
    host, _, port = engine.rpartition(":")
    while True:
        await asyncio.sleep(pause)
        if not port:
            continue
        try:
            _, writer = await asyncio.open_connection(host or "127.0.0.1", int(port))
        except OSError:
            return
        writer.close()
