"""Reads the labels that people gave through the API, out of the file in which ``serve/cases`` keeps them."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from crossline.basics.errors import UsageError

_BUSY_S = 5.0
_MAGIC = b"SQLite format 3\0"
_QUERY = "SELECT record_id, is_fraud FROM labels_now WHERE {} ORDER BY seq"


def is_database(path: Path) -> bool:
    """Whether ``path`` is a SQLite file."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def labels_in(path: Path, streams: Collection[str] | None) -> Iterator[Mapping[str, Any]]:
    """The last word on records of ``streams`` (None: of all): ``record_id`` and ``is_fraud``; all of one moment.

    Raises UsageError if the file has no labels of the API, or cannot be read.
    """
    where = "TRUE" if streams is None else f"stream IN ({', '.join('?' * len(streams))})"
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=_BUSY_S)) as connection:
            for record_id, is_fraud in connection.execute(_QUERY.format(where), [*(streams or ())]):
                yield {"record_id": record_id, "is_fraud": bool(is_fraud)}
    except sqlite3.Error as error:
        text = f"--labels: found no labels in {path} ({error}); expected cases.db in the folder of serve.path"
        raise UsageError(text) from None
