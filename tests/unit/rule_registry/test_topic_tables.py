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

from crossline.basics.errors import RetryableError, SourceError, StateError, UsageError
from crossline.basics.message import TopicMessage
from crossline.ingest.decode import decode_lines, make_layout
from crossline.ingest.enrich.join import joined
from crossline.ingest.enrich.messages import last_of_each, messages_of, whole_table
from crossline.ingest.enrich.rows import TableFile, read_table, rows_as_written
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.rows import topic_table
from crossline.rule_registry.rows.reader import RowReader
from crossline.rule_registry.rows.row_log import raw_of
from crossline.rule_registry.rows.segments import segments_of
from crossline.rule_registry.rows.tables import TopicTables, declared_of, tables_of_rows
from crossline.runtime.snapshot.tables import join_of, open_table
from crossline.settings.config import PipelineConfig, load_pipeline

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
        self.forgotten: set[bytes | None] = set()  # keys without a message, since compaction took the last one
        self.there, self.up, self.compacted = True, True, True

    def put(self, key: bytes | None, value: bytes | None) -> None:
        number = sum(key or b"") % PARTITIONS
        log = self.partitions[number]
        log.append(TopicMessage("accounts", number, len(log), key, value, WHO, 7))

    def row(self, account: str, country: str | None) -> None:
        self.put(account.encode(), None if country is None else orjson.dumps({"country": country}))


class Reader:
    """Reads partitions in turn, a given number of messages at once."""

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
            found += [each for each in new if each.key not in self._topic.forgotten]
        return found

    def compacted(self) -> bool:
        return self._topic.compacted

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

    def start(self, now_ms: int = 0) -> None:
        self.tables = TopicTables(self.config, self.log_file, self.sorted, self.reader)
        for each in self.tables._tables.values():
            each.clock_s, each.wait_s = self._clock_s, 0.0
        self.events += self.tables.start(self.events, now_ms)

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
        patched.setattr(topic_table, "FOLD_ROWS", 3)
        patched.setattr(topic_table, "MESSAGES_MAX", 3)
        for account in "ab":
            topic.row(account, "NO")
        run = Run(folder, topic)
        run.start()
        twin: list[tuple[int, dict[str, str]]] = [(BASE, {"a": "NO", "b": "NO"})]
        seen = [len(log) for log in topic.partitions]
        now_ms = BASE + 10
        for step, found in steps:
            if step == "put":
                for account, country in found:
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
            now_ms += found
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


def test_a_table_stays_of_the_kind_that_records_were_judged_by(tmp_path: Path) -> None:
    run = Run(tmp_path, Topic())
    run.events = [RuleEvent("table_changed", 0, table_name="profile", files={"a.csv": "0"})]
    with pytest.raises(UsageError, match="table profile was one of files"):
        run.start()
    run.events = []
    run.start()
    of_files = PIPELINE.replace('kind: kafka, brokers: "b:1", topic: accounts', "kind: files, path: a.csv")
    run.config = load_pipeline(of_files % ("", ""), "pipeline.yaml", str)
    with pytest.raises(UsageError, match="table profile was one of a topic"):
        run.start()


def test_the_events_of_a_topic_table(tmp_path: Path) -> None:
    topic = Topic()
    topic.row("a", "NO")
    topic.put(b"b", b"{")
    run = Run(tmp_path, topic)
    run.start()
    lines = [(each.event, each.text, each.place) for each in run.events]
    assert lines[0] == ("table_changed", "table profile: 1 rows", None)
    assert lines[1][0] == "refused"
    assert lines[1][2] == f"accounts/{ord('b') % PARTITIONS}/0"
    assert "the message b at accounts/" in str(lines[1][1])
    topic.row("c", "SE")
    topic.row("a", None)
    (event,) = run.take_up(BASE)
    assert (event.text, event.who) == ("table profile: 1 rows put, 1 removed", "alice")
    assert run.take_up(BASE) == []


def test_brokers_that_are_away_at_first_and_later(tmp_path: Path) -> None:
    topic = Topic()
    topic.up = False
    run = Run(tmp_path, topic)
    with pytest.raises(SourceError, match="cannot be read: nobody answers"):
        run.start()
    topic.up = True
    topic.row("a", "NO")
    run.start()
    topic.up = False
    run.start()
    assert run.take_up(BASE) == []
    topic.there = False
    assert run.take_up(BASE) == [], "nor does a topic that is gone keep rules from being taken up"
    assert run.held("a", [BASE]) == ["NO"]


