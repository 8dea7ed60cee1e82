"""Whether anything was lost or came twice: the producer's log against the contents of the sinks.

What must be there is worked out from the log alone. Which records are dead, late or copies follows from what the sender
noted and the times that the broker gave them; alerts and decisions are those of a backtest of the records, which is one
process, without Spark, Kafka, a checkpoint or faults.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from chaos.contents import Arrived, Body, Contents, Place
from chaos.pipeline import ALLOWED_LATENESS_MS, IN_TIME_MS, INGEST, write_replay
from chaos.producer import Sent

# The instants of detection and delivery are those of the run; all else must be the same everywhere.
OF_THE_RUN = frozenset({"detected_at", "delivered_at", "decided_at", "answered", "degraded"})
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be at the sinks: bodies by id, reasons by place, places; ``in_time``: ids to be decided about."""

    in_time: frozenset[str]
    alerts: Mapping[str, Body]
    decisions: Mapping[str, Body]
    dead: Mapping[Place, str]
    late: frozenset[Place]

    @property
    def with_hits(self) -> dict[str, Body]:
        """Decisions that sinks get: those on records with hits, and what revises them."""
        return {name: body for name, body in self.decisions.items() if body["reasons"] or body["kind"] != "decision"}


@dataclass(slots=True)
class Finding:
    """What was compared with what: how many there were to be, and what was wrong."""

    sink: str
    what: str
    expected: int
    found: int = 0
    lost: int = 0
    doubled: int = 0
    strange: int = 0
    other: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether all is there, each once, and as it must be."""
        return not (self.lost or self.doubled or self.strange or self.other)


@dataclass(frozen=True, slots=True)
class Sorted:
    """What arrived: dead letters with their reasons, late records, ids to be decided about, all that can be read."""

    dead: dict[Place, str]
    late: set[Place]
    in_time: set[str]
    readable: list[Arrived]


def sorted_out(log: Sequence[Sent], records: Sequence[Arrived]) -> Sorted:
    """What must become of the records that arrived, by the sender's log and the broker's times."""
    dead: dict[Place, str] = {}
    late: set[Place] = set()
    readable = []
    known: set[str] = set()
    in_time: set[str] = set()
    for each in records:
        sent = log[each.number]
        if sent.poison is not None or sent.event_ms is None or sent.record_id is None:
            dead[each.place] = sent.poison or "unknown"
            continue
        if sent.event_ms - each.ms > 3_600_000:
            dead[each.place] = "time_in_future"
            continue
        if each.ms - sent.event_ms > ALLOWED_LATENESS_MS:
            late.add(each.place)
        elif sent.record_id in known:
            dead[each.place] = "duplicate_id"
        else:
            known.add(sent.record_id)
            if each.ms - sent.event_ms <= IN_TIME_MS:
                in_time.add(sent.record_id)
        readable.append(each)
    return Sorted(dead, late, in_time, readable)


def expected_of(root: Path, log: Sequence[Sent], records: Sequence[Arrived]) -> Expected:
    """What must be at the sinks."""
    found = sorted_out(log, records)
    alerts, decisions = backtested(root, found.readable)
    return Expected(frozenset(found.in_time), alerts, decisions, found.dead, frozenset(found.late))


def backtested(root: Path, readable: Iterable[Arrived]) -> tuple[dict[str, Body], dict[str, Body]]:
    """Alerts and decisions that a backtest finds in records of the topic, in ingest order, with the broker's times."""
    folder = root / "replay"
    folder.mkdir(exist_ok=True)
    log = folder / "log.jsonl"
    with log.open("wb") as file:
        for each in sorted(readable, key=lambda each: (each.ms, each.partition, each.offset)):
            file.write(orjson.dumps({**orjson.loads(each.value or b""), INGEST: each.ms}) + b"\n")
    outputs = [folder / "alerts.jsonl", folder / "decisions.jsonl"]
    command = [sys.executable, "-m", "crossline.cli.main", "backtest", "--pipeline", str(write_replay(root, log))]
    command += ["--input", str(log), "--output", str(outputs[0]), "--decisions", str(outputs[1]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the backtest failed:\n{done.stderr[-3000:]}")
    found = [[orjson.loads(line) for line in path.read_bytes().splitlines()] for path in outputs]
    return _by_id(found[0], "alert_id"), _by_id(found[1], "decision_id")


def of_the_topic(log: Sequence[Sent], records: Sequence[Arrived]) -> Finding:
    """Whether the broker kept what it acknowledged: without that nothing else could be said."""
    finding = _counted("topic", "records sent", range(len(log)), [each.number for each in records])
    finding.other = sum(each.value != log[each.number].value for each in records)
    return finding


def compare(expected: Expected, contents: Mapping[str, Contents]) -> list[Finding]:
    """All that is wrong at each sink."""
    findings: list[Finding] = []
    for sink, found in contents.items():
        if found.alerts is not None:
            findings.append(_bodies(sink, "alerts", expected.alerts, found.alerts, "alert_id"))
        if found.alert_ids is not None:
            findings.append(_counted(sink, "ids of alerts", expected.alerts, found.alert_ids))
        if found.decisions is not None:
            # The tasks write a decision on every record; what revises it, and other sinks, have those with hits.
            wanted = expected.decisions if sink == "decided" else expected.with_hits
            findings.append(_bodies(sink, "decisions", wanted, found.decisions, "decision_id"))
        if found.dead is not None:
            findings.append(_counted(sink, "dead letters", expected.dead.items(), found.dead))
        if found.late is not None:
            findings.append(_counted(sink, "late records", expected.late, found.late))
        if "last_decisions" in found.more:
            last = _last_words(expected.with_hits.values())
            findings.append(_bodies(sink, "last decisions", last, found.more["last_decisions"], "decision_id"))
        if "times" in found.more:
            findings.append(_posted(sink, expected.alerts, found))
    findings.append(_every_record(expected, contents["decided"]))
    return findings


def _every_record(expected: Expected, decided: Contents) -> Finding:
    first = [each["record_id"] for each in decided.decisions or [] if each["kind"] == "decision"]
    return _counted("decided", "records, each decided about", expected.in_time, first)


def _posted(sink: str, alerts: Mapping[str, Body], found: Contents) -> Finding:
    """Posts are promised at least once, under one id: one that comes again is counted, and is no fault."""
    times: dict[str, int] = found.more["times"]
    finding = _counted(sink, "alerts posted", alerts, times)
    finding.other = len(found.more["parked"])
    finding.examples.append(f"{sum(times.values()) - len(times)} posted again, under their ids")
    return finding


def _last_words(decisions: Iterable[Body]) -> dict[str, Body]:
    last: dict[str, Body] = {}
    for each in decisions:
        known = last.get(each["record_id"])
        if known is None or known["revision"] < each["revision"]:
            last[each["record_id"]] = each
    return {each["decision_id"]: each for each in last.values()}


def _bodies(sink: str, what: str, expected: Mapping[str, Body], found: Sequence[Body], name: str) -> Finding:
    finding = _counted(sink, what, expected, [each[name] for each in found])
    for each in found:
        wanted = expected.get(each[name])
        if wanted is not None and (differs := _differences(wanted, each)):
            finding.other += 1
            if len(finding.examples) < EXAMPLES:
                finding.examples.append(f"{each[name]} differs: {differs}")
    return finding


def _differences(wanted: Body, found: Body) -> str:
    names = [name for name in {**wanted, **found} if name not in OF_THE_RUN and wanted.get(name) != found.get(name)]
    return "; ".join(f"{name}: {found.get(name)!r}, expected {wanted.get(name)!r}" for name in names)


def _counted(sink: str, what: str, expected: Iterable[Hashable], found: Iterable[Hashable]) -> Finding:
    wanted, times = set(expected), Counter(found)
    finding = Finding(sink, what, len(wanted), times.total())
    for title, names, count in (
        ("lost", wanted - times.keys(), lambda _: 1),
        ("doubled", {name for name, number in times.items() if number > 1}, lambda name: times[name] - 1),
        ("strange", times.keys() - wanted, lambda _: 1),
    ):
        _note(finding, title, names, count)
    return finding


def _note(finding: Finding, title: str, names: set[Any], count: Callable[[Any], int]) -> None:
    setattr(finding, title, sum(count(name) for name in names))
    finding.examples += [f"{title}: {name}" for name in sorted(names, key=str)[:EXAMPLES]]


def _by_id(bodies: Iterable[Body], name: str) -> dict[str, Body]:
    found: dict[str, Body] = {}
    for each in bodies:
        if found.setdefault(each[name], each) is not each:
            raise RuntimeError(f"the backtest told {each[name]} twice")
    return found
