"""How many alerts rules raise, noted batch by batch, so that a batch that is run again is counted once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from crossline.evaluate.alerts.breaker import BreakerTrip, Counts, GuardedRule, Name, counted, guarded_rules
from crossline.io.files import state_files
from crossline.rules.breaker import Bound
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.spark_log import unfinished_batch

NOTE = "alert-counts.json"
_TO_DO = (
    "move it away, and the bounds on alerts (breaker) count anew from here on, or restore it from a copy; rules that "
    "were paused stay so"
)


class CircuitBreaker:
    """Counts alerts by rule version, in a file of the checkpoint; ``default``: of rules without a bound of their own.

    The file has the counts after the last two batches that changed them. A batch that is run again starts from the
    counts before it, so the result is the same.
    """

    def __init__(self, checkpoint: str, default: Bound | None) -> None:
        self._path = Path(checkpoint) / NOTE
        self._default = default
        self._rules: RuleSet | None = None
        self._watched: dict[Name, GuardedRule] = {}
        again = unfinished_batch(checkpoint)
        done = [each for each in self._noted() if again is None or each[0] < again]
        self._last: tuple[int, Counts] = done[-1] if done else (-1, {})

    def judged(self, batch_id: int, alerts: Sequence[Mapping[str, Any]], rules: RuleSet) -> list[BreakerTrip]:
        """Count the alerts of a batch, which ``rules`` judged; which rules flood."""
        if rules is not self._rules:
            self._rules, self._watched = rules, guarded_rules(rules, self._default)
        before, known = self._last
        if not self._watched and not known:
            return []
        counts, trips = counted(known, alerts, self._watched)
        if counts is not known:
            self._write([(before, known), (batch_id, counts)])
            self._last = batch_id, counts
        return trips

    def _noted(self) -> list[tuple[int, Counts]]:
        """By batch, the older first."""
        if not self._path.exists():
            return []
        return state_files.read(self._path, self._path.read_bytes(), _counts_in, _TO_DO)

    def _write(self, counts_of: Sequence[tuple[int, Counts]]) -> None:
        rows = [{"batch": batch, "counts": _rows_of(counts)} for batch, counts in counts_of]
        state_files.put(self._path, orjson.dumps(rows))


def _counts_in(raw: bytes) -> list[tuple[int, Counts]]:
    batches = orjson.loads(raw)
    if not isinstance(batches, list):
        raise TypeError(f"{type(batches).__name__} instead of a list of batches")
    return [(int(each["batch"]), _counts_of(each["counts"])) for each in batches]


def _rows_of(counts: Counts) -> list[list[Any]]:
    return [[*name, sorted(each.items())] for name, each in sorted(counts.items())]


def _counts_of(rows: Sequence[Any]) -> Counts:
    return {(rule_id, version): dict(map(tuple, each)) for rule_id, version, each in rows}
