"""The files of a table, read and checked whole: each row's key, and columns of the declared types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import FieldSpec, StreamSpec
from crossline.basics.texts.problems import Problem, RefusedError, nearest, one_of, shown
from crossline.basics.times import BEGINNING_MS, format_instant
from crossline.basics.values import I64, Records
from crossline.ingest.decode import Decoded, RecordLayout, decode_csv, decode_lines, decode_table, table_layout
from crossline.ingest.enrich.table import from_of, row_order, stored
from crossline.ingest.route.keys import keys_of
from crossline.ingest.tokens.token import is_token

FORMATS = {".csv": "csv", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".parquet": "parquet"}
SUFFIXES = tuple(FORMATS)
PROBLEMS_MAX = 1_000
MAKE_TOKENS = "crossline tokens makes them"
_FIELD_PROBLEM = re.compile(r"field (?P<name>\S+?): found (?P<found>.*)", re.DOTALL)


@dataclass(frozen=True)
class TableForm:
    """What the rows of a table look like.

    ``key``: its columns, in the order of the fields that they are looked up by. ``columns``: all that are read.
    ``fields``: those that records get.
    """

    name: str
    key: tuple[str, ...]
    columns: Mapping[str, FieldSpec]
    fields: tuple[str, ...]
    valid_from: str | None

    @property
    def plain(self) -> bool:
        """Whether keys are the texts of one column, as ``core.route.keys`` has them."""
        return len(self.key) == 1 and self.columns[self.key[0]].kind == "string"


def form_of(name: str, stream: StreamSpec) -> TableForm:
    """The form of the table ``name`` of a stream, whose fields say of what type the columns of the key are."""
    spec = stream.enrich[name]
    own = stream.own_columns
    key = {column: FieldSpec(own[field].kind, sensitive=own[field].sensitive) for field, column in spec.key.items()}
    times = {} if spec.valid_from is None else {spec.valid_from: FieldSpec("timestamp", optional=True)}
    columns = {**spec.columns, **key, **{name: each for name, each in times.items() if name not in spec.columns}}
    return TableForm(name, tuple(spec.key.values()), columns, tuple(spec.columns), spec.valid_from)


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table: what it is called, and its bytes; of a Parquet file, its ``rows``."""

    source: str
    data: bytes
    rows: pa.Table | None = None

    @property
    def format(self) -> str:
        """By its name."""
        return format_of(self.source)


def format_of(source: str) -> str:
    """``csv``, ``json`` or ``parquet``, by the end of a name, which is one of ``SUFFIXES``."""
    return next(form for suffix, form in FORMATS.items() if source.endswith(suffix))


def read_table(form: TableForm, files: Sequence[TableFile], *, lenient: bool = False) -> pa.Table:
    """The rows of ``files`` as ``Table`` takes them.

    ``lenient``: a content that was good under an earlier declaration; a column that it lacks is null. Raises
    RefusedError with all that is wrong, each at its file and line (in Parquet: its row).
    """
    read, problems = [], list[Problem]()
    for file in files:
        try:
            decoded = _READERS[file.format](_layout(form, lenient=lenient), file, lenient)
        except RefusedError as error:
            problems += error.problems
            continue
        lines = _Lines(file)
        problems += [
            _problem(letter.detail, file.source, lines.of(letter.offset)) for letter in decoded.dead[:PROBLEMS_MAX]
        ]
        read.append((lines, decoded.records))
        problems += _no_tokens(form, lines, decoded.records)
    table, twice = _sorted(form, read)
    if problems or twice:
        found = sorted([*problems, *twice], key=lambda each: (each.source, each.line))
        raise RefusedError(found[:PROBLEMS_MAX])
    return table


PLAIN_KEY = "a value that is no token"  # it is not shown: it may be what is sensitive


def _no_tokens(form: TableForm, lines: _Lines, records: Records) -> Iterator[Problem]:
    """Keys that records look up by tokens, and that are none."""
    for name in form.key:
        sensitive = form.columns[name].sensitive
        if sensitive:
            plain = [n for n, each in enumerate(records.fields[name].to_pylist()) if not is_token(each)]
            for row in plain[:PROBLEMS_MAX]:
                line = lines.of(int(records.offsets[row]))
                yield Problem(lines.source, line, name, PLAIN_KEY, f"a token of {sensitive}", MAKE_TOKENS)


def rows_as_written(form: TableForm, file: TableFile, *, keys_alone: bool = False) -> Records:
    """The rows of a file in their order, with all columns. ``keys_alone``: other columns may be missing.

    Raises RefusedError as ``read_table``.
    """
    decoded = _READERS[file.format](_layout(form, lenient=keys_alone), file, keys_alone)
    if decoded.dead:
        lines = _Lines(file)
        dead = decoded.dead[:PROBLEMS_MAX]
        raise RefusedError([_problem(letter.detail, file.source, lines.of(letter.offset)) for letter in dead])
    return decoded.records


def _layout(form: TableForm, *, lenient: bool) -> RecordLayout:
    columns = form.columns
    if lenient:
        columns = {name: each if name in form.key else replace(each, optional=True) for name, each in columns.items()}
    return table_layout(form.name, columns)


