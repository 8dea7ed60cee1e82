"""The follower: from the feed into cases, exactly once, over restarts, kills and a checkpoint that is begun anew."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.unit.serve.cases.casekit import SETTINGS, START, Harness, alert, decision

from crossline.basics.errors import RetryableError
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.feed.files import batch_path, write_batch
from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from crossline.io.stores.factory import open_store
from crossline.io.stores.protocol import Store
from crossline.rules.policy.words import ACTIONS
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.changes import CaseChanges
from crossline.serve.cases.intake.batches import CaseIntake, IntakePosition
from crossline.serve.cases.intake.catch_up import Missed
from crossline.serve.cases.intake.follower import CaseFollower
from crossline.serve.feed.reader import FeedReader


def batch(folder: Path, number: int, *lines: dict[str, Any], planned_ms: int = 0) -> None:
    """What a batch gave, as the pipeline writes it."""
    feed = folder / "feed"
    feed.mkdir(exist_ok=True)
    sections = {
        "alerts": [json_bytes(each) for each in lines if "alert_id" in each],
        "decisions": [json_bytes(each) for each in lines if "alert_id" not in each],
    }
    write_batch(feed, {"batch": number, "ends": {}, "begins": {}, "planned_ms": planned_ms + number}, sections)


def follow(
    folder: Path,
    until: Callable[[Harness], bool],
    work: Callable[[Harness], None] = lambda _: None,
    missed: Missed | None = None,
) -> None:
    """Follow the feed, as a process does from its start to its end, until something is so."""

    async def run() -> None:
        harness = Harness(folder)
        reader = FeedReader(folder / "feed", poll_s=0.001)
        changes = CaseChanges(harness.service)
        intake = CaseIntake(harness.path, SETTINGS, clock_ms=lambda: START, on_change=changes.notify)
        try:
            async with asyncio.timeout(30), CaseFollower(reader, intake, harness.service, missed):
                work(harness)
                async for _ in changes.follow(0):
                    if until(harness):
                        break
        finally:
            await reader.close()
            harness.close()

    asyncio.run(run())


def counted(harness: Harness) -> int:
    return int(harness.cases.file.rows("SELECT count(*) AS n FROM case_alerts")[0]["n"])


def test_it_goes_on_where_it_left_off(tmp_path: Path) -> None:
    batch(tmp_path, 0, alert("x1"), decision("r-x1", "block"))
    batch(tmp_path, 1)
    batch(tmp_path, 2, alert("x2"))
    follow(tmp_path, lambda harness: counted(harness) == 2 and harness.service.case("C-1")["decision"] is not None)
    batch(tmp_path, 3, alert("x2"), alert("x3", account="a2"))
    follow(tmp_path, lambda harness: counted(harness) == 3)
    harness = Harness(tmp_path)
    assert harness.intake.mark() == IntakePosition(3, 2, "3")
    assert [harness.service.case(f"C-{n}")["alert_count"] for n in (1, 2)] == [2, 1]
    assert harness.service.case("C-1")["decision"]["gravest"] == "block"
    harness.close()


def test_a_batch_that_was_half_taken_is_taken_to_its_end(tmp_path: Path) -> None:
    batch(tmp_path, 0, alert("x1"), alert("x2"), alert("x3"))
    harness = Harness(tmp_path)
    harness.take(alert("x1"), mark=IntakePosition(0, 1, "0"))
    harness.close()
    follow(tmp_path, lambda harness: counted(harness) == 3)


def test_a_checkpoint_that_was_begun_anew_is_followed_from_its_start(tmp_path: Path) -> None:
    for number in range(3):
        batch(tmp_path, number, alert(f"x{number}"))
    follow(tmp_path, lambda harness: counted(harness) == 3)
    shutil.rmtree(tmp_path / "feed")
    for number in range(4):
        batch(tmp_path, number, alert(f"x{number}"), planned_ms=1_000)
    follow(tmp_path, lambda harness: counted(harness) == 4)


def test_a_snooze_ends_by_itself(tmp_path: Path) -> None:
    batch(tmp_path, 0, alert("x1"))

    def snooze(harness: Harness) -> None:
        harness.take(alert("y1", account="a2"))
        harness.service.act("C-1", CaseAction("snooze", until_ms=START + 1), "ada")
        harness.now_ms = START + 2

    def awake(harness: Harness) -> bool:
        return {"open"} == {each["state"] for each in harness.cases.file.rows("SELECT state FROM cases")}

    follow(tmp_path, lambda harness: counted(harness) == 2 and awake(harness), snooze)


def test_changes_are_gone_on_from(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    harness.take(alert("x1"), alert("y1", account="a2"))
    first = harness.service.changes(0)
    assert [case["number"] for _, case in first] == ["C-1", "C-2"]
    harness.service.act("C-1", CaseAction("note", text="seen"), "ada")
    ((number, case),) = harness.service.changes(first[-1][0])
    assert (number, case["number"]) == (harness.service.last_change(), "C-1")
    harness.close()


WHOLE = {"rule_type": "velocity", "score": 0, "action": "review", "threshold": 5, "detected_at": None}
DECIDED = {"score": 10, "policy_version": 1, "event_time": "2026-01-01T00:00:00.000Z"}


def stored(folder: Path, number: int, *lines: dict[str, Any], pipeline: str = "payments") -> None:
    """What the pipeline's sink delivers of a batch, whether anybody follows or not."""
    sink = SqliteSink(folder / "store.db", pipeline)
    sink.open()
    alerts = [{**WHOLE, "ingest_time": each["event_time"], **each} for each in lines if "alert_id" in each]
    decisions = [{**DECIDED, "decision_id": each["record_id"], **each} for each in lines if "alert_id" not in each]
    sink.deliver(Delivery(pipeline, number, alerts=alerts, decisions=decisions))
    sink.close()


