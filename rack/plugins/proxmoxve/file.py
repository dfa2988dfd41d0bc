"""download.File: a file that the host downloads into a storage. Its id is the volume's.

The id is `datastore:content/filename`; an import may put the node in front, `node/datastore:…`.
"""

from __future__ import annotations

from typing import Any, Final

from pulumi.provider.experimental.provider import PropertyDiffKind

from rack.plugins.contract import Plain, PluginError
from rack.plugins.proxmoxve.client import ApiError, Client, TaskError, volume_path
from rack.plugins.proxmoxve.options import SCHEMA
from rack.plugins.proxmoxve.resource import Context, Found, Kinds

TOKEN: Final = "proxmoxve:download/file:File"  # noqa: S105 - a type's token, no secret
INPUTS: Final = SCHEMA.resources[TOKEN].inputs
EXPECTED_SIZE: Final = "__expectedSize"
"""The size that the file should have: as downloaded, or as its URL offers it now."""

REFUSED_OVERWRITE: Final = "refusing to override existing file"
VISIBLE_SECONDS: Final = 5.0


class File:
    """A file in a storage."""

    def create(self, context: Context, inputs: Plain) -> Found:
        """Let the host download the file; one that exists is replaced only if asked for."""
        client = context.client
        offered = _offered(client, inputs)
        file = {**inputs, "fileName": inputs.get("fileName") or offered.get("filename")}
        volume = f"{file['datastoreId']}:{file['contentType']}/{file['fileName']}"
        try:
            self._download(client, file)
        except (ApiError, TaskError) as error:
            if REFUSED_OVERWRITE not in str(error):
                raise PluginError(
                    f"Could not download file '{file['fileName']}', unexpected error: {error}"
                ) from error
            if not file["overwriteUnmanaged"]:
                raise PluginError(
                    f"File already exists in the datastore: '{volume}'. It was created outside of"
                    f" Pulumi or is managed by another resource: {error}. Import it, or set"
                    " `overwriteUnmanaged` to replace it"
                ) from error
            self._remove(client, file["nodeName"], volume)
            self._download(client, file)
        return self._await_listed(context, volume, file)

    def _download(self, client: Client, file: Plain) -> None:
        node, storage = file["nodeName"], file["datastoreId"]
        parameters = {
            "content": file["contentType"],
            "filename": file["fileName"],
            "url": file["url"],
            "checksum": file.get("checksum"),
            "checksum-algorithm": file.get("checksumAlgorithm"),
            "compression": file.get("decompressionAlgorithm"),
            "verify-certificates": file["verify"],
        }
        upid = client.post(f"/nodes/{node}/storage/{storage}/download-url", parameters)
        client.wait(upid, "file download", file["uploadTimeout"])

    def _await_listed(self, context: Context, volume: str, file: Plain) -> Found:
        # A distributed storage may list the file a moment after the download.
        for _ in context.client.until(VISIBLE_SECONDS):
            size = _size(context.client, file["nodeName"], volume)
            if size is not None:
                return Found(volume, {**file, "size": size, EXPECTED_SIZE: size}, file)
        raise PluginError(f"file '{volume}' was downloaded, but the datastore does not list it")

    def read(self, context: Context, resource_id: str, state: Plain) -> Found | None:
        """Look the volume up in its storage; the URL it came from is known to the state alone."""
        client = context.client
        volume = (
            resource_id
            if resource_id.find(":") < _slash(resource_id)
            else resource_id.partition("/")[2]
        )
        node = state.get("nodeName") or resource_id.removesuffix(volume).rstrip("/")
        node = node or _only_node(client)
        size = _size(client, node, volume)
        if size is None:
            return None
        storage, _, path = volume.partition(":")
        content, _, name = path.partition("/")
        where = {
            "nodeName": node,
            "datastoreId": storage,
            "contentType": content,
            "fileName": name,
        }
        settings = {name: rule.default for name, rule in INPUTS.items() if rule.default is not None}
        file = {**settings, **state, **where}
        expected = state.get(EXPECTED_SIZE, size)
        if file["overwrite"] and file.get("url"):
            expected = self._offered_size(client, file, expected)
        inputs = {name: value for name, value in file.items() if name in INPUTS}
        return Found(volume, {**file, "size": size, EXPECTED_SIZE: expected}, inputs)

    def _offered_size(self, client: Client, file: Plain, expected: int) -> int:
        try:
            return int(_offered(client, file).get("size", expected))
        except ApiError:
            return expected

    def update(self, context: Context, resource_id: str, old: Plain, new: Plain) -> Plain:
        """Take over new settings: none of them touches the file."""
        size = _size(context.client, new["nodeName"], resource_id)
        if size is None:
            raise PluginError(f"file '{resource_id}' does not exist in the datastore any more")
        return {**new, "size": size, EXPECTED_SIZE: old.get(EXPECTED_SIZE, size)}

    def delete(self, context: Context, resource_id: str, state: Plain) -> None:
        """Remove the file."""
        self._remove(context.client, state["nodeName"], resource_id)

    def _remove(self, client: Client, node: str, volume: str) -> None:
        try:
            upid: Any = client.delete(volume_path(node, volume))
            client.wait(upid, "file deletion", INPUTS["uploadTimeout"].default)
        except (ApiError, TaskError) as error:
            if not error.gone:
                raise

    def refine(self, kinds: Kinds, old: Plain, new: Plain) -> Kinds:
        """Replace a file whose size is not what it should be, unless `overwrite` is off."""
        changed = old.get("size") != old.get(EXPECTED_SIZE, old.get("size"))
        if changed and new.get("overwrite"):
            return {**kinds, "size": PropertyDiffKind.UPDATE_REPLACE}
        return kinds


def _slash(resource_id: str) -> int:
    """Return where the first slash is, or the end."""
    return resource_id.find("/") if "/" in resource_id else len(resource_id)


def _only_node(client: Client) -> str:
    nodes = [str(node["node"]) for node in client.get("/nodes")]
    if len(nodes) != 1:
        raise PluginError(
            "expected import identifier with format: node_name/datastore_id:content_type/file_name"
            f" (the cluster has the nodes {', '.join(sorted(nodes)) or 'none'})"
        )
    return nodes[0]


def _offered(client: Client, file: Plain) -> Plain:
    """Ask the host what the URL offers: `filename` and `size` in bytes."""
    path = f"/nodes/{file['nodeName']}/query-url-metadata"
    offered = client.get(path, url=file["url"], **{"verify-certificates": file["verify"]})
    return dict(offered or {})


def _size(client: Client, node: str, volume: str) -> int | None:
    """Return the size of a volume in bytes; None when the storage does not list it."""
    storage, _, path = volume.partition(":")
    listed = client.get(f"/nodes/{node}/storage/{storage}/content", content=path.partition("/")[0])
    sizes = [int(entry["size"]) for entry in listed if entry["volid"] == volume]
    return sizes[0] if sizes else None
