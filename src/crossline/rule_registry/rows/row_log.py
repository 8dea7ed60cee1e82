"""The contents that a table from a topic had, each from when on: as the log has them, and as tasks read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from crossline.basics.errors import StateError
from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.enrich.messages import GONE, MESSAGE, ReadMessages, last_of_each, read_messages, whole_table
from crossline.ingest.enrich.overlay import CHANGE, overlaid
from crossline.ingest.enrich.rows import TableForm
from crossline.ingest.enrich.versions import Tables, TableVersion
from crossline.rule_registry.content import digest_of
from crossline.rule_registry.list_log import first_met
from crossline.rule_registry.rows.segments import RAW, Begins, Change, Header, Segments
from crossline.rule_registry.table_log import forms_in, write_rows
from crossline.settings.tables import KeyFormat

_SHOWN_MAX = 5


@dataclass(frozen=True)
class Declared:
    """How a table is declared: its rows, what the keys of its messages are, and whose records get its fields."""

    form: TableForm
    keyed: KeyFormat
    streams: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Of the form."""
        return digest_of(repr((self.form, self.keyed)).encode())

    def read(self, raw: pa.Table, *, lenient: bool = False) -> ReadMessages:
        """Messages as rows."""
        return read_messages(self.form, self.keyed, _one(raw, "key"), _one(raw, "value"), lenient=lenient)

    def read_kept(self, raw: pa.Table) -> pa.Table:
        """Messages that were good once, as rows. Raises StateError where they do not fit how it is declared now."""
        read = self.read(raw, lenient=True)
        if read.refused:
            text = "; ".join(list(read.refused.values())[:_SHOWN_MAX])
            raise StateError(
                f"table {self.form.name} is declared in a way that {len(read.refused):,} rows of its earlier content "
                f"do not fit, which records may still meet: {text}\n"
                "Put the declaration back, or run under another pipeline name"
            )
        return read.rows


@dataclass(frozen=True)
class Epoch:
    """A content, and the changes that followed: their rows (each with the number of its change) and when they hold."""

    header: Header
    rows: pa.Table | None = None
    begins: tuple[Begins, ...] = ()

    def then(self, rows: pa.Table, begins: Begins) -> Epoch:
        """With another change."""
        numbered = rows.append_column(CHANGE, pa.array(np.full(len(rows), len(self.begins), np.int64)))
        both = numbered if self.rows is None else pa.concat_tables([self.rows, numbered])
        # Many small parts are slow to go through; few large ones are not copied each time.
        if both.column(0).num_chunks > _PARTS_MAX:
            both = both.combine_chunks()
        return replace(self, rows=both, begins=(*self.begins, begins))

    @property
    def changed(self) -> int:
        """How many rows the changes have."""
        return 0 if self.rows is None else len(self.rows)


_PARTS_MAX = 50


