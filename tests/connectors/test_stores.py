"""The contract of stores for readers: the same answers from every database."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.basics.deadletter import DeadLetter
from crossline.basics.errors import UsageError
from crossline.basics.times import parse_instant_ms
from crossline.io.postgres.text_escapes import MARK, escape, escape_value, unescape, unescape_value
from crossline.io.sinks.base import Delivery, LateRecord, Sink, build_sink
from crossline.io.stores.factory import open_store
from crossline.io.stores.protocol import AlertFilter, DecisionFilter, Store

from .makers import alert
from .postgres_kit import settings_of
from .test_decisions import decision

Built = tuple[Callable[[], Sink], Callable[[], Store]]


def in_file(request: pytest.FixtureRequest) -> Built:
    path = str(request.getfixturevalue("tmp_path") / "crossline.db")
    return lambda: build_sink({"kind": "sqlite", "path": path}, "p"), lambda: open_store(path)


def in_postgres(request: pytest.FixtureRequest) -> Built:
    server, schema = request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_schema")
    settings = settings_of(server, schema)
    request.getfixturevalue("monkeypatch").setenv("PGPASSFILE", str(pass_file(server, request)))
    return lambda: build_sink(settings, "p"), lambda: open_store(f"{server.url}?schema={schema}")


def pass_file(server: Any, request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue("tmp_path") / "pgpass"
    path.write_text(f"{server.host}:{server.port}:*:{server.user}:{server.password}\n")
    path.chmod(0o600)
    return path


KINDS = [
    pytest.param(in_file, id="sqlite"),
    pytest.param(in_postgres, id="postgres", marks=pytest.mark.xdist_group("postgres")),
]


@pytest.fixture(params=KINDS)
def built(request: pytest.FixtureRequest) -> Any:
    return request.param(request)


@pytest.fixture
def stored(built: Built) -> Iterator[Callable[..., Store]]:
    """Delivers what it is given, and opens the store."""
    sink, reader = built
    with ExitStack() as stack:

        def store(*batches: Delivery) -> Store:
            writer = sink()
            writer.open()
            for batch in batches:
                writer.deliver(batch)
            writer.close()
            return stack.enter_context(closing(reader()))

        yield store


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02d}.000Z"


MANY = [
    alert("a", event_time=at(1)),
    alert("b", event_time=at(3), rule_id="big", severity="low", key={"account_id": "a2", "vip": True}),
    alert("c", event_time=at(2), kind="shadow", key={"account_id": "a1", "n": 7, "x": 1.5}),
    alert("d", event_time=at(2), kind="correction", corrects="id-a", outcome="amended", value_before=9),
    alert("e", event_time=at(3), rule_id="big"),
]


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "ebdca"),
    ({"rule_id": "big"}, "eb"),
    ({"kind": "shadow"}, "c"),
    ({"severity": "low"}, "b"),
    ({"key": {"account_id": "a1"}}, "edca"),
    ({"key": {"account_id": "a2", "vip": "true"}}, "b"),
    ({"key": {"n": "7"}}, "c"),
    ({"key": {"x": "1.5"}}, "c"),
    ({"key": {"account_id": "a"}}, ""),
    ({"key": {"account": "a1"}}, ""),
    ({"since_ms": parse_instant_ms(at(2))}, "ebdc"),
    ({"until_ms": parse_instant_ms(at(2))}, "a"),
    ({"corrects": "id-a"}, "d"),
    ({"rule_id": "'; DROP TABLE alerts; --"}, ""),
    ({"rule_id": "\0"}, ""),
]


def test_filters(stored: Callable[..., Store]) -> None:
    store = stored(Delivery("p", 0, alerts=MANY))
    for which, expected in FILTERS:
        wanted = AlertFilter(**which)
        found = [each["record_id"] for each in store.alerts(wanted)]
        assert "".join(found) == expected, which
        assert store.count(wanted) == len(expected)
        assert [each["record_id"] for each in store.alerts(wanted, newest_first=False)] == found[::-1]
        assert [each["record_id"] for each in store.alerts(wanted, 2)] == found[:2]


BATCHES: list[tuple[dict[str, Any], str]] = [
    ({"batches": ("p", 0, 0)}, "ba"),
    ({"batches": ("p", 1, 3)}, "dc"),
    ({"batches": ("p", 0, 1)}, "cba"),
    ({"batches": ("p", 4, 9)}, ""),
    ({"batches": ("p", 3, 1)}, ""),
    ({"batches": ("q", 0, 9)}, "e"),
    ({"batches": ("\0", 0, 9)}, ""),
    ({"batches": ("p'; DROP TABLE alerts; --", 0, 9)}, ""),
    ({"version": 3}, "ec"),
    ({"version": 4}, "da"),
    ({"version": 2**31 - 1}, ""),
    ({"version": 4, "batches": ("p", 0, 0)}, "a"),
    ({"version": 3, "batches": ("q", 1, 1), "rule_id": "card_burst", "key": {"account_id": "a1"}}, "e"),
    ({"version": 3, "kind": "shadow", "since_ms": parse_instant_ms(at(3))}, "c"),
]


def test_of_a_pipelines_batches_and_of_a_version(stored: Callable[..., Store], built: Built) -> None:
    versions = {"a": 4, "b": 5, "c": 3, "d": 4, "e": 3}
    kinds = {"c": "shadow"}
    made = {
        name: alert(name, event_time=at(n), rule_version=versions[name], kind=kinds.get(name, "alert"))
        for n, name in enumerate("abcde", 1)
    }
    body = {name: decision(name, event_time=at(n)) for n, name in enumerate("abcde", 1)}

    def batch(number: int, names: str, pipeline: str = "p") -> Delivery:
        mine = [made[each] for each in names]
        return Delivery(pipeline, number, alerts=mine, decisions=[body[each] for each in names])

    store = stored(batch(0, "ab"), batch(1, "c"), batch(3, "d"), batch(1, "e", "q"))
    for which, expected in BATCHES:
        wanted = AlertFilter(**which)
        found = [each["record_id"] for each in store.alerts(wanted)]
        assert ("".join(found), store.count(wanted)) == (expected, len(expected)), which
        assert [each["record_id"] for each in store.alerts(wanted, newest_first=False)] == found[::-1]
        paged, mark = "", None
        while page := store.alerts_before(wanted, mark, 1):
            paged, mark = paged + page[0][1]["record_id"], page[-1][0]
        assert paged == expected, which
        if set(which) == {"batches"}:
            decided = store.decisions(DecisionFilter(batches=which["batches"]))
            assert "".join(each["record_id"] for each in decided) == expected, which


def test_pages_are_the_list_cut_in_pieces(stored: Callable[..., Store]) -> None:
    store = stored(Delivery("p", 0, alerts=MANY, decisions=[decision(name, event_time=at(2)) for name in "uvw"]))
    for which, expected in FILTERS:
        found, mark = "", None
        while page := store.alerts_before(AlertFilter(**which), mark, 2):
            found, mark = found + "".join(each["record_id"] for _, each in page), page[-1][0]
        assert found == expected, which
    whole = list(store.decisions(DecisionFilter()))
    ((mark, first),) = store.decisions_before(DecisionFilter(), None, 1)
    assert [first, *(each for _, each in store.decisions_before(DecisionFilter(), mark, 9))] == whole
    assert store.alerts_before(AlertFilter(), (at(0), 2**63 - 1), 9) == []


def test_more_than_are_asked_for_at_once_come_in_order(stored: Callable[..., Store]) -> None:
    names = [f"{number:05d}" for number in range(2_500)]
    store = stored(Delivery("p", 0, alerts=[alert(name) for name in names]))
    found = store.alerts(AlertFilter(), newest_first=False)
    back = store.alerts(AlertFilter())
    assert next(found)["record_id"] == "00000"
    assert next(back)["record_id"] == names[-1]  # while the other is not read to its end
    assert store.count(AlertFilter()) == len(names)
    assert [each["record_id"] for each in found] == names[1:]
    assert [each["record_id"] for each in back] == names[-2::-1]


def test_alerts_are_found_by_the_start_of_their_id(stored: Callable[..., Store]) -> None:
    ids = ["11aa0000-0000-5000-8000-000000000001", "11ab0000-0000-5000-8000-000000000002"]
    alerts = [alert(name, alert_id=name) for name in ids]
    store = stored(Delivery("p", 0, alerts=alerts[:1], positions=[("in/a", 7)]), Delivery("p", 1, alerts=alerts[1:]))
    assert [each.alert["alert_id"] for each in store.find("11A")] == ids
    [found] = store.find("11aa")
    assert (found.pipeline, found.position, found.alert["evidence"]) == ("p", ("in/a", 7), alerts[0]["evidence"])
    assert store.find("11ab")[0].position is None
    assert (len(store.find("11", 1)), store.find("2"), store.find("%"), store.find("")) == (1, [], [], store.find("1"))


def test_what_is_read_is_what_was_delivered(stored: Callable[..., Store]) -> None:
    """To the last digit and the last character."""
    hostile = "\x1b[2J \u202e \ufffe \U0010ffff '); -- %s \\N \t\n " + MARK + "0"
    values = [2**80, -(2**63), 1e300, 5e-324, -0.0, 0.1, "Infinity", "-Infinity", None, 10**17 + 1]
    given = [alert(f"v{n}", value=value, evidence={"count": 1, "record_ids": ["t1"]}) for n, value in enumerate(values)]
    text = {"record_id": hostile, "message": hostile, "rule_id": hostile, "stream": hostile, "action": hostile}
    given.append(alert("h", **text, key={hostile: hostile, "a=b": "c"}, tags=["\0"], extra={"\0": [hostile]}))
    store = stored(Delivery("p", 0, alerts=given, positions=[(hostile, 1)] * len(given)))
    found = list(store.alerts(AlertFilter(), newest_first=False))
    assert [{**each, "delivered_at": None} for each in found] == given
    assert [str(each["value"]) for each in found[:-1]] == [str(value) for value in values]
    assert [each["alert_id"] for each in store.alerts(AlertFilter(key={hostile: hostile}))] == ["id-h"]
    assert [each["alert_id"] for each in store.alerts(AlertFilter(key={"a=b": "c"}))] == ["id-h"]
    assert list(store.alerts(AlertFilter(key={"a": "b=c"}))) == []
    assert [each["alert_id"] for each in store.alerts(AlertFilter(rule_id=hostile))] == ["id-h"]
    assert store.find("id-h")[0].position == (hostile, 1)
    assert store.rule_ids() == sorted({hostile, "card_burst"})


def test_ids_beyond_what_an_index_holds_are_found(stored: Callable[..., Store]) -> None:
    """Texts that do not compress, as long as a record may make them."""
    draw = random.Random(1)
    one = "".join(chr(draw.randrange(0x4E00, 0x9F00)) for _ in range(20_000))
    other = one[:-1] + chr(ord(one[-1]) + 1)
    alerts = [alert(each, alert_id=f"id-{n}", key={"a": each}, rule_id=each) for n, each in enumerate((one, other))]
    dead = [DeadLetter("payments", "duplicate_id", each, each, 1, None, each) for each in (one, other)]
    batch = Delivery("p", 0, alerts, dead, decisions=[decision(one), decision(other)])
    store = stored(batch, batch)
    assert [each["record_id"] == other for each in store.alerts(AlertFilter(key={"a": other}))] == [True]
    assert [each["record_id"] == one for each in store.alerts(AlertFilter(rule_id=one))] == [True]
    assert [each["record_id"] == one for each in store.decisions(DecisionFilter(record_id=one))] == [True]
    assert [each["record_id"] == one for each in store.find_decisions(one)] == [True]
    assert store.refused("p", "payments", [one]) == {(one, 1)}


def test_times_at_the_ends_of_the_calendar(stored: Callable[..., Store]) -> None:
    times = ["0001-01-01T00:00:00.000Z", "1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"]
    alerts = [alert(str(n), event_time=each, ingest_time=each) for n, each in enumerate(times)]
    decisions = [decision(str(n), event_time=each) for n, each in enumerate(times)]
    store = stored(Delivery("p", 0, alerts=alerts, decisions=decisions))
    assert [each["event_time"] for each in store.alerts(AlertFilter())] == times[::-1]
    assert [each["event_time"] for each in store.decisions(DecisionFilter())] == times[::-1]
    which = AlertFilter(since_ms=parse_instant_ms(times[0]), until_ms=parse_instant_ms(times[1]))
    assert [each["record_id"] for each in store.alerts(which)] == ["0"]


DECISIONS = [
    decision("a", event_time=at(1), decision="allow"),
    decision("b", event_time=at(2), decision="block"),
    decision("c", event_time=at(3), stream="logins"),
    decision("a", event_time=at(1), decision_id="r-a", kind="revision", revision=1, revises="d-a", because="id-a"),
]


CHOICES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["d-c", "d-b", "r-a", "d-a"]),
    ({"but_allowed": True}, ["d-c", "d-b", "r-a"]),
    ({"decision": "block"}, ["d-b"]),
    ({"stream": "logins"}, ["d-c"]),
    ({"record_id": "a"}, ["r-a", "d-a"]),
    ({"since_ms": parse_instant_ms(at(2)), "until_ms": parse_instant_ms(at(3))}, ["d-b"]),
]


def test_decisions(stored: Callable[..., Store]) -> None:
    store = stored(Delivery("p", 0, decisions=DECISIONS))
    for which, expected in CHOICES:
        wanted = DecisionFilter(**which)
        found = list(store.decisions(wanted))
        assert [each["decision_id"] for each in found] == expected, which
        assert store.count_decisions(wanted) == len(expected)
        assert list(store.decisions(wanted, newest_first=False)) == found[::-1]
        assert list(store.decisions(wanted, 1)) == found[:1]
        assert all(each in DECISIONS for each in found)


def test_decisions_are_found_by_their_id_or_the_record_s(stored: Callable[..., Store]) -> None:
    store = stored(Delivery("p", 0, decisions=DECISIONS))
    assert [each["decision_id"] for each in store.find_decisions("d-")] == ["d-a", "d-b", "d-c"]
    assert [each["decision_id"] for each in store.find_decisions("a")] == ["d-a", "r-a"]
    assert (store.find_decisions("x"), len(store.find_decisions("d-", 2))) == ([], 2)


def test_all_else(stored: Callable[..., Store]) -> None:
    dead = [
        DeadLetter("payments", "bad_json", "no end", "in/a", 5, b"\xff{\0", None),
        DeadLetter("payments", "bad_json", "no end", "in/a", 9, None, None),
        DeadLetter("payments", "duplicate_id", "came before", "in/a", 5, None, "t4"),
    ]
    late = [LateRecord("payments", "t5", -(2**61), 0, 2**61, "in/b", 2**62, b"{}")]
    events = [
        {"rule_id": "r", "version": 2, "event": "published", "body": {"text": "\0"}},
        {"rule_id": "r", "version": 2, "event": "removed", "body": None},
    ]
    batch = Delivery("p", 3, dead=dead, late=late, figures={"judge_ms": 12.5, "\0": "\0"}, rule_events=events)
    store = stored(batch, batch, Delivery("q", 3, dead=dead[:1]))
    assert [figures for _, figures in store.batch_figures("p", 5)] == [{"judge_ms": 12.5, "\0": "\0"}]
    assert store.batch_figures("none", 5) == []
    assert store.dead_counts() == {"bad_json": 3, "duplicate_id": 1}
    found = store.dead_letters("bad_json")
    assert [(each["offset"], each["raw"], each["record_id"]) for each in found] == [
        *((5, b"\xff{\0", None), (9, None, None), (5, b"\xff{\0", None)),
    ]
    assert len(store.dead_letters(limit=2)) == 2
    first, last = store.dead_numbers()
    every = range(first, last + 1)
    assert store.dead_reasons("p", every) == {"bad_json": 2, "duplicate_id": 1}
    assert store.dead_reasons("q", every) == {"bad_json": 1}
    mine = store.dead_between("p", every, None, 10)
    assert [each["offset"] for _, each in mine] == [5, 9, 5]
    assert [number for number, _ in mine] == sorted((number for number, _ in mine), reverse=True)
    assert [each["raw"] for _, each in store.dead_between("p", every, "bad_json", 1)] == [None]
    assert store.dead_between("p", range(mine[0][0] + 1, last + 1), None, 10) == []
    assert store.dead_between("p", range(mine[2][0], mine[2][0] + 1), None, 1) == [mine[2]]
    assert mine[2][1] == {**found[0], "delivered_at": mine[2][1]["delivered_at"]}
    assert store.refused("p", "payments", ["t4", "t5", "t9"]) == {("in/a", 5), ("in/b", 2**62)}
    assert (store.refused("q", "payments", ["t5"]), store.refused("p", "payments", [])) == (set(), set())
    assert store.rule_body("p", "r", 2) == {"text": "\0"}
    assert (store.rule_body("p", "r", 3), store.rule_body("q", "r", 2)) == (None, None)


def test_of_one_id_the_first_stays_whatever_its_time(stored: Callable[..., Store]) -> None:
    """An id may come again with another time: where a record's id does."""
    later = alert("a", event_time="2031-05-05T00:00:00.000Z")
    store = stored(
        Delivery("p", 0, alerts=[alert("a")]), Delivery("p", 1, alerts=[later]), Delivery("q", 0, alerts=[later])
    )
    assert [(each.pipeline, each.alert["event_time"]) for each in store.find("id-a")] == [
        ("p", alert("a")["event_time"]),
        ("q", later["event_time"]),
    ]


def test_a_store_that_is_not_there_is_reported(tmp_path: Path, postgres_server: Any) -> None:
    with pytest.raises(UsageError, match="there is no store at"):
        open_store(str(tmp_path / "none.db"))
    os.environ.pop("PGPASSWORD", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", postgres_server.password)
        with pytest.raises(
            UsageError, match=r"there is no store at postgresql://.*\?schema=never_made; a pipeline makes"
        ):
            open_store(f"{postgres_server.url}?schema=never_made")


texts = st.text(st.characters(exclude_categories=()) | st.sampled_from("\0" + MARK + "0mdf8"))


@given(texts)
def test_every_text_comes_back(text: str) -> None:
    kept = escape(text)
    assert unescape(kept) == text
    assert "\0" not in kept
    kept.encode()


@settings(max_examples=50)
@given(st.recursive(texts | st.none(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=4))
def test_every_value_comes_back(value: Any) -> None:
    assert unescape_value(escape_value(value)) == value
