"""Whether anything was lost or came twice: the producer's log against the contents of the sinks.

What must be there is worked out from the log alone. Which records are dead, late or copies follows from what the sender
noted and the times that the broker gave them; alerts and decisions are those of a backtest of the records, which is one
process, without Spark, Kafka, a checkpoint or faults.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from chaos.contents import Arrived, Body, Contents, Place, lines
from chaos.pipeline import ALLOWED_LATENESS_MS, IN_TIME_MS, INGEST, write_replay
from chaos.producer import Sent

# The instants of detection and delivery are those of the run; all else must be the same everywhere.
OF_THE_RUN = frozenset({"detected_at", "delivered_at", "decided_at", "answered", "degraded"})
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """Alerts or decisions that must be there: by id a digest of what must stand in each. ``path``: where they stand."""

    path: Path
    name: str
    digests: Mapping[str, bytes]

    def only(self, ids: Iterable[str]) -> Wanted:
        """Some of them."""
        return Wanted(self.path, self.name, {name: self.digests[name] for name in ids})


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be at the sinks: dead letters with their reasons by place, places of late records.

    ``in_time``: ids of records that must be decided about; ``with_hits``: the decisions that sinks get; ``last``: of
    each record with hits the newest.
    """

    in_time: frozenset[str]
    alerts: Wanted
    decisions: Wanted
    with_hits: Wanted
    last: Wanted
    dead: Mapping[Place, str]
    late: frozenset[Place]


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
    paths = backtested(root, found.readable)
    alerts, decisions = wanted(paths[0], "alert_id"), wanted(paths[1], "decision_id")
    hits: list[str] = []
    last: dict[str, tuple[int, str]] = {}
    for each in lines([paths[1]]):
        if each["reasons"] or each["kind"] != "decision":
            hits.append(each["decision_id"])
            revision = each["revision"], each["decision_id"]
            last[each["record_id"]] = max(revision, last.get(each["record_id"], revision))
    newest = [name for _, name in last.values()]
    in_time, late = frozenset(found.in_time), frozenset(found.late)
    return Expected(in_time, alerts, decisions, decisions.only(hits), decisions.only(newest), found.dead, late)


def wanted(path: Path, name: str) -> Wanted:
    """What stands in a file of the backtest; raises where an id stands twice."""
    digests: dict[str, bytes] = {}
    for each in lines([path]):
        if each[name] in digests:
            raise RuntimeError(f"the backtest told {each[name]} twice")
        digests[each[name]] = digest(each)
    return Wanted(path, name, digests)


def digest(body: Body) -> bytes:
    """Of all that must be the same in every run."""
    of_it = {name: value for name, value in body.items() if name not in OF_THE_RUN}
    return blake2b(orjson.dumps(of_it, option=orjson.OPT_SORT_KEYS), digest_size=12).digest()


def backtested(root: Path, readable: Iterable[Arrived]) -> tuple[Path, Path]:
    """Files of the alerts and decisions that a backtest finds in records of the topic, with the broker's times."""
    folder = root / "replay"
    folder.mkdir(exist_ok=True)
    log = folder / "log.jsonl"
    with log.open("wb") as file:
        for each in sorted(readable, key=lambda each: (each.ms, each.partition, each.offset)):
            file.write(orjson.dumps({**orjson.loads(each.value or b""), INGEST: each.ms}) + b"\n")
    outputs = folder / "alerts.jsonl", folder / "decisions.jsonl"
    command = [sys.executable, "-m", "crossline.cli.main", "backtest", "--pipeline", str(write_replay(root, log))]
    command += ["--input", str(log), "--output", str(outputs[0]), "--decisions", str(outputs[1]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the backtest failed:\n{done.stderr[-3000:]}")
    return outputs


def of_the_topic(log: Sequence[Sent], records: Sequence[Arrived]) -> Finding:
    """Whether the broker kept what it acknowledged: without that nothing else could be said."""
    finding = _counted("topic", "records sent", range(len(log)), [each.number for each in records])
    finding.other = sum(each.digest != log[each.number].digest for each in records)
    return finding


def compare(expected: Expected, contents: Mapping[str, Contents]) -> list[Finding]:
    """All that is wrong at each sink."""
    findings: list[Finding] = []
    for sink, found in contents.items():
        if found.alerts is not None:
            findings.append(_bodies(sink, "alerts", expected.alerts, found.alerts))
        if found.ids is not None:
            findings.append(_counted(sink, "ids of alerts", expected.alerts.digests, found.ids))
        if found.decisions is not None and sink == "decided":
            findings += _of_every_record(expected, found.decisions)
        elif found.decisions is not None:
            findings.append(_bodies(sink, "decisions", expected.with_hits, found.decisions))
        if found.last is not None:
            findings.append(_bodies(sink, "last decisions", expected.last, found.last))
        if found.dead is not None:
            findings.append(_counted(sink, "dead letters", expected.dead.items(), found.dead))
        if found.late is not None:
            findings.append(_counted(sink, "late records", expected.late, found.late))
        if found.times is not None:
            findings.append(_posted(sink, expected.alerts, found.times, found.parked))
    return findings


def _of_every_record(expected: Expected, decisions: Iterable[Body]) -> list[Finding]:
    """What the tasks wrote: a decision on every record, and what revises it."""
    about: list[str] = []

    def noted() -> Iterator[Body]:
        for each in decisions:
            if each["kind"] == "decision":
                about.append(each["record_id"])
            yield each

    told = _bodies("decided", "decisions", expected.decisions, noted())
    return [told, _counted("decided", "records, each decided about", expected.in_time, about)]


def _posted(sink: str, alerts: Wanted, times: Mapping[str, int], parked: Iterable[Body]) -> Finding:
    """Posts are promised at least once, under one id: one that comes again is counted, and is no fault."""
    finding = _counted(sink, "alerts posted", alerts.digests, times.keys())
    finding.other = sum(1 for _ in parked)
    finding.examples.append(f"{sum(times.values()) - len(times)} posted again, under their ids")
    return finding


def _bodies(sink: str, what: str, wanted: Wanted, found: Iterable[Body]) -> Finding:
    others: dict[str, Body] = {}
    other = 0

    def names() -> Iterator[str]:
        nonlocal other
        for each in found:
            name = each[wanted.name]
            if name in wanted.digests and wanted.digests[name] != digest(each):
                other += 1
                if len(others) < EXAMPLES:
                    others[name] = each
            yield name

    finding = _counted(sink, what, wanted.digests, names())
    finding.other = other
    if others:
        for body in lines([wanted.path]):
            if (each := others.get(body[wanted.name])) is not None:
                finding.examples.append(f"{body[wanted.name]} differs: {_differences(body, each)}")
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
