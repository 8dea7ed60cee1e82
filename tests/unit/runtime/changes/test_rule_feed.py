"""Rule and list changes on their way into a pipeline: read and checked beside its batches, taken up between them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from crossline.basics.conditions.lists import named_list
from crossline.basics.errors import RetryableError
from crossline.evaluate.bounds import Bounds
from crossline.rule_registry import rule_files
from crossline.rule_registry.directory import DirectoryRuleLog, log_path
from crossline.rule_registry.list_log import lists_of_log
from crossline.rules.base import Defaults
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.rule_changes import RuleChanges
from crossline.runtime.changes.rule_feed import DirectoryFeed
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log.offset_history import OffsetHistory
from crossline.settings.config import PipelineConfig as Config
from crossline.settings.config import in_folder, load_pipeline

PIPELINE = """\
schema_version: 1
name: p
streams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer, card: string}}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
lists: {kind: directory, path: lists}
sinks: [{kind: kafka, brokers: "b:1", topic: alerts, topics: [alerts.cards]}, {kind: console}]
"""
WAIT_S = 300.0
RULE = """\
rule_id: stolen
version: 1
rule_type: threshold
source_topic: s
conditions: [{field: card, operator: in, value: {list: cards}}]
"""
EVERY_RECORD = """\
rule_id: often
version: 1
rule_type: velocity
source_topic: s
group_by: card
aggregation_type: count
aggregation_threshold: 10
window: 1m
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    for name in ("rules", "lists"):
        (tmp_path / name).mkdir()
    return in_folder(load_pipeline(PIPELINE, "p.yaml", str), str(tmp_path))


def names(rules: RuleSet) -> list[str]:
    return [each.rule.rule_id for each in rules.versions]


