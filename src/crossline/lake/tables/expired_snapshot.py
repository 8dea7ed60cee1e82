"""The error of a reader whose snapshot has expired."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from crossline.lake.catalogs.unavailable import LakeUnavailableError


@contextmanager
def reading(table: str) -> Iterator[None]:
    """Read files of a snapshot of ``table``: one that is gone went with its snapshot.

    Maintenance deletes the files of snapshots beyond ``snapshots_max`` that are older than 15 minutes.

    Raises:
        LakeUnavailableError: A file is gone. Reading again reads the current snapshot.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise LakeUnavailableError(
            f"table {table} of the lake: the snapshot that is read has expired, and its files are deleted; expected a "
            "read within 15 minutes, or fewer commits than `snapshots_max` meanwhile: read again"
        ) from error
