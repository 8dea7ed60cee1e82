"""Compares the producer's log with the contents of the sinks: was anything lost, did anything come twice?

The expected contents follow from the log alone. The producer's notes and the broker's timestamps say which records are
dead, late or duplicates. Alerts and decisions are those of a backtest of the records: one process, without Spark,
Kafka, a checkpoint or faults.
"""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import xxhash

from chaos.checks.contents import Arrived, Body, Contents, Place, lines
from chaos.checks.ledger import CHUNK, EXAMPLES, Entry, Finding, Ledger
from chaos.load.log import Log, id_of, record_of
from chaos.pipeline import ALLOWED_LATENESS_MS, ID, IN_TIME_MS, INGEST, write_replay

# The instants of detection and delivery are those of the run; all else must be the same everywhere.
OF_THE_RUN = frozenset({"detected_at", "delivered_at", "decided_at", "answered", "degraded", "sink_topic"})
FUTURE_MS = 3_600_000
# Of a record through the API: it must be decided about; it may be.
IN_TIME, ACCEPTED = "in time", "accepted"
DECIDED = frozenset({IN_TIME, ACCEPTED})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Alerts or decisions that must be there, of those that stand in the file ``path`` under the field ``name``."""

    path: Path
    name: str
    ledger: Ledger


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be at the sinks: dead letters with their reasons by place, places of late records.

    ``in_time``: ids of records that must be decided about; ``with_hits``: the decisions that sinks get; ``last``: of
    each record with hits the newest.
    """

    in_time: Ledger
    alerts: Wanted
    decisions: Wanted
    with_hits: Wanted
    last: Wanted
    dead: Ledger
    late: Ledger


@dataclass(slots=True)
class Sorter:
    """What must become of records as they arrive, by the sender's log and the broker's times.

    ``times``: how often each number arrived; ``other``: records that differ from those sent; ``dead``: by
    ``dead_letter_name``; ``late``: places; ``in_time``: by number of the record, whether it must be decided about.
    ``asked``: what becomes of each record that came through the API: IN_TIME, ACCEPTED or what it is otherwise;
    ``copied``: those that stand there again.
    """

    log: Log
    times: bytearray = field(default_factory=bytearray)
    known: bytearray = field(default_factory=bytearray)
    in_time: bytearray = field(default_factory=bytearray)
    dead: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    other: int = 0
    asked: dict[int, str] = field(default_factory=dict)
    copied: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for each in (self.times, self.known, self.in_time):
            each.extend(bytes(len(self.log)))

    def readable(self, records: Iterable[Arrived]) -> Iterator[Arrived]:
        """Those that can be read, in the order in which they come; the rest is known once all have come."""
        for each in records:
            if each.number is None:
                if self._of_the_api(each):
                    yield each
                continue
            sent = self.log[each.number]
            self.times[each.number] = min(255, self.times[each.number] + 1)
            self.other += each.digest != sent.digest
            if sent.poison is not None or sent.event_ms is None or sent.record is None:
                self.dead.append(dead_letter_name(each.place, sent.poison or "unknown"))
                continue
            if sent.event_ms - each.ms > FUTURE_MS:
                self.dead.append(dead_letter_name(each.place, "time_in_future"))
                continue
            if each.ms - sent.event_ms > ALLOWED_LATENESS_MS:
                self.late.append(placed(each.place))
            elif self.known[sent.record]:
                self.dead.append(dead_letter_name(each.place, "duplicate_id"))
            else:
                self.known[sent.record] = 1
                self.in_time[sent.record] = each.ms - sent.event_ms <= IN_TIME_MS
            yield each

    def _of_the_api(self, each: Arrived) -> bool:
        """Whether it can be read; one that a sender other than the load put there, and that no poison is among."""
        body = orjson.loads(each.value or b"{}")
        number, behind_ms = record_of(body[ID]), each.ms - body["event_time"]
        if number in self.asked:
            self.copied.add(number)
        if -behind_ms > FUTURE_MS:
            self.dead.append(dead_letter_name(each.place, "time_in_future"))
            self.asked.setdefault(number, "time_in_future")
            return False
        if behind_ms > ALLOWED_LATENESS_MS:
            self.late.append(placed(each.place))
            self.asked.setdefault(number, "late")
        elif self.asked.get(number) in DECIDED:
            self.dead.append(dead_letter_name(each.place, "duplicate_id"))
        else:
            self.asked[number] = IN_TIME if behind_ms <= IN_TIME_MS else ACCEPTED
        return True

    def of_the_topic(self) -> Finding:
        """Whether the broker kept what it acknowledged. All other checks depend on that."""
        finding = Finding("topic", "records sent", len(self.log), sum(self.times), other=self.other)
        finding.lost, finding.doubled = self.times.count(0), sum(each - 1 for each in self.times if each > 1)
        for title, number in (("lost", self.times.find(0)), ("doubled", self.times.find(2))):
            if number >= 0:
                finding.note(title, f"record {number}")
        return finding

    def names_in_time(self) -> Iterator[str]:
        """The ids of records that must be decided about."""
        yield from (id_of(number) for number, wanted in enumerate(self.in_time) if wanted)
        yield from (id_of(number) for number, what in self.asked.items() if what == IN_TIME)


