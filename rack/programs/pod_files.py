"""Files in a pod's Python: questions about paths are answered from the pod's filesystem."""

from __future__ import annotations

import builtins
import errno
import glob
import io
import os
import stat
from typing import Any, Final

from rack.programs.container import Container
from rack.programs.pod_loader import LOADED
from rack.world.filetree import Entry

_MODES: Final = {
    "file": stat.S_IFREG | 0o644,
    "program": stat.S_IFREG | 0o755,
    "folder": stat.S_IFDIR | 0o755,
    "link": stat.S_IFLNK | 0o777,
    "device": stat.S_IFCHR | 0o666,
}


MAPS: Final = ("/proc/self/maps", "/proc/thread-self/maps")


def _memory_map() -> str:
    """The process's memory map, as far as it is about libraries of the pod."""
    begin = 0x7F0000000000
    return "".join(
        f"{begin + n * 0x1000000:012x}-{begin + (n + 1) * 0x1000000:012x} r-xp 00000000 00:00 0"
        f"                          {path}\n"
        for n, path in enumerate(LOADED)
    )


def install(container: Container) -> None:
    """Replace the ways to look at files; what belongs to Python itself stays reachable."""
    files = _Files(container)
    replaced: dict[Any, dict[str, Any]] = {
        builtins: {"open": files.open},
        io: {"open": files.open},
        os: {
            "listdir": files.listdir,
            "stat": files.stat,
            "lstat": lambda path, **_: files.stat(path, follow_symlinks=False),
        },
        os.path: {"realpath": lambda path, **_: files.real_path(path)},
        glob: {
            "glob": lambda pattern, **_: container.tree.glob(pattern),
            "iglob": lambda pattern, **_: iter(container.tree.glob(pattern)),
        },
    }
    for module, functions in replaced.items():
        for name, function in functions.items():
            setattr(module, name, function)


class _Files:
    """The pod's files, asked as the operating system is."""

    def __init__(self, container: Container) -> None:
        self._tree = container.tree
        self._library = os.path.dirname(os.__file__) + "/"  # noqa: PTH120 - compared as text
        self._open, self._stat = builtins.open, os.stat

    def _is_own(self, path: object) -> bool:
        """Python's own library, or an open file."""
        return isinstance(path, int) or str(path).startswith(self._library)

    def _entry(self, path: object, *, follow: bool = True) -> Entry:
        found = self._tree.get(str(path), follow=follow)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return found

    def open(self, path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        """Read a file of the pod; writing is refused, as nothing of the host is the pod's."""
        if self._is_own(path):
            return self._open(path, mode, *args, **kwargs)
        if set(mode) & set("wax+"):
            raise PermissionError(errno.EROFS, "simulated rack: pods write no files", str(path))
        if str(path) in MAPS:
            return io.StringIO(_memory_map())
        entry = self._entry(path)
        if entry.kind == "folder":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return io.BytesIO(entry.text.encode()) if "b" in mode else io.StringIO(entry.text)

    def listdir(self, path: Any = ".") -> list[str]:
        """Names in a folder of the pod."""
        if self._entry(path).kind != "folder":
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return self._tree.children(str(path))

    def stat(self, path: Any, *, follow_symlinks: bool = True, **kwargs: Any) -> os.stat_result:
        """What the pod's filesystem says of a path."""
        if self._is_own(path):
            return self._stat(path, follow_symlinks=follow_symlinks, **kwargs)
        entry = self._entry(path, follow=follow_symlinks)
        return os.stat_result((_MODES[entry.kind], 0, 0, 1, 0, 0, len(entry.text), 0, 0, 0))

    def real_path(self, path: Any) -> str:
        """A path without links."""
        return self._tree.real_path(str(path)) or str(path)
