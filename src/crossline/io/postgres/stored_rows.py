"""Rows of one table of PostgreSQL, each under its identity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from psycopg import Copy

from crossline.basics.values import I64


class StoredRows(ABC):
    """Rows of ``table``, each under its identity (16 bytes), each identity once, in the order of their delivery.

    ``columns``: their names, in the order in which rows have them. ``form``: what the server is told of the form in
    which it gets rows. ``months``: of each row, as its first day. ``micros``: int64[n], the time that partitions go by
    (see ``delivered``).
    """

    table: str
    columns: Sequence[str]
    form: str
    identities: Sequence[bytes]
    months: Sequence[str]
    micros: I64

    @abstractmethod
    def write(self, copy: Copy, numbers: Sequence[int] | None = None) -> None:
        """Give the server the rows with these numbers, by default all."""
