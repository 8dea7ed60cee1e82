"""Labels beside the figures of records, in bounded memory.

Records and label versions go to buckets by the hash of the record's id. A bucket is joined in memory; its matches go to
pieces by row. Then the table of figures is copied piece by piece, in its own order, with the matches beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossline.basics.errors import UsageError
from crossline.basics.values import I64
from crossline.evaluate.output import BoolMask
from crossline.lake.training.known_by import FOREVER_MS, KnownBy
from crossline.lake.training.label_versions import LabelSource
from crossline.lake.training.spill import BUCKETS_MAX, Spill, bucket_count, buckets_of

LABEL, KNOWN_AT, MATURE = "label", "label_known_at", "label_mature"
COLUMNS = ((LABEL, pa.bool_()), (KNOWN_AT, pa.timestamp("ms", "UTC")), (MATURE, pa.bool_()))
BUCKET_ROWS = 1 << 20  # about how many records, and label versions, are in memory at once
PIECE_ROWS = 1 << 17  # of a row group of the output
_PAIRS_MAX = 1 << 22  # of a record and a version of its label, at once
_US = 1_000

_RECORDS = pa.schema([("record_id", pa.string()), ("row", pa.int64()), ("by_ms", pa.int64())])
_MATCHES = pa.schema([("row", pa.int64()), ("is_fraud", pa.bool_()), ("known_ms", pa.int64())])


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Of the rows of a training set: how many there are of each label, and how many may still get one."""

    rows: int = 0
    fraud: int = 0
    legitimate: int = 0
    immature: int = 0

    @property
    def without(self) -> int:
        """Rows whose record has no label."""
        return self.rows - self.fraud - self.legitimate


def check_names(figures: Iterable[str]) -> None:
    """Raises UsageError where a figure has the name of a column that labels add."""
    for name in figures:
        if name in {column for column, _ in COLUMNS}:
            raise UsageError(
                f"figure {name}: found the name of a column of labels; expected another name: give the figure one, or "
                "leave --labels out"
            )


