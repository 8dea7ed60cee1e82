"""The contents that a table had, each from an instant of each stream's ingest clock on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A content: by stream the ingest time from which it holds (else: the beginning), and where it stands sorted.

    ``overlay``: where the changes stand that came since, each from an instant of its own; None: there are none.
    """

    begins: Mapping[str, int]
    path: str
    overlay: str | None = None


Tables = Mapping[str, tuple[TableVersion, ...]]
