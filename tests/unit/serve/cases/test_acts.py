"""What people do with cases, one at a time and many at once, and how it is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.serve.cases.casekit import HOUR, START, Harness, alert

from crossline.serve.cases.actions.undo import UNDO_MS
from crossline.serve.cases.actions.values import CaseAction
from crossline.serve.cases.queue.filters import QueueFilter
from crossline.serve.cases.values import ChangedError, NoSuchCaseError, NotTakenError


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    made = Harness(tmp_path)
    made.take(alert("x1"), alert("x2", START + 1), alert("y1", account="a2"), alert("z1", account="a3"))
    yield made
    made.close()


def state_of(harness: Harness, case_id: str = "C-1") -> tuple[str, str | None]:
    case = harness.service.case(case_id)
    return case["status"], case["assignee"]


def test_assigning_acknowledges_and_is_undone(harness: Harness) -> None:
    taken = harness.service.act("C-1", CaseAction("assign"), "ada", 2)
    assert (taken["status"], taken["assignee"], taken["version"]) == ("acknowledged", "ada", 3)
    with pytest.raises(ChangedError) as stale:
        harness.service.act("C-1", CaseAction("assign", to="bob"), "bob", 2)
    assert stale.value.version == 3
    assert harness.service.act("C-1", CaseAction("assign", to="bob"), "ada")["assignee"] == "bob"
    with pytest.raises(NotTakenError, match="changes nothing"):
        harness.service.act("C-1", CaseAction("assign", to="bob"), "ada")
    with pytest.raises(NotTakenError, match="one's own last act"):
        harness.service.act("C-1", CaseAction("undo"), "bob")
    assert harness.service.act("C-1", CaseAction("undo"), "ada")["assignee"] == "ada"
    with pytest.raises(NotTakenError, match="was changed since"):
        harness.service.act("C-1", CaseAction("undo"), "ada")
    assert harness.service.act("C-1", CaseAction("unassign"), "ada")["status"] == "open"
    assert [each["text"] for each in harness.service.case("C-1")["activity"]][-2:] == ["undo of assign", ""]


def test_an_act_is_undone_within_a_time_and_before_anything_else(harness: Harness) -> None:
    harness.service.act("C-1", CaseAction("assign"), "ada")
    harness.now_ms += UNDO_MS + 1
    with pytest.raises(NotTakenError, match="long ago"):
        harness.service.act("C-1", CaseAction("undo"), "ada")
    harness.service.act("C-1", CaseAction("escalate", to="oda"), "ada")
    harness.take(alert("x3", START + 2))
    with pytest.raises(NotTakenError, match="was changed since"):
        harness.service.act("C-1", CaseAction("undo"), "ada")
    with pytest.raises(NotTakenError, match="an act on this case before it"):
        harness.service.act("C-2", CaseAction("undo"), "ada")


def test_a_snooze_ends_by_itself_or_with_a_new_alert(harness: Harness) -> None:
    harness.service.act("C-1", CaseAction("assign"), "ada")
    harness.service.act("C-1", CaseAction("snooze", until_ms=START + HOUR), "ada")
    harness.service.act("C-2", CaseAction("snooze", until_ms=START + HOUR), "ada")
    harness.service.act("C-3", CaseAction("snooze"), "ada")
    assert harness.service.counts("ada")["snoozed"] == {"count": 3, "more": False}
    assert harness.service.counts("ada")["open"] == {"count": 0, "more": False}
    harness.take(alert("y2", START + 1, account="a2"), alert("z2", START + 1, account="a3"))
    assert (state_of(harness), state_of(harness, "C-2")) == (("snoozed", "ada"), ("open", None))
    assert state_of(harness, "C-3") == ("open", None)
    harness.now_ms = START + HOUR - 1
    assert state_of(harness) == ("snoozed", "ada")
    harness.now_ms = START + HOUR
    assert state_of(harness) == ("acknowledged", "ada")
    assert harness.service.due_ms() is None
    for until_ms in (START, START + 400 * 24 * HOUR):
        with pytest.raises(NotTakenError, match="/until"):
            harness.service.act("C-1", CaseAction("snooze", until_ms=until_ms), "ada")


def test_escalated_is_out_of_the_inbox_of_all_but_the_receiver(harness: Harness) -> None:
    case = harness.service.act("C-1", CaseAction("escalate", to="oda", reason="too large for me"), "ada")
    assert (case["status"], case["escalated_to"]) == ("escalated", "oda")
    assert [each["number"] for each in harness.service.page(QueueFilter(view="mine"), "oda").items] == ["C-1"]
    assert harness.service.counts("ada")["open"]["count"] == 2
    harness.take(alert("x9", START + 9))
    assert state_of(harness) == ("escalated", None), "an alert that joins leaves it there"


def test_a_label_goes_on_every_record_and_is_taken_back(harness: Harness) -> None:
    harness.cases.put_label("payments", "r-x2", False, who="eve", reason="known customer")
    done = harness.service.act("C-1", CaseAction("resolve", label="fraud", reason="called"), "ada")
    assert (done["status"], done["label"]) == ("resolved", "fraud")
    found = [harness.cases.label("payments", name) for name in ("r-x1", "r-x2", "r-y1")]
    assert [each and (each.is_fraud, each.case_id) for each in found] == [(True, "C-1"), (True, "C-1"), None]
    with pytest.raises(NotTakenError, match="reopen"):
        harness.service.act("C-1", CaseAction("assign"), "ada")
    harness.service.act("C-1", CaseAction("undo"), "ada")
    assert state_of(harness) == ("open", None)
    assert harness.cases.label("payments", "r-x1") is None
    assert harness.cases.label("payments", "r-x2").is_fraud is False  # type: ignore[union-attr]  # it is there
    assert [(each.record_id, each.is_fraud) for each in harness.cases.labels()] == [("r-x2", False)]
    assert [each.withdrawn for each in harness.cases.label_history("payments", "r-x1")] == [False, True]
    assert harness.cases.put_label("payments", "r-x1", True, who="bob", version=0).version == 3


def test_a_note_is_taken_back(harness: Harness) -> None:
    harness.service.act("C-1", CaseAction("note", text="called"), "ada")
    harness.service.act("C-1", CaseAction("note", text="wrong case"), "ada")
    assert [each["text"] for each in harness.service.act("C-1", CaseAction("undo"), "ada")["notes"]] == ["called"]
    assert [each.text for each in harness.cases.notes("C-1")] == ["called"]


def test_cases_are_merged_and_parted_again(harness: Harness) -> None:
    harness.service.act("C-2", CaseAction("note", text="seen"), "eve")
    merged = harness.service.act("C-1", CaseAction("merge", case_ids=("C-2", "C-3")), "ada")
    assert [each["alert_id"] for each in merged["alerts"]] == ["x1", "y1", "z1", "x2"]
    assert (merged["merged"], [each["text"] for each in merged["notes"]]) == (["C-2", "C-3"], ["seen"])
    gone = harness.service.case("C-2")
    assert (gone["status"], gone["merged_into"], gone["alerts"]) == ("merged", "C-1", [])
    with pytest.raises(NotTakenError, match="act on C-1"):
        harness.service.act("C-2", CaseAction("assign"), "ada")
    harness.service.act("C-1", CaseAction("undo"), "ada")
    assert [each["alert_id"] for each in harness.service.case("C-2")["alerts"]] == ["y1"]
    assert (state_of(harness, "C-2"), state_of(harness, "C-3")) == (("open", None), ("open", None))
    harness.take(alert("y2", account="a2"))
    assert harness.service.case("C-2")["alert_count"] == 2
    with pytest.raises(NotTakenError, match="no other case"):
        harness.service.act("C-1", CaseAction("merge", case_ids=("C-1",)), "ada")
    with pytest.raises(NoSuchCaseError):
        harness.service.act("C-1", CaseAction("merge", case_ids=("C-99",)), "ada")


def test_a_case_that_was_merged_twice_says_where_it_ended(harness: Harness) -> None:
    harness.service.act("C-2", CaseAction("merge", case_ids=("C-3",)), "ada")
    harness.service.act("C-1", CaseAction("merge", case_ids=("C-2",)), "ada")
    assert harness.service.case("C-3")["merged_into"] == "C-1"
    assert harness.service.case("C-1")["merged"] == ["C-2", "C-3"]


def test_an_alert_gets_a_case_of_its_own_and_comes_back(harness: Harness) -> None:
    left = harness.service.act("C-1", CaseAction("detach", alert_id="x1"), "ada")
    assert [each["alert_id"] for each in left["alerts"]] == ["x2"]
    assert harness.service.case("C-4")["sentence"] == "a1 made a burst (x1)"
    with pytest.raises(NotTakenError, match="only alert"):
        harness.service.act("C-1", CaseAction("detach", alert_id="x2"), "ada")
    harness.service.act("C-1", CaseAction("undo"), "ada")
    assert harness.service.case("C-4")["merged_into"] == "C-1"
    assert harness.service.case("C-1")["alert_count"] == 2
    assert harness.service.act("C-1", CaseAction("detach", alert_id="x1"), "ada")["alert_count"] == 1


def test_many_at_once_with_their_count(harness: Harness) -> None:
    harness.service.act("C-2", CaseAction("resolve"), "ada")
    done = harness.service.bulk(["C-1", "C-2", "C-9", "C-1", "C-3"], CaseAction("assign"), "ada", 4)
    assert (done["count"], [each["case_id"] for each in done["done"]]) == (2, ["C-1", "C-3"])
    assert [each["case_id"] for each in done["refused"]] == ["C-9", "C-2"]
    assert harness.service.bulk(QueueFilter(view="mine"), CaseAction("undo"), "ada")["count"] == 2
    with pytest.raises(NotTakenError, match="2, for so many"):
        harness.service.bulk(QueueFilter(view="open"), CaseAction("resolve", label="good"), "ada", 3)
    assert harness.service.bulk(QueueFilter(view="open"), CaseAction("resolve", label="good"), "ada", 2)["count"] == 2
    assert len(list(harness.cases.labels())) == 3
    assert harness.service.bulk(["C-3", "C-1"], CaseAction("reopen"), "ada")["count"] == 2
    merged = harness.service.bulk(["C-3", "C-1"], CaseAction("merge"), "ada")
    assert merged["done"][0]["case_id"] == "C-1"
    assert harness.service.case("C-3")["merged_into"] == "C-1"


def test_more_than_a_hundred_need_their_count(harness: Harness) -> None:
    harness.take(*(alert(f"n{number}", account=f"n{number}") for number in range(101)))
    with pytest.raises(NotTakenError, match="found nothing; expected 104"):
        harness.service.bulk(QueueFilter(), CaseAction("assign"), "ada")
    assert harness.service.bulk(QueueFilter(), CaseAction("assign"), "ada", 104)["count"] == 104


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
def test_an_act_that_cannot_be_changes_nothing(harness: Harness, act: CaseAction) -> None:
    before = harness.service.case("C-1")
    with pytest.raises(NotTakenError):
        harness.service.act("C-1", act, "ada")
    assert harness.service.case("C-1") == before