def event_names(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def test_a_list_and_the_rule_that_needs_it_come_together(config: Config, tmp_path: Path) -> None:
    feed = DirectoryFeed(config, {})
    assert names(feed.start()[0]) == []
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    (tmp_path / "lists" / "cards.txt").write_text("c1\n", encoding="utf-8")
    assert feed.changed()
    rules, lists, events = feed.take_up({})
    assert (names(rules), lists.since({})) == (["stolen"], {"cards": named_list(["c1"])})
    assert event_names(events) == ["list_changed", "published"]
    assert not feed.changed()
    feed.close()


def test_a_shared_figure_and_the_rule_that_names_it_come_together(tmp_path: Path) -> None:
    for name in ("rules", "lists", "figures"):
        (tmp_path / name).mkdir()
    config = in_folder(load_pipeline(PIPELINE + "figures: figures\n", "p.yaml", str), str(tmp_path))
    feed = DirectoryFeed(config, {})
    feed.start()
    rule = "{rule_id: tries, version: 1, rule_type: formula, source_topic: s, when: n > 3, figures: {n: {figure: n}}}"
    (tmp_path / "rules" / "r.yaml").write_text(rule, encoding="utf-8")
    assert feed.changed()
    assert event_names(feed.take_up({})[2]) == ["refused"]
    figure = "{kind: figure, figure_id: n, version: 1, source_topic: s, count: true, group_by: card, window: 1m}"
    (tmp_path / "figures" / "n.yaml").write_text(figure, encoding="utf-8")
    assert feed.changed()
    rules, _, events = feed.take_up({})
    assert (names(rules), event_names(events)) == (["tries"], ["published"])
    assert not feed.changed()
    feed.close()


def test_a_list_stays_when_the_log_cannot_be_written(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = DirectoryFeed(config, {})
    feed.start()
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    (tmp_path / "lists" / "cards.txt").write_text("c1\n", encoding="utf-8")

    def full(*_: object) -> None:
        raise RetryableError("the disk is full")

    assert feed.changed()
    with monkeypatch.context() as patch:
        patch.setattr(DirectoryRuleLog, "take_up", full)
        with pytest.raises(RetryableError):
            feed.take_up({})
    assert feed.changed()
    rules, lists, events = feed.take_up({})
    assert (names(rules), lists.since({})) == (["stolen"], {"cards": named_list(["c1"])})
    assert event_names(events) == ["list_changed", "published"]
    feed.close()


def test_lists_hold_from_the_instants_that_rules_do(config: Config, tmp_path: Path) -> None:
    """On the clock of the records just after the highest one seen; on a broker's not before now; the log says which."""
    file = tmp_path / "lists" / "cards.txt"
    file.write_text("c1\n", encoding="utf-8")
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    for clock, contents in (("records", ("c2", "c3")), ("wall", ("c4",))):
        feed = DirectoryFeed(config, {"s": clock})
        feed.start()
        for number, content in enumerate(contents):
            file.write_text(f"{content}\n", encoding="utf-8")
            body = RULE.replace("version: 1", f"version: {2 + number}") + f"description: as of {clock}\n"
            if clock == "records":
                (tmp_path / "rules" / "r.yaml").write_text(body, encoding="utf-8")
            assert feed.changed()
            events = feed.take_up({"s": 5_000 + number})[2]
            instants = {event["effective_from_ms"] for event in events if event["event"] == "published"}
            (changed,) = (event for event in events if event["event"] == "list_changed")
            if clock == "records":
                assert changed["begins_ms"] == {"s": 5_001 + number}
                assert instants == {5_001 + number}
            else:
                assert changed["begins_ms"]["s"] > 1_700_000_000_000
        feed.close()
    cards = lists_of_log(log_path(config.rules.path, config.name), ["cards"])["cards"]
    assert [cards.at("s", at) for at in (0, 5_000, 5_001, 5_002, 9_000)] == [["c1"], ["c1"], ["c2"], ["c3"], ["c3"]]
    assert cards.at("s", 2**60) == ["c4"]


def test_a_restart_uses_the_lists_of_the_log_until_changes_are_applied(config: Config, tmp_path: Path) -> None:
    file = tmp_path / "lists" / "cards.txt"
    file.write_text("c1\n", encoding="utf-8")
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    feed = DirectoryFeed(config, {"s": "records"})
    feed.start()
    feed.close()
    file.write_text("c2\n", encoding="utf-8")
    feed = DirectoryFeed(config, {"s": "records"})
    assert feed.start()[1].since({}) == {"cards": named_list(["c1"])}
    assert feed.changed()
    _, lists, events = feed.take_up({"s": 7})
    assert (event_names(events), lists.since({"s": 0})["cards"].at("s", 8)) == (["list_changed"], ["c2"])
    assert lists.since({"s": 7})["cards"].at("s", 7) == ["c1"]
    feed.close()
    file.unlink()
    feed = DirectoryFeed(config, {"s": "records"})
    assert feed.start()[1].since({})["cards"].at("s", 8) == ["c2"], "a list whose file is gone stays"
    feed.close()


def test_a_log_of_before_lists_had_times_goes_on(config: Config, tmp_path: Path) -> None:
    """Its rules refer to lists that it does not know: they begin at the start, and hold from the beginning."""
    (tmp_path / "lists" / "cards.txt").write_text("c1\n", encoding="utf-8")
    (tmp_path / "rules" / "r.yaml").write_text(RULE, encoding="utf-8")
    feed = DirectoryFeed(config, {})
    feed.start()
    feed.close()
    path = log_path(config.rules.path, config.name)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if b"list_changed" not in line))
    feed = DirectoryFeed(config, {})
    rules, lists = feed.start()
    assert (names(rules), lists.since({})) == (["stolen"], {"cards": named_list(["c1"])})
    assert [event["begins_ms"] for event in feed.events() if event["event"] == "list_changed"] == [{}]
    feed.close()