def placed(place: Place) -> str:
    """A place as a name."""
    return f"{place[0]}:{place[1]}"


def dead_letter_name(place: Place, reason: str) -> str:
    """A dead letter as a name."""
    return f"{place[0]}:{place[1]} {reason}"


def expected_of(root: Path, sorter: Sorter, records: Iterable[Arrived], decode: Callable[[bytes], Body]) -> Expected:
    """What must be at the sinks; ``records`` in the order of their times."""
    paths = backtested(root, sorter.readable(records), decode)
    decisions = paths[1]
    alerts = wanted(paths[0], "alert_id")
    return Expected(
        in_time=Ledger.named(sorter.names_in_time),
        alerts=alerts,
        decisions=wanted(decisions, "decision_id"),
        with_hits=wanted(decisions, "decision_id", _has_hits),
        last=wanted(decisions, "decision_id", _is_one_of(_newest(decisions))),
        dead=Ledger.named(lambda: sorter.dead),
        late=Ledger.named(lambda: sorter.late),
    )


def _has_hits(body: Body) -> bool:
    return bool(body["reasons"]) or body["kind"] != "decision"


def _newest(path: Path) -> frozenset[str]:
    last: dict[str, tuple[int, str]] = {}
    for each in filter(_has_hits, lines([path])):
        revision = each["revision"], each["decision_id"]
        last[each["record_id"]] = max(revision, last.get(each["record_id"], revision))
    return frozenset(name for _, name in last.values())


def _is_one_of(names: frozenset[str]) -> Callable[[Body], bool]:
    return lambda body: body["decision_id"] in names


def wanted(path: Path, name: str, which: Callable[[Body], bool] | None = None) -> Wanted:
    """What stands in a file of the backtest; raises where an id stands twice."""

    def bodies() -> Iterator[Body]:
        return filter(which, lines([path])) if which is not None else lines([path])

    ledger = Ledger.of(((each[name], digest(each)) for each in bodies()), lambda: (each[name] for each in bodies()))
    return Wanted(path, name, ledger)


def digest(body: Body) -> int:
    """Of all that must be the same in every run."""
    of_it = {name: value for name, value in body.items() if name not in OF_THE_RUN}
    return xxhash.xxh3_64_intdigest(orjson.dumps(of_it, option=orjson.OPT_SORT_KEYS))


