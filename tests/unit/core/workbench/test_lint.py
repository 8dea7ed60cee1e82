"""The reports of lint, word for word; and rules in which it must find nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.cli.rules.lint import place
from crossline.core.rules.base import Defaults
from crossline.core.rules.reading import load_rules_text
from crossline.core.rules.registry import rule_types
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


def test_the_window_is_standing_against_the_delay_of_the_rule() -> None:
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


TWO_KEYS = """\
rule_id: {name}
version: 1
rule_type: formula
source_topic: payments
figures:
  mine: {{count: true, group_by: card, window: 10m}}
  theirs: {{count: true, group_by: device, window: {window}}}
when: "mine >= 3 and theirs {line}"
"""


def _two_keys(*given: tuple[str, str, str]) -> list[tuple[str, str]]:
    text = "---\n".join(TWO_KEYS.format(name=name, window=window, line=line) for name, window, line in given)
    rules = [each.rule for part in text.split("---\n") for each in load_rules_text(part, "r.yaml", STREAMS)]
    return [(each.rule_id, each.kind) for each in lint(rules, STREAMS, Defaults())]


def test_figures_of_other_keys_are_figures_too() -> None:
    assert _two_keys(("a", "10m", ">= 3")) == []
    assert _two_keys(("a", "10m", "< 0")) == [("a", "never_true")]
    # A record that has no device has no such figure, and does not meet the line: it is not always met.
    assert _two_keys(("a", "10m", ">= 0")) == []
    assert _two_keys(("a", "10s", ">= 3")) == [("a", "short_window")]
    assert _two_keys(("a", "10m", ">= 3"), ("b", "10m", ">= 5")) == [("b", "subsumed")]
    assert _two_keys(("a", "10m", ">= 3"), ("b", "20m", ">= 5")) == []


@pytest.mark.parametrize(
    ("conditions", "after", "expect", "found"),
    [
        ("> 5", "< 100", "> 50", []),
        ("> 5", "< 5", "> 50", [("never_true", ("after",))]),
        ("> 5", "< 100", "< 3", [("always_true", ("expect",))]),
        ("> 5", "< 3", "< 4", [("never_true", ("after",))]),  # nothing waits, so that nothing is to be answered
    ],
)
def test_absences_that_nothing_begins_and_that_nothing_ends(
    conditions: str, after: str, expect: str, found: list[tuple[str, tuple[str, ...]]]
) -> None:
    def asked(line: str) -> str:
        operator, value = line.split()
        return f'[{{field: amount, operator: "{operator}", value: {value}}}]'

    text = f"""\
rule_id: vain
version: 1
rule_type: absence
source_topic: payments
group_by: card
conditions: {asked(conditions)}
after: {asked(after)}
expect: {asked(expect)}
within: 10m
"""
    items = load_rules_text(text, "r.yaml", STREAMS)
    assert [(each.kind, each.path) for each in lint([each.rule for each in items], STREAMS, Defaults())] == found
