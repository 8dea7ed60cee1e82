"""Tables whose rows are messages of a topic, against a twin that keeps each content whole; restarts, kills between."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.core.basics.errors import UsageError
from crossline.core.basics.message import TopicMessage
from crossline.core.decode import decode_lines, make_layout
from crossline.core.enrich.join import joined
from crossline.core.settings.config import PipelineConfig, load_pipeline
from crossline.engine.book.tables import join_of
from crossline.rulelog.events import RuleEvent
from crossline.rulelog.rows import topictable
from crossline.rulelog.rows.reader import RowReader
from crossline.rulelog.rows.segments import segments_of
from crossline.rulelog.rows.tables import TopicTables, declared_of, tables_of_rows

PIPELINE = """\
schema_version: 1
name: p
streams:
  s:
    id: id
    event_time: {field: came}
    ingest_time: {field: came}
    fields: {id: string, account: string, came: integer}
sources: {s: {kind: files, path: in/}}
rules: {kind: directory, path: rules/}
enrich:
  profile: {kind: kafka, brokers: "b:1", topic: accounts, key: account, %sfields: {country: string%s}}
sinks: [{kind: console}]
"""
PARTITIONS = 3
BASE = 1_000_000
WHO = (("who", b"alice"),)
Rows = Mapping[str, str]


class Topic:
    """A topic of several partitions; messages of one key are in one of them."""

    def __init__(self) -> None:
        self.partitions: list[list[TopicMessage]] = [[] for _ in range(PARTITIONS)]
        self.id = "one"
        self.there, self.up = True, True

    def put(self, key: bytes | None, value: bytes | None) -> None:
        number = sum(key or b"") % PARTITIONS
        log = self.partitions[number]
        log.append(TopicMessage("accounts", number, len(log), key, value, WHO, 7))

    def row(self, account: str, country: str | None) -> None:
        self.put(account.encode(), None if country is None else orjson.dumps({"country": country}))


class Reader:
    """Reads partitions in turn, as many messages at once as it is told."""

    def __init__(self, topic: Topic, at_once: int = 1_000) -> None:
        self._topic, self._at_once = topic, at_once
        self.topic, self.topic_id, self.next = "accounts", None, dict[int, int]()
        self.trouble: str | None = None

    topic_id: str | None

    def begin(self, offsets: Mapping[int, int], topic_id: str | None) -> None:
        self.next, self.topic_id = dict(offsets), topic_id

    @property
    def whole(self) -> bool:
        ends = {number: len(log) for number, log in enumerate(self._topic.partitions)}
        return self._topic.up and all(self.next.get(number, 0) >= end for number, end in ends.items())

    def read(self, wait_s: float = 0.0) -> list[TopicMessage]:
        del wait_s
        if not self._topic.there:
            raise UsageError("found no topic accounts")
        if not self._topic.up:
            self.trouble = "nobody answers"
            return []
        if self.topic_id not in {None, self._topic.id}:
            self.next = {}
        self.topic_id = self._topic.id
        found: list[TopicMessage] = []
        for number, log in enumerate(self._topic.partitions):
            new = log[self.next.get(number, 0) :][: self._at_once - len(found)]
            self.next[number] = self.next.get(number, 0) + len(new)
            found += new
        return found

    def close(self) -> None:
        """Nothing is held."""


class Run:
    """A pipeline's tables over runs: what is logged is kept, all else goes with a kill."""

    def __init__(self, folder: Path, topic: Topic, *, more: str = "", before: str = "") -> None:
        self.topic, self.log_file, self.sorted = topic, folder / "rules" / "p.jsonl", folder / "sorted"
        self.config: PipelineConfig = load_pipeline(PIPELINE % (before, more), "pipeline.yaml", str)
        self.events: list[RuleEvent] = []
        self.now_s = 0.0

    def reader(self, _: object) -> RowReader:
        return Reader(self.topic)

    def start(self) -> None:
        self.tables = TopicTables(self.config, self.log_file, self.sorted, self.reader)
        for each in self.tables._tables.values():
            each.clock_s, each.wait_s = self._clock_s, 0.0
        self.events += self.tables.start(self.events, 0)

    def _clock_s(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def take_up(self, begins_ms: int | None, *, killed: bool = False) -> list[RuleEvent]:
        """As a feed does; ``killed``: once it is on the disk."""
        self.now_s += 100
        changes = self.tables.poll()
        if changes is None:
            return []
        begins = {"s": begins_ms}
        events = self.tables.events(changes, 1)
        self.tables.commit(changes, begins)
        if not killed:
            self.tables.take(changes, begins)
            self.events += events
        return events

    def held(self, accounts: str, instants: list[int]) -> list[str | None]:
        """By this run's own log, and by what stands on the disk: what is found of each account at each instant."""
        tables = self.tables.preview(None, {}).since({})
        again = tables_of_rows(self.log_file, declared_of(self.config), self.sorted)
        spec = self.config.streams["s"]
        asked = [
            {"id": str(n), "account": a, "came": t}
            for n, (t, a) in enumerate((t, a) for t in instants for a in accounts)
        ]
        records = decode_lines(make_layout("s", spec), b"".join(orjson.dumps(each) + b"\n" for each in asked), "l", 0)
        found = [
            joined(spec, [join_of("profile", spec, "s", each)], records.records).fields["profile.country"].to_pylist()
            for each in (tables, again)
        ]
        assert found[0] == found[1]
        return found[0]


ACCOUNTS = "abcde"
MESSAGES = st.tuples(st.sampled_from(ACCOUNTS), st.sampled_from(["NO", "SE", None, "wrong"]))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(MESSAGES, min_size=1, max_size=4)),
        st.tuples(st.just("take"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["restart", "kill", "torn", "anew"]), st.integers(0, 5)),
    ),
    max_size=14,
)


