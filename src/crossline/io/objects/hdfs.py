"""HDFS as pyarrow has file systems, by a client that needs no Hadoop on the machine: `pip install 'crossline[hdfs]'`.

Pyarrow's own way needs Hadoop's native library beside a Java in each process, and its rename replaces no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from crossline.basics.errors import UsageError


def hdfs(address: str) -> pafs.FileSystem:
    """The file system whose name node, or whose name service, is at ``address`` (``hdfs://HOST:PORT``).

    What Hadoop's own files say (``HADOOP_CONF_DIR``) holds. Raises UsageError where the client is not installed.
    """
    try:
        from hdfs_native import Client  # noqa: PLC0415 - only where a place is in HDFS
    except ImportError:
        raise UsageError(
            "a place in HDFS needs the package hdfs-native, found none: pip install 'crossline[hdfs]', on machines "
            "where tasks run too"
        ) from None
    with _as_os_error(address):
        return pafs.PyFileSystem(_Handler(Client(address), address))


class _Handler(pafs.FileSystemHandler):  # type: ignore[misc]
    """What pyarrow asks of a file system."""

    def __init__(self, client: Any, address: str) -> None:
        self._client = client
        self._address = address

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other._address == self._address

    def __hash__(self) -> int:
        return hash(self._address)

    def get_type_name(self) -> str:
        return "hdfs-native"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            with _as_os_error(path):
                return _info_of(path, self._client.get_file_info(path))
        except FileNotFoundError:
            return pafs.FileInfo(path, pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        try:
            with _as_os_error(selector.base_dir):
                found = list(self._client.list_status(selector.base_dir, selector.recursive))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        base = selector.base_dir.rstrip("/")
        return [_info_of(each.path, each) for each in found if each.path.rstrip("/") != base]

    def create_dir(self, path: str, recursive: bool) -> None:
        with _as_os_error(path):
            self._client.mkdirs(path, 0o700, recursive)  # private to this user

    def delete_dir(self, path: str) -> None:
        with _as_os_error(path):
            self._client.delete(path, True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        with _as_os_error(path):
            if not self._client.delete(path, False):
                raise FileNotFoundError(path)

    def move(self, src: str, dest: str) -> None:
        """One step at the name node, also where ``dest`` is there."""
        with _as_os_error(dest):
            self._client.rename(src, dest, True)

    def copy_file(self, src: str, dest: str) -> None:
        raise NotImplementedError

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        with _as_os_error(path):
            return pa.PythonFile(_Reading(self._client.read(path), path), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:  # noqa: ARG002 - pyarrow's
        from hdfs_native import WriteOptions  # noqa: PLC0415 - as above

        with _as_os_error(path):
            return pa.PythonFile(_Writing(self._client.create(path, WriteOptions(overwrite=True)), path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError


class _Reading:
    """A file as ``pa.PythonFile`` reads one."""

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        with _as_os_error(self._path):
            return bytes(self._file.read(size))

    def seek(self, offset: int, whence: int = 0) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._file.tell())

    def size(self) -> int:
        return len(self._file)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


class _Writing:
    """A file as ``pa.PythonFile`` writes one."""

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path
        self.closed = False

    def write(self, data: Any) -> int:
        with _as_os_error(self._path):
            return int(self._file.write(data))

    def flush(self) -> None:
        """What is not closed counts for nothing."""

    def tell(self) -> int:
        raise NotImplementedError

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with _as_os_error(self._path):
                self._file.close()


def _info_of(path: str, status: Any) -> pafs.FileInfo:
    kind = pafs.FileType.Directory if status.isdir else pafs.FileType.File
    size = None if status.isdir else status.length
    return pafs.FileInfo(status.path or path, kind, size=size, mtime_ns=status.modification_time * 1_000_000)


@contextmanager
def _as_os_error(path: str) -> Iterator[None]:
    """What the client raises, in the words of the name node without its Java."""
    try:
        yield
    except NotImplementedError:
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: {_first_line(error)}") from error
    except Exception as error:
        raise OSError(f"{path}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).partition("\n")[0]
