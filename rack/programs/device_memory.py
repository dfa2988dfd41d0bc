"""Memory of a card that takes no more of the host's than was written to it."""

from __future__ import annotations

from typing import Final

_PAGE: Final = 1024 * 1024
_ZEROS: Final = bytes(4)


class DeviceMemory:
    """One allocation. A page that is full of one 32-bit number is kept as that number."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._pages: dict[int, bytes | bytearray] = {}

    def read(self, at: int, size: int) -> bytes:
        """Bytes from a place in the allocation."""
        found = bytearray()
        while len(found) < size:
            page, offset = divmod(at + len(found), _PAGE)
            take = min(size - len(found), _PAGE - offset)
            found += self._content(page)[offset : offset + take]
        return bytes(found)

    def write(self, at: int, data: bytes) -> None:
        """Put bytes to a place in the allocation."""
        done = 0
        while done < len(data):
            page, offset = divmod(at + done, _PAGE)
            take = min(len(data) - done, _PAGE - offset)
            self._own(page)[offset : offset + take] = data[done : done + take]
            done += take

    def fill(self, at: int, word: bytes, count: int) -> None:
        """Put a word of four bytes so many times to a place; whole pages cost nothing."""
        end = at + 4 * count
        while at < end:
            page, offset = divmod(at, _PAGE)
            take = min(end - at, _PAGE - offset)
            if take == _PAGE:
                self._pages[page] = word
            else:
                self.write(at, word * (take // 4))
            at += take

    def _content(self, page: int) -> bytes | bytearray:
        found = self._pages.get(page, _ZEROS)
        return found * (_PAGE // 4) if isinstance(found, bytes) else found

    def _own(self, page: int) -> bytearray:
        found = bytearray(self._content(page))
        self._pages[page] = found
        return found