@settings(max_examples=400 if os.environ.get("CROSSLINE_DEEP") == "1" else 20, deadline=None)
@given(STEPS)
def test_as_the_twin(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]) -> None:
    topic, folder = Topic(), tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(topictable, "FOLD_ROWS", 3)
        patched.setattr(topictable, "MESSAGES_MAX", 3)
        for account in "ab":
            topic.row(account, "NO")
        run = Run(folder, topic)
        run.start()
        twin: list[tuple[int, dict[str, str]]] = [(BASE, {"a": "NO", "b": "NO"})]
        seen = [len(log) for log in topic.partitions]
        now_ms = BASE + 10
        for step, said in steps:
            if step == "put":
                for account, country in said:
                    if country == "wrong":
                        topic.put(account.encode(), b'{"country": 3}')
                    else:
                        topic.row(account, country)
                continue
            if step == "torn":
                last = segments_of(run.log_file, "profile").headers()[-1].number
                with (run.log_file.parent / "rows" / "p" / "profile" / f"{last:08}.jsonl").open("ab") as file:
                    file.write(b'{"begins": {"s"')
            elif step == "anew":
                topic.id, topic.partitions, seen = topic.id + "x", [[] for _ in range(PARTITIONS)], [0] * PARTITIONS
                run.start()  # what waited of the old one is gone with it
            now_ms += said
            if step in {"take", "kill"}:
                content = dict(twin[-1][1])
                waiting = sum(len(log) for log in topic.partitions) - sum(seen)
                for message in _next(topic, run, seen, min(3, waiting)):
                    value = message.value
                    account = (message.key or b"").decode()
                    if value is None:
                        content.pop(account, None)
                    elif isinstance(country := orjson.loads(value)["country"], str):
                        content[account] = country
                run.take_up(now_ms, killed=step == "kill")
                twin.append((now_ms, content))
                now_ms += 1
            if step in {"restart", "kill", "torn"}:
                run.start()
        instants = sorted({each for at, _ in twin for each in (at, at - 1)} | {now_ms + 5})
        wanted = [
            next(c for at, c in reversed(twin) if at <= t or at == BASE).get(a) for t in instants for a in ACCOUNTS
        ]
        assert run.held(ACCOUNTS, instants) == wanted


def _next(topic: Topic, run: Run, seen: list[int], count: int) -> list[TopicMessage]:
    """The messages that are taken up next: what the run read already, then partition by partition."""
    table = run.tables._tables["profile"]
    waiting = [each for _, each in table._waiting][:count]
    found = list(waiting)
    for message in found:
        seen[message.partition] = message.offset + 1
    there = {
        number: max([seen[number], *(m.offset + 1 for _, m in table._waiting if m.partition == number)])
        for number in range(PARTITIONS)
    }
    for number, log in enumerate(topic.partitions):
        for message in log[there[number] :]:
            if len(found) < count:
                found.append(message)
                seen[number] = message.offset + 1
    return found
