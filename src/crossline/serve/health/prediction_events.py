"""Events of predictions: broken, mended, or over. Each is sent once, also over restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from crossline.analysis.health.predictions import PredictionCheck
from crossline.basics.errors import CrosslineError
from crossline.basics.times import instant_text
from crossline.logs import get_logger
from crossline.serve.health.sentences import prediction_text
from crossline.serve.health.values import HealthReport
from crossline.serve.http.problems import ProblemError
from crossline.serve.revisions.revision_log import NumberedLog

FILE = "predictions.db"
LOOK_S = 15.0
BROKEN, MENDED, OVER = "broken", "mended", "over"

log = get_logger(__name__)

Standing = dict[tuple[str, str], int]  # by rule and figure, the version whose prediction is broken


class PredictionWatch:
    """Looks how rules do, and notes in ``events`` what became of predictions.

    Args:
        report: How rules do; may wait for disks.
        events: Where it is noted, and read from at the start.
    """

    def __init__(self, report: Callable[[], HealthReport], events: NumberedLog) -> None:
        self._report = report
        self._events = events
        self._standing: Standing | None = None

    async def run(self) -> None:
        """Look on and on; whatever fails, look again."""
        while True:
            try:
                if await asyncio.to_thread(self.look):
                    self._events.notify()
            except (CrosslineError, ProblemError) as error:
                log.warning("predictions cannot be checked now", error=str(error))
            except Exception:
                log.exception("predictions cannot be checked")
            await asyncio.sleep(LOOK_S)

    def look(self) -> int:
        """How many events that made. Raises RetryableError if a file or a database cannot be read or written now."""
        if self._standing is None:
            self._standing = standing_of(map(orjson.loads, self._events.bodies()))
        report, standing = self._report(), dict(self._standing)
        made = list(changes(report, standing))
        if made:
            names = ("rule_id", "version", "figure", "state", "at")
            self._events.keep(("\x1f".join(str(each[name]) for name in names), each) for each in made)
        self._standing = standing
        return len(made)


def standing_of(events: Iterator[Mapping[str, Any]]) -> Standing:
    """What is broken after ``events``, the oldest first."""
    found: Standing = {}
    for each in events:
        which = str(each["rule_id"]), str(each["figure"])
        if each["state"] == BROKEN:
            found[which] = int(each["version"])
        else:
            found.pop(which, None)
    return found


def changes(report: HealthReport, standing: Standing) -> Iterator[dict[str, Any]]:
    """What became of predictions since ``standing``, which is updated.

    A figure without data yet has no event. A prediction is over where the version in force has another one, or
    none; where rules could not be read, those that are not there may be among them.
    """
    held: dict[tuple[str, str], tuple[int, PredictionCheck]] = {
        (each.facts.rule_id, one.figure): (each.facts.version, one) for each in report.rules for one in each.held
    }
    known = {each.facts.rule_id for each in report.rules}
    for which, version in list(standing.items()):
        now = held.get(which)
        if (which[0] not in known and report.refused) or not report.counted:
            continue
        if now is None or now[0] != version:
            del standing[which]
            yield _event(report, which, version, OVER, None)
    for which, (version, one) in held.items():
        if one.beyond and which not in standing:
            standing[which] = version
            yield _event(report, which, version, BROKEN, one)
        elif not one.beyond and one.came is not None and which in standing:
            del standing[which]
            yield _event(report, which, version, MENDED, one)


def _event(
    report: HealthReport, which: tuple[str, str], version: int, state: str, held: PredictionCheck | None
) -> dict[str, Any]:
    rule_id, figure = which
    text = f"{figure}: version {version} is not in force any more" if held is None else prediction_text(held)
    return {
        "schema_version": 1,
        "kind": "prediction",
        "state": state,
        "pipeline": report.pipeline,
        "rule_id": rule_id,
        "version": version,
        "figure": figure,
        "predicted": None if held is None else {"value": held.predicted, "low": held.low, "high": held.high},
        "came": None if held is None else held.came,
        "of": None if held is None else held.of,
        "at": instant_text(report.at_ms),
        "text": text,
    }
