"""A pipeline whose lake has an alert that its store does not have, and one that both have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossline.io.sinks.base import Delivery
from crossline.io.sqlite.sink import SqliteSink
from unit.lake.lake_kit import PIPELINE, START_MS, SpooledPipeline, alert, payment
from unit.lake.test_time_travel import decision

OLD, NEW = "0a000000-0000-5000-8000-000000000001", "0b000000-0000-5000-8000-000000000002"
MINUTE_MS = 60_000
RULE = {
    "rule_id": "burst",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": "payments",
    "group_by": "account_id",
    "aggregation_type": "sum",
    "aggregation_field": "cents",
    "aggregation_threshold": 100,
    "window": "1m",
    "description": "account {account_id} spent {value}",
}
TEXT = PIPELINE.replace("sinks: [{kind: console}]", "sinks: [{kind: sqlite, path: out/crossline.db}]")


def moment(minute: int, second: int) -> str:
    return f"2026-01-01T00:{minute:02}:{second:02}.000Z"


def burst(alert_id: str, minute: int, first: int, **more: Any) -> dict[str, Any]:
    """As the rule emits it on the second of two payments."""
    ids = [f"p{number:05}" for number in (first, first + 1)]
    return alert(
        first + 1,
        moment(minute, 30),
        **{
            "alert_id": alert_id,
            "key": {"account_id": "a0"},
            "window_start": moment(minute - 1, 30),
            "window_end": moment(minute, 30),
            "evidence": {"count": 2, "record_ids": ids, "figures": {}},
            **more,
        },
    )


@dataclass(slots=True)
class HistoricPipeline:
    """The alert ``OLD`` is in the lake alone, ``NEW`` in the lake and the store; each rests on two payments."""

    spooled: SpooledPipeline

    @staticmethod
    def made(folder: Path) -> HistoricPipeline:
        """In ``folder``, with its pipeline file, its store and its lake."""
        import yaml  # noqa: PLC0415 - of this alone

        (folder / "pipeline.yaml").write_text(TEXT)
        (folder / "rules").mkdir()
        (folder / "rules" / "burst.yaml").write_text(yaml.safe_dump(RULE))
        spooled = SpooledPipeline(folder, TEXT)
        event = {"event": "published", "rule_id": "burst", "version": 1, "status": "active", "at": moment(0, 0)}
        events = [{**event, "body": RULE}]
        decisions = [decision("old", "block", record_id="p00002", event_time=moment(1, 30))]
        log = str(folder / "in" / "{:04}.jsonl")
        for number, name in enumerate((OLD, NEW)):
            minute, first = 1 + number * 10, 1 + number * 10
            at_ms = START_MS + minute * MINUTE_MS
            records = [
                payment(first, at_ms, account_id="a0", cents=60),
                payment(first + 1, at_ms + 30_000, account_id="a0", cents=60),
                payment(first + 2, at_ms + 30_000, account_id="a1", cents=60),
            ]
            given: dict[str, Any] = {"alerts": [burst(name, minute, first)]}
            given |= {"positions": [(log.format(number), 0)], "rule_events": events if not number else ()}
            spooled.batch(records, decisions=decisions, **given)
            decisions = [decision("new", "review", record_id="p00012", event_time=moment(11, 30))]
        spooled.write_all()
        sink = SqliteSink(folder / "out" / "crossline.db", "pay-eu")
        sink.open()
        sink.deliver(Delivery("pay-eu", 1, alerts=[burst(NEW, 11, 11)], rule_events=events, decisions=decisions))
        sink.close()
        return HistoricPipeline(spooled)
