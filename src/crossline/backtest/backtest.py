"""Backtest: the pipeline's own stages over files of the past, with a state that is thrown away.

Two runners give the same alerts in the same order: processes of this machine, which begin at once, and Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from crossline.basics.conditions.lists import Lists
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import PARTITION_LAG_MS
from crossline.evaluate.shard import Bounds
from crossline.ingest.enrich.versions import Tables
from crossline.io.sinks.base import Delivery
from crossline.rules.base import Defaults
from crossline.rules.composition import bases_of
from crossline.rules.policy.policy import Deciding
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.sources.files import FileInput

if TYPE_CHECKING:
    from crossline.runtime.work.totals import Totals

# The same for all runners: where alerts of several streams stand depends on it.
BATCH_BYTES = 64 * 1024 * 1024
# Of a key that has records out of order all that came in the batch is judged again for each of them.
AGAIN_BATCH_BYTES = 2 * 1024 * 1024

OnBatch = Callable[[Delivery, "Totals"], None]


@dataclass(frozen=True, slots=True)
class RecordedInput:
    """What is replayed: files by stream, read in name order as finished."""

    streams: Mapping[str, StreamSpec]
    inputs: Mapping[str, Sequence[str]]

    def files(self) -> list[FileInput]:
        """The files of each stream that has some."""
        return [FileInput(name, tuple(given), self.streams[name].format) for name, given in self.inputs.items()]


@dataclass(frozen=True, slots=True)
class BacktestSpec:
    """By what ``history`` is judged; ``defaults`` and ``bounds``: those of a pipeline that says nothing about them.

    ``deciding``: by what is decided about records; None: nothing is. ``probing``, ``feature_query``: see
    ``PlanSnapshot``. ``tables``: their contents stand sorted where they say, for as long as it is judged.
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

    def batch_bytes(self, most: int) -> int:
        """How many bytes of the input are judged at once, ``most`` at the most."""
        again = any(version.rule.judges_again for version in self.rules.versions)
        return min(most, AGAIN_BATCH_BYTES) if again else most

    def snapshot(self, rules: RuleSet, shards: int) -> PlanSnapshot:
        """The snapshot of the streams that have files, and of those that rules over these look at, with ``rules``."""
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
        given = (self.defaults, shards, self.bounds, self.lists, self.tables)
        return PlanSnapshot(
            rules, streams, *given, deciding=self.deciding, probing=self.probing, feature_query=self.feature_query
        )


@dataclass(slots=True)
class BacktestResult:
    """One run: where its alerts lie, and its figures."""

    path: Path
    totals: Totals
