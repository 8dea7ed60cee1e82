"""Rows of one table of PostgreSQL, each under its identity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

from psycopg import Copy

Form = TypeVar("Form")


class StoredRows(ABC, Generic[Form]):
    """Rows of ``table``, each under its identity (32 hexadecimal digits), in the order of their delivery.

    ``columns``: their names, in the order in which rows have them. ``form``: what the server is told of the form in
    which it gets rows. By identity, ``_rows`` has a row's month, as its first day, and the row.
    """

    table: str
    columns: Sequence[str]
    form: str
    _rows: dict[str, tuple[str, Form]]

    @property
    def identities(self) -> list[str]:
        """The identity of each row."""
        return list(self._rows)

    @property
    def months(self) -> list[str]:
        """The month of each row, as its first day."""
        return [month for month, _ in self._rows.values()]

    @abstractmethod
    def write(self, copy: Copy, identities: Sequence[str]) -> None:
        """Give the server the rows of ``identities``."""
