"""The data of ``bench.console`` besides alerts, created once in a FOLDER.

Lists, suppressions, approvals, dead letters, minutes of the objectives, records of the first alerts, a long audit log.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import orjson

from bench.report import say
from crossline.basics.deadletter import DeadLetter
from crossline.basics.times import format_instant, parse_instant_ms
from crossline.io.sinks.base import Delivery, Sink
from crossline.observe.objectives.declaration import objectives_of
from crossline.observe.objectives.minute_file import KEPT, MINUTE_MS, Minute, MinuteFigure, MinuteFile
from crossline.serve.access.audit import BEGINNING, digest_of
from crossline.serve.access.auditfiles import FILE as AUDIT
from crossline.serve.approvals.file import ApprovalFile, proof_id_of
from crossline.serve.approvals.values import KeptProof, text_digest
from crossline.serve.cases.service import CaseService
from crossline.serve.cases.suppressions.schema import TO_VERSION_4
from crossline.serve.cases.suppressions.store import NewSuppression, make
from crossline.settings.config import PipelineConfig

LETTERS, ENTRIES, WRITES, SUPPRESSIONS, HIDDEN = 50_000, 50_000, 100_000, 60, 2_000
LIST, MADE = "cards_at_risk", "beside.json"
DAY_MS = 86_400_000
REASONS = ("malformed_json", "bad_time", "missing_field", "bad_encoding")
FIGURES = {"batches": 100.0, "batch_ms": 9_000.0, "checkpoint_ms": 800.0, "records": 120_000.0, "late": 37.0}


def lists(folder: Path) -> None:
    """A long list, and short ones."""
    (folder / "lists").mkdir(exist_ok=True)
    (folder / "lists" / f"{LIST}.txt").write_text("".join(f"h{number:08}\n" for number in range(ENTRIES)))
    for number in range(20):
        (folder / "lists" / f"list_{number:02}.txt").write_text("x1\nx2\n")


def records(folder: Path, made: Iterable[Mapping[str, Any]]) -> None:
    """The records that alerts rest on, as files of their streams."""
    files: dict[str, bytearray] = {}
    for each in made:
        at = {"id": each["record_id"], "at": parse_instant_ms(each["event_time"]), **each["key"]}
        file = files.setdefault(each["stream"], bytearray())
        file += orjson.dumps({**at, **(each["record"] if each["stream"] == "payments" else {})}) + b"\n"
    for stream, data in files.items():
        (folder / "in" / stream).mkdir(parents=True, exist_ok=True)
        (folder / "in" / stream / "00000001.jsonl").write_bytes(data)


def beside(folder: Path, config: PipelineConfig, desk: CaseService, sink: Sink, now_ms: int) -> None:
    """Create the data if it is missing."""
    if (folder / MADE).exists():
        return
    _hidden(desk, now_ms)
    _proven(folder, now_ms)
    _dead(config.name, sink, now_ms)
    _minutes(config, now_ms)
    _audited(folder / "audit", now_ms)
    (folder / MADE).write_text("{}\n")
    say("suppressions, approvals, dead letters, minutes and the audit log are there")


def _hidden(desk: CaseService, now_ms: int) -> None:
    """Suppressions, the first of which hid much: alerts of one rule, some of them on frauds."""
    for number in range(SUPPRESSIONS):
        new = NewSuppression(now_ms + DAY_MS, "known shop", rules=(f"rule_{number % 40:02}",))
        made = make(desk.file, new, "ada", now_ms - number)
        most = 20 * HIDDEN if number == 0 else HIDDEN
        with desk.file.transaction():
            desk.file.run(
                "UPDATE alerts SET suppressed_by = ? WHERE number IN (SELECT number FROM alerts WHERE rule_id = ? "
                "AND suppressed_by IS NULL LIMIT ?)",
                (made["suppression_id"], new.rules[0], most),
            )
    with desk.file.transaction():
        desk.file.run(TO_VERSION_4[-1])  # counts what was hidden


def _proven(folder: Path, now_ms: int) -> None:
    """A request that was approved, of the rule that is in force, and one that waits."""
    kept = ApprovalFile(folder)
    text = (folder / "rules" / "rule_00.yaml").read_text()
    for version, found in ((1, text), (2, text.replace("version: 1", "version: 2"))):
        proof = _proof(found, version, now_ms)
        kept.keep_proof(KeptProof(proof_id_of(proof), "ines", now_ms - 5 * DAY_MS, proof))
        asked = kept.ask("rule_00", version, "rule_00.yaml", found, "ines", now_ms - 5 * DAY_MS)
        if version == 1:
            kept.decide(asked.number, "oda", "", now_ms - 4 * DAY_MS, approved=True)


def _proof(text: str, version: int, now_ms: int) -> dict[str, Any]:
    """A proof as ``crossline rules prove`` writes it."""
    side = {"alerts": 8, "alerts_per_day": 4.0, "examples": []}
    since, until = (format_instant(now_ms - days * DAY_MS) for days in (7, 5))
    return {
        "rule_id": "rule_00",
        "version": version,
        "text": text,
        "draft": side,
        "live": side,
        "data": {"from": since, "to": until, "records": 24, "files": []},
        "result": {"alerts": 8, "by_day": [4, 4]},
        "predicted": {"per_day": 4.0, "low": 0.0, "high": 9.1, "days": 2.0},
        "digests": {"rule": text_digest(text), "data": "d" * 64, "result": "e" * 64},
        "against": {"version": 1, "appear": 3, "disappear": 0, "both": 5, "appearing": [], "disappearing": []},
    }


def _dead(name: str, sink: Sink, now_ms: int) -> None:
    """Dead letters, and batches with their figures."""
    sink.open()
    at_once = 1_000
    for batch, first in enumerate(range(0, LETTERS, at_once)):
        dead = [
            DeadLetter("payments", REASONS[number % 4], "found no time", "payments-0", number, b'{"id": "x", "at": ')
            for number in range(first, first + at_once)
        ]
        cost = {"rules": {f"rule_{number:02}@1": 0.5 + number / 10 for number in range(10)}, "others": 3.0}
        figures = {"records": 10_000, "cost_ms": cost, "wall_ms": {"tasks": 80.0}}
        # Numbers that no batch of alerts has, so that both stay.
        sink.deliver(Delivery(name, 10**7 + batch, dead=dead, figures=figures, began_ms=now_ms))
    sink.close()


def _minutes(config: PipelineConfig, now_ms: int) -> None:
    """Counts of all minutes that are kept, and figures of two days."""
    if config.slo is None:
        return
    end = now_ms // MINUTE_MS
    held = {each.name: each.held for each in objectives_of(config.slo)}
    counts = [
        Minute(name, held[name], minute, 1_999 - minute % 3, 2_000)
        for minute in range(end - KEPT + 1, end)
        for name in held
    ]
    figures = [MinuteFigure(name, minute, FIGURES[name]) for minute in range(end - 2 * 1_440, end) for name in FIGURES]
    figures += [MinuteFigure("lag_ms", minute, 900.0, peak=True) for minute in range(end - 2 * 1_440, end)]
    MinuteFile(Path(config.slo.path), config.name).add(counts, figures, end)


def _audited(folder: Path, now_ms: int) -> None:
    """A log of many writes, chained as the log itself does it, which would wait for the disk after each line."""
    folder.mkdir(mode=0o700, exist_ok=True)
    at, previous = random.Random(5), BEGINNING
    with (folder / AUDIT).open("wb") as file:
        for number in range(WRITES):
            begun = {"principal": f"p{at.randrange(7)}", "by": "session", "method": "POST", "route": "/v1/cases:bulk"}
            ended = {"begun": 2 * number + 1, "outcome": at.choice(("done", "done", "refused")), "after": {"count": 3}}
            for half, found in (
                (1, {**begun, "resource": f"C-{number}", "outcome": "begun", "before": None}),
                (2, ended),
            ):
                line = {**found, "sequence": 2 * number + half, "at_ms": now_ms - WRITES + number, "previous": previous}
                previous = digest_of(line)
                file.write(orjson.dumps({**line, "digest": previous}) + b"\n")
    (folder / AUDIT).chmod(0o600)
