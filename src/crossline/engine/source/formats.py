"""Files that are not JSON lines, decoded chunk by chunk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from crossline.connectors.chunks import read_range
from crossline.core.decode import Decoded, Layout, decode_csv, decode_table
from crossline.core.errors import SourceError


def decode_file(form: str, layout: Layout, path: str, start: int, end: int) -> Decoded:
    """Bytes [start, end) of a CSV file, whose first line names the columns, or the whole of a Parquet file."""
    if form == "parquet":
        try:
            table = pq.read_table(path)
        except (OSError, ValueError) as error:
            raise SourceError(f"{path}: not a Parquet file that can be read: {error}") from error
        return decode_table(layout, table, path, np.arange(table.num_rows, dtype=np.int64))
    header, first = _csv_header(path)
    begin = max(start, first)
    data = read_range(path, begin, end) if end > begin else b""
    return decode_csv(layout, header, data, path, begin)


def _csv_header(path: str) -> tuple[list[str], int]:
    """The column names of a CSV file, and where its first record starts."""
    with Path(path).open("rb") as file:
        line = file.readline()
    names = line.decode("utf-8-sig", errors="replace").rstrip("\r\n").split(",")
    return [name.strip().strip('"') for name in names], len(line)