@dataclass(frozen=True)
class RowLog:
    """The contents of one table, the oldest first; those that are asked for are sorted for tasks into ``folder``."""

    segments: Segments
    folder: Path
    declared: Declared
    epochs: tuple[Epoch, ...] = ()
    _read: dict[int, Epoch] = field(default_factory=dict, compare=False)

    @classmethod
    def opened(cls, segments: Segments, folder: Path, declared: Declared) -> RowLog:
        """As it stands on the disk; the changes of the last content are read, others when they are needed."""
        headers = segments.headers()
        log = cls(segments, folder, declared, tuple(Epoch(each) for each in headers))
        return replace(log, epochs=(*log.epochs[:-1], log._filled(log.epochs[-1]))) if headers else log

    def after(self, rows: pa.Table, begins: Begins) -> RowLog:
        """With another change of the last content."""
        *before, last = self.epochs
        return replace(self, epochs=(*before, last.then(rows, begins)))

    def anew(self, header: Header) -> RowLog:
        """With another content, written whole."""
        return replace(self, epochs=(*self.epochs, Epoch(header)))

    def since(self, gone_ms: Mapping[str, int]) -> tuple[TableVersion, ...]:
        """The contents without those that no record to come can meet.

        ``gone_ms``: by stream, the ingest time that none of its records to come is before.
        Raises StateError where one is not to be had any more, or does not fit how the table is declared now.
        """
        mine = {stream: ms for stream, ms in gone_ms.items() if stream in self.declared.streams}
        first = first_met([each.header.begins for each in self.epochs], mine) if mine else 0
        return tuple(self._version(number) for number in range(first, len(self.epochs)))

    def whole(self) -> tuple[TableVersion, ...]:
        """All contents."""
        return tuple(self._version(number) for number in range(len(self.epochs)))

    def newest(self) -> TableVersion:
        """The last content. Raises as ``since``."""
        return self._version(len(self.epochs) - 1)

    def as_declared(self, declared: Declared) -> RowLog:
        """The same contents, as another declaration reads them."""
        if declared.digest == self.declared.digest:
            return replace(self, declared=declared)
        return RowLog(self.segments, self.folder, declared, tuple(Epoch(each.header) for each in self.epochs))

    def without(self, old: int) -> RowLog:
        """Without the changes of the ``old`` first contents in memory, which no task needs any more."""
        if not any(each.begins for each in self.epochs[:old]):
            return self
        bare = (Epoch(each.header) for each in self.epochs[:old])
        return RowLog(self.segments, self.folder, self.declared, (*bare, *self.epochs[old:]))

    def path(self, header: Header) -> Path:
        """Where a content stands sorted, once it was."""
        return self.folder / f"{self.declared.form.name}-{header.base}-{self.declared.digest}.arrow"

    def _version(self, number: int) -> TableVersion:
        epoch = self.epochs[number]
        path = self.path(epoch.header)
        if not path.exists():
            rows = self.declared.read_kept(self.segments.content(epoch.header))
            write_rows(path, whole_table(last_of_each(rows)))
        begins = {} if number == 0 else dict(epoch.header.begins)
        return TableVersion(begins, str(path), self._overlay(self._with_changes(number)))

    def _overlay(self, epoch: Epoch) -> str | None:
        if epoch.rows is None or not epoch.changed:
            return None
        name = f"{epoch.header.base} {self.declared.digest} {self.declared.streams} {len(epoch.begins)}"
        text = digest_of(f"{name} {sorted(epoch.begins[-1].items())}".encode())
        path = self.folder / f"{self.declared.form.name}-{text}.changes.arrow"
        if not path.exists():
            write_rows(path, overlaid(epoch.rows, epoch.begins, self.declared.streams))
        return str(path)

    def _with_changes(self, number: int) -> Epoch:
        epoch = self.epochs[number]
        if epoch.begins:
            return epoch
        if number not in self._read:
            self._read[number] = self._filled(epoch)
        return self._read[number]

    def _filled(self, epoch: Epoch) -> Epoch:
        """With its changes, from the disk."""
        changes = [each for each in self.segments.changes(epoch.header.number) if len(each.raw)]
        return filled(self.declared, epoch, changes)


def filled(declared: Declared, epoch: Epoch, changes: Sequence[Change]) -> Epoch:
    """``epoch`` with changes, read all at once."""
    if not changes:
        return epoch
    rows = declared.read_kept(pa.concat_tables([each.raw for each in changes]))
    ends = np.cumsum([len(each.raw) for each in changes])
    number = np.searchsorted(ends, rows.column(MESSAGE).to_numpy(), side="right")
    numbered = rows.append_column(CHANGE, pa.array(number.astype(np.int64)))
    return replace(epoch, rows=numbered, begins=tuple(each.begins for each in changes))


def content_after(declared: Declared, raws: Iterable[pa.Table]) -> tuple[pa.Table, pa.Table]:
    """What stands in a table after messages that came one after the other: as messages, and sorted for tasks."""
    raw = pa.concat_tables(list(raws))
    last = last_of_each(declared.read(raw, lenient=True).rows)
    there = np.sort(last.column(MESSAGE).to_numpy()[~np.asarray(last.column(GONE).combine_chunks())])
    return raw.take(pa.array(there)).combine_chunks(), whole_table(last)


@dataclass(frozen=True)
class RowLogs:
    """Those of all tables from topics, by name."""

    logs: Mapping[str, RowLog]

    def since(self, gone_ms: Mapping[str, int]) -> Tables:
        """As of each."""
        return {name: each.since(gone_ms) for name, each in self.logs.items()}

    def as_declared(self, streams: Mapping[str, StreamSpec]) -> RowLogs:
        """Of the tables that ``streams`` declare, in the forms that they give them."""
        found = {}
        for name, log in self.logs.items():
            of = tuple(stream for stream, each in streams.items() if name in each.enrich)
            if of:
                form = forms_in(streams, {name: of})[name]
                found[name] = log.as_declared(Declared(form, log.declared.keyed, of))
        return RowLogs(found)

    def heads(self) -> Collection[str]:
        """Where the newest contents stand, which are needed again."""
        return {str(log.path(log.epochs[-1].header)) for log in self.logs.values() if log.epochs}


def raw_of(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> pa.Table:
    """Messages as the log keeps them."""
    return pa.table([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], schema=RAW)


def _one(raw: pa.Table, name: str) -> pa.Array:
    column = raw.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.binary())
