"""The image factory's HTTP interface, with its paths, shapes and status codes."""

from __future__ import annotations

import hashlib
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from rack.rack import Rack
from rack.world.errors import Refused
from rack.world.extensions import PREFIX, Extension, official
from rack.world.factory import accept, find_release, find_schematic, image
from rack.world.releases import releases

_REGISTRY: Final = "ghcr.io"
_NO_BYTES: Final = (
    "the simulated rack's images have no bytes to send; a Proxmox host of the rack takes this URL"
)


class Factory:
    """The factory of one rack."""

    def __init__(self, rack: Rack) -> None:
        self._rack = rack

    def routes(self) -> list[Route]:
        """Its paths."""
        return [
            Route("/schematics", self.create, methods=["POST"]),
            Route("/schematics/{schematic}", self.read),
            Route("/versions", self.versions),
            Route("/version/{version}/extensions/official", self.extensions),
            Route("/image/{schematic}/{version}/{file}", self.image),
        ]

    async def create(self, request: Request) -> Response:
        """Keep a schematic; the same one always gets the same id."""
        text = (await request.body()).decode(errors="replace")
        return await run_in_threadpool(self._create, text)

    def _create(self, text: str) -> Response:
        try:
            schematic = accept(text)
        except Refused as refusal:
            return _refused(refusal)
        with self._rack.lock() as world:
            world.schematics[schematic.id] = schematic
        return JSONResponse({"id": schematic.id, "schematic": schematic.text}, status_code=201)

    def read(self, request: Request) -> Response:
        """A schematic in its canonical form."""
        try:
            with self._rack.lock() as world:
                schematic = find_schematic(world.schematics, request.path_params["schematic"])
        except Refused as refusal:
            return _refused(refusal)
        return Response(schematic.text, media_type="application/yaml")

    def versions(self, request: Request) -> Response:
        """The Talos releases, oldest first."""
        del request
        return JSONResponse(list(releases()))

    def extensions(self, request: Request) -> Response:
        """The official extensions of a release."""
        try:
            release = find_release(request.path_params["version"])
        except Refused as refusal:
            return _refused(refusal)
        return JSONResponse([_describe(extension) for extension in official(release).values()])

    def image(self, request: Request) -> Response:
        """Whether an image exists and how large it is; its bytes cannot be had."""
        try:
            with self._rack.lock() as world:
                found = image(world.schematics, request.url.path)
        except Refused as refusal:
            return _refused(refusal)
        if request.method != "HEAD":
            return PlainTextResponse(f"{_NO_BYTES}\n", status_code=501)
        filename = request.path_params["file"]
        return Response(
            headers={
                "Content-Length": str(found.size),
                "Content-Type": "application/octet-stream",
                "Content-Disposition": f'attachment; filename="{filename}"',
            }
        )


def _describe(extension: Extension) -> dict[str, str]:
    reference = f"{_REGISTRY}/{PREFIX}{extension.name}:{extension.version}"
    return {
        "name": f"{PREFIX}{extension.name}",
        "ref": reference,
        "digest": "sha256:" + hashlib.sha256(reference.encode()).hexdigest(),
        "author": "Sidero Labs",
        "description": f"{extension.name} on the simulated rack",
    }


def _refused(refusal: Refused) -> Response:
    """The factory answers in plain text."""
    return PlainTextResponse(f"{refusal.message}\n", status_code=refusal.status)
