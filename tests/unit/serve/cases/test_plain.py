"""The store in terms of JSON, as routes call it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from crossline.serve.cases.cases import Cases
from crossline.serve.cases.json_cases import JsonCases
from crossline.serve.cases.values import ChangedError, NotTakenError

START = 1_767_225_600_000


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[JsonCases]:
    ticks, ids = count(START), count(1)
    store = Cases(tmp_path / "cases.db", clock_ms=lambda: next(ticks), make_id=lambda: f"case-{next(ids)}")
    yield JsonCases(store)
    store.close()


def test_labels(plain: JsonCases) -> None:
    body = {"is_fraud": True, "known_at": "2025-12-31T00:00:00.000Z", "reason": None}
    made = plain.put_label("p", "t1", body, "ada", None)
    assert made == plain.label("p", "t1")
    assert (made["known_at"], made["who"], made["version"], made["reason"]) == (body["known_at"], "ada", 1, "")
    with pytest.raises(ChangedError) as stale:
        plain.put_label("p", "t1", body, "bob", None)
    assert stale.value.version == 1
    assert plain.put_label("p", "t1", {"is_fraud": False}, "bob", 1)["version"] == 2
    with pytest.raises(NotTakenError, match="/known_at"):
        plain.put_label("p", "t1", {"is_fraud": False, "known_at": "today"}, "bob", 2)
    assert plain.label("p", "none") is None


def test_cases(plain: JsonCases) -> None:
    given: dict[str, Any] = {"title": "One", "key": {"account_id": "a1"}, "alert_ids": ["x", "y"], "assignee": None}
    made = plain.create_case(given, "ada")
    assert {name: made[name] for name in given} == given
    assert (made["status"], made["version"], made["notes"]) == ("open", 1, [])
    linked = [{"alert_id": "x", "stream": "p", "record_id": "t1"}]
    changed = plain.change_case("case-1", 1, {"alerts": linked, "status": "acknowledged", "assignee": "bob"}, "bob")
    assert (changed["alert_ids"], changed["assignee"], changed["version"]) == (["x"], "bob", 2)
    more = plain.change_case("case-1", 2, {"alert_ids": ["x", "z"]}, "bob")
    assert more["alerts"] == [*linked, {"alert_id": "z", "stream": None, "record_id": None}]
    noted = plain.note("case-1", "seen", "bob")
    assert [(each["by"], each["text"]) for each in noted["notes"]] == [("bob", "seen")]
    done = plain.change_case("case-1", 3, {"status": "resolved", "label": {"is_fraud": True}}, "bob")
    assert done["status"] == "resolved"
    label = plain.label("p", "t1")
    assert label is not None
    assert label["case_id"] == "case-1"
    assert plain.case("case-1") == done
    assert plain.case("none") is None
    assert orjson.dumps(done)
    with pytest.raises(ChangedError) as stale:
        plain.change_case("case-1", 1, {"status": "open"}, "ada")
    assert stale.value.version == 4
    with pytest.raises(NotTakenError, match="/color"):
        plain.change_case("case-1", 4, {"color": "red"}, "ada")


def test_pages_go_on_behind_a_case(plain: JsonCases) -> None:
    for number in range(1, 6):
        plain.create_case({"title": f"{number}", "assignee": "bob" if number % 2 else None}, "ada")
    assert [each["case_id"] for each in plain.cases({}, None, 3)] == ["case-5", "case-4", "case-3"]
    assert [each["case_id"] for each in plain.cases({}, "case-3", 600)] == ["case-2", "case-1"]
    assert [each["case_id"] for each in plain.cases({"assignee": "bob"}, "case-5", 9)] == ["case-3", "case-1"]
    assert plain.cases({"status": "resolved"}, None, 9) == []
    for filters in ({"status": "closed"}, {"color": "red"}):
        with pytest.raises(NotTakenError):
            plain.cases(filters, None, 9)
