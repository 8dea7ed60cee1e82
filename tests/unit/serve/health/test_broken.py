"""Predictions that break and are mended: each is an event, once, also over restarts; ids go on over all events."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.analysis.forecast import DailyForecast
from crossline.analysis.health.predictions import PredictionCheck, check_mean
from crossline.serve.app.events import AllEvents
from crossline.serve.cases.statistics.queries import RuleCounts
from crossline.serve.feed.reader import FeedReader
from crossline.serve.health.assess import Measured, assessed
from crossline.serve.health.prediction_events import PredictionWatch
from crossline.serve.health.values import HealthReport, RuleFacts
from crossline.serve.http.events.source import EventsGoneError, LiveEvent
from crossline.serve.revisions.revision_log import NumberedLog, RevisedLog

AHEAD = DailyForecast(10.0, 2.0, 18.0, 4.0)
NOW_MS = 1_767_225_600_000


def alerts(*days: float) -> PredictionCheck:
    """What came of each day, where 10 a day were foretold."""
    return check_mean("alerts", AHEAD, days)


def money(came: float | None, *, beyond: bool) -> PredictionCheck:
    return PredictionCheck("money", 5.0, 1.0, 9.0, came, 3, beyond=beyond)


class Rules:
    """How rules do, as a test says: by name a version, and figures."""

    def __init__(self, folder: Path) -> None:
        self.at_ms = NOW_MS
        self.rules: dict[str, tuple[int, tuple[PredictionCheck, ...]]] = {}
        self.refused: dict[str, str] = {}
        self.counted = True
        self._path = folder / "predictions.db"
        self.restart()

    def restart(self) -> None:
        self.log = NumberedLog(self._path)
        self.watch = PredictionWatch(self.report, self.log)

    def report(self) -> HealthReport:
        self.at_ms += 1_000
        facts = [
            RuleFacts(name, version, "velocity", "high", "active", "") for name, (version, _) in self.rules.items()
        ]
        plain = assessed(facts, RuleCounts(20_000), Measured())
        rules = tuple(replace(each, held=self.rules[each.facts.rule_id][1]) for each in plain)
        return HealthReport("shop", self.at_ms, rules, self.counted, 19_000, answered=False, refused=self.refused)

    def look(self, **rules: tuple[int, tuple[PredictionCheck, ...]]) -> list[tuple[str, int, str, str]]:
        """What events that made."""
        self.rules, before = rules, self.log.last()
        assert self.watch.look() == self.log.last() - before
        return [
            (each["rule_id"], each["version"], each["figure"], each["state"])
            for _, body in self.log.behind(before)
            for each in [orjson.loads(body)]
        ]


def test_a_prediction_that_breaks_and_is_mended_is_reported_once(tmp_path: Path) -> None:
    rules = Rules(tmp_path)
    # Of 10 a day, with 2 to 18 the interval of one by 4 days: of one day the mean lies within 2 to 18.
    assert rules.look(burst=(2, (alerts(), money(None, beyond=False)))) == []
    assert rules.look(burst=(2, (alerts(19.0),))) == [("burst", 2, "alerts", "broken")]
    assert rules.look(burst=(2, (alerts(20.0),))) == []
    rules.restart()
    assert rules.look(burst=(2, (alerts(21.0),))) == [], "it was reported before the restart"
    assert rules.look(burst=(2, (alerts(),))) == [], "nothing came that could mend it"
    assert rules.look(burst=(2, (alerts(10.0),))) == [("burst", 2, "alerts", "mended")]
    assert rules.look(burst=(2, (alerts(10.0),))) == []
    both = (alerts(1.0), money(9.5, beyond=True))
    assert rules.look(burst=(2, both)) == [("burst", 2, "alerts", "broken"), ("burst", 2, "money", "broken")]


def test_a_prediction_of_a_version_that_went_is_over(tmp_path: Path) -> None:
    rules = Rules(tmp_path)
    assert rules.look(burst=(2, (alerts(30.0),)), mule=(1, (alerts(30.0),)))[1] == ("mule", 1, "alerts", "broken")
    assert rules.look(burst=(3, (alerts(),)), mule=(1, (alerts(30.0),))) == [("burst", 2, "alerts", "over")]
    rules.refused = {"mule.yaml": "unreadable"}
    assert rules.look(burst=(3, (alerts(10.0),))) == [], "it may be the one that cannot be read"
    rules.refused, rules.counted = {}, False
    assert rules.look(burst=(3, (alerts(),))) == [], "without counts"
    rules.counted = True
    assert rules.look(burst=(3, ())) == [("mule", 1, "alerts", "over")]
    assert rules.look(burst=(3, (alerts(30.0),))) == [("burst", 3, "alerts", "broken")]
    assert rules.look(burst=(4, (alerts(30.0),))) == [("burst", 3, "alerts", "over"), ("burst", 4, "alerts", "broken")]


def test_the_event_has_the_predicted_and_the_actual_rate(tmp_path: Path) -> None:
    rules = Rules(tmp_path)
    rules.look(burst=(2, (alerts(19.0),)))
    ((_, body),) = rules.log.behind(0)
    assert orjson.loads(body) == {
        "schema_version": 1,
        "kind": "prediction",
        "state": "broken",
        "pipeline": "shop",
        "rule_id": "burst",
        "version": 2,
        "figure": "alerts",
        "came": 19.0,
        "of": 1,
        "predicted": {"value": 10.0, "low": 2.0, "high": 18.0},
        "at": "2026-01-01T00:00:01.000Z",
        "text": "alerts a day: 19, predicted 2 to 18",
    }


def test_a_file_that_takes_nothing_leaves_the_event_to_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = Rules(tmp_path)

    def full(_: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(rules.log, "keep", full)
        with pytest.raises(OSError, match="no space"):
            rules.look(burst=(2, (alerts(19.0),)))
    assert rules.look(burst=(2, (alerts(19.0),))) == [("burst", 2, "alerts", "broken")]


def test_a_listener_gets_it_and_resumes_from_its_id(tmp_path: Path) -> None:
    async def take(events: AllEvents, after: str, count: int) -> list[LiveEvent]:
        found: list[LiveEvent] = []
        async with aclosing(events.follow(after)) as source:  # type: ignore[type-var]
            async for each in source:
                found.append(each)
                if len(found) == count:
                    break
        return found

    async def work() -> None:
        rules, reader = Rules(tmp_path), FeedReader(tmp_path / "feed", poll_s=0.001)
        events = AllEvents(reader, RevisedLog(tmp_path / "revised.db"), None, rules.log)
        life = (await events._newest()).life
        rules.look(burst=(2, (alerts(19.0),)))
        rules.look(burst=(2, (alerts(10.0),)))
        found = await take(events, f".0.0.0~{life}", 2)
        assert [(each.kind, each.key, each.id) for each in found] == [
            ("prediction", {"rule_id": "burst"}, f".0.0.1~{life}"),
            ("prediction", {"rule_id": "burst"}, f".0.0.2~{life}"),
        ]
        (second,) = await take(events, found[0].id, 1)
        assert orjson.loads(second.body)["state"] == "mended"
        with pytest.raises(EventsGoneError, match="has not come here"):
            await take(events, f".0.0.3~{life}", 1)
        await reader.close()

    asyncio.run(asyncio.wait_for(work(), 60))


def test_looking_goes_on_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rules, looked, over = Rules(tmp_path), [0], asyncio.Event()
        loop = asyncio.get_running_loop()

        def look() -> int:
            looked[0] += 1
            if looked[0] == 2:
                loop.call_soon_threadsafe(over.set)
            raise ValueError("a bug")

        monkeypatch.setattr(rules.watch, "look", look)
        monkeypatch.setattr("crossline.serve.health.prediction_events.LOOK_S", 0.0)
        task = asyncio.create_task(rules.watch.run())
        await over.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(work(), 60))
