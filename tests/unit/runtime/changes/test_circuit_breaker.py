"""Rules that flood while batches run: counted once over restarts, logged before anything more is judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.errors import RetryableError, StoppedError
from crossline.basics.times import format_instant
from crossline.evaluate.alerts.breaker import BreakerTrip
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.output import StreamClocks
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.base import Defaults
from crossline.rules.breaker import Bound
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes import rule_changes as changing
from crossline.runtime.changes.circuit_breaker import CircuitBreaker
from crossline.runtime.changes.rule_changes import RuleChanges
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.offset_history import OffsetHistory
from crossline.settings.config import PipelineConfig as Config
from crossline.settings.config import in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: p
streams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer, amount: integer}}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: console}]
defaults: {breaker: {alerts_max: 3, per: 1m}}
"""
RULE = """\
rule_id: large
version: 1
rule_type: threshold
source_topic: s
conditions: [{field: amount, operator: ">", value: 100}]
"""
CLOCKS = {"s": StreamClocks(70_000, 70_000)}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "r.yaml").write_text(RULE)
    return in_folder(load_pipeline(PIPELINE, "p.yaml", str), str(tmp_path))


def alerts(*seconds: int) -> list[dict[str, Any]]:
    body = {"rule_id": "large", "rule_version": 1, "kind": "alert"}
    return [{**body, "ingest_time": format_instant(each * 1_000)} for each in seconds]


def planned(checkpoint: Path, batch: int, *, done: bool) -> None:
    """As Spark notes batches."""
    for name in ("offsets", "commits") if done else ("offsets",):
        (checkpoint / "spark" / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / "spark" / name / str(batch)).touch()


def test_a_batch_that_is_run_again_is_counted_once(config: Config, tmp_path: Path) -> None:
    rules = RuleSet.from_rules(read_rules(tmp_path / "rules"))
    batches: Sequence[list[dict[str, Any]]] = [alerts(1, 2), [], alerts(3, 61), alerts(62, 4, 63)]
    trip = BreakerTrip("large", 1, 4, 0, Bound(3, 60_000))

    def run(killed_in: int | None) -> list[list[BreakerTrip]]:
        folder = tmp_path / f"killed-{killed_in}"
        circuit_breaker, found = CircuitBreaker(str(folder), config.defaults.bound), []
        for number, batch in enumerate(batches):
            planned(folder, number, done=False)
            trips = circuit_breaker.judged(number, batch, rules)
            if number == killed_in:
                circuit_breaker = CircuitBreaker(str(folder), config.defaults.bound)
                assert circuit_breaker.judged(number, batch, rules) == trips
            planned(folder, number, done=True)
            found.append(trips)
            if number != killed_in:  # between two batches too
                circuit_breaker = CircuitBreaker(str(folder), config.defaults.bound)
        return found

    for killed_in in (None, 0, 1, 2, 3):
        assert run(killed_in) == [[], [], [], [trip]]


def begun(config: Config, folder: Path, stopping: threading.Event | None = None) -> tuple[RuleChanges, DirectoryFeed]:
    feed = DirectoryFeed(config, {})
    snapshot = PlanSnapshot(RuleSet(), config.streams, Defaults(), 1, Bounds(0))
    state = (OffsetHistory(str(folder)), str(folder), None, stopping or threading.Event())
    changes = RuleChanges(snapshot, None, feed, *state, config.defaults.bound)
    changes.start()
    return changes, feed


def kinds(rules: RuleSet) -> list[tuple[str, int | None]]:
    return [(each.kind, each.effective_from_ms) for each in rules.versions]


def test_the_next_batch_is_judged_by_the_rule_as_shadow(config: Config, tmp_path: Path) -> None:
    changes, feed = begun(config, tmp_path / "checkpoint")
    with changes.judging():
        changes.judged(CLOCKS)
        changes.trip_breakers(0, alerts(1, 2, 3, 4))
    (event,) = [each for each in changes.events() if each["event"] == "tripped"]
    assert (event["who"], event["count"], event["effective_from_ms"]) == ("breaker", 4, 70_001)
    assert changes.logged["tripped"] == 1
    assert [each.kind for each in changes.snapshot.rules.versions] == ["active"], "that of the batch that is delivered"
    changes.delivered(0)
    with changes.judging():
        assert kinds(changes.file.current().rules)[1] == ("shadow", 70_001)
        changes.trip_breakers(
            1, alerts(5, 6, 7, 8, 9)
        )  # of a partition that lags: they are delivered, and nothing trips again
    assert changes.logged["tripped"] == 1
    assert kinds(ruleset_of_log(log_path(config.rules.path, "p")))[1] == ("shadow", 70_001)
    feed.close()


def test_a_kill_after_the_log_was_written_changes_nothing(config: Config, tmp_path: Path) -> None:
    """The batch is run again: its records are of before the instant, so its alerts are the same, and delivered."""
    checkpoint = tmp_path / "checkpoint"
    planned(checkpoint, 0, done=False)
    changes, feed = begun(config, checkpoint)
    changes.judged(CLOCKS)
    changes.trip_breakers(0, alerts(1, 2, 3, 4))
    before = [each for each in feed.events() if each["event"] == "tripped"]
    feed.close()
    changes, feed = begun(config, checkpoint)
    assert kinds(changes.snapshot.rules)[1] == ("shadow", 70_001)
    with changes.judging():
        changes.judged(CLOCKS)
        changes.trip_breakers(0, alerts(1, 2, 3, 4))
    assert [each for each in feed.events() if each["event"] == "tripped"] == before
    assert len([each for each in changes.events() if each["event"] == "tripped"]) == 1
    feed.close()


def test_a_batch_waits_for_a_log_that_cannot_be_written(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changing, "POLL_S", 0.01)
    stopping = threading.Event()
    changes, feed = begun(config, tmp_path / "checkpoint", stopping)
    changes.judged(CLOCKS)
    trip: Callable[..., Any] = feed.trip
    tried: list[int] = []

    def fails(*arguments: Any) -> Any:
        tried.append(len(tried))
        if len(tried) < 3:
            raise RetryableError("the disk is full")
        return trip(*arguments)

    monkeypatch.setattr(feed, "trip", fails)
    changes.trip_breakers(0, alerts(1, 2, 3, 4))
    assert (len(tried), changes.logged["tripped"]) == (3, 1)

    monkeypatch.setattr(changes, "_circuit_breaker", CircuitBreaker(str(tmp_path / "other"), config.defaults.bound))
    monkeypatch.setattr(changes, "_rules", RuleSet.from_rules(read_rules(tmp_path / "rules")))
    monkeypatch.setattr(feed, "trip", lambda *_: stopping.set() or fails_again())
    with pytest.raises(StoppedError, match="stopped before a rule that floods could be made shadow"):
        changes.trip_breakers(1, alerts(1, 2, 3, 4))
    feed.close()


def fails_again() -> Any:
    raise RetryableError("the disk is full")