def gone(folder: Path, *numbers: int) -> None:
    """The feed keeps these batches no more."""
    for number in numbers:
        batch_path(folder / "feed", number).unlink()


def test_alerts_that_came_while_no_follower_ran_open_their_cases(tmp_path: Path) -> None:
    given: list[tuple[dict[str, Any], ...]] = [
        (alert("x0"),),
        (alert("x1", account="a1"), decision("r-x1", "block")),
        (alert("x2", account="a2"), alert("x0")),
        (alert("x3", account="a3"),),
    ]
    for number, lines in enumerate(given):
        batch(tmp_path, number, *lines)
        stored(tmp_path, number, *lines)
        if number == 0:
            follow(tmp_path, lambda harness: counted(harness) == 1)  # the API stops here, and the pipeline goes on
    stored(tmp_path, 1, alert("y1", account="a9"), pipeline="another")
    gone(tmp_path, 0, 1, 2)
    store = Missed("payments", lambda: open_store(str(tmp_path / "store.db")))
    follow(tmp_path, lambda harness: counted(harness) == 4, missed=store)
    harness = Harness(tmp_path)
    taken = [row["alert_id"] for row in harness.cases.file.rows("SELECT alert_id FROM alerts ORDER BY alert_id")]
    assert taken == ["x0", "x1", "x2", "x3"], "each once, and none of another pipeline"
    assert harness.intake.mark().batch == 3
    (found,) = harness.cases.file.rows("SELECT gravest FROM alerts WHERE alert_id = 'x1'")
    assert found["gravest"] == ACTIONS.index("block")
    harness.close()


def test_catching_up_that_was_broken_off_begins_again(tmp_path: Path) -> None:
    batch(tmp_path, 0, alert("x0"))
    follow(tmp_path, lambda harness: counted(harness) == 1)
    for number in range(1, 4):
        batch(tmp_path, number, alert(f"x{number}"))
        stored(tmp_path, number, alert(f"x{number}"))
    gone(tmp_path, 0, 1, 2)
    harness = Harness(tmp_path)
    harness.take(alert("x1"))  # as far as it came before it was killed: the mark stands where it stood
    assert harness.intake.mark().batch == 0
    harness.close()
    tries = 0

    def opened() -> Store:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RetryableError("the store is away")
        return open_store(str(tmp_path / "store.db"))

    follow(tmp_path, lambda harness: counted(harness) == 4, missed=Missed("payments", opened))
    assert tries == 2


def test_without_a_store_what_comes_after_is_taken(tmp_path: Path) -> None:
    batch(tmp_path, 0, alert("x0"))
    follow(tmp_path, lambda harness: counted(harness) == 1)
    for number in range(1, 4):
        batch(tmp_path, number, alert(f"x{number}"))
    gone(tmp_path, 0, 1, 2)
    follow(tmp_path, lambda harness: counted(harness) == 2, missed=Missed("payments", lambda: None))