def test_a_log_that_cannot_be_written_is_as_it_was(tmp_path: Path) -> None:
    topic = Topic()
    run = Run(tmp_path, topic)
    run.start()
    topic.row("a", "NO")
    run.now_s += 100
    changes = run.tables.poll()
    assert changes is not None
    run.tables.commit(changes, {"s": BASE + 5})()  # the rule log could not be written
    run.tables.commit(changes, {"s": BASE + 9})
    run.tables.take(changes, {"s": BASE + 9})
    assert run.held("a", [BASE + 5, BASE + 9]) == [None, "NO"]
    (tmp_path / "rules" / "rows" / "p" / "profile" / "00000001.jsonl").unlink()
    topic.row("a", "SE")
    run.now_s += 100
    changes = run.tables.poll()
    assert changes is not None
    with pytest.raises(RetryableError, match="put it back"):
        run.tables.commit(changes, {"s": BASE + 20})


def test_another_declaration(tmp_path: Path) -> None:
    """Rows are kept as they came: a further field is there from the beginning, and a wrong type is reported."""
    topic = Topic()
    topic.put(b"a", b'{"country": "NO", "risk": "high"}')
    run = Run(tmp_path, topic)
    run.start()
    run.config = load_pipeline(PIPELINE % ("", ", risk: string"), "pipeline.yaml", str)
    run.start()
    (version,) = run.tables.preview(None, {}).since({})["profile"]
    assert open_table(version.path).fields["risk"].to_pylist() == ["high"]
    run.config = load_pipeline(PIPELINE % ("", ", risk: integer"), "pipeline.yaml", str)
    with pytest.raises(StateError, match="1 rows of its earlier content do not fit"):
        run.start()


def test_rows_that_hold_from_an_instant_and_are_known_by_it(tmp_path: Path) -> None:
    topic = Topic()
    run = Run(tmp_path, topic, before="valid_from: since, ")
    topic.put(b'{"account": "a", "since": null}', b'{"country": "NO"}')
    run.start()
    topic.put(orjson.dumps({"account": "a", "since": BASE + 50}), b'{"country": "SE"}')
    run.take_up(BASE + 10)
    assert run.held("a", [BASE + 5, BASE + 20, BASE + 60]) == ["NO", "NO", "SE"]
    topic.put(orjson.dumps({"account": "a", "since": BASE + 50}), None)
    run.take_up(BASE + 70)
    assert run.held("a", [BASE + 60, BASE + 80]) == ["SE", "NO"]


def test_rows_are_sent_as_they_are_read(tmp_path: Path) -> None:
    """What ``publish-table`` sends of a file is what the table has of that file."""
    run = Run(tmp_path, Topic(), before="valid_from: since, ", more=", risk: number?, place: {city: string?}")
    declared = declared_of(run.config)["profile"]
    text = b"account,since,country,risk,place.city\na,,NO,0.5,Oslo\nb,2026-01-01T00:00:00Z,SE,,\n"
    file = TableFile("rows.csv", text)
    sent = messages_of(declared.form, declared.keyed, rows_as_written(declared.form, file))
    assert [orjson.loads(key) for key, _ in sent] == [{"account": "a"}, {"account": "b", "since": 1767225600000}]
    read = declared.read(raw_of([key for key, _ in sent], [value for _, value in sent]))
    assert read.refused == {}
    assert whole_table(last_of_each(read.rows)).equals(read_table(declared.form, [file]))


@pytest.mark.parametrize("compacted", [True, False])
def test_a_tombstone_that_compaction_took_before_it_was_read(tmp_path: Path, compacted: bool) -> None:
    topic = Topic()
    for account in "abc":
        topic.row(account, "NO")
    run = Run(tmp_path, topic)
    run.start()
    topic.row("c", "SE")
    run.take_up(BASE + 5)
    assert run.take_up(BASE + 5) == [], "the end was met, and is noted"
    seen = tmp_path / "rules" / "rows" / "p" / "profile" / "seen"
    assert seen.exists()
    topic.forgotten, topic.compacted = {b"b"}, compacted
    topic.row("a", "SE")
    run.start()
    run.take_up(BASE + 10)
    assert run.held("abc", [BASE + 10]) == ["SE", "NO", "SE"], "so soon nothing can be gone that was not read"
    os.utime(seen, (0, 0))
    run.start(now_ms=7 * 3_600_000)
    run.take_up(BASE + 20)
    assert run.held("abc", [BASE + 19, BASE + 20]) == ["SE", "NO", "SE", "SE", None if compacted else "NO", "SE"]
