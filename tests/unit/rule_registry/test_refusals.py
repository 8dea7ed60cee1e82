"""What is refused at a start is known, with how many rules that takes; and no start judges by nothing in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.times import BEGINNING_MS
from crossline.rule_registry.directory import log_path

from .desk import Desk, rule

WRONG = rule("wrong").replace("amount", "amuont")


def refused(desk: Desk) -> dict[str, tuple[int | None, bool]]:
    """By file: how many rules it takes with it, and whether the report names the field."""
    found = desk.log.refusals
    return {name: (event.count, "did you mean amount?" in str(event.text)) for name, event in found.items()}


def test_a_start_knows_what_it_refused_and_how_many_rules_that_takes(desk: Desk) -> None:
    desk.write("a.yaml", rule("good"))
    desk.write("b.yaml", rule("one"), WRONG, rule("three"))
    desk.write("c.yaml", "- [")
    assert len(desk.start()) == 1
    assert refused(desk) == {"b.yaml": (3, True), "c.yaml": (None, False)}
    assert refused(desk) == {"b.yaml": (3, True), "c.yaml": (None, False)}


def test_the_next_start_knows_it_too(desk: Desk) -> None:
    desk.write("a.yaml", rule("good"))
    desk.write("b.yaml", rule("one"), WRONG)
    desk.start()
    desk.restart()
    assert refused(desk) == {"b.yaml": (2, True)}, "before anything is taken up"
    assert desk.take_up()[1] == [], "and it stands in the log once"
    assert refused(desk) == {"b.yaml": (2, True)}
    desk.write("b.yaml", rule("one"))
    desk.take_up()
    assert refused(desk) == {}


def test_a_file_that_changed_while_nothing_ran_is_known_at_the_start(desk: Desk) -> None:
    desk.write("a.yaml", rule("good"))
    desk.start()
    desk.log.close()
    desk.write("a.yaml", rule("good", version=2), WRONG)
    desk.restart()
    assert refused(desk) == {"a.yaml": (2, True)}
    assert [event.event for event in desk.take_up()[1]] == ["refused"]


def test_two_files_that_cannot_stand_together_count_their_rules(desk: Desk) -> None:
    desk.write("a.yaml", rule("one"), rule("two"))
    desk.write("b.yaml", rule("two", amount=7), rule("three"), rule("four"))
    desk.start()
    assert {name: event.count for name, event in desk.log.refusals.items()} == {"b.yaml": 3}


def test_a_start_without_a_rule_ends_and_logs_nothing(desk: Desk) -> None:
    desk.write("a.yaml", rule("one"), WRONG, rule("three"))
    with pytest.raises(PermanentError) as raised:
        desk.log.start(desk.now_ms, allow_no_rules=False)
    assert raised.value.exit_code == 1
    text = str(raised.value)
    assert "no rule is left to judge by" in text
    assert "a.yaml is refused with all its 3 rules" in text
    assert "did you mean amount?" in text
    assert "--allow-no-rules" in text
    assert log_path(desk.folder, "p").read_text() == ""
    desk.write("a.yaml", rule("one"), rule("three"))
    rules = desk.log.start(desk.now_ms, allow_no_rules=False)
    assert [each.effective_from_ms for each in rules.versions] == [BEGINNING_MS] * 2, "as at a first start"


def test_an_empty_folder_is_reported_too(desk: Desk) -> None:
    with pytest.raises(PermanentError, match="found no rule; expected one or more"):
        desk.log.start(desk.now_ms, allow_no_rules=False)
    assert len(desk.log.start(desk.now_ms, allow_no_rules=True)) == 0


@pytest.mark.parametrize("status", ["draft", "paused", "retired"])
def test_rules_that_somebody_stopped_are_no_fault(desk: Desk, status: str) -> None:
    desk.write("a.yaml", rule("one", status=status))
    assert len(desk.log.start(desk.now_ms, allow_no_rules=False)) == 0
    desk.log.close()
    desk.write("b.yaml", WRONG)
    with pytest.raises(PermanentError, match="no rule is left to judge by: one file is refused"):
        desk.log.start(desk.now_ms, allow_no_rules=False)


def test_the_last_good_version_is_a_rule_that_is_left(desk: Desk) -> None:
    desk.write("a.yaml", rule("one"))
    desk.start()
    desk.log.close()
    desk.write("a.yaml", rule("one", version=2), WRONG)
    assert len(desk.log.start(desk.now_ms, allow_no_rules=False)) == 1


def test_a_rule_that_came_while_nothing_ran_is_a_rule(desk: Desk) -> None:
    desk.log.start(desk.now_ms, allow_no_rules=True)
    desk.log.close()
    desk.write("a.yaml", rule("one"))
    assert len(desk.log.start(desk.now_ms, allow_no_rules=False)) == 0, "it holds once it is taken up"
    assert [event.event for event in desk.take_up()[1]] == ["published"]


def test_a_wrong_figure_takes_the_rules_that_name_it(desk: Desk, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    figures.mkdir()
    desk.figures = figures
    figure = (
        "{kind: figure, figure_id: n, version: 1, source_topic: payments, sum: amuont, group_by: account, window: 1m}"
    )
    (figures / "n.yaml").write_text(figure, encoding="utf-8")
    desk.write(
        "a.yaml",
        "{rule_id: f, version: 1, rule_type: formula, source_topic: payments, when: n > 3, figures: {n: {figure: n}}}",
    )
    desk.write("b.yaml", rule("good"))
    desk.restart()
    body = {Path(name).name: event.count for name, event in desk.log.refusals.items()}
    assert body == {"a.yaml": 1, "n.yaml": None}