@dataclass(slots=True)
class LabelJoin:
    """Adds labels to a table of figures.

    Attributes:
        labels: The versions of labels.
        known_by: Up to when they count.
        folder: For files meanwhile: about 40 bytes a record and a version.
        bucket_rows: About how many records are in memory at once.
    """

    labels: LabelSource
    known_by: KnownBy
    folder: Path
    bucket_rows: int = BUCKET_ROWS
    _made: list[Spill] = field(default_factory=list)

    def write(self, figures: Path, output: Path) -> LabelCounts:
        """Write the rows of ``figures`` with the columns ``COLUMNS`` to ``output``; both are Parquet files.

        Of the versions of a record's label that were known by the record's instant, the last one counts.

        Raises:
            UsageError: A label cannot be read.
            StateError: The lake has no table of labels.
        """
        try:
            with pq.ParquetFile(figures) as source:
                return self._write(source, output)
        finally:
            for each in self._made:
                each.close()

    def _write(self, source: pq.ParquetFile, output: Path) -> LabelCounts:
        rows = source.metadata.num_rows
        count = bucket_count(max(rows, self.labels.count()), self.bucket_rows)
        records = self._spill("records", _RECORDS, count)
        start = 0
        for batch in source.iter_batches(PIECE_ROWS, columns=["record_id", "event_time"]):
            ids = batch.column("record_id")
            event_ms = batch.column("event_time").cast(pa.int64()).to_numpy()
            numbers = pa.array(np.arange(start, start + len(batch)))
            found = pa.record_batch([ids, numbers, pa.array(self.known_by.instants(event_ms))], schema=_RECORDS)
            records.add(found, buckets_of(ids, count))
            start += len(batch)
        versions: Spill | None = None
        for batch in self.labels.versions():
            versions = versions or self._spill("versions", batch.schema, count)
            versions.add(batch, buckets_of(batch.column("record_id"), count))
        piece_rows = max(self.bucket_rows, -(-rows // BUCKETS_MAX))
        matches = self._spill("matches", _MATCHES, max(1, -(-rows // piece_rows)))
        if versions is not None:
            versions.close()
            for bucket, mine in records.buckets():
                for match in matched(mine, versions.read(bucket), undated=self.known_by.takes_undated):
                    matches.add(match, match.column("row").to_numpy() // piece_rows)
        matches.close()
        return self._copy(source, output, _Matches(matches, piece_rows))

    def _copy(self, source: pq.ParquetFile, output: Path, matches: _Matches) -> LabelCounts:
        schema = source.schema_arrow
        for name, kind in COLUMNS:
            schema = schema.append(pa.field(name, kind))
        plain = [name for name in schema.names if name not in {"record_id", "event_time"}]
        found = LabelCounts()
        with pq.ParquetWriter(output, schema, use_dictionary=plain) as out:
            for batch in source.iter_batches(PIECE_ROWS):
                label, known = matches.of(found.rows, found.rows + len(batch))
                mature = self.known_by.mature(batch.column("event_time").cast(pa.int64()).to_numpy())
                columns = [*batch.columns, label, known, pa.array(mature)]
                out.write_batch(pa.record_batch(columns, schema=schema))
                found = LabelCounts(
                    found.rows + len(batch),
                    found.fraud + (pc.sum(label).as_py() or 0),
                    found.legitimate + (pc.sum(pc.invert(label)).as_py() or 0),
                    found.immature + int(np.count_nonzero(~mature)),
                )
        return found

    def _spill(self, name: str, schema: pa.Schema, count: int) -> Spill:
        made = Spill(self.folder, name, schema, count)
        self._made.append(made)
        return made


@dataclass(slots=True)
class _Matches:
    """What the rows of a table matched, piece by piece; the pieces are asked for in order."""

    spill: Spill
    piece_rows: int
    _piece: int = -1
    _fraud: BoolMask = field(default_factory=lambda: np.empty(0, np.bool_))
    _there: BoolMask = field(default_factory=lambda: np.empty(0, np.bool_))
    _known_ms: I64 = field(default_factory=lambda: np.empty(0, np.int64))

    def of(self, start: int, end: int) -> tuple[pa.Array, pa.Array]:
        """The labels of rows ``start`` to ``end``, and since when they were known; null where there is none."""
        labels: list[pa.Array] = []
        known: list[pa.Array] = []
        at = start
        while at < end or not labels:
            self._load(at // self.piece_rows)
            first = self._piece * self.piece_rows
            part = slice(at - first, min(end, first + self.piece_rows) - first)
            there, known_ms = self._there[part], self._known_ms[part]
            labels.append(pa.array(self._fraud[part], mask=~there))
            known.append(pa.array(known_ms, mask=~there | (known_ms == FOREVER_MS)).cast(COLUMNS[1][1]))
            at = first + part.stop
        return pa.concat_arrays(labels), pa.concat_arrays(known)

    def _load(self, piece: int) -> None:
        if piece == self._piece:
            return
        rows = self.spill.read(piece)
        at = rows.column("row").to_numpy() - piece * self.piece_rows
        self._piece = piece
        self._there, self._fraud = np.zeros(self.piece_rows, np.bool_), np.zeros(self.piece_rows, np.bool_)
        self._known_ms = np.full(self.piece_rows, FOREVER_MS, np.int64)
        self._there[at] = True
        self._fraud[at] = rows.column("is_fraud").to_numpy()
        self._known_ms[at] = rows.column("known_ms").to_numpy()


def matched(records: pa.Table, versions: pa.Table, *, undated: bool) -> Iterator[pa.RecordBatch]:
    """The label of each record that has one: of the versions known by its instant the last, unless it was withdrawn.

    Args:
        records: Columns ``record_id``, ``row``, ``by_ms``.
        versions: As ``VERSIONS``, in any order.
        undated: Whether versions without ``known_at`` count; they do not where an instant bounds them.
    """
    if not len(versions) or not len(records):
        return
    names = versions.column("record_id").combine_chunks().dictionary_encode()
    codes = np.asarray(names.indices)
    order = np.lexsort((versions.column("version").to_numpy(), codes))
    known_ms = _known_ms(versions, undated=undated)[order]
    verdicts = versions.column("is_fraud").take(pa.array(order)).combine_chunks()
    stands = np.asarray(verdicts.is_valid())
    fraud = np.asarray(verdicts.fill_null(False))
    starts = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
    at = pc.index_in(records.column("record_id"), value_set=names.dictionary)
    mine = records.filter(at.is_valid())
    codes_of = at.drop_null().to_numpy().astype(np.int64)
    counts = starts[codes_of + 1] - starts[codes_of]
    by_ms, numbers = mine.column("by_ms").to_numpy(), mine.column("row").to_numpy()
    for first, end in _runs(counts):
        which, version = _pairs(starts[codes_of[first:end]], counts[first:end])
        ok = known_ms[version] <= by_ms[first:end][which]
        which, version = which[ok], version[ok]
        last = np.append(which[1:] != which[:-1], True)[: len(which)]
        which, version = which[last], version[last]
        kept = stands[version]
        which, version = which[kept], version[kept]
        columns = [numbers[first:end][which], fraud[version], known_ms[version]]
        yield pa.record_batch([pa.array(each) for each in columns], schema=_MATCHES)


def _known_ms(versions: pa.Table, *, undated: bool) -> I64:
    """The first millisecond at which each version was known: int64[n].

    A version without an instant is known at the end of time (``undated``), or never.
    """
    times = versions.column("known_at").cast(pa.int64())
    us = np.asarray(times.fill_null(0), np.int64)
    return np.where(np.asarray(times.is_valid()), -(-us // _US), FOREVER_MS if undated else FOREVER_MS + 1)


def _pairs(starts: I64, counts: I64) -> tuple[I64, I64]:
    """For each i the numbers ``starts[i]`` to ``starts[i] + counts[i]``: i, and the number."""
    which = np.repeat(np.arange(len(starts)), counts)
    ends = np.cumsum(counts)
    within = np.arange(len(which)) - np.repeat(ends - counts, counts)
    return which, np.repeat(starts, counts) + within


def _runs(counts: I64) -> Iterator[tuple[int, int]]:
    """Runs of records that have about ``_PAIRS_MAX`` versions together."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    edges = np.searchsorted(ends, np.arange(_PAIRS_MAX, total, _PAIRS_MAX), side="left") + 1
    yield from itertools.pairwise([0, *np.unique(edges[edges < len(counts)]).tolist(), len(counts)])
