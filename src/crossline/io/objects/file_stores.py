"""Stores of small files: local disk, object store, HDFS. Files are written and read whole. No append, no lock.

Guarantee: after ``put`` returns, every reader sees the whole file, also after a crash. After a ``put`` that failed, the
file is there whole, or as it was before. Names are paths below the store's folder.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from crossline.basics.errors import RetryableError, StateError, StoppedError
from crossline.io.files.sync import sync_path
from crossline.io.net.deadline import Deadline, NoAnswerError, SerialCalls, within
from crossline.io.objects.location import StoreLocation, is_uri, location_of
from crossline.logs import get_logger

ASIDE = ".tmp"
PAUSE_S, PAUSE_S_MAX = 0.2, 5.0
ANSWER_S_MAX = 120.0  # that an answer may take, and more for large files, at
BYTES_PER_S_MIN = 256 << 10
LOG_EVERY_S = 60.0  # between two log lines about an unavailable store
# Errors of the AWS library that no retry changes.
_FOR_GOOD = re.compile(
    r"\b(ACCESS_DENIED|NO_SUCH_BUCKET|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_CLIENT_TOKEN_ID|"
    r"UNRECOGNIZED_CLIENT|MISSING_AUTHENTICATION_TOKEN|INVALID_SIGNATURE|INVALID_PARAMETER_VALUE|"
    r"OPT_IN_REQUIRED|VALIDATION)\b|HTTP status (400|401|403|405|411|501)\b|does not exist|Permission denied"
)
T = TypeVar("T")

log = get_logger(__name__)


class StoreUnavailableError(RetryableError):
    """The store does not answer now."""


class FileStore(Protocol):
    """A store of small files. The module states what it guarantees."""

    def put(self, name: str, data: bytes) -> None:
        """Make ``data`` the file ``name``."""
        ...

    def get(self, name: str) -> bytes:
        """The file. Raises FileNotFoundError where there is none."""
        ...

    def names(self, folder: str = "") -> list[str]:
        """The names of the files that lie in ``folder`` itself, sorted; none where it is not there."""
        ...

    def listed(self, folder: str = "") -> dict[str, int]:
        """The same, each with when it was put, in epoch milliseconds."""
        ...

    def folders(self, folder: str = "") -> list[str]:
        """The names of the folders that lie in ``folder`` itself, sorted."""
        ...

    def below(self, folder: str) -> list[str]:
        """The names of all files at any depth below ``folder``, as paths below it, sorted."""
        ...

    def delete(self, name: str) -> None:
        """Remove the file, where it is there."""
        ...

    def clear(self, folder: str) -> None:
        """Remove ``folder`` and all that lies below it, where it is there."""
        ...


def file_store(root: str) -> FileStore:
    """The store below ``root``, a path or a URI."""
    return ObjectFiles(location_of(root), root) if is_uri(root) else LocalFiles(Path(root))


class LocalFiles:
    """FileStore on a local disk: writes a temporary file, syncs and renames it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._made = False

    def put(self, name: str, data: bytes) -> None:
        """See ``FileStore``."""
        path = self.root / name
        temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}{ASIDE}")
        if not self._made or "/" in name:  # one that was there and is gone is no place to put anything
            path.parent.mkdir(parents=True, exist_ok=True)
        self._made = True
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_path(path.parent)  # else a power cut may take the name, and with it the file
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def get(self, name: str) -> bytes:
        """See ``FileStore``."""
        return (self.root / name).read_bytes()

    def names(self, folder: str = "") -> list[str]:
        """See ``FileStore``."""
        return [path.name for path in self._there(folder) if path.is_file()]

    def listed(self, folder: str = "") -> dict[str, int]:
        """See ``FileStore``."""
        return {p.name: p.stat().st_mtime_ns // 1_000_000 for p in self._there(folder) if p.is_file()}

    def folders(self, folder: str = "") -> list[str]:
        """See ``FileStore``."""
        return [path.name for path in self._there(folder) if path.is_dir()]

    def below(self, folder: str) -> list[str]:
        """See ``FileStore``."""
        base = self.root / folder
        return sorted(str(p.relative_to(base)) for p in base.rglob("*") if p.suffix != ASIDE and p.is_file())

    def delete(self, name: str) -> None:
        """See ``FileStore``."""
        (self.root / name).unlink(missing_ok=True)

    def clear(self, folder: str) -> None:
        """See ``FileStore``."""
        shutil.rmtree(self.root / folder, ignore_errors=True)

    def delete_temporary_files(self) -> None:
        """Create the store's folder, and remove the temporary files in it that a killed process left."""
        self.root.mkdir(parents=True, exist_ok=True)
        self._made = True
        for path in self.root.glob(f"*{ASIDE}"):
            path.unlink(missing_ok=True)

    def __str__(self) -> str:
        return str(self.root)

    def _there(self, folder: str) -> list[Path]:
        with suppress(FileNotFoundError):
            return sorted(path for path in (self.root / folder).iterdir() if path.suffix != ASIDE)
        return []


def in_time(call: Callable[[], T], size: int = 0, turns: SerialCalls | None = None) -> T:
    """What ``call`` gives: an answer of ``size`` bytes, or a question. Its own time-outs are a read's.

    ``turns``: of calls that change something. Raises NoAnswerError, which is an OSError.
    """
    deadline = Deadline(ANSWER_S_MAX + size / BYTES_PER_S_MIN)
    return within(deadline, call, "store") if turns is None else turns.within(deadline, call, "store")


class ObjectFiles:
    """Implements FileStore where pyarrow has a file system. Raises StoreUnavailableError, or StateError for good."""

    def __init__(self, place: StoreLocation, shown: str) -> None:
        self._place = place
        self._shown = shown
        self._turns = serial_calls_of(shown)

    def put(self, name: str, data: bytes) -> None:
        """See ``FileStore``. An object appears once it is complete; elsewhere a temporary file is renamed."""
        path = self._path(name)
        temporary = path if self._place.whole else f"{path}.{uuid.uuid4().hex}{ASIDE}"

        def write() -> None:
            fs = self._place.fs
            if not self._place.whole:
                fs.create_dir(path.rpartition("/")[0], recursive=True)
            with fs.open_output_stream(temporary, compression=None) as out:  # else a name that ends in .gz is packed
                out.write(data)
            if not self._place.whole:
                fs.move(temporary, path)

        self._tried(lambda: in_time(write, len(data), self._turns), name)

    def get(self, name: str) -> bytes:
        """See ``FileStore``."""

        def read() -> bytes:
            file = in_time(lambda: self._place.fs.open_input_file(self._path(name)))
            return in_time(lambda: _whole(file), in_time(file.size))

        return self._tried(read, name)

    def names(self, folder: str = "") -> list[str]:
        """See ``FileStore``."""
        return sorted(self.listed(folder))

    def listed(self, folder: str = "") -> dict[str, int]:
        """See ``FileStore``."""
        found = self._there(folder, pafs.FileType.File)
        return {each.base_name: (each.mtime_ns or 0) // 1_000_000 for each in found}

    def folders(self, folder: str = "") -> list[str]:
        """See ``FileStore``."""
        return sorted(each.base_name for each in self._there(folder, pafs.FileType.Directory))

    def below(self, folder: str) -> list[str]:
        """See ``FileStore``."""
        base = self._path(folder)
        found = self._there(folder, pafs.FileType.File, recursive=True)
        return sorted(each.path.removeprefix(f"{base}/") for each in found)

    def delete(self, name: str) -> None:
        """See ``FileStore``."""
        with suppress(FileNotFoundError):
            self._tried(lambda: in_time(lambda: self._place.fs.delete_file(self._path(name)), 0, self._turns), name)

    def clear(self, folder: str) -> None:
        """See ``FileStore``. File by file: not every store deletes many at once."""
        for name in self.below(folder):
            self.delete(f"{folder}/{name}")
        try:
            in_time(lambda: self._place.fs.delete_dir(self._path(folder)), 0, self._turns)
        except NoAnswerError as error:
            raise store_error_of(error, f"{self._shown}, {folder}") from error
        except OSError as error:  # an empty folder does no harm
            log.debug("an empty folder stays", folder=f"{self._shown}/{folder}", error=str(error))

    def __str__(self) -> str:
        return self._shown

    def _there(self, folder: str, kind: pafs.FileType, *, recursive: bool = False) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(self._path(folder), allow_not_found=True, recursive=recursive)
        found = self._tried(lambda: in_time(lambda: self._place.fs.get_file_info(selector)), folder)
        return [each for each in found if each.type == kind and not each.base_name.endswith(ASIDE)]

    def _path(self, name: str) -> str:
        return f"{self._place.base}/{name}".rstrip("/")

    def _tried(self, call: Callable[[], T], name: str) -> T:
        try:
            return call()
        except FileNotFoundError:
            raise
        except OSError as error:
            raise store_error_of(error, f"{self._shown}, {name or 'its folder'}") from error


# By process and root: a store opened again must not overtake an abandoned write.
_TURNS: dict[tuple[int, str], SerialCalls] = {}


def serial_calls_of(root: str) -> SerialCalls:
    """The queue of writes below ``root`` of this process."""
    return _TURNS.setdefault((os.getpid(), root), SerialCalls())


def _whole(file: pa.NativeFile) -> bytes:
    with file:
        return bytes(file.read())


def store_error_of(error: OSError, where: str) -> StoreUnavailableError | StateError:
    """The error of a file system as a transient StoreUnavailableError or a permanent StateError."""
    if _FOR_GOOD.search(str(error)):
        return StateError(f"{where}: the store refuses: {error}; check that it is there, and what you may do there")
    return StoreUnavailableError(f"{where}: the store does not answer as it should: {error}")


def retry_until_available(
    call: Callable[[], T], stop: threading.Event | None = None, within_s: float | None = None
) -> T:
    """The result of ``call``, retried with growing pauses while the store is unavailable.

    Raises StoppedError once ``stop`` is set, StoreUnavailableError after ``within_s``, and permanent errors at once.
    """
    began_s, pause_s, logged_s = time.monotonic(), PAUSE_S, float("-inf")
    stop = stop or threading.Event()
    while True:
        try:
            return call()
        except StoreUnavailableError as error:
            now_s = time.monotonic()
            if stop.is_set():
                raise StoppedError(f"stopped while a store was away: {error}") from error
            if within_s is not None and now_s - began_s >= within_s:
                raise
            if now_s - logged_s >= LOG_EVERY_S:
                logged_s = now_s
                log.warning("a store is away; waiting", error=str(error))
            stop.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
