"""Takes what a batch gave into ``cases.db``: some of it at a time, and how far it came in the same transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from crossline.evaluate.alerts.alert_json import read_alert
from crossline.io.feed.files import FeedBatch
from crossline.io.sinks.base import wall_clock_ms
from crossline.rules.policy.words import ACTIONS
from crossline.serve.cases.file import CaseFile
from crossline.serve.cases.intake.facts import facts_of, opens_cases
from crossline.serve.cases.intake.linking import Linker
from crossline.serve.cases.statistics.alerts import (
    caseless_kind,
    count_alert,
    count_caseless,
    count_led,
    count_retracted,
    forget,
    retract_caseless,
)
from crossline.serve.cases.statistics.cooldowns import Cools, count_cooled
from crossline.serve.cases.statistics.schema import DAY_MS
from crossline.serve.cases.suppressions.conditions import Hidden
from crossline.serve.cases.suppressions.counts import count_hidden
from crossline.settings.process.casework import CasesSettings

_NAME = "feed"

Step = tuple[Literal["alerts", "decisions"], bytes]


@dataclass(frozen=True, slots=True)
class IntakePosition:
    """How far batches were read: ``step`` lines of batch ``batch``; ``planned`` identifies its checkpoint."""

    batch: int = -1
    step: int = 0
    planned: str = ""


def steps_of(batch: FeedBatch) -> list[Step]:
    """The lines of a batch in the order of intake: decisions follow the alerts that they are about."""
    return [(name, line) for name in ("alerts", "decisions") for line in batch.section(name)]  # type: ignore[misc]  # of two names


def planned_of(batch: FeedBatch) -> str:
    """Distinguishes this batch from one of the same number in another checkpoint."""
    return str(batch.head.get("planned_ms", ""))


class CaseIntake:
    """The only intake of alerts into cases. It has its own connection to the file: readers of cases do not wait for it.

    Args:
        path: ``cases.db``.
        settings: By what alerts are linked.
        clock_ms: The wall clock, which is only noted.
        on_change: Called after each transaction that changed a case.
        cooling: Whether a version of a rule is silent, where it holds, by its cooldown alone.
    """

    def __init__(
        self,
        path: Path,
        settings: CasesSettings,
        *,
        clock_ms: Callable[[], int] = wall_clock_ms,
        on_change: Callable[[], None] = lambda: None,
        cooling: Cools = lambda _, __: False,
    ) -> None:
        self._file = CaseFile(path)
        self._settings = settings
        self._clock_ms = clock_ms
        self._on_change = on_change
        self._cooling = cooling
        self._forgot_day = -1

    def mark(self) -> IntakePosition:
        """How far it came."""
        found = self._file.rows("SELECT batch, step, planned FROM marks WHERE name = ?", (_NAME,))
        return IntakePosition(**found[0]) if found else IntakePosition()

    def take(self, steps: Iterable[Step], mark: IntakePosition | None) -> None:
        """Take them in, and note ``mark``. An alert that is there already changes nothing.

        Raises RetryableError if the file cannot be written now: then nothing was written.
        """
        now_ms = self._clock_ms()
        with self._file.transaction():
            linker, hidden = Linker(self._file, self._settings, now_ms), Hidden(self._file)
            for name, line in steps:
                body = read_alert(line) if name == "alerts" else orjson.loads(line)
                if name == "decisions":
                    self._decided(body, linker)
                elif body["kind"] == "correction":
                    self._corrected(body, linker)
                elif opens_cases(body):
                    self._alert(body, linker, hidden, now_ms)
                else:
                    self._caseless(body)
            linker.finish()
            if now_ms // DAY_MS != self._forgot_day:
                forget(self._file, now_ms)
                self._forgot_day = now_ms // DAY_MS
            if mark is not None:
                self._file.run(
                    "INSERT OR REPLACE INTO marks (name, batch, step, planned) VALUES (?, ?, ?, ?)",
                    (_NAME, mark.batch, mark.step, mark.planned),
                )
        self._on_change()

    def take_alerts(self, alerts: Sequence[dict[str, Any]]) -> None:
        """Take in alerts from elsewhere, such as a store, in order; those that are there already change nothing."""
        self.take([("alerts", orjson.dumps(each)) for each in alerts], None)

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        self._file.close()

    def _alert(self, body: dict[str, Any], linker: Linker, hidden: Hidden, now_ms: int) -> None:
        if linker.knows(body["alert_id"]):
            return
        facts = facts_of(body, self._settings)
        suppression = hidden.by(body, facts, now_ms)
        if suppression is None:
            linker.take(facts)
        else:
            linker.hide(facts, suppression)
        count_alert(self._file, facts, body.get("value"), hidden=suppression is not None)
        if suppression is not None:
            count_hidden(self._file, facts, suppression)

    def _caseless(self, body: dict[str, Any]) -> None:
        if body.get("corrects"):
            retract_caseless(self._file, body["corrects"], retracted=body["outcome"] == "retracted")
        else:
            count_caseless(self._file, facts_of(body, self._settings), caseless_kind(body), body.get("value"))

    def _corrected(self, body: dict[str, Any], linker: Linker) -> None:
        found = self._file.rows(
            "SELECT retracted, message, suppressed_by FROM alerts WHERE alert_id = ?", (body["corrects"],)
        )
        if not found:
            self._caseless(body)
            return
        retracted = body["outcome"] == "retracted"
        message = found[0]["message"] if retracted else facts_of(body, self._settings).message
        if (int(retracted), message) != (found[0]["retracted"], found[0]["message"]):
            put = (int(retracted), message, body["corrects"])
            self._file.run("UPDATE alerts SET retracted = ?, message = ? WHERE alert_id = ?", put)
            if retracted is not bool(found[0]["retracted"]):
                count_retracted(self._file, "alerts", body["corrects"], retracted=retracted)
            linker.changed(body["corrects"], raised=True)

    def _decided(self, body: dict[str, Any], linker: Linker) -> None:
        count_cooled(self._file, body, self._cooling)
        decision = ACTIONS.index(body["decision"])
        revised = int(body.get("kind") == "revision")
        found = self._file.rows(
            "SELECT DISTINCT a.alert_id, a.decision, a.gravest, a.revised FROM case_alerts AS c "
            "JOIN alerts AS a USING (alert_id) WHERE c.stream = ? AND c.record_id = ?",
            (body["stream"], body["record_id"]),
        )
        for each in found:
            count_led(self._file, each["alert_id"], body)
            now = (decision, max(each["gravest"], decision), max(each["revised"], revised))
            if now != (each["decision"], each["gravest"], each["revised"]):
                put = "UPDATE alerts SET decision = ?, gravest = ?, revised = ? WHERE alert_id = ?"
                self._file.run(put, (*now, each["alert_id"]))
                linker.changed(each["alert_id"], raised=False)
