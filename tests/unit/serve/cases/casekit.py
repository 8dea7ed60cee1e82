"""Alerts as batches give them, a store that takes them, and who works on its cases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.times import instant_text
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.intake.batches import CaseIntake, IntakePosition
from crossline.serve.cases.service import CaseService
from crossline.serve.cases.statistics.cooldowns import Cools
from crossline.settings.process.casework import CasesSettings

START = 1_767_225_600_000
HOUR = 3_600_000
SETTINGS = CasesSettings.model_validate(
    {
        "link": ["card_hash", "device_id"],
        "within": "24h",
        "reopen": "4h",
        "money": {"field": "amount_cents", "currency": "currency", "decimals": 2},
    }
)


def alert(name: str, at_ms: int = START, account: str = "a1", **more: Any) -> dict[str, Any]:
    """An alert of rule ``burst`` on the record ``r-NAME`` of ``account``."""
    return {
        "schema_version": 1,
        "alert_id": name,
        "kind": "alert",
        "rule_id": "burst",
        "rule_version": 1,
        "severity": "medium",
        "key": {"account_id": account},
        "stream": "payments",
        "record_id": f"r-{name}",
        "event_time": instant_text(at_ms),
        "message": f"{account} made a burst ({name})",
        "value": 7,
        **more,
    }


def correction(of: Mapping[str, Any], outcome: str, **more: Any) -> dict[str, Any]:
    """A correction of an alert."""
    return {**of, "alert_id": f"c-{of['alert_id']}", "kind": "correction", "corrects": of["alert_id"],
            "outcome": outcome, **more}  # fmt: skip


def decision(record: str, word: str, kind: str = "decision") -> dict[str, Any]:
    """A decision on a record, as the feed has it."""
    return {"kind": kind, "stream": "payments", "record_id": record, "decision": word, "reasons": []}


class Harness:
    """A store in ``folder`` whose clock is turned by hand."""

    def __init__(self, folder: Path, settings: CasesSettings = SETTINGS, cooling: Cools = lambda _, __: False) -> None:
        self.now_ms = START
        self.path = folder / "serve" / "cases.db"
        self.settings = settings
        self.cases = Cases(self.path, clock_ms=lambda: self.now_ms)
        self.service = CaseService(self.cases, clock_ms=lambda: self.now_ms)
        self.intake = CaseIntake(self.path, settings, clock_ms=lambda: self.now_ms, cooling=cooling)

    def take(self, *lines: Mapping[str, Any], mark: IntakePosition | None = None) -> None:
        """Take alerts, corrections and decisions in this order, in one transaction."""
        steps: Any = [("alerts" if "alert_id" in each else "decisions", orjson.dumps(each)) for each in lines]
        self.intake.take(steps, mark)

    def close(self) -> None:
        self.intake.close()
        self.cases.close()
