"""Backtest: the pipeline's own stages over historical files, with a temporary state.

Two runners give the same alerts in the same order: local processes, which start at once, and Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import PARTITION_LAG_MS
from crossline.evaluate.bounds import Bounds
from crossline.ingest.enrich.versions import Tables
from crossline.rules.base import Defaults
from crossline.rules.composition import bases_of
from crossline.rules.ruleset import RuleSet
from crossline.runtime.sources.files import FileInput

if TYPE_CHECKING:
    from crossline.backtest.input_batches import StoredInput
    from crossline.basics.conditions.lists import Lists
    from crossline.io.sinks.delivery import Delivery
    from crossline.rules.policy.policy import Deciding
    from crossline.runtime.snapshot.snapshot import PlanSnapshot
    from crossline.runtime.work.totals import Totals

# The same for all runners: the order of the alerts of several streams depends on it.
BATCH_BYTES = 64 * 1024 * 1024
# For each record out of order, all records of its key in the batch are judged again.
AGAIN_BATCH_BYTES = 2 * 1024 * 1024

OnBatch = Callable[["Delivery", "Totals"], None]


@dataclass(frozen=True, slots=True)
class RecordedInput:
    """The input of a replay: complete files by stream, read in the order of their names."""

    streams: Mapping[str, StreamSpec]
    inputs: Mapping[str, Sequence[str]]

    def files(self) -> list[FileInput]:
        """The files of each stream that has input."""
        return [FileInput(name, tuple(given), self.streams[name].format) for name, given in self.inputs.items()]


@dataclass(frozen=True, slots=True)
class BacktestSpec:
    """The rules, settings and input of a backtest.

    Attributes:
        rules: The rule versions that judge.
        history: The input files.
        lists: Named lists, by name.
        defaults: Values for what rules leave out.
        bounds: Bounds of lateness.
        deciding: The policy that decides about records; None: no decisions.
        probing: The depth of the rules that are judged by probes; see ``PlanSnapshot``.
        tables: Lookup tables, by name. Their sorted files must exist until the run ends.
        feature_query: Whether the rules compute features only; see ``PlanSnapshot``.
        stored: The store that has the records of the streams of ``history``, which then names no files.
    """

    rules: RuleSet
    history: RecordedInput
    lists: Lists = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    bounds: Bounds = field(default_factory=lambda: Bounds(PARTITION_LAG_MS))
    deciding: Deciding | None = None
    probing: int = 0
    tables: Tables = field(default_factory=dict)
    feature_query: bool = False
    stored: StoredInput | None = None

    def batch_bytes(self, most: int) -> int:
        """The size of a batch of the input in bytes, at most ``most``."""
        again = any(version.rule.judges_again for version in self.rules.versions)
        return min(most, AGAIN_BATCH_BYTES) if again else most

    def snapshot(self, rules: RuleSet, shards: int) -> PlanSnapshot:
        """The plan snapshot of ``rules`` with the streams that have files and the streams that they are joined with."""
        from crossline.runtime.snapshot.snapshot import PlanSnapshot  # noqa: PLC0415 - loads all that judges

        looked_at = {
            base
            for version in rules.versions
            for source in version.rule.reading.sources
            if not version.rule.reading.single and rules.base(version.rule) in self.history.inputs
            for base in bases_of(source, rules.heads)
            if base in self.history.streams
        }
        names = dict.fromkeys((*self.history.inputs, *sorted(looked_at)))
        streams = {name: self.history.streams[name] for name in names}
        return PlanSnapshot(
            rules=rules,
            streams=streams,
            defaults=self.defaults,
            shards=shards,
            bounds=self.bounds,
            lists=self.lists,
            tables=self.tables,
            deciding=self.deciding,
            probing=self.probing,
            feature_query=self.feature_query,
        )


@dataclass(slots=True)
class BacktestResult:
    """A finished run: the file with its alerts, and its totals."""

    path: Path
    totals: Totals
