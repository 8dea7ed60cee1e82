"""Figures that rules share: read with the rules' files, and from then on what the log has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crossline import Stream, load_rules
from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rule_registry.publish import RuleFolder
from crossline.rule_registry.rule_files import Known, read_rules
from crossline.rules.base import Defaults
from crossline.rules.figure import FigureFields
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

from .harness import STREAMS, Harness

RULE = """\
rule_id: spender
version: {version}
rule_type: formula
source_topic: payments
status: {status}
figures:
  spent: {figure}
when: spent > 100
"""
FIGURE = """\
- {{kind: figure, figure_id: account_spent, version: {version}, status: {status}, source_topic: payments,
   sum: amount, group_by: account, window: {window}, description: what an account spent}}
"""
Write = Callable[..., None]


@pytest.fixture(params=["beside the rules", "apart"])
def apart(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "apart")


@pytest.fixture
def harness(tmp_path: Path, apart: bool) -> Iterator[Harness]:
    rules, figures = tmp_path / "rules", tmp_path / "figures"
    rules.mkdir()
    figures.mkdir()
    harness = Harness(rules, load_streams(STREAMS, "stream.yaml"), figures if apart else None)
    yield harness
    harness.log.close()


def named_rule(
    harness: Harness, version: int = 1, figure: str = "{figure: account_spent}", status: str = "active"
) -> None:
    harness.write("spender.yaml", RULE.format(version=version, figure=figure, status=status))


def figures(harness: Harness, *given: tuple[int, str, str]) -> None:
    """Versions of the figure: number, window, status."""
    texts = [FIGURE.format(version=version, window=window, status=status) for version, window, status in given]
    (harness.figures or harness.folder).joinpath("figures.yaml").write_text("".join(texts), encoding="utf-8")


def of(rules: RuleSet) -> dict[int, FigureFields]:
    """The figure of each version of the rule."""
    return {each.rule.version: getattr(each.rule, "figures")["spent"] for each in rules.versions}  # noqa: B009


def refusal(harness: Harness) -> str:
    rules, events = harness.take_up()
    assert [event.event for event in events] == ["refused"], events
    assert rules.versions
    return str(events[0].text)


def test_the_log_has_the_definition_whatever_becomes_of_the_file(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    first = harness.start()
    assert (of(first)[1].shared, of(first)[1].version, of(first)[1].window) == ("account_spent", 1, 600_000)
    (harness.figures or harness.folder).joinpath("figures.yaml").unlink()
    assert 'found "account_spent"; expected the id of a shared figure; there are none' in refusal(harness)
    again = harness.restart()
    assert again.to_json() == first.to_json()
    assert ruleset_of_log(log_path(harness.folder, "p")).to_json() == first.to_json()
    assert RuleSet.from_json(first.to_json()).to_json() == first.to_json()


def test_a_version_of_a_figure_has_one_definition(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    first = harness.start()
    figures(harness, (1, "20m", "active"))
    found = refusal(harness)
    assert "spender.yaml:7: figures.spent" in found
    assert "found version 1 of figure account_spent with another definition" in found
    assert "expected the one that version 1 of spender was published with" in found
    assert "figures.yaml:1" in found
    named_rule(harness, version=2)
    assert "with another definition" in refusal(harness)
    assert harness.restart().to_json() == first.to_json()
    figures(harness, (1, "10m", "active"))
    rules, events = harness.take_up()
    assert [(event.event, event.version) for event in events] == [("published", 2)]
    assert of(rules)[2].window == 600_000


def test_a_figure_that_moves_on_needs_a_new_version_of_the_rule(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    harness.start()
    figures(harness, (1, "10m", "active"), (2, "20m", "active"))
    found = refusal(harness)
    assert "found version 1 with version 2 of figure account_spent; expected version 1 of it, as" in found
    assert "name version: 1 of it to stay, or set version: 2" in found
    named_rule(harness, figure="{figure: account_spent, version: 1}")
    assert harness.take_up()[1] == []
    named_rule(harness, version=2)
    rules, _ = harness.take_up()
    assert {number: figure.window for number, figure in of(rules).items()} == {1: 600_000, 2: 1_200_000}


@pytest.mark.parametrize(
    ("status", "rule", "words"),
    [
        ("draft", "active", "version 1 of account_spent, which is draft; expected one in use"),
        ("shadow", "active", "which is shadow; expected a figure that is active, or shadow where the rule is"),
        ("shadow", "shadow", None),
        ("paused", "active", "which is paused; expected one in use"),
        ("retired", "shadow", "which is retired; expected one in use"),
    ],
)
def test_what_a_new_version_of_a_rule_may_name(harness: Harness, status: str, rule: str, words: str | None) -> None:
    harness.start()
    figures(harness, (1, "10m", status))
    named_rule(harness, status=rule)
    rules, (event,) = harness.take_up()
    if words is None:
        assert (event.event, len(rules)) == ("published", 1)
    else:
        assert (event.event, len(rules)) == ("refused", 0)
        assert words in str(event.text)


def test_a_rule_goes_on_with_a_figure_that_is_retired(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    harness.start()
    figures(harness, (1, "10m", "retired"))
    assert harness.take_up()[1] == []
    named_rule(harness, status="paused")
    assert [event.event for event in harness.take_up()[1]] == ["status_changed"]
    named_rule(harness, version=2)
    assert "which is retired" in refusal(harness)


def test_without_a_version_the_highest_that_is_active_is_meant(harness: Harness) -> None:
    figures(
        harness, (1, "1m", "active"), (2, "2m", "active"), (3, "3m", "shadow"), (4, "4m", "draft"), (5, "5m", "retired")
    )
    named_rule(harness)
    assert of(harness.start())[1].window == 120_000


def test_it_is_the_rule_that_has_the_figure_written_out(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    (shared,) = harness.start().versions
    text = RULE.format(version=1, status="active", figure="{sum: amount, group_by: account, window: 10m}")
    (written,) = load_rules_text(text, "r.yaml", harness.streams)
    spec = harness.streams["payments"]
    assert shared.rule.program(spec, Defaults()) == written.rule.program(spec, Defaults())


def test_a_status_is_set_where_the_file_of_the_rule_is_gone(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    harness.start()
    (harness.folder / "spender.yaml").unlink()
    assert [event.event for event in harness.take_up()[1]] == ["absent"]
    folder = RuleFolder(harness.folder, [harness.log._history], Known(harness.streams, figures=harness.figures))
    folder.set_status("spender", "paused")
    rules, events = harness.take_up()
    assert [event.event for event in events] == ["status_changed"]
    assert of(rules)[1].version == 1


def test_a_command_finds_them_where_they_are(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    known = Known(harness.streams, figures=harness.figures)
    (rule,) = read_rules(harness.folder, known)
    assert rule.remark() == "spent is version 1 of the shared figure account_spent."
    author_folder = harness.folder.parent / "author"
    author_folder.mkdir()
    (author_folder / "new.yaml").write_text(RULE.format(version=1, status="active", figure="{figure: acount_spent}"))
    with pytest.raises(RefusedError, match=r"did you mean account_spent\?"):
        RuleFolder(harness.folder, (), known).publish(author_folder / "new.yaml")


def test_the_api_finds_them_where_they_are(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    streams = {name: Stream(name, spec) for name, spec in harness.streams.items()}
    assert of(load_rules(harness.folder, streams, figures=harness.figures))[1].window == 600_000


def test_rules_that_read_the_hits_know_its_key(harness: Harness) -> None:
    figures(harness, (1, "10m", "active"))
    named_rule(harness)
    text = "{rule_id: often, version: 1, rule_type: velocity, source_topic: rule:spender, group_by: hit.key.account, "
    harness.write("often.yaml", text + "aggregation_type: count, aggregation_threshold: 2, window: 1h}")
    assert {each.rule.rule_id for each in harness.start().versions} == {"often", "spender"}


def rule_texts(figure: str) -> str:
    return RULE.format(version=1, status="active", figure=figure)


def test_where_no_files_are_read_the_name_alone_is_nothing(harness: Harness) -> None:
    with pytest.raises(RefusedError, match="it is read with the files of rules"):
        load_rules_text(rule_texts("{figure: account_spent}"), "r.yaml", harness.streams)


HOSTILE = [None, True, 1.5, [1], {"a": 1}, "1", -1, 0, 2**70]


@pytest.mark.parametrize("apart", [True], indirect=False)
@pytest.mark.parametrize("odd", HOSTILE, ids=str)
@pytest.mark.parametrize("field", ["version", "status", "figures", "figure", "name"])
def test_odd_values_refuse_one_file_alone(harness: Harness, field: str, odd: object) -> None:
    figures(harness, (1, "10m", "active"))
    named: dict[str, object] = {"figure": "account_spent"}
    body: dict[str, object] = {"rule_id": "odd", "version": 1, "rule_type": "formula", "source_topic": "payments"}
    body |= {"figures": {"spent": named}, "when": "spent > 1"}
    match field:
        case "version" | "figure":
            named[field] = odd
        case "name":
            body["figures"] = {odd if not isinstance(odd, list | dict) else "x": {**named, "version": odd}}
        case _:
            body[field] = odd
    harness.write("odd.yaml", json.dumps(body))
    (harness.figures or harness.folder).joinpath("odd.json").write_text(
        json.dumps({"kind": odd, field: odd, "figures": odd})
    )
    named_rule(harness)
    rules = harness.start()
    assert "spender" in {each.rule.rule_id for each in rules.versions}
