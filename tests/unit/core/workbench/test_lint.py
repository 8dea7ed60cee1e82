"""The reports of lint, word for word; and rules in which it must find nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.cli.rules.lint import place
from crossline.core.rules.base import Defaults
from crossline.core.rules.registry import rule_types
from crossline.core.rules.ruleset import load_rules_text
from crossline.core.streams.schema import load_streams
from crossline.core.texts.problems import RefusedError
from crossline.core.workbench.lint import KINDS, lint
from crossline.rulelog.reading import read_placed_rules

FOLDER = Path(__file__).parents[3] / "golden" / "workbench"
STREAMS = load_streams((FOLDER / "stream.yaml").read_text(), "stream.yaml")


def test_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    items = read_placed_rules(Path("lint.yaml"))
    placed = {each.rule.rule_id: each for each in items}
    found = lint([each.rule for each in items], STREAMS, Defaults())
    told = "\n\n".join(place(each, placed[each.rule_id]).render() for each in found) + "\n"
    expected = FOLDER / "lint.txt"
    if not expected.exists():
        expected.write_text(told)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert told == expected.read_text()
    assert {each.kind for each in found} == set(KINDS)


def test_graver_rules_are_not_needless() -> None:
    text = (FOLDER / "lint.yaml").read_text()
    items = load_rules_text(text, "lint.yaml", STREAMS)
    found = lint([each.rule for each in items], STREAMS, Defaults())
    assert "twenty_and_graver" not in {each.rule_id for each in found}


def test_of_equals_the_later_is_told() -> None:
    body = "rule_type: threshold, source_topic: payments, conditions: [{field: amount, operator: '>', value: 5}]"
    text = "\n".join(f"- {{rule_id: {name}, version: 1, {body}}}" for name in ("b", "a", "c"))
    items = load_rules_text(text, "r.yaml", STREAMS)
    found = lint([each.rule for each in items], STREAMS, Defaults())
    assert [(each.rule_id, each.kind) for each in found] == [("a", "subsumed"), ("c", "subsumed")]


def test_the_window_is_held_against_the_delay_of_the_rule() -> None:
    text = """\
rule_id: r
version: 1
rule_type: velocity
source_topic: payments
aggregation_type: count
aggregation_threshold: 3
window: 10s
"""
    for more, kinds in (
        ("", ["short_window"]),
        ("watermark_delay: 10s\n", []),
        ("watermark_delay: 11s\n", ["short_window"]),
        ("time_mode: processing_time\n", []),
    ):
        (item,) = load_rules_text(text + more, "r.yaml", STREAMS)
        assert [each.kind for each in lint([item.rule], STREAMS, Defaults())] == kinds


@pytest.mark.parametrize("name", rule_types())
def test_the_examples_of_types_are_clean(name: str) -> None:
    """Where an example fits the stream of the cards that ``crossline demo`` has."""
    cards = Path(__file__).parents[4] / "src/crossline/cli/templates/cards/stream.yaml"
    streams = load_streams(cards.read_text(), "stream.yaml")
    try:
        items = load_rules_text(rule_types()[name].example, "example.yaml", streams)
    except RefusedError:
        pytest.skip("it is written for another stream")
    assert lint([each.rule for each in items], streams, Defaults()) == []
