"""The files of a snapshot: each with its size and digest in a manifest, which is put last and never changes.

Their layout is that of a checkpoint on an object store: ``notes`` and ``parts`` (the driver's files), ``state``,
``behind`` (outboxes of sinks), ``kept`` (what the rule log refers to).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from crossline.basics.errors import StateError, StoppedError
from crossline.io.objects.file_stores import FileStore

FORMAT = 1
MANIFEST = "manifest.json"
FileMark = tuple[int, str]  # bytes, SHA-256 in hex


class NamedFiles:
    """The names that a ``FileStore`` gives, by ``marks``: what is known of each file."""

    __slots__ = ()
    marks: Any

    def names(self, folder: str = "") -> list[str]:
        """See ``FileStore``."""
        return [name for name in self.below(folder) if "/" not in name]

    def listed(self, folder: str = "") -> dict[str, int]:
        """See ``FileStore``; without times."""
        return dict.fromkeys(self.names(folder), 0)

    def folders(self, folder: str = "") -> list[str]:
        """See ``FileStore``."""
        return sorted({name.partition("/")[0] for name in self.below(folder) if "/" in name})

    def below(self, folder: str) -> list[str]:
        """See ``FileStore``."""
        prefix = f"{folder}/" if folder else ""
        return sorted(name.removeprefix(prefix) for name in self.marks if name.startswith(prefix))


@dataclass(slots=True)
class RecordedFiles(NamedFiles):
    """A store that notes what is put into it, for the manifest.

    Attributes:
        store: The store of one snapshot.
        stop: Set: the next file is not put.
        marks: By name, what was put.
    """

    store: FileStore
    stop: threading.Event = field(default_factory=threading.Event)
    marks: dict[str, FileMark] = field(default_factory=dict)

    def put(self, name: str, data: bytes) -> None:
        """See ``FileStore``. Raises StoppedError where it is stopped."""
        if self.stop.is_set():
            raise StoppedError("stopped while a snapshot of the state was put in the lake")
        self.store.put(name, data)
        self.marks[name] = (len(data), digest_of(data))

    def put_manifest(self) -> str:
        """Put the manifest; its digest."""
        body = orjson.dumps({"format": FORMAT, "files": self.marks}, option=orjson.OPT_SORT_KEYS)
        self.store.put(MANIFEST, body)
        return digest_of(body)

    def get(self, name: str) -> bytes:
        """See ``FileStore``."""
        return self.store.get(name)

    def delete(self, name: str) -> None:
        """See ``FileStore``."""
        self.store.delete(name)
        self.marks.pop(name, None)

    def clear(self, folder: str) -> None:
        """See ``FileStore``."""
        for name in self.below(folder):
            self.delete(f"{folder}/{name}" if folder else name)


@dataclass(frozen=True, slots=True)
class CheckedFiles(NamedFiles):
    """The files of a snapshot for reading; each is compared with the manifest.

    Attributes:
        store: The store of one snapshot.
        marks: By name, what is expected.
        shown: What messages call it.
    """

    store: FileStore
    marks: Mapping[str, FileMark]
    shown: str

    @staticmethod
    def of(store: FileStore, digest: str, shown: str) -> CheckedFiles:
        """Those of the manifest with this digest. Raises StateError where the manifest is missing or another one."""
        try:
            body = store.get(MANIFEST)
        except FileNotFoundError:
            raise StateError(f"{shown}/{MANIFEST}: missing; {_ANOTHER}") from None
        if digest_of(body) != digest:
            raise StateError(f"{shown}/{MANIFEST}: damaged, its digest is not that of the table; {_ANOTHER}")
        known = orjson.loads(body)
        if known["format"] != FORMAT:
            raise StateError(
                f"{shown}/{MANIFEST}: found format {known['format']}, expected {FORMAT}; restore it with the version "
                "of crossline that wrote it"
            )
        return CheckedFiles(store, {name: (size, each) for name, (size, each) in known["files"].items()}, shown)

    def get(self, name: str) -> bytes:
        """See ``FileStore``. Raises StateError where the file is missing or damaged."""
        try:
            data = self.store.get(name)
        except FileNotFoundError:
            raise StateError(f"{self.shown}/{name}: missing; {_ANOTHER}") from None
        if (len(data), digest_of(data)) != self.marks.get(name):
            raise StateError(f"{self.shown}/{name}: damaged, its digest is not that of the manifest; {_ANOTHER}")
        return data

    def put(self, name: str, data: bytes) -> None:
        """Not supported: a snapshot never changes."""
        raise NotImplementedError

    def delete(self, name: str) -> None:
        """Not supported."""
        raise NotImplementedError

    def clear(self, folder: str) -> None:
        """Not supported."""
        raise NotImplementedError


_ANOTHER = "restore an older snapshot with --at"


def digest_of(data: bytes) -> str:
    """SHA-256, in hex."""
    return hashlib.sha256(data).hexdigest()
