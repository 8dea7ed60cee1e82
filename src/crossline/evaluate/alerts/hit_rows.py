"""Hits of a kernel, made of columns: a batch may have very many, and not each is asked for as an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from crossline.basics.values import I64
from crossline.evaluate.alerts.hit_columns import evidence_ids, values_of
from crossline.evaluate.alerts.hits import Correction, Hit, JudgedRows, Trigger, WindowRecord, entity_of, quick_hit
from crossline.evaluate.alerts.origins import rests_on
from crossline.plan.spaces import ComparisonPlan, FormulaPlan
from crossline.rules.ruleset import RuleVersion
from crossline.state.batch import Hits, LateContextHit
from crossline.state.windows.verdicts.single_record import context_window

if TYPE_CHECKING:
    from crossline.plan.pattern_spaces import AbsencePlan, SequencePlan

_GIVEN = [each.name for each in fields(Hit) if each.name not in {"cause", "correction"}]
_CONTENT = slice(_GIVEN.index("value"), _GIVEN.index("rests_on") + 1)  # of an alert, whatever its identity is
_NOTHING: dict[str, Any] = {}  # nobody writes to what a hit holds

Row = tuple[Any, ...]  # the fields of a hit but for its cause and correction, which are the last two
_row_of: Callable[[Hit], Row] = attrgetter(*_GIVEN)


@dataclass(slots=True)
class HitRows:
    """The hits of a kernel, in its order: of each the number (``of``) of its one among ``rows``; some may share one."""

    rows: list[Row]
    of: I64
    _made: dict[int, Hit] = field(default_factory=dict)

    def hit(self, number: int) -> Hit:
        """The hit of row ``number``: one object."""
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = quick_hit(*self.rows[number])
        return made

    def corrected(self, number: int, cause: Trigger | None, correction: Correction | None) -> Hit:
        """The same with a cause and a correction."""
        return quick_hit(*self.rows[number], cause, correction)

    def same_alert(self, one: int, other: int) -> bool:
        """Whether the alerts of two rows have the same content, whatever their identities are."""
        return one == other or self.rows[one][_CONTENT] == self.rows[other][_CONTENT]

    def extend(self, hits: Sequence[Hit]) -> None:
        """Put hits that are objects behind the others."""
        self.of = np.append(self.of, np.arange(len(self.rows), len(self.rows) + len(hits)))
        self._made |= enumerate(hits, len(self.rows))
        self.rows += map(_row_of, hits)


def window_hits(judged: JudgedRows, hits: Hits) -> Sequence[Hit]:
    """The kernel's ``hits`` on ``judged`` rows, in its order; of those that are known to be the same one object."""
    made = hit_rows(judged, hits)
    found = [made.hit(number) for number in range(len(made.rows))]
    return found if hits.same is None else [found[number] for number in made.of.tolist()]


def hit_rows(judged: JudgedRows, hits: Hits) -> HitRows:
    """The same as rows."""
    which = of = np.arange(len(hits))
    if hits.same is not None:
        which = np.flatnonzero(hits.same == which)
        of = np.searchsorted(which, hits.same)
    known = [_Line(judged, number, line) for number, line in enumerate(judged.store_plan.plan.judging)]
    lines, at = [known[number] for number in hits.line[which].tolist()], hits.row[which].astype(np.int64)
    named = _of_records(judged, at, lines) | _of_windows(judged, hits, which)
    named |= _of_formulas(hits, which, named["value"])
    if any(line.lists for line in known):
        numbers = zip(which.tolist(), lines, named["record_ids"], strict=True)
        named["records"] = [line.records(hits, ids, i) if line.lists else None for i, line, ids in numbers]
    rows = list(zip(*(named[name] for name in _GIVEN), strict=True))
    if any(line.alone for line in known):
        of_rows = zip(rows, lines, at.tolist(), strict=True)
        rows = [line.of_record(each, judged.batch.facts, row) if line.alone else each for each, line, row in of_rows]
    return HitRows(rows, of)


def _of_records(judged: JudgedRows, at: I64, lines: Sequence[_Line]) -> dict[str, Sequence[Any]]:
    """The fields of hits of these ``lines`` that say something of the records at which they are."""
    batch, keys = judged.batch, judged.keys_of(at)
    ingest_ms, count = batch.ingest_ms[at].tolist(), len(at)
    carried: Sequence[Any] = [_NOTHING] * count
    if any(line.carried for line in lines):
        carried = [line.carried_of(batch.facts, row) for line, row in zip(lines, at.tolist(), strict=True)]
    return {
        "version": [line.version(ms).of_key(key) for line, ms, key in zip(lines, ingest_ms, keys, strict=True)],
        "place": judged.places(at),
        "key": keys,
        "record_id": judged.record_ids(at),
        "event_ms": judged.events_ms(at).tolist(),
        "ingest_ms": ingest_ms,
        "carried": carried,
        "reached_ms": judged.reached_by(at),
        "known_ms": [None] * count,
        "adds": [1] * count,
        "very_late": [False] * count,
    }