def test_topics_are_those_of_the_kafka_sinks(config: Config, tmp_path: Path) -> None:
    feed = DirectoryFeed(config, {})
    feed.start()
    plain = RULE.replace("operator: in, value: {list: cards}", "operator: exists")
    for name, topic in (("a", "alerts"), ("b", "alerts.cards"), ("c", "alert.cards")):
        text = plain.replace("stolen", name) + f"sink_topic: {topic}\n"
        (tmp_path / "rules" / f"{name}.yaml").write_text(text, encoding="utf-8")
    assert feed.changed()
    rules, _, events = feed.take_up({})
    assert names(rules) == ["a", "b"]
    assert [(each["event"], each["source"]) for each in events if each["event"] == "refused"] == [("refused", "c.yaml")]
    feed.close()


def test_files_are_checked_while_a_batch_runs(config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one is judged the check of a file begins and ends, and nothing is taken up; that waits for no delivery."""
    feed = DirectoryFeed(config, {})
    checked, taken = threading.Event(), threading.Event()
    read, take_up = rule_files.load_yaml, feed.take_up

    def checks(*arguments: Any) -> Any:
        found = read(*arguments)
        checked.set()
        return found

    def takes(highest_ingest_ms: Any) -> Any:
        taken.set()
        return take_up(highest_ingest_ms)

    monkeypatch.setattr(rule_files, "load_yaml", checks)
    monkeypatch.setattr(feed, "take_up", takes)
    snapshot = PlanSnapshot(RuleSet(), config.streams, Defaults(), 1, Bounds(0))
    stopping = threading.Event()
    changes = RuleChanges(snapshot, None, feed, OffsetHistory(str(tmp_path)), str(tmp_path), None, stopping)
    changes.start()
    watcher = threading.Thread(target=changes.watch, daemon=True)
    with changes.between_batches:
        with changes.judging():
            watcher.start()
            (tmp_path / "rules" / "r.yaml").write_text(
                RULE.replace("value: {list: cards}", "value: [c1]"), encoding="utf-8"
            )
            assert checked.wait(WAIT_S)
            assert not taken.is_set()
        assert taken.wait(WAIT_S), "a batch that its sinks hold holds no rule back"
        with changes.judging():  # waits for the publication that is under way
            pass
        assert names(changes.file.current().rules) == ["stolen"]
    stopping.set()
    watcher.join(WAIT_S)
    feed.close()


def test_a_first_start_keeps_no_state_store_that_its_rules_do_not_need(config: Config, tmp_path: Path) -> None:
    """A state store for ids alone, beside one that sees every record, would be a second shuffle and a second store."""
    (tmp_path / "rules" / "r.yaml").write_text(EVERY_RECORD, encoding="utf-8")
    feed = DirectoryFeed(config, {})
    snapshot = PlanSnapshot(RuleSet(), config.streams, Defaults(), 1, Bounds(0))
    changes = RuleChanges(snapshot, None, feed, OffsetHistory(str(tmp_path)), str(tmp_path), None, threading.Event())
    changes.start()
    (state_store,) = changes.file.current().layout_after().state_stores
    assert (state_store.group_fields, state_store.home) == (("card",), False)
    feed.close()


def test_what_a_model_does_not_score_is_an_event_once_in_a_run(config: Config, tmp_path: Path) -> None:
    feed = DirectoryFeed(config, {})
    snapshot = PlanSnapshot(RuleSet(), config.streams, Defaults(), 1, Bounds(0))
    changes = RuleChanges(snapshot, None, feed, OffsetHistory(str(tmp_path)), str(tmp_path), None, threading.Event())
    changes.start()
    changes.note_unscored({"m@1": {"records": 3, "why": "a score that is no finite number"}})
    changes.note_unscored(
        {"m@1": {"records": 2, "why": "another"}, "n@2": {"records": 1, "why": "no ONNX Runtime here"}}
    )
    changes.note_unscored({})
    lines = [each["text"] for each in changes.events() if each["event"] == "unscored"]
    assert lines == [
        "the model of m@1 did not score 3 records of a batch, which it did not judge: a score that is no finite number",
        "the model of n@2 did not score 1 records of a batch, which it did not judge: no ONNX Runtime here",
    ]
    feed.close()
