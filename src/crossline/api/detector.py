"""A detector for whoever has a loop of his own: batches in, alerts and decisions out, the state saved and loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from crossline.api.declarations import FilePath, Stream, check_alone, policy_of, rules_of, stream_of
from crossline.api.results import Alerts, Decisions
from crossline.api.version import version
from crossline.basics.conditions.lists import named_lists
from crossline.basics.errors import StateError, UsageError
from crossline.basics.times import PARTITION_LAG_MS
from crossline.evaluate.shard import Bounds
from crossline.io.files.state_files import put
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, Policy
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local.saved_state import SavedRun, Segments, check_plan, read_saved_run
from crossline.runtime.local.single_run import SingleRun, wall_clock_ms
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.outcome import Outcome


class Processed(NamedTuple):
    """What came of a batch. ``decisions`` is empty where there is no policy."""

    alerts: Alerts
    decisions: Decisions


class Detector:
    """Judges the records of one stream in this process, batch by batch, without Spark.

    Any cut into batches gives the same alerts, and a detector that was saved and loaded goes on as if it had never
    stopped. It is for one thread at a time.

    Args:
        rules: a RuleSet of ``load_rules``, or a rule file or folder.
        stream: a Stream of ``load_streams``, or a stream file with one stream.
        policy: a policy file; with it, each record gets a decision.
        lists: values of the named lists that rules read, by name.
        defaults: what holds where a rule says nothing: clock, lateness.
        partition_lag_ms: how far the ingest time of a record may be behind the highest one before it, in ms, and still
            find its windows whole.
        clock_ms: the instant at which records are known to be there, in epoch ms; by default, the system's clock. A
            time further ahead of it than the stream's ``future_bound`` is a dead letter.

    Raises:
        RefusedError: all that is wrong in the files, with file:line.
        UsageError: rules read other streams, or lists that are not given.

    Example:
        >>> detector = crossline.Detector("rules/", "stream.yaml", policy="policy.yaml")
        >>> alerts, decisions = detector.process([{"payment_id": "p1", "account_id": "a1", "event_time": 0}])
        >>> detector.save("state.bin")
    """

    def __init__(
        self,
        rules: RuleSet | FilePath,
        stream: Stream | FilePath,
        *,
        policy: Policy | FilePath | None = None,
        lists: Mapping[str, Sequence[Any]] | None = None,
        defaults: Defaults | None = None,
        partition_lag_ms: int = PARTITION_LAG_MS,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.stream = stream_of(stream)
        self.rules = rules_of(rules, self.stream)
        check_alone(self.rules, self.stream)
        by_policy = policy_of(policy)
        deciding = None if by_policy is None else Deciding(by_policy, every=True)
        given = (defaults or Defaults(), 1, Bounds(partition_lag_ms), named_lists(lists))
        snapshot = PlanSnapshot(self.rules, {self.stream.name: self.stream.spec}, *given, deciding=deciding)
        self._run = SingleRun(snapshot, self.stream.name, clock_ms, Segments())
        self._failed: str | None = None

    @property
    def batches(self) -> int:
        """How many batches were judged since the beginning, loaded ones included."""
        return self._run.batch

    @property
    def rows(self) -> int:
        """How many records came since the beginning, loaded ones included."""
        return self._run.rows

    def process(self, batch: Any) -> Processed:
        """Judge a batch.

        Args:
            batch: a table of any Arrow library (pyarrow, pandas, Polars, DuckDB) or an iterable of dicts. Records count
                in their order.

        Returns:
            (alerts, decisions), both in the order of their records.

        Raises:
            UsageError: ``batch`` holds no records, or its columns do not fit the stream; the state stays as it is.
            StateError: an earlier batch failed half way.
        """
        self._check_whole()
        given = list(self._run.batches(batch))  # what cannot be read is found before anything is judged
        try:
            found = [self._run.judge(rows) for rows in given]
        except BaseException as error:
            self._failed = f"{type(error).__name__}: {error}"
            raise
        decisions = [decision for each in found for decision in each.decisions]
        return Processed(alerts_of(found), Decisions(decisions))

    def save(self, path: FilePath) -> None:
        """Write the state to a file, at once or not at all, so that it survives a power failure.

        Args:
            path: the file; what is there is replaced.

        Raises:
            StateError: an earlier batch failed half way.
            OSError: the disk does not take it.
        """
        self._check_whole()
        run = self._run
        saved = SavedRun(run.segments or Segments(), run.batch, run.rows, run.plan(), version())
        put(Path(path), saved.encode())

    def load(self, path: FilePath) -> Self:
        """Go on from a saved state, in place of what this detector has seen.

        Args:
            path: a file that ``save`` wrote, by the same rules, stream, lists and policy.

        Returns:
            This detector.

        Raises:
            StateError: the file is damaged, of another format, or was saved by another plan; it says what differs.
            UsageError: there is no such file.

        Example:
            >>> detector = crossline.Detector("rules/", "stream.yaml").load("state.bin")
        """
        try:
            raw = Path(path).read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}; expected a file that save() wrote") from None
        saved = read_saved_run(raw, str(path))
        check_plan(saved, self._run.plan(), str(path))
        self._run.restore(saved.segments, saved.batch, saved.rows)
        self._failed = None
        return self

    def _check_whole(self) -> None:
        if self._failed is not None:
            raise StateError(
                f"an earlier batch failed half way ({self._failed}); the state may hold a part of it: load() the last "
                "file that was saved, and process what came since then again"
            )


def alerts_of(outcomes: Sequence[Outcome]) -> Alerts:
    """The alerts of batches, one behind the other."""
    return Alerts(
        [alert for each in outcomes for alert in each.alerts],
        records=sum(each.figures["records"] for each in outcomes),
        dead_letters=[letter for each in outcomes for letter in each.dead],
        late_records=[record for each in outcomes for record in each.late],
    )