def _of_windows(judged: JudgedRows, hits: Hits, which: I64) -> dict[str, Sequence[Any]]:
    """Those that say something of the windows."""
    evidence = [rests_on(judged.plan, ids) for ids in evidence_ids(hits, which)]
    return {
        "value": values_of(hits, which),
        "count": hits.count[which].tolist(),
        "window_start_ms": hits.window_start_ms[which].tolist(),
        "window_end_ms": hits.window_end_ms[which].tolist(),
        "record_ids": [ids for ids, _ in evidence],
        "records": [None] * len(which),
        "rests_on": [alerts for _, alerts in evidence],
    }


def _of_formulas(hits: Hits, which: I64, values: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Those that say what formulas read; ``values``: those of hits of no formula."""
    if not hits.formula_reads:
        nothing: Sequence[Any] = [_NOTHING] * len(which)
        return {"fields": nothing, "figures": [None] * len(which), "shows": nothing}
    read = [hits.formula_reads.get(i) for i in which.tolist()]
    return {
        "value": [each.value if each else value for each, value in zip(read, values, strict=True)],
        "fields": [each.fields if each else _NOTHING for each in read],
        "figures": [each.figures if each else None for each in read],
        "shows": [each.shows if each else _NOTHING for each in read],
    }


def late_context_hit(judged: JudgedRows, met: LateContextHit) -> Hit:
    """The hit at a record whose context came after it."""
    number, row, read = met.line, met.row, met.read
    kernel, line = judged.store_plan.plan.windowed, dict(judged.store_plan.plan.waiting)[number]
    assert kernel is not None  # noqa: S101 - others wait for nothing
    of, ingest_ms = _Line(judged, number, line), int(judged.batch.ingest_ms[row])
    start_ms, end_ms = context_window(kernel, line).span_ms(int(judged.batch.clock_ms[row]))
    record_ids, alerts = rests_on(judged.plan, [judged.id_of(met.other)])
    known_ms = judged.reached_ms(met.other)
    return Hit(
        version=of.version(ingest_ms),
        place=judged.place(row),
        key=judged.key_of(row),
        record_id=judged.record_id(row),
        event_ms=judged.event_ms(row),
        ingest_ms=ingest_ms,
        value=read.value,
        count=1,
        window_start_ms=start_ms,
        window_end_ms=end_ms,
        record_ids=record_ids,
        fields=read.fields,
        records=None,
        figures=read.figures,
        shows=read.shows,
        rests_on=alerts,
        carried=of.carried_of(judged.batch.facts, row),
        reached_ms=known_ms,
        known_ms=known_ms,
    )


class _Line:
    """What hits of one line, formula, pattern or absence have in common."""

    def __init__(
        self, judged: JudgedRows, number: int, line: ComparisonPlan | FormulaPlan | SequencePlan | AbsencePlan
    ) -> None:
        program = judged.plan.programs[line.rule_id, line.version]
        self._versions = judged.store_plan.versions[number]
        self._kind = judged.store_plan.plan.listed_kind(number)
        self.lists = program.evidence.lists
        self.carried = judged.plan.carried.get(line.rule_id, ())
        self._shown = program.evidence.fields
        self._entity = program.entity
        self.alone = program.verdict is None

    def of_record(self, row: Row, facts: Mapping[str, Any], number: int) -> Row:
        """The hit of a single-record rule that is a predicate of the plan because its hits may be retracted.

        ``number``: of the row of ``facts``.
        """
        found = {name: facts[name][number].as_py() for name in self._shown if name in facts}
        fields_of = {name: value for name, value in found.items() if value is not None}
        hit = quick_hit(*row)
        alone = replace(
            hit,
            key=entity_of(self._entity, {name: facts[name][number].as_py() for name in self._entity}),
            value=None,
            count=1,
            window_start_ms=None,
            window_end_ms=None,
            record_ids=[hit.record_id],
            fields=fields_of,
            figures=None,
            shows={},
        )
        return _row_of(alone)

    def carried_of(self, facts: Mapping[str, Any], number: int) -> Mapping[str, Any]:
        """The fields of the record that rules need which read the hit; ``number``: of its row of ``facts``."""
        return {name: facts[name][number].as_py() for name in self.carried} if self.carried else _NOTHING

    def version(self, ingest_ms: int) -> RuleVersion:
        """The version in force at an ingest time."""
        if len(self._versions) == 1:
            return self._versions[0]
        return next(version for version in self._versions if ingest_ms < version.effective_until_ms)

    def records(self, hits: Hits, record_ids: list[str], i: int) -> list[WindowRecord]:
        """The records of the window of hit ``i``, for a rule that lists them."""
        first, last = hits.evidence_offsets[i : i + 2].tolist()
        values: list[Any] = [None] * (last - first)
        if self._kind == "int":
            values = hits.evidence_value_i[first:last].tolist()
        elif self._kind == "float":
            values = hits.evidence_value_f[first:last].tolist()
        clocks = hits.evidence_clock_ms[first:last].tolist()
        return [
            WindowRecord(record_id=record_id, clock_ms=clock_ms, value=value)
            for record_id, clock_ms, value in zip(record_ids, clocks, values, strict=True)
        ]