def _sorted(form: TableForm, read: Sequence[tuple[_Lines, Records]]) -> tuple[pa.Table, list[Problem]]:
    """All rows in the order of a table, and the keys that come twice, which make it none."""
    columns = {name: _one([records.fields[name] for _, records in read], form.columns[name]) for name in form.columns}
    keys = keys_of([columns[name] for name in form.key], plain=form.plain)
    from_ms = None if form.valid_from is None else from_of(columns[form.valid_from])
    numbers = keys.rows.astype(np.int64)
    order = row_order(keys.hashes[numbers], numbers, from_ms)
    numbers, from_ms = numbers[order], None if from_ms is None else from_ms[order]
    same = numbers[1:] == numbers[:-1]
    if from_ms is not None:
        same &= from_ms[1:] == from_ms[:-1]
    twice = 1 + np.flatnonzero(same)
    problems = list(_twice(form, columns, read, order, twice, from_ms)) if len(twice) else []
    index = pa.array(order)
    fields = {name: columns[name].take(index) for name in form.fields}
    return stored(keys.hashes[numbers], keys.values.take(pa.array(numbers)), from_ms, fields), problems


def _one(arrays: Sequence[pa.Array], spec: FieldSpec) -> pa.Array:
    if arrays:
        return pa.concat_arrays(arrays)
    return pa.array([], table_layout("", {"none": spec}).columns[0].arrow_type)


def _twice(
    form: TableForm,
    columns: Mapping[str, pa.Array],
    read: Sequence[tuple[_Lines, Records]],
    order: I64,
    twice: I64,
    from_ms: I64 | None,
) -> Iterator[Problem]:
    """Rows whose key (and instant) another row has, which stands before it."""
    ends = np.cumsum([len(records) for _, records in read])
    for place in twice[:PROBLEMS_MAX].tolist():
        second, first = (int(order[at]) for at in (place, place - 1))
        where = []
        for row in (second, first):
            number = int(np.searchsorted(ends, row, side="right"))
            lines, records = read[number]
            where.append((lines.source, lines.of(int(records.offsets[row - (int(ends[number]) - len(records))]))))
        (source, line), (other, before) = where
        key = ", ".join(f"{name} {shown(columns[name][second].as_py())}" for name in form.key)
        since = "" if from_ms is None else f" from {_said_instant(int(from_ms[place]))} on"
        each = "one row for each key" + ("" if from_ms is None else " and instant")
        yield Problem(source, line, "", f"{key}{since} again", each, f"it stands in {other}:{before}")


def _said_instant(at_ms: int) -> str:
    return "the beginning" if at_ms == BEGINNING_MS else format_instant(at_ms)


class _Lines:
    """The lines of a file by the offsets of its rows; in Parquet, rows are counted."""

    def __init__(self, file: TableFile) -> None:
        self.source = file.source
        self._file = file
        self._ends: I64 | None = None

    def of(self, offset: int) -> int:
        """Counted from 1."""
        if self._file.format == "parquet":
            return offset + 1
        if self._ends is None:
            self._ends = np.flatnonzero(np.frombuffer(self._file.data, np.uint8) == ord("\n"))
        return 1 + int(np.searchsorted(self._ends, offset))


def _problem(detail: str, source: str, line: int) -> Problem:
    """A decoder's error on a row, as a problem."""
    text, _, expected = detail.rpartition(", expected ")
    if not text:
        text, expected = detail, "a row that can be read"
    found = _FIELD_PROBLEM.fullmatch(text)
    return Problem(source, line, found["name"] if found else "", found["found"] if found else text, expected)


def _columns_of(layout: RecordLayout, file: TableFile, names: Sequence[str], lenient: bool) -> None:
    """Raise RefusedError with the columns that ``names`` lack."""
    missing = [column for column in layout.columns if column.name not in names]
    if lenient:
        missing = [column for column in missing if not column.spec.optional]
    if missing:
        raise RefusedError(
            [
                Problem(
                    file.source,
                    1,
                    "",
                    f"no column {column.name}",
                    f"the declared columns: {one_of([each.name for each in layout.columns], 30)}",
                    nearest(column.name, names) or f"its columns: {one_of(names, 30)}",
                )
                for column in missing
            ]
        )


def _csv(layout: RecordLayout, file: TableFile, lenient: bool) -> Decoded:
    end = file.data.find(b"\n") + 1 or len(file.data)
    header = file.data[:end].decode("utf-8-sig", errors="replace").rstrip("\r\n").split(",")
    names = [name.strip().strip('"') for name in header]
    _columns_of(layout, file, names, lenient)
    return decode_csv(layout, names, file.data[end:], file.source, end)


def _json(layout: RecordLayout, file: TableFile, lenient: bool) -> Decoded:  # noqa: ARG001 - a line has what it has
    return decode_lines(layout, file.data, file.source, 0)


def _parquet(layout: RecordLayout, file: TableFile, lenient: bool) -> Decoded:
    table = pa.table({}) if file.rows is None else file.rows
    tops = set(table.column_names)
    names = [column.name for column in layout.columns if {column.name, column.name.partition(".")[0]} & tops]
    _columns_of(layout, file, [*names, *table.column_names], lenient)
    try:
        return decode_table(layout, table, file.source, np.arange(table.num_rows))
    except UsageError as error:
        raise RefusedError([Problem(file.source, 1, "", str(error), "one column of each name")]) from None


_READERS: dict[str, Callable[[RecordLayout, TableFile, bool], Decoded]] = {
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
}
