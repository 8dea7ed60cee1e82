"""A detector for programs with their own loop: batches in, alerts and decisions out; its state can be saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from crossline.api.declarations import FilePath, Stream, check_single_stream, policy_of, rules_of, stream_of
from crossline.api.results import Alerts, Decisions
from crossline.api.version import version
from crossline.basics.conditions.lists import named_lists
from crossline.basics.errors import StateError, UsageError
from crossline.basics.times import PARTITION_LAG_MS
from crossline.evaluate.bounds import Bounds
from crossline.io.files.state_files import put
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, Policy
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local.saved_state import SavedRun, Segments, check_plan, read_saved_run
from crossline.runtime.local.single_run import SingleRun, wall_clock_ms
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.stages.outcome import Outcome


class Processed(NamedTuple):
    """The result of a batch. ``decisions`` is empty without a policy."""

    alerts: Alerts
    decisions: Decisions


class Detector:
    """Judges the records of one stream in this process, batch by batch, without Spark.

    The alerts do not depend on the cut into batches. A detector that was saved and loaded continues as if it had never
    stopped. It is not thread-safe.

    Args:
        rules: a RuleSet of ``load_rules``, or a rule file or folder.
        stream: a Stream of ``load_streams``, or a stream file with one stream.
        policy: a policy file; with it, each record gets a decision.
        lists: values of the named lists that rules read, by name.
        defaults: the clock and lateness of rules that do not set them.
        partition_lag_ms: how far the ingest time of a record may lie behind the highest one before it, in ms, with its
            windows still complete.
        clock_ms: the processing time, in epoch ms; by default, the system's clock. A record further ahead of it than
            the stream's ``future_bound`` is a dead letter.

    Raises:
        RefusedError: the files have errors; the message lists all of them with file:line.
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
        check_single_stream(self.rules, self.stream)
        by_policy = policy_of(policy)
        deciding = None if by_policy is None else Deciding(by_policy, every=True)
        snapshot = PlanSnapshot(
            rules=self.rules,
            streams={self.stream.name: self.stream.spec},
            defaults=defaults or Defaults(),
            shards=1,
            bounds=Bounds(partition_lag_ms),
            lists=named_lists(lists),
            deciding=deciding,
        )
        self._run = SingleRun(snapshot, self.stream.name, clock_ms, Segments())
        self._failed: str | None = None

    @property
    def batches(self) -> int:
        """The number of batches judged so far, those of a loaded state included."""
        return self._run.batch

    @property
    def rows(self) -> int:
        """The number of records judged so far, those of a loaded state included."""
        return self._run.rows

    def process(self, batch: Any) -> Processed:
        """Judge a batch.

        Args:
            batch: a table of any Arrow library (pyarrow, pandas, Polars, DuckDB) or an iterable of dicts. Records are
                judged in their order.

        Returns:
            (alerts, decisions), both in the order of their records.

        Raises:
            UsageError: ``batch`` is no collection of records, or its columns do not fit the stream; the state is
                unchanged.
            StateError: an earlier batch failed half way.
        """
        self._check_whole()
        given = list(self._run.batches(batch))  # unreadable input is refused before anything is judged
        try:
            found = [self._run.judge(rows) for rows in given]
        except BaseException as error:
            self._failed = f"{type(error).__name__}: {error}"
            raise
        decisions = [decision for each in found for decision in each.decisions]
        return Processed(alerts_of(found), Decisions(decisions))

    def save(self, path: FilePath) -> None:
        """Write the state to a file, atomically and synced to disk.

        Args:
            path: the file; an existing one is replaced.

        Raises:
            StateError: an earlier batch failed half way.
            OSError: the file cannot be written.
        """
        self._check_whole()
        run = self._run
        saved = SavedRun(run.segments or Segments(), run.batch, run.rows, run.plan(), version())
        put(Path(path), saved.encode())

    def load(self, path: FilePath) -> Self:
        """Continue from a saved state, which replaces the present one.

        Args:
            path: a file that ``save`` wrote with the same rules, stream, lists and policy.

        Returns:
            This detector.

        Raises:
            StateError: the file is damaged, has another format, or has another plan; the message names the difference.
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
                "saved file, and process the later batches again"
            )


def alerts_of(outcomes: Sequence[Outcome]) -> Alerts:
    """The alerts of batches, concatenated."""
    return Alerts(
        [alert for each in outcomes for alert in each.alerts],
        records=sum(each.figures["records"] for each in outcomes),
        dead_letters=[letter for each in outcomes for letter in each.dead],
        late_records=[record for each in outcomes for record in each.late],
    )
