"""The reports of lint, word for word; and rules in which it must find nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from crossline.analysis.lint import KINDS
from crossline.analysis.ruleset_lint import lint
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.cli.rules.lint import place
from crossline.rule_registry.rule_files import read_placed_rules
from crossline.rules.base import Defaults
from crossline.rules.registry import rule_types
from crossline.rules.rule_reader import load_rules_text

FOLDER = Path(__file__).parents[2] / "golden" / "workbench"
STREAMS = load_streams((FOLDER / "stream.yaml").read_text(), "stream.yaml")


def test_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    items = read_placed_rules(Path("lint.yaml"))
    placed = {each.rule.rule_id: each for each in items}
    found = lint([each.rule for each in items], STREAMS, Defaults())
    text = "\n\n".join(place(each, placed[each.rule_id]).render() for each in found) + "\n"
    expected = FOLDER / "lint.txt"
    if not expected.exists():
        expected.write_text(text)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert text == expected.read_text()
    assert {each.kind for each in found} == set(KINDS)


def test_graver_rules_are_not_needless() -> None:
    text = (FOLDER / "lint.yaml").read_text()
    items = load_rules_text(text, "lint.yaml", STREAMS)
    found = lint([each.rule for each in items], STREAMS, Defaults())
    assert "twenty_and_graver" not in {each.rule_id for each in found}


def test_of_equals_the_later_is_reported() -> None:
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
    cards = Path(__file__).parents[3] / "src/crossline/cli/templates/cards/stream.yaml"
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


def _slot(rule_id: str, key: str) -> float:
    """As docs/semantics.md says it: of 100."""
    return int(hashlib.sha256(f"{rule_id}\x1f{key}".encode()).hexdigest()[:16], 16) / 2**64 * 100


SHARED = """\
- rule_id: often
  version: 2
  rule_type: velocity
  source_topic: payments
  group_by: card
  aggregation_type: count
  aggregation_threshold: 3
  window: 1h
  share: {share}
"""


def shares(text: str, before: str = "") -> list[tuple[str, str, str]]:
    rules = [each.rule for each in load_rules_text(text, "r.yaml", STREAMS)]
    older = {each.rule.rule_id: each.rule for each in load_rules_text(before, "r.yaml", STREAMS)} if before else {}
    found = lint(rules, STREAMS, Defaults(), older)
    return [(each.what, each.why, each.todo) for each in found if each.kind == "odd_share"]


@pytest.mark.parametrize(
    ("share", "status", "what"),
    [
        ("0%", "active", "share 0%: version 2 decides about no key"),
        ("100%", "active", "share 100% is all keys, as no share is"),
        ("10%", "active", None),
        ("0%", "shadow", None),
        ("100%", "paused", None),
        ("10%", "draft", None),
    ],
)
def test_a_share_of_none_or_all_keys(share: str, status: str, what: str | None) -> None:
    found = shares(SHARED.format(share=share) + f"  status: {status}\n")
    assert [each[0] for each in found] == ([] if what is None else [what])


def test_a_share_that_has_none_or_each_of_few_values() -> None:
    """The slots of the values are worked out here as the documentation publishes them."""
    slots = {value: _slot("often", f'{{"status":"{value}"}}') for value in ("declined", "settled", "spare")}
    low, high = min(slots.values()), max(slots.values())
    assert 1 < low < high < 99, slots
    named = "  conditions: [{field: status, operator: in, value: [declined, settled, spare]}]\n"
    text = SHARED.replace("card", "status") + named

    def found(share: float) -> list[str]:
        return [each[0] for each in shares(text.replace("{share}", percent(share)))]

    def percent(share: float) -> str:
        return f"{share:.2f}".rstrip("0").rstrip(".") + "%"

    there = "status has 3 values here"
    assert found(low - 0.5) == [f"share {percent(low - 0.5)} reaches no key: {there}, and none of their slots is in it"]
    assert found(low + 0.5) == []
    assert found(high - 0.5) == []
    assert found(high + 0.5) == [f"share {percent(high + 0.5)} reaches all: {there}, and all of their slots are in it"]
    free = text.replace("operator: in, value: [declined, settled, spare]", "operator: '!=', value: open")
    assert shares(free.replace("{share}", "0.01%")) == [], "other values may come"


def test_a_share_beside_a_version_that_has_other_keys() -> None:
    text = SHARED.format(share="10%")
    whole = text.replace("version: 2", "version: 1").replace("  share: 10%\n", "")
    assert shares(text, whole) == []
    by_status = shares(text, whole.replace("card", "status"))
    assert by_status == [
        (
            "share 10% of keys by card, and version 1, which has the others, has keys by status",
            "a record has both keys: both versions may decide about it, or neither",
            "the key of the version before; or an id of its own; or no share",
        )
    ]
    assert shares(SHARED.format(share="0%") + "  status: shadow\n", whole.replace("card", "status")) == []


def test_a_share_beside_a_version_that_reads_another_stream() -> None:
    (item,) = load_rules_text(SHARED.format(share="10%"), "r.yaml", STREAMS)
    before = item.rule.model_copy(update={"version": 1, "share": None, "source_topic": "logins"})
    (found,) = lint([item.rule], STREAMS, Defaults(), {"often": before})
    text = "share 10% of payments, and version 1, which is to have the other keys, reads logins"
    assert (found.kind, found.what) == ("odd_share", text)
    assert "no version decides about the other keys" in found.why


def test_a_rule_for_a_share_makes_no_other_one_needless() -> None:
    wide = SHARED.format(share="50%")
    narrow = wide.replace("often", "rarer").replace("threshold: 3", "threshold: 30")
    every = wide.replace("  share: 50%\n", "")

    def needless(text: str) -> list[str]:
        rules = [each.rule for each in load_rules_text(text, "r.yaml", STREAMS)]
        return [each.rule_id for each in lint(rules, STREAMS, Defaults()) if each.kind == "subsumed"]

    assert needless(every + narrow) == ["rarer"]
    assert needless(wide + narrow) == [], "its keys are others: the slot of a key is of the rule's id"
    assert needless(wide + narrow.replace("  share: 50%\n", "")) == []
