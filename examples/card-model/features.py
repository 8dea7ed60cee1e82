"""The features of the model rule, worked out over a table of figures by the very formulas of the rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
import yaml

from crossline.basics.formula.check import check
from crossline.basics.formula.columns import FormulaProgram
from crossline.basics.formula.formula import Formula
from crossline.basics.streams.schema import StreamSpec, load_streams
from crossline.basics.values import F64, I64
from crossline.rule_registry.rule_files import read_figures
from crossline.rules.figure import kinds

HERE = Path(__file__).parent
STREAM = "payments"


@dataclass(frozen=True, slots=True)
class Featured:
    """Records in the order of the log: ``ids``, ``event_ms`` (int64[n]) and ``values`` (float64[n, k]) of ``names``."""

    names: tuple[str, ...]
    ids: Sequence[str]
    event_ms: I64
    values: F64

    def part(self, rows: Any) -> Featured:
        """Some of the records: ``rows`` as numpy takes them (bool[n] or numbers)."""
        numbers = np.arange(len(self.ids))[rows]
        return Featured(self.names, [self.ids[n] for n in numbers], self.event_ms[numbers], self.values[numbers])


def featured(rule: Path, figures: Path, records: Sequence[Path]) -> Featured:
    """Features of ``rule`` for each row of the table ``figures`` (Parquet), with fields of ``records``, its input."""
    table = pq.read_table(figures)
    program, names = _program(rule)
    fields = [name for name in program.names if name not in table.column_names]
    for name, column in _fields(_spec().id, fields, records, table.column("record_id")).items():
        table = table.append_column(name, column)
    return _featured(program, names, table)


def featured_rows(rule: Path, rows: pa.Table) -> Featured:
    """Features of ``rule`` for each of ``rows``, which have the figures and the fields of the records."""
    return _featured(*_program(rule), rows)


def fields_read(rule: Path, figures: Sequence[str]) -> list[str]:
    """The fields of records that the features of ``rule`` read beside ``figures``."""
    return [name for name in _program(rule)[0].names if name not in figures]


def _spec() -> StreamSpec:
    return load_streams((HERE.parent / "cards" / "stream.yaml").read_text(), "stream.yaml")[STREAM]


def _program(rule: Path) -> tuple[FormulaProgram, tuple[str, ...]]:
    """The formulas of the rule's features, and their names."""
    spec = _spec()
    known = kinds({each.name: each.fields for each in read_figures(HERE / "figures", {STREAM: spec}, None)}, spec)
    texts: Mapping[str, str] = yaml.safe_load(rule.read_text())["features"]
    formulas = [check(text, known, ("features", name), wanted="value") for name, text in texts.items()]
    wrong = [each for each in formulas if not isinstance(each, Formula)]
    if wrong:
        raise SystemExit(f"{rule}: {wrong}")
    return FormulaProgram([each for each in formulas if isinstance(each, Formula)]), tuple(texts)


def _featured(program: FormulaProgram, names: tuple[str, ...], table: pa.Table) -> Featured:
    columns = {name: table.column(name).combine_chunks() for name in program.names}
    values = [np.where(there, value, np.nan) for value, there in program.run(columns, table.num_rows)]
    event_ms = table.column("event_time").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_numpy()
    return Featured(names, table.column("record_id").to_pylist(), event_ms, np.column_stack(values))


def _fields(id_field: str, names: Sequence[str], records: Sequence[Path], ids: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Fields of the records by name, one for each of ``ids``."""
    read = pa.concat_tables([pj.read_json(path).select([id_field, *names]) for path in records])
    at = pc.index_in(ids, value_set=read.column(id_field))
    found = read.take(at)
    return {name: found.column(name).combine_chunks() for name in names}
