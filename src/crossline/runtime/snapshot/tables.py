"""Contents of tables, as a process has them: files mapped into memory, each opened once, so that all share one copy."""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

import pyarrow as pa

from crossline.basics.errors import StateError
from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.enrich.join import Join, held
from crossline.ingest.enrich.overlay import Overlay
from crossline.ingest.enrich.table import Table
from crossline.ingest.enrich.versions import Tables
from crossline.io.objects.location import is_uri

# By path, which has the digest of what is in the file; for as long as some plan snapshot uses it.
_OPEN: WeakValueDictionary[str, Table] = WeakValueDictionary()


def open_table(path: str) -> Table:
    """The content at ``path``. Raises StateError where it is not there, or cannot be read."""
    table = _OPEN.get(path)
    if table is None:
        _OPEN[path] = table = Table(_mapped(path))
    return table


def _mapped(path: str) -> pa.Table:
    try:
        return _from_store(path) if is_uri(path) else _read(path)
    except (OSError, pa.ArrowException) as error:
        raise StateError(
            f"{Path(path).name}, a table that records are joined with, cannot be read in {Path(path).parent}: "
            f"{error}. Start the pipeline again: it makes the file anew"
        ) from None


def _read(path: str) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(path)).read_all()


def _from_store(uri: str) -> pa.Table:
    """By way of a file that has no name once it is mapped: what is not looked at need not be in memory."""
    from crossline.io.objects.file_stores import file_store, retry_until_available  # noqa: PLC0415 - loads pyarrow.fs

    folder, _, name = (part := urlsplit(uri)).path.rpartition("/")
    data = retry_until_available(lambda: file_store(part._replace(path=folder).geturl()).get(name))
    with tempfile.NamedTemporaryFile(prefix="crossline-table-") as file:
        file.write(data)
        file.flush()
        return _read(file.name)


def join_of(name: str, spec: StreamSpec, stream: str, tables: Tables) -> Join:
    """Table ``name`` as records of ``stream`` are joined with it."""
    declared = spec.enrich[name]
    standing = tables.get(name, ())
    versions = [(each.begins, open_table(each.path)) for each in standing]
    if not versions:
        raise StateError(f"table {name} of stream {stream} has no content; give the backtest its files, or the log")
    overlays = {n: Overlay(_mapped(each.overlay), stream) for n, each in enumerate(standing) if each.overlay}
    return Join(name, tuple(declared.key), tuple(declared.columns), held(versions, stream, overlays))