def backtested(root: Path, readable: Iterable[Arrived], decode: Callable[[bytes], Body]) -> tuple[Path, Path]:
    """Files of the alerts and decisions that a backtest finds in records of the topic, with the broker's times."""
    folder = root / "replay"
    folder.mkdir(exist_ok=True)
    log = folder / "log.jsonl"
    with log.open("wb") as file:
        for each in readable:
            file.write(orjson.dumps({**decode(each.value or b""), INGEST: each.ms}) + b"\n")
    outputs = folder / "alerts.jsonl", folder / "decisions.jsonl"
    command = [sys.executable, "-m", "crossline.cli.main", "backtest", "--pipeline", str(write_replay(root, log))]
    command += ["--input", str(log), "--output", str(outputs[0]), "--decisions", str(outputs[1]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the backtest failed:\n{done.stderr[-3000:]}")
    return outputs


def compare(expected: Expected, contents: Mapping[str, Callable[[], Contents]]) -> list[Finding]:
    """All that is wrong at each sink, each read when it is its turn."""
    findings: list[Finding] = []
    for sink, read in contents.items():
        findings += of_sink(expected, sink, read())
    return findings


def of_sink(expected: Expected, sink: str, found: Contents) -> Iterator[Finding]:
    """All that is wrong at a sink."""
    if found.alerts is not None:
        yield _bodies(sink, "alerts", expected.alerts, found.alerts)
    if found.ids is not None:
        # Of these nothing is known but that they are there.
        yield Ledger.named(expected.alerts.ledger.names).compare(sink, "ids of alerts", _names(found.ids))
    if found.all_decisions is not None:
        about = array("q")
        yield _bodies(sink, "decisions", expected.decisions, _noted(found.all_decisions, about))
        yield expected.in_time.compare(sink, "records, each decided about", _names(map(id_of, about)))
    if found.decisions is not None:
        yield _bodies(sink, "decisions", expected.with_hits, found.decisions)
    if found.last is not None:
        yield _bodies(sink, "last decisions", expected.last, found.last)
    if found.dead is not None:
        yield expected.dead.compare(sink, "dead letters", _names(dead_letter_name(*each) for each in found.dead))
    if found.late is not None:
        yield expected.late.compare(sink, "late records", _names(map(placed, found.late)))
    if found.times is not None:
        yield _posted(sink, expected.alerts, found.times, found.parked)


def _names(names: Iterable[str]) -> Iterator[Entry]:
    return ((name, 0) for name in names)


def _noted(decisions: Iterable[Body], about: array[int]) -> Iterator[Body]:
    """The output of the tasks: a decision on every record, and its revisions."""
    for each in decisions:
        if each["kind"] == "decision":
            about.append(record_of(each["record_id"]))
        yield each


def _posted(sink: str, alerts: Wanted, times: Mapping[str, int], parked: Iterable[Body]) -> Finding:
    """Posts are promised at least once, under one id: one that comes again is counted, and is no fault."""
    finding = Ledger.named(alerts.ledger.names).compare(sink, "alerts posted", _names(times))
    finding.other = sum(1 for _ in parked)
    finding.examples.append(f"{sum(times.values()) - len(times)} posted again, under their ids")
    return finding


def _bodies(sink: str, what: str, wanted: Wanted, found: Iterable[Body]) -> Finding:
    held: list[Body] = []  # as many as are compared at once
    others: dict[str, Body] = {}

    def entries() -> Iterator[Entry]:
        for each in found:
            if len(held) == CHUNK:
                held.clear()
            held.append(each)
            yield each[wanted.name], digest(each)

    def differs(number: int) -> None:
        if len(others) < EXAMPLES:
            others[held[number][wanted.name]] = held[number]

    finding = wanted.ledger.compare(sink, what, entries(), differs)
    if others:
        for body in lines([wanted.path]):
            if (each := others.get(body[wanted.name])) is not None:
                finding.examples.append(f"{body[wanted.name]} differs: {_differences(body, each)}")
    return finding


def _differences(wanted: Body, found: Body) -> str:
    names = [name for name in {**wanted, **found} if name not in OF_THE_RUN and wanted.get(name) != found.get(name)]
    return "; ".join(f"{name}: {found.get(name)!r}, expected {wanted.get(name)!r}" for name in names)
