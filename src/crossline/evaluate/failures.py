"""Which records a rule could not judge, of a batch in which its model failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.models.missed import BoolRows
from crossline.basics.values import I64
from crossline.evaluate.alerts.hits import JudgedRows
from crossline.state.batch import Hits
from crossline.state.windows.verdicts.formulas import Judged


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A rule could not judge records, and ``why``. ``records``: stream and offset of each; of a hit, those of its."""

    rule_id: str
    why: str
    records: tuple[tuple[str, int], ...]


def scored_lines(judged: JudgedRows) -> Sequence[Any]:
    """The formulas of the state store that read the score of a model, in the order in which models are called."""
    return [each for each in getattr(judged.store_plan.plan, "formulas", ()) if each.verdict.scored]


def unjudged(judged: JudgedRows, hits: Hits, missed: Sequence[BoolRows]) -> Iterator[Unjudged]:
    """Of each rule version that failed its records.

    ``missed``: of each call of a model, in their order, which of its rows got no score. A kernel that judges rows again
    asks about others besides, in an order of its own: of its rules all rows count that came.
    """
    lines = scored_lines(judged)
    for rule_id, version, why in hits.failed:
        numbers = [n for n, line in enumerate(lines) if (line.rule_id, line.version) == (rule_id, version)]
        rows = [_rows(judged, hits, lines[n], missed[n :: len(lines)]) for n in numbers]
        places = [judged.place(row) for row in np.unique(np.concatenate(rows)).tolist()] if rows else []
        yield Unjudged(rule_id, why, tuple((place[1], place[4]) for place in places))


def _rows(judged: JudgedRows, hits: Hits, line: Any, missed: Sequence[BoolRows]) -> I64:
    """The rows that ``line`` could not judge."""
    batch = judged.batch
    whole: I64 = np.arange(len(batch.clock_ms))
    if judged.store_plan.state_store.reevaluate:
        return whole
    judged_rows = np.flatnonzero(Judged(batch, slice(0, len(whole)), hits.duplicates.astype(np.uint8)).by(line))
    bad = np.concatenate(missed) if missed else np.zeros(0, np.bool_)
    return judged_rows[bad] if len(bad) == len(judged_rows) else whole
