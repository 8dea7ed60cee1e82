"""Changes of rules, lists and tables during a run: read and checked beside batches, in force between two of them.

A change takes three steps. So no batch waits for the slow steps, and a batch that its sinks hold delays no rule:

1. The change is read and checked, and new state stores are backfilled from the source, while batches go on.
2. It is logged, with the instant from which it holds: just after every record that was judged. That waits for a batch
   that is being judged, not for one that is being delivered.
3. The plan snapshot is replaced before the next batch is judged. From then on tasks use it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from crossline.basics.errors import StoppedError
from crossline.basics.times import BEGINNING_MS
from crossline.evaluate.output import StreamClocks
from crossline.logs import get_logger
from crossline.rules.base import Rule
from crossline.rules.breaker import Bound
from crossline.rules.holds.hold import lasts_ms
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.backfill import SLOWEST_MS, BackfillError, BackfillReader
from crossline.runtime.changes.circuit_breaker import CircuitBreaker
from crossline.runtime.changes.rule_feed import ListTimes, RuleFeed
from crossline.runtime.snapshot.snapshot import Backfill, PlanSnapshot, SnapshotFile
from crossline.runtime.snapshot.spark_log import committed, unfinished
from crossline.runtime.state_log.offset_history import OffsetHistory

POLL_S = 0.25
COMMIT_POLL_S = 0.005
COMMIT_WAIT_S = 10.0

log = get_logger(__name__)

_LOUD = {"refused": log.warning, "tripped": log.error, "waiting": log.warning}
_Name = tuple[Any, ...]  # what was refused, with which content
_LOGGED_FIELDS = ("rule_id", "version", "source", "who", "host", "approved_by", "count", "key", "text")


class RuleChanges:
    """The plan snapshot of a running pipeline, and what becomes of it.

    ``snapshot`` has the streams, defaults and bounds of this run, ``before`` is that of the run before, None at the
    first. ``backfill``: None where new rules begin without theirs. ``breaker``: of rules that give no bound of their
    own. ``logged``: how often what happened to rules in this run. ``between_batches`` is held while a batch is judged
    and delivered.
    """

    def __init__(
        self,
        snapshot: PlanSnapshot,
        before: PlanSnapshot | None,
        feed: RuleFeed,
        history: OffsetHistory,
        checkpoint: str,
        backfill: BackfillReader | None,
        stopping: threading.Event,
        breaker: Bound | None = None,
    ) -> None:
        self.file = SnapshotFile(f"{checkpoint}/snapshot.json")
        self.between_batches = threading.Lock()
        self.clocks: dict[str, StreamClocks] = history.clocks()
        self._configured = snapshot
        self._snapshot = before or snapshot
        # Nothing was judged yet by the state stores of a plan snapshot that has no rules: they are not gone on with.
        self._begun = before is not None
        self._feed = feed
        self._checkpoint = checkpoint
        self._backfill = backfill
        self._stopping = stopping
        self._judging = threading.Lock()
        self._rules = RuleSet()
        self._lists: ListTimes
        self._wanted: tuple[RuleSet, ListTimes] | None = None
        self._tables_alone = False  # what is wanted differs in nothing but tables
        self._hold = unfinished(checkpoint)
        # The plan snapshot still has the defaults that a batch which is run again must meet.
        self._later = self._hold
        self._delivered: int | None = None
        self._events: list[dict[str, Any]] = []
        self.logged: Counter[str] = Counter()
        self._circuit_breaker = CircuitBreaker(checkpoint, breaker)
        self._without_past = ""
        self._unscored: set[str] = set()
        self._refused: set[_Name] = set()  # refusals that were reported in this run
        self._ahead: set[_Name] = set()  # those of them that are yet to be logged
        self._logged_error = ""

    def start(self) -> None:
        """The rules to begin with; write the plan snapshot."""
        self._rules, self._lists = self._feed.start()
        self._check_policy()
        self._change(self._rules, self._lists)
        # A kill may have come before they were delivered; a sink that has them takes no notice.
        self._events = [*self._feed.events(), *self._events]
        logged = {_name_of(event) for event in self._events if event["event"] == "refused"}
        self._ahead = self._log_refused() - logged
        if not any(version.endless for version in self._rules.versions):
            log.warning("no rule judges yet; records go by unjudged until one is published")
        # What was published while no pipeline ran is in force from the first batch, which may be the only one of a run.
        with self._reported():
            self._look()

    def _check_policy(self) -> None:
        """Rules come and go, so a policy may name one that is not there: it is reported, and never matches."""
        deciding = self._configured.deciding
        ids = {version.rule.rule_id for version in self._rules.versions}
        missing = deciding.policy.unknown_rules(ids) if deciding is not None else []
        if missing:
            log.warning("the policy names rules that are not there", rules=missing)
        looked_up = deciding.policy.unknown_lists(()) if deciding is not None else []
        unlisted = sorted(set(looked_up) - set(self._lists.since({}))) if looked_up else []
        if unlisted:
            log.warning("the policy's fallback reads lists that are not there", lists=unlisted)
        holding = sorted({version.rule.rule_id for version in self._rules.versions if version.rule.hold is not None})
        if holding and deciding is None:
            log.warning("rules hold nothing: there is no policy, so nothing is decided", rules=holding)

    def close(self) -> None:
        """Let go of what feeds the rules."""
        self._feed.close()

    @contextmanager
    def judging(self) -> Iterator[None]:
        """While a batch is judged: what is published meanwhile holds after its records, once they are known.

        What was logged before is put in force first: its instant has come for the records of this batch.
        """
        with self._judging:
            self._put_in_force()
            yield

    def judged(self, clocks: Mapping[str, StreamClocks]) -> None:
        """How far the batch came; called inside ``judging``."""
        for stream, each in clocks.items():
            self.clocks[stream] = each.after(self.clocks.get(stream))

    def note_unscored(self, failed: Mapping[str, Mapping[str, Any]]) -> None:
        """Log, by rule version, that a model did not score records; once for each."""
        for name in [name for name in failed if name not in self._unscored]:
            self._unscored.add(name)
            each = failed[name]
            text = f"the model of {name} did not score {each['records']} records of a batch, which it did not judge"
            self._events.append(self._feed.note("unscored", f"{text}: {each['why']}"))
            self.logged["unscored"] += 1

    def trip_breakers(self, batch_id: int, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Have rules that flood judge as shadow, from just after what was judged; called inside ``judging``.

        A batch is held where that cannot be logged: else what comes would go on to be reported.
        """
        trips = self._circuit_breaker.judged(batch_id, alerts, self._rules)
        while trips:
            with self._reported():
                highest_ms = {stream: clocks.ingest_ms for stream, clocks in self.clocks.items()}
                self._rules, events = self._feed.trip(trips, highest_ms)
                self._wanted, self._tables_alone = (self._rules, self._lists), False
                self._note(events)
                trips = []
            if trips and self._stopping.wait(POLL_S):
                raise StoppedError("stopped before a rule that floods could be made shadow")

    def failed(self) -> None:
        """The batch came to no end; called before another thread may change what it meets when it is run again."""
        self._hold = True

    def hold_unfinished(self) -> None:
        """The query is begun again: the batch that is not finished meets the rules, lists and tables that it met."""
        with self.between_batches:
            self._hold = self._hold or unfinished(self._checkpoint)

    def delivered(self, batch_id: int) -> None:
        """The batch is with every sink."""
        self._hold, self._delivered = False, batch_id

    def events(self) -> list[dict[str, Any]]:
        """What happened to rules since the last batch."""
        return list(self._events)

    def drop_events(self, events: Sequence[Mapping[str, Any]]) -> None:
        """``events`` are with every sink."""
        del self._events[: len(events)]

    def watch(self) -> None:
        """Until the pipeline stops: look for what changed, and put it in force where no batch does."""
        while not self._stopping.wait(POLL_S):
            with self._reported():
                self._look()
                if self.between_batches.acquire(blocking=False):
                    try:
                        self._between()
                    finally:
                        self.between_batches.release()

    def _put_in_force(self) -> None:
        """What was logged since the last batch; where the plan snapshot cannot be written the batch is held."""
        while self._has_pending() and not self._hold:
            with self._reported():
                self._apply()
            if self._has_pending() and self._stopping.wait(POLL_S):
                raise StoppedError("stopped before the rules that were published could be put in force")

    @property
    def snapshot(self) -> PlanSnapshot:
        """What the batch that runs is judged by."""
        return self._snapshot

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Whatever fails, the rules that are live stay live; it is reported once, and tried again."""
        try:
            yield
        except StoppedError:
            return
        except Exception as error:  # noqa: BLE001 - as above
            if str(error) != self._logged_error:
                self._logged_error = str(error)
                log.error("rule changes could not be applied; trying again", error=self._logged_error)  # noqa: TRY400

    def _look(self) -> None:
        """Read and check what changed, and log it."""
        if self._hold or not self._feed.changed():
            return
        # While something waits, the next batch may read backfills too. What cannot be read now is reported when it is
        # needed.
        alone = self._feed.tables_alone
        if self._backfill is not None and not alone and not self._has_pending():
            rules, lists = self._feed.preview()
            with suppress(BackfillError):
                self._backfill.read(self._snapshot, self._next(rules, lists), lists)
        with self._judging:
            highest_ms = {stream: clocks.ingest_ms for stream, clocks in self.clocks.items()}
            rules, lists, events = self._feed.take_up(highest_ms)
            self._tables_alone = alone and (self._tables_alone or not self._has_pending())
            self._rules, self._lists, self._wanted = rules, lists, (rules, lists)
        self._note(events)
        self._log_refused()

    def _note(self, events: Sequence[dict[str, Any]]) -> None:
        """For the sinks with the next batch, and for who watches."""
        self._events.extend(events)
        self._log_events(events)

    def _log_events(self, events: Sequence[dict[str, Any]]) -> None:
        """Log and count ``events``, without refusals that the start logged before they were in the rule log."""
        for event in events:
            if event["event"] == "refused":
                name = _name_of(event)
                if name in self._ahead:
                    self._ahead.discard(name)
                    continue
                self._refused.add(name)
            self.logged[event["event"]] += 1
            write = _LOUD.get(event["event"], log.info)
            write(event["event"], **_log_fields(event))

    def _log_refused(self) -> set[_Name]:
        """Log and count refusals in force that this run has not logged yet; returns them."""
        fresh = [each for each in self._feed.refusals() if _name_of(each) not in self._refused]
        self._log_events(fresh)
        return {_name_of(each) for each in fresh}

    def refusals(self) -> list[dict[str, Any]]:
        """What is refused as it stands now."""
        return self._feed.refusals()

    def _between(self) -> None:
        """While no batch runs: lists that waited, what is wanted, and the end of versions that nothing can meet."""
        if self._hold:
            return
        snapshot = self._snapshot
        old = any(v.ended for v in snapshot.rules.versions) or any(
            len(each.changes) > 1 for each in snapshot.lists.values()
        )
        old = old or any(len(each) > 1 for each in snapshot.tables.values())
        if not (self._has_pending() or old) or not self._settled():
            return
        if self._has_pending():
            self._apply()
        elif len(self._continuing(self._rules)) < len(snapshot.rules) or self._outlived(snapshot):
            self._change(self._rules, self._lists)

    def _has_pending(self) -> bool:
        return self._wanted is not None or self._later

    def _apply(self) -> None:
        wanted = self._wanted
        if wanted is not None and self._tables_alone and self._begun and not self._later:
            self._change_tables(wanted[1])
        else:
            self._change(*(wanted or (self._rules, self._lists)))
        if self._wanted is wanted:  # else more was logged meanwhile
            self._wanted = None

    def _settled(self) -> bool:
        """Wait until Spark has committed what was delivered: a batch that is run again must meet the same lists."""
        deadline_s = time.monotonic() + COMMIT_WAIT_S
        while self._delivered is not None and not committed(self._checkpoint, self._delivered):
            if self._stopping.wait(COMMIT_POLL_S) or time.monotonic() > deadline_s:
                return False
        return True

    def _outlived(self, snapshot: PlanSnapshot) -> bool:
        """Whether lists or tables of ``snapshot`` have versions that no record to come meets."""
        now = self._lists.since(self._ends_ms())
        if any(name in now and now[name].first > each.first for name, each in snapshot.lists.items()):
            return True
        tables = self._lists.tables_since(self._ends_ms()) if snapshot.tables else {}
        return any(len(each) < len(snapshot.tables.get(name, ())) for name, each in tables.items())

    def _next(self, rules: RuleSet, lists: ListTimes) -> PlanSnapshot:
        mine = lists.since(self._ends_ms())
        if not self._begun:
            return self._configured.begun(rules, mine, lists.tables_since(self._ends_ms()))
        # A batch that is run again meets streams and tables as they were declared then; which contents tables had is
        # for the log to say, which may know of one that the plan snapshot of that run does not.
        standing = self._snapshot if self._hold else self._configured
        tables = lists.tables_since(self._ends_ms(), standing.streams)
        return standing.after(self._snapshot, self._continuing(rules), mine, tables)

    def _continuing(self, rules: RuleSet) -> RuleSet:
        """Without the ended versions that no waiting record and no replay needs."""
        streams, defaults = self._configured.streams, self._configured.defaults
        again_ms = rules.again_ms(defaults)

        def lingers_ms(rule: Rule) -> int:
            waits_ms = max(rule.lingers_ms(defaults), again_ms.get(rule.rule_id, 0), lasts_ms(rule, defaults))
            # A record may be dated that much later than it came, and waits from there.
            spec = streams.get(rules.base(rule))
            return waits_ms and waits_ms + (spec.future_bound if spec is not None else 0)

        return rules.without_past(self._gone_ms(), lingers_ms)

    def _ends_ms(self) -> dict[str, int]:
        """As ``_gone_ms``, of all streams: a record of one of which none came may be of any time."""
        return {**dict.fromkeys(self._configured.streams, BEGINNING_MS), **self._gone_ms()}

    def _gone_ms(self) -> dict[str, int]:
        """By stream, the ingest time that no record to come is before, but for logs that are silent for a day."""
        lag_ms = self._snapshot.bounds.partition_lag_ms
        return {
            stream: max(clocks.slowest_ms, clocks.ingest_ms - SLOWEST_MS) - lag_ms
            for stream, clocks in self.clocks.items()
        }

    def _change(self, rules: RuleSet, lists: ListTimes) -> None:
        """New state stores get their past first: a task that finds one in the plan snapshot finds it filled."""
        snapshot = self._next(rules, lists)
        snapshot = snapshot.with_backfills(self._read_backfill(snapshot, lists))
        self.file.replace(snapshot)
        self._snapshot, self._begun, self._later = snapshot, True, self._hold
        if self._backfill is not None:
            self._backfill.forget(snapshot)
        self._feed.in_force(snapshot.tables)

    def _change_tables(self, lists: ListTimes) -> None:
        snapshot = self._snapshot.with_tables(lists.tables_since(self._ends_ms()))
        self.file.replace_tables(snapshot)
        self._snapshot = snapshot
        self._feed.in_force(snapshot.tables)

    def _read_backfill(self, snapshot: PlanSnapshot, lists: ListTimes) -> dict[str, Backfill]:
        if self._backfill is None:
            return {}
        try:
            return self._backfill.read(self._snapshot, snapshot, lists)
        except BackfillError as error:
            # A rule without its past is better than none, or a pipeline that stands.
            if str(error) != self._without_past:
                log.error("new rules begin without their past", error=str(error))  # noqa: TRY400 - reported, and in the log
                self._events.append(self._feed.note("without_past", str(error)))
                self.logged["without_past"] += 1
                self._without_past = str(error)
            return error.found


def _name_of(refusal: Mapping[str, Any]) -> _Name:
    return tuple(refusal.get(part) for part in ("source", "digest", "list_name", "table_name"))


def _log_fields(event: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the log line of ``event``."""
    body = {name: event[name] for name in _LOGGED_FIELDS if name in event}
    if event["event"] == "refused" and "count" in body and "table_name" not in event:
        body["rules_not_taken_up"] = body.pop("count")
    return body
