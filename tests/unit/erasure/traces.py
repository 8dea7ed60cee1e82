"""Looks for texts in files as somebody with the disk would: inside Parquet, Avro, gzip and JSON too."""

from __future__ import annotations

import gzip
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DEFAULT_READ_VERSION, MANIFEST_ENTRY_SCHEMAS

SALT = b"0123456789abcdef"


def whole_word(text: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w-])" + re.escape(text.encode()) + rb"(?![\w-])")


def files_with(folder: Path, *texts: str) -> list[str]:
    """The files below ``folder`` in which one of ``texts`` is, by their paths."""
    patterns = [whole_word(text) for text in texts]
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(pattern.search(part) for pattern in patterns for part in contents(path))
    )


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what is packed in it."""
    raw = path.read_bytes()
    yield raw
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        yield repr(table.to_pylist()).encode()
    elif path.suffix == ".gz":
        yield gzip.decompress(raw)
    elif path.suffix == ".avro" and not path.name.startswith("snap-"):
        yield b" ".join(_bounds(path))
    elif raw[:15] == b"SQLite format 3":
        with closing(sqlite3.connect(path)) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
                yield repr(connection.execute(f'SELECT * FROM "{name}"').fetchall()).encode()  # noqa: S608


def _bounds(path: Path) -> Iterator[bytes]:
    """The bounds of columns that a manifest of Iceberg has."""
    schema = MANIFEST_ENTRY_SCHEMAS[DEFAULT_READ_VERSION]
    with AvroFile[Any](PyArrowFileIO().new_input(str(path)), schema) as reader:
        for entry in reader:
            yield repr(entry).encode()


def texts_in(table: pa.Table) -> str:
    return repr(table.to_pylist())
