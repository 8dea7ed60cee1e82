"""A tripped rule is shadow in the log, whatever its file says, until a person sets its status."""

from __future__ import annotations

import pytest

from crossline.basics.errors import PermanentError
from crossline.evaluate.alerts.breaker import BreakerTrip
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.history import History
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.publish import RuleFolder
from crossline.rules.breaker import Bound
from crossline.rules.ruleset import RuleSet

from .harness import Harness, rule

TRIP = BreakerTrip("large", 1, 1_001, 60_000, Bound(1_000, 60_000))
HIGHEST = {"payments": 75_000}


def kinds(rules: RuleSet) -> list[tuple[int, str, int]]:
    return [(each.rule.version, each.kind, each.effective_from_ms) for each in rules.versions][1:]


def test_a_trip_holds_from_just_after_what_was_judged(harness: Harness) -> None:
    """Also where the wall clock is far ahead: records that wait are of a time when it flooded."""
    harness.write("r.yaml", rule())
    harness.start()
    rules, (event,) = harness.log.trip([TRIP], HIGHEST, 10**9)
    assert kinds(rules) == [(1, "shadow", 75_001)]
    assert (event.event, event.who, event.count, event.status) == ("tripped", "breaker", 1_001, "shadow")
    assert "1,001 alerts at records ingested in the 60 s from 1970-01-01T00:01:00.000Z on" in str(event.text)
    assert ruleset_of_log(log_path(harness.folder, "p")) == rules, "what judged is what a replay reads"
    assert harness.log.trip([TRIP], HIGHEST, 10**9)[1] == [], "a batch that is run again trips nothing twice"
    assert kinds(harness.restart()) == [(1, "shadow", 75_001)]
    assert harness.log.trip([TRIP], HIGHEST, 10**9)[1] == []


def test_a_file_with_status_active_does_not_reactivate_it(harness: Harness) -> None:
    harness.write("r.yaml", rule())
    harness.start()
    harness.log.trip([TRIP], HIGHEST, 80_000)
    harness.restart()
    harness.highest_ms, harness.now_ms = 90_000, 90_000
    harness.write("r.yaml", rule(), rule("other"))
    rules, events = harness.take_up()
    assert [(event.event, event.rule_id) for event in events] == [("published", "other")]
    assert [each.kind for each in rules.versions if each.rule.rule_id == "large"] == ["active", "shadow"]


@pytest.mark.parametrize("status", ["shadow", "paused", "retired"])
def test_a_status_set_by_a_person_ends_it(harness: Harness, status: str) -> None:
    harness.write("r.yaml", rule())
    harness.start()
    harness.log.trip([TRIP], HIGHEST, 80_000)
    harness.highest_ms, harness.now_ms = 90_000, 90_000
    harness.write("r.yaml", rule(status=status))
    _, events = harness.take_up()
    assert [(event.event, event.status) for event in events] == [("status_changed", status)]
    if status != "retired":
        harness.highest_ms, harness.now_ms = 95_000, 95_000
        harness.write("r.yaml", rule(status="active"))
        rules, events = harness.take_up()
        assert [(event.event, event.status) for event in events] == [("status_changed", "active")]
        assert kinds(rules)[-1] == (1, "active", 95_001)
        (again,) = harness.log.trip([TRIP], {"payments": 96_000}, 96_000)[1]
        assert again.effective_from_ms == 96_001


def test_another_version_is_active(harness: Harness) -> None:
    harness.write("r.yaml", rule())
    harness.start()
    harness.log.trip([TRIP], HIGHEST, 80_000)
    harness.highest_ms, harness.now_ms = 90_000, 90_000
    harness.write("r.yaml", rule(version=2, amount=5_000))
    rules, _ = harness.take_up()
    assert kinds(rules) == [(1, "shadow", 75_001), (2, "active", 90_001)]
    assert harness.log.trip([TRIP], {"payments": 99_000}, 99_000)[1] == [], "it is not in force"


def test_what_is_not_active_does_not_trip(harness: Harness) -> None:
    harness.write("r.yaml", rule(status="shadow"), rule("gone"))
    harness.start()
    unknown = BreakerTrip("nobody", 1, 5, 0, Bound(1, 60_000))
    assert harness.log.trip([TRIP, unknown], HIGHEST, 80_000)[1] == []
    assert harness.log.trip([], {}, 80_000)[1] == []


def test_the_command_says_how_to_have_it_active_again(harness: Harness) -> None:
    harness.write("r.yaml", rule(status="active"))
    harness.start()
    harness.log.trip([TRIP], HIGHEST, 80_000)
    folder = RuleFolder(harness.folder, [History(read_log(log_path(harness.folder, "p")))])
    with pytest.raises(PermanentError, match=r"the breaker found that it floods.*Set it to shadow first"):
        folder.set_status("large", "active")
    (harness.folder / "r.yaml").rename(harness.folder / ".r.yaml")
    with pytest.raises(PermanentError, match="the breaker found that it floods"):
        folder.set_status("large", "active")
    (harness.folder / ".r.yaml").rename(harness.folder / "r.yaml")
    assert folder.set_status("large", "shadow").change == "status_changed"
    _, events = harness.take_up()
    assert [(event.event, event.status) for event in events] == [("status_changed", "shadow")]
    folder = RuleFolder(harness.folder, [History(read_log(log_path(harness.folder, "p")))])
    assert folder.set_status("large", "active").change == "status_changed"
