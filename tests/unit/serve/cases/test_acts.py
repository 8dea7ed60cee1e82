"""What people do with cases, one at a time and many at once, and how it is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.serve.cases.casekit import HOUR, START, Desk, alert

from crossline.serve.cases.actions.undo import UNDO_MS
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.values import ChangedError, NoSuchCaseError, NotTakenError


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    made.take(alert("x1"), alert("x2", START + 1), alert("y1", account="a2"), alert("z1", account="a3"))
    yield made
    made.close()


def state_of(desk: Desk, case_id: str = "C-1") -> tuple[str, str | None]:
    case = desk.desk.case(case_id)
    return case["status"], case["assignee"]


def test_assigning_acknowledges_and_is_undone(desk: Desk) -> None:
    taken = desk.desk.act("C-1", CaseAction("assign"), "ada", 2)
    assert (taken["status"], taken["assignee"], taken["version"]) == ("acknowledged", "ada", 3)
    with pytest.raises(ChangedError) as stale:
        desk.desk.act("C-1", CaseAction("assign", to="bob"), "bob", 2)
    assert stale.value.version == 3
    assert desk.desk.act("C-1", CaseAction("assign", to="bob"), "ada")["assignee"] == "bob"
    with pytest.raises(NotTakenError, match="changes nothing"):
        desk.desk.act("C-1", CaseAction("assign", to="bob"), "ada")
    with pytest.raises(NotTakenError, match="one's own last act"):
        desk.desk.act("C-1", CaseAction("undo"), "bob")
    assert desk.desk.act("C-1", CaseAction("undo"), "ada")["assignee"] == "ada"
    with pytest.raises(NotTakenError, match="was changed since"):
        desk.desk.act("C-1", CaseAction("undo"), "ada")
    assert desk.desk.act("C-1", CaseAction("unassign"), "ada")["status"] == "open"
    assert [each["text"] for each in desk.desk.case("C-1")["activity"]][-2:] == ["undo of assign", ""]


def test_an_act_is_undone_within_a_time_and_before_anything_else(desk: Desk) -> None:
    desk.desk.act("C-1", CaseAction("assign"), "ada")
    desk.now_ms += UNDO_MS + 1
    with pytest.raises(NotTakenError, match="long ago"):
        desk.desk.act("C-1", CaseAction("undo"), "ada")
    desk.desk.act("C-1", CaseAction("escalate", to="oda"), "ada")
    desk.take(alert("x3", START + 2))
    with pytest.raises(NotTakenError, match="was changed since"):
        desk.desk.act("C-1", CaseAction("undo"), "ada")
    with pytest.raises(NotTakenError, match="an act on this case before it"):
        desk.desk.act("C-2", CaseAction("undo"), "ada")


def test_a_snooze_ends_by_itself_or_with_a_new_alert(desk: Desk) -> None:
    desk.desk.act("C-1", CaseAction("assign"), "ada")
    desk.desk.act("C-1", CaseAction("snooze", until_ms=START + HOUR), "ada")
    desk.desk.act("C-2", CaseAction("snooze", until_ms=START + HOUR), "ada")
    desk.desk.act("C-3", CaseAction("snooze"), "ada")
    assert desk.desk.counts("ada")["snoozed"] == {"count": 3, "more": False}
    assert desk.desk.counts("ada")["open"] == {"count": 0, "more": False}
    desk.take(alert("y2", START + 1, account="a2"), alert("z2", START + 1, account="a3"))
    assert (state_of(desk), state_of(desk, "C-2")) == (("snoozed", "ada"), ("open", None))
    assert state_of(desk, "C-3") == ("open", None)
    desk.now_ms = START + HOUR - 1
    assert state_of(desk) == ("snoozed", "ada")
    desk.now_ms = START + HOUR
    assert state_of(desk) == ("acknowledged", "ada")
    assert desk.desk.due_ms() is None
    for until_ms in (START, START + 400 * 24 * HOUR):
        with pytest.raises(NotTakenError, match="/until"):
            desk.desk.act("C-1", CaseAction("snooze", until_ms=until_ms), "ada")


def test_escalated_is_out_of_the_inbox_of_all_but_the_receiver(desk: Desk) -> None:
    case = desk.desk.act("C-1", CaseAction("escalate", to="oda", reason="too large for me"), "ada")
    assert (case["status"], case["escalated_to"]) == ("escalated", "oda")
    assert [each["number"] for each in desk.desk.page(QueueFilter(view="mine"), "oda").items] == ["C-1"]
    assert desk.desk.counts("ada")["open"]["count"] == 2
    desk.take(alert("x9", START + 9))
    assert state_of(desk) == ("escalated", None), "an alert that joins leaves it there"


def test_a_label_goes_on_every_record_and_is_taken_back(desk: Desk) -> None:
    desk.cases.put_label("payments", "r-x2", False, who="eve", reason="known customer")
    done = desk.desk.act("C-1", CaseAction("resolve", label="fraud", reason="called"), "ada")
    assert (done["status"], done["label"]) == ("resolved", "fraud")
    found = [desk.cases.label("payments", name) for name in ("r-x1", "r-x2", "r-y1")]
    assert [each and (each.is_fraud, each.case_id) for each in found] == [(True, "C-1"), (True, "C-1"), None]
    with pytest.raises(NotTakenError, match="reopen"):
        desk.desk.act("C-1", CaseAction("assign"), "ada")
    desk.desk.act("C-1", CaseAction("undo"), "ada")
    assert state_of(desk) == ("open", None)
    assert desk.cases.label("payments", "r-x1") is None
    assert desk.cases.label("payments", "r-x2").is_fraud is False  # type: ignore[union-attr]  # it is there
    assert [(each.record_id, each.is_fraud) for each in desk.cases.labels()] == [("r-x2", False)]
    assert [each.withdrawn for each in desk.cases.label_history("payments", "r-x1")] == [False, True]
    assert desk.cases.put_label("payments", "r-x1", True, who="bob", version=0).version == 3


def test_a_note_is_taken_back(desk: Desk) -> None:
    desk.desk.act("C-1", CaseAction("note", text="called"), "ada")
    desk.desk.act("C-1", CaseAction("note", text="wrong case"), "ada")
    assert [each["text"] for each in desk.desk.act("C-1", CaseAction("undo"), "ada")["notes"]] == ["called"]
    assert [each.text for each in desk.cases.notes("C-1")] == ["called"]


def test_cases_are_merged_and_parted_again(desk: Desk) -> None:
    desk.desk.act("C-2", CaseAction("note", text="seen"), "eve")
    merged = desk.desk.act("C-1", CaseAction("merge", case_ids=("C-2", "C-3")), "ada")
    assert [each["alert_id"] for each in merged["alerts"]] == ["x1", "y1", "z1", "x2"]
    assert (merged["merged"], [each["text"] for each in merged["notes"]]) == (["C-2", "C-3"], ["seen"])
    gone = desk.desk.case("C-2")
    assert (gone["status"], gone["merged_into"], gone["alerts"]) == ("merged", "C-1", [])
    with pytest.raises(NotTakenError, match="act on C-1"):
        desk.desk.act("C-2", CaseAction("assign"), "ada")
    desk.desk.act("C-1", CaseAction("undo"), "ada")
    assert [each["alert_id"] for each in desk.desk.case("C-2")["alerts"]] == ["y1"]
    assert (state_of(desk, "C-2"), state_of(desk, "C-3")) == (("open", None), ("open", None))
    desk.take(alert("y2", account="a2"))
    assert desk.desk.case("C-2")["alert_count"] == 2
    with pytest.raises(NotTakenError, match="no other case"):
        desk.desk.act("C-1", CaseAction("merge", case_ids=("C-1",)), "ada")
    with pytest.raises(NoSuchCaseError):
        desk.desk.act("C-1", CaseAction("merge", case_ids=("C-99",)), "ada")


def test_a_case_that_was_merged_twice_says_where_it_ended(desk: Desk) -> None:
    desk.desk.act("C-2", CaseAction("merge", case_ids=("C-3",)), "ada")
    desk.desk.act("C-1", CaseAction("merge", case_ids=("C-2",)), "ada")
    assert desk.desk.case("C-3")["merged_into"] == "C-1"
    assert desk.desk.case("C-1")["merged"] == ["C-2", "C-3"]


def test_an_alert_gets_a_case_of_its_own_and_comes_back(desk: Desk) -> None:
    left = desk.desk.act("C-1", CaseAction("detach", alert_id="x1"), "ada")
    assert [each["alert_id"] for each in left["alerts"]] == ["x2"]
    assert desk.desk.case("C-4")["sentence"] == "a1 made a burst (x1)"
    with pytest.raises(NotTakenError, match="only alert"):
        desk.desk.act("C-1", CaseAction("detach", alert_id="x2"), "ada")
    desk.desk.act("C-1", CaseAction("undo"), "ada")
    assert desk.desk.case("C-4")["merged_into"] == "C-1"
    assert desk.desk.case("C-1")["alert_count"] == 2
    assert desk.desk.act("C-1", CaseAction("detach", alert_id="x1"), "ada")["alert_count"] == 1


def test_many_at_once_with_their_count(desk: Desk) -> None:
    desk.desk.act("C-2", CaseAction("resolve"), "ada")
    done = desk.desk.bulk(["C-1", "C-2", "C-9", "C-1", "C-3"], CaseAction("assign"), "ada", 4)
    assert (done["count"], [each["case_id"] for each in done["done"]]) == (2, ["C-1", "C-3"])
    assert [each["case_id"] for each in done["refused"]] == ["C-9", "C-2"]
    assert desk.desk.bulk(QueueFilter(view="mine"), CaseAction("undo"), "ada")["count"] == 2
    with pytest.raises(NotTakenError, match="2, for so many"):
        desk.desk.bulk(QueueFilter(view="open"), CaseAction("resolve", label="good"), "ada", 3)
    assert desk.desk.bulk(QueueFilter(view="open"), CaseAction("resolve", label="good"), "ada", 2)["count"] == 2
    assert len(list(desk.cases.labels())) == 3
    assert desk.desk.bulk(["C-3", "C-1"], CaseAction("reopen"), "ada")["count"] == 2
    merged = desk.desk.bulk(["C-3", "C-1"], CaseAction("merge"), "ada")
    assert merged["done"][0]["case_id"] == "C-1"
    assert desk.desk.case("C-3")["merged_into"] == "C-1"


def test_more_than_a_hundred_need_their_count(desk: Desk) -> None:
    desk.take(*(alert(f"n{number}", account=f"n{number}") for number in range(101)))
    with pytest.raises(NotTakenError, match="found nothing; expected 104"):
        desk.desk.bulk(QueueFilter(), CaseAction("assign"), "ada")
    assert desk.desk.bulk(QueueFilter(), CaseAction("assign"), "ada", 104)["count"] == 104


@pytest.mark.parametrize(
    "act",
    [
        CaseAction("fly"),  # type: ignore[arg-type]
        CaseAction("note"),
        CaseAction("note", text=""),
        CaseAction("escalate"),
        CaseAction("assign", label="fraud"),
        CaseAction("resolve", label="bad"),
        CaseAction("reopen"),
        CaseAction("detach", alert_id="none"),
    ],
    ids=str,
)
def test_an_act_that_cannot_be_changes_nothing(desk: Desk, act: CaseAction) -> None:
    before = desk.desk.case("C-1")
    with pytest.raises(NotTakenError):
        desk.desk.act("C-1", act, "ada")
    assert desk.desk.case("C-1") == before
