"""The store of labels and cases: the last write holds, nothing is lost, a write over an unseen change is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crossline.serve.cases import labels
from crossline.serve.cases.cases import Cases
from crossline.serve.cases.checks import FUTURE_MS, NOTE_MAX
from crossline.serve.cases.values import (
    NEXT_STATES,
    STATES,
    Case,
    CaseChange,
    CaseFilter,
    CaseVerdict,
    ChangedError,
    KeyReusedError,
    Label,
    LinkedAlert,
    NoSuchCaseError,
    NotTakenError,
)

START = 1_767_225_600_000
ALERTS = (LinkedAlert("a1", "payments", "t1"), LinkedAlert("a2", "payments", "t2"), LinkedAlert("a3"))


@pytest.fixture
def cases(tmp_path: Path) -> Iterator[Cases]:
    made = made_at(tmp_path)
    yield made
    made.close()


def made_at(folder: Path) -> Cases:
    ticks, ids = count(START), count(1)
    return Cases(folder / "serve" / "cases.db", clock_ms=lambda: next(ticks), make_id=lambda: f"case-{next(ids)}")


def test_the_last_label_of_a_record_holds_and_earlier_ones_stay(cases: Cases, tmp_path: Path) -> None:
    first = cases.put_label("payments", "t1", True, who="ada", reason="chargeback", known_ms=START - 5)
    assert first == Label("payments", "t1", True, START - 5, "chargeback", "ada", START, 1)
    second = cases.put_label("payments", "t1", False, who="bob", reason="taken back")
    assert (second.version, second.known_ms, second.is_fraud) == (2, START + 1, False)
    cases.put_label("refunds", "t1", True, who="ada")
    assert cases.label("payments", "t1") == second
    assert cases.label_history("payments", "t1") == [first, second]
    assert [each.stream for each in cases.labels()] == ["payments", "refunds"]
    assert [each.is_fraud for each in cases.labels(["payments"])] == [False]
    assert cases.label("payments", "t2") is None
    assert cases.label("payments", "\ud800") is None
    assert ((tmp_path / "serve").stat().st_mode & 0o777, (tmp_path / "serve/cases.db").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


def test_labels_as_they_were_known_and_as_they_were_given(cases: Cases) -> None:
    cases.put_label("p", "t1", True, who="ada", known_ms=START - 100)
    cases.put_label("p", "t1", False, who="ada", known_ms=START - 50)
    cases.put_label("p", "t2", True, who="ada", known_ms=START - 10)

    def known(by_ms: int) -> list[tuple[str, bool]]:
        return [(each.record_id, each.is_fraud) for each in cases.labels(known_by_ms=by_ms)]

    assert known(START - 101) == []
    assert known(START - 100) == [("t1", True)]
    assert known(START - 50) == [("t1", False)]
    assert known(START) == [("t1", False), ("t2", True)]
    assert [each.is_fraud for each in cases.labels(given_by_ms=START)] == [True]


def test_a_label_that_changed_meanwhile_is_reported_with_what_stands(cases: Cases) -> None:
    with pytest.raises(ChangedError) as none:
        cases.put_label("p", "t1", True, who="ada", version=1)
    assert none.value.stands is None
    first = cases.put_label("p", "t1", True, who="ada", version=0)
    with pytest.raises(ChangedError, match="found version 1, expected 0") as stale:
        cases.put_label("p", "t1", False, who="bob", version=0)
    assert stale.value.stands == first == cases.label("p", "t1")


def test_a_key_that_comes_again_gives_the_same_and_does_nothing(cases: Cases, tmp_path: Path) -> None:
    first = cases.put_label("p", "t1", True, who="ada", key="k1")
    cases.put_label("p", "t1", False, who="bob")
    assert cases.put_label("p", "t1", True, who="ada", key="k1") == first
    assert len(cases.label_history("p", "t1")) == 2
    with pytest.raises(KeyReusedError, match="k1 was sent with another request"):
        cases.put_label("p", "t1", False, who="ada", key="k1")
    with pytest.raises(KeyReusedError):
        cases.note("case-1", "k", "ada", key="k1")
    assert cases.put_label("p", "t9", True, who="bob", key="k1").who == "bob", "a key belongs to its sender"
    opened = cases.create_case("One", ALERTS, who="ada", key="k2")
    changed = cases.change_case(opened.case_id, 1, CaseChange(state="acknowledged"), "ada", key="k3")
    noted = cases.note(opened.case_id, "seen", "ada", key="k4")
    cases.close()
    again = made_at(tmp_path)
    assert again.create_case("One", ALERTS, who="ada", key="k2") == opened
    assert again.change_case(opened.case_id, 1, CaseChange(state="acknowledged"), "ada", key="k3") == changed
    assert again.note(opened.case_id, "seen", "ada", key="k4") == noted
    assert len(again.events(opened.case_id)) == 3
    again.close()


def test_the_way_of_a_case(cases: Cases) -> None:
    opened = cases.create_case("Burst on a1", ALERTS, who="ada")
    assert opened == Case("case-1", "Burst on a1", "open", ALERTS, None, 1, START, "ada", START, "ada")
    taken = cases.change_case("case-1", 1, CaseChange(state="acknowledged", assignee="bob", reason="mine"), "bob")
    assert (taken.state, taken.assignee, taken.version, taken.changed_by) == ("acknowledged", "bob", 2, "bob")
    with pytest.raises(ChangedError, match="changed meanwhile, by bob: found version 2, expected 1") as stale:
        cases.change_case("case-1", 1, CaseChange(state="resolved"), "cyd")
    assert stale.value.stands == taken
    cases.note("case-1", "called the customer", "bob")
    verdict = CaseVerdict(True, "confirmed by phone", START - 1_000)
    done = cases.change_case("case-1", 2, CaseChange(state="resolved", verdict=verdict), "bob")
    assert (done.state, done.version) == ("resolved", 3)
    for record in ("t1", "t2"):
        label = cases.label("payments", record)
        assert label is not None
        assert (label.is_fraud, label.reason, label.known_ms, label.case_id) == (
            True,
            verdict.reason,
            START - 1_000,
            "case-1",
        )
    events = cases.events("case-1")
    assert [(each.kind, each.who, each.text, each.version) for each in events] == [
        ("created", "ada", "", 1),
        ("changed", "bob", "mine", 2),
        ("note", "bob", "called the customer", 2),
        ("changed", "bob", "", 3),
    ]
    assert (events[1].before, events[1].after) == (
        {"state": "open", "assignee": None},
        {"state": "acknowledged", "assignee": "bob"},
    )
    assert events[3].after["label"] == {"is_fraud": True, "records": [["payments", "t1"], ["payments", "t2"]]}
    assert cases.events(after=events[1].number) == events[2:]
    with pytest.raises(NotTakenError, match="reopens it"):
        cases.change_case("case-1", 3, CaseChange(title="x"), "bob")
    reopened = cases.change_case("case-1", None, CaseChange(state="open", assignee=None), "ada")
    assert (reopened.state, reopened.assignee, reopened.version) == ("open", None, 4)


def test_the_key_that_a_case_is_about_stays(cases: Cases) -> None:
    cases.create_case("One", who="ada", about={"b": "2", "a": ""}, key="k")
    changed = cases.change_case("case-1", 1, CaseChange(state="escalated"), "ada")
    assert list(changed.about.items()) == list(cases.case("case-1").about.items()) == [("b", "2"), ("a", "")]
    assert cases.create_case("One", who="ada", about={"b": "2", "a": ""}, key="k").about == changed.about
    for about in ({"": "x"}, {"a": 3}, {f"f{number}": "x" for number in range(17)}):
        with pytest.raises(NotTakenError, match="/key"):
            cases.create_case("Two", who="ada", about=about)  # type: ignore[arg-type]


def test_alerts_come_and_go(cases: Cases) -> None:
    cases.create_case("One", ALERTS[:1], who="ada")
    both = cases.change_case("case-1", 1, CaseChange(link=(ALERTS[1], LinkedAlert("a1", "payments", "t9"))), "ada")
    assert both.alerts == (LinkedAlert("a1", "payments", "t9"), ALERTS[1])
    assert cases.change_case("case-1", 2, CaseChange(unlink=("a1",)), "ada").alerts == (ALERTS[1],)
    with pytest.raises(NotTakenError, match='/unlink/0: found "a1"; expected an alert of the case'):
        cases.change_case("case-1", 3, CaseChange(unlink=("a1",)), "ada")
    assert cases.case("case-1").alerts == (ALERTS[1],)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        (CaseChange(), ""),
        (CaseChange(state="open"), ""),
        (CaseChange(state="closed"), "/state"),  # type: ignore[arg-type]
        (CaseChange(title=""), "/title"),
        (CaseChange(title="x" * 201), "/title"),
        (CaseChange(assignee=""), "/assignee"),
        (CaseChange(assignee="\ud800"), "/assignee"),
        (CaseChange(link=(LinkedAlert("a9", "payments"),)), "/link/0"),
        (CaseChange(link=tuple(LinkedAlert(f"a{n}") for n in range(1_001))), "/link"),
        (CaseChange(verdict=CaseVerdict(True)), "/label"),
        (CaseChange(state="resolved", unlink=("a1", "a2"), verdict=CaseVerdict(True)), "/label"),
        (CaseChange(state="resolved", verdict=CaseVerdict("yes")), "/label/is_fraud"),  # type: ignore[arg-type]
        (CaseChange(state="resolved", verdict=CaseVerdict(True, known_ms=START + FUTURE_MS * 2)), "/label/known_at"),
        (CaseChange(state="resolved", verdict=CaseVerdict(True, known_ms=-(10**30))), "/label/known_at"),
        (CaseChange(state="resolved", reason="x" * 4_001), "/reason"),
    ],
    ids=str,
)
def test_a_change_that_cannot_be_changes_nothing(cases: Cases, change: CaseChange, pointer: str) -> None:
    opened = cases.create_case("One", ALERTS, who="ada")
    with pytest.raises(NotTakenError) as refused:
        cases.change_case("case-1", 1, change, "ada", key="k")
    assert refused.value.pointer == pointer
    assert cases.case("case-1") == opened
    assert list(cases.labels()) == []
    assert len(cases.events()) == 1
    assert cases.change_case("case-1", 1, CaseChange(state="escalated"), "ada", key="k").version == 2, "the key is free"


def test_what_is_no_label_no_note_no_case(cases: Cases) -> None:
    for stream, record, reason in (("", "t", ""), ("p", "", ""), ("p", "t", "x" * 4_001), ("p", "a\0b", "")):
        with pytest.raises(NotTakenError):
            cases.put_label(stream, record, True, who="ada", reason=reason)
    with pytest.raises(NotTakenError):
        cases.put_label("p", "t", 1, who="ada")  # type: ignore[arg-type]
    with pytest.raises(NoSuchCaseError, match='there is no case "none"'):
        cases.note("none", "text", "ada")
    for asked in (
        lambda: cases.case("none"),
        lambda: cases.change_case("'; DROP TABLE cases; --", 1, CaseChange(), "a"),
    ):
        with pytest.raises(NoSuchCaseError):
            asked()
    cases.create_case("One", who="ada")
    for text in ("", "x" * (NOTE_MAX + 1)):
        with pytest.raises(NotTakenError):
            cases.note("case-1", text, "ada")
    assert list(cases.labels()) == []


def test_pages_and_filters(cases: Cases) -> None:
    for number in range(7):
        linked = [LinkedAlert(f"a{number % 2}", "payments", f"t{number}")]
        cases.create_case(
            f"Case {number} 100%",
            linked,
            who="ada",
            assignee="bob" if number < 3 else None,
            about={"account_id": f"a{number % 3}", "zone": "x"},
        )
    cases.change_case("case-2", 1, CaseChange(state="escalated"), "bob")

    def found(wanted: CaseFilter, limit: int = 3) -> list[str]:
        names, cursor = list[str](), None
        while True:
            page = cases.cases(wanted, cursor, limit)
            assert len(page.items) <= limit
            names += [each.title.split()[1] for each in page.items]
            if page.next_cursor is None:
                return names
            cursor = page.next_cursor

    assert found(CaseFilter()) == ["6", "5", "4", "3", "2", "1", "0"]
    assert found(CaseFilter(), 7) == found(CaseFilter(), 1) == found(CaseFilter())
    assert found(CaseFilter(states=("escalated",))) == ["1"]
    assert found(CaseFilter(assignee="bob")) == ["2", "1", "0"]
    assert found(CaseFilter(assignee=None)) == ["6", "5", "4", "3"]
    assert found(CaseFilter(alert_id="a1", states=("open",))) == ["5", "3"]
    assert found(CaseFilter(record=("payments", "t4"))) == ["4"]
    assert found(CaseFilter(about=("account_id", "a1"))) == ["4", "1"]
    assert cases.case("case-1").about == {"account_id": "a0", "zone": "x"}
    assert found(CaseFilter(from_ms=START + 2, until_ms=START + 4)) == ["3", "2"]
    assert found(CaseFilter(from_ms=10**30)) == []
    assert found(CaseFilter(text="CASE 3")) == ["3"]
    assert found(CaseFilter(text="%")) == ["6", "5", "4", "3", "2", "1", "0"]
    assert found(CaseFilter(text="_")) == []
    for cursor, limit in (("x", 3), ("-1", 3), ("9" * 40, 3), (None, 0), (None, 501)):
        with pytest.raises(NotTakenError):
            cases.cases(CaseFilter(), cursor, limit)


def test_labels_that_come_while_they_are_read_are_not_seen(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "PIECE", 2)
    for number in range(5):
        cases.put_label("p", f"t{number}", True, who="ada")
    reading = cases.labels()
    first = next(reading)
    for number in (0, 4, 5):
        cases.put_label("p", f"t{number}", False, who="bob")
    assert [(each.record_id, each.is_fraud) for each in (first, *reading)] == [(f"t{n}", True) for n in range(5)]


CHANGES = st.tuples(
    st.sampled_from([None, *STATES]),
    st.sampled_from(["keep", None, "bob"]),
    st.sampled_from([None, "T", "U"]),
    st.booleans(),
)


@settings(max_examples=40)
@given(st.lists(CHANGES, max_size=12))
def test_a_case_is_what_a_naive_twin_says(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str | None, str | None, str | None, bool]]
) -> None:
    cases = made_at(tmp_path_factory.mktemp("cases"))
    cases.create_case("T", who="ada")
    twin: dict[str, str | None] = {"state": "open", "assignee": None, "title": "T"}
    version = 1
    for state, assignee, title, stale in changes:
        wanted = {"state": state, "title": title} | ({} if assignee == "keep" else {"assignee": assignee})
        new = {**twin, **{k: v for k, v in wanted.items() if v is not None or k == "assignee"}}
        allowed = new != twin and (new["state"] == twin["state"] or new["state"] in NEXT_STATES[twin["state"]])  # type: ignore[index]
        allowed = allowed and (twin["state"] != "resolved" or state == "open") and not stale
        fields = {} if assignee == "keep" else {"assignee": assignee}
        change = CaseChange(state=state, title=title, **fields)  # type: ignore[arg-type]
        try:
            cases.change_case("case-1", version - stale, change, "ada")
        except (ChangedError, NotTakenError):
            assert not allowed
        else:
            assert allowed
            twin, version = new, version + 1
        found = cases.case("case-1")
        assert (found.state, found.assignee, found.title, found.version) == (
            *(twin[k] for k in ("state", "assignee", "title")),
            version,
        )
    cases.close()
