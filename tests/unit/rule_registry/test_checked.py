"""What ``poll`` does is slow and beside the batches; what ``take_up`` does is fast; one bad rule harms no other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from crossline.basics.streams.schema import load_streams
from crossline.rule_registry import history, rule_files
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.directory import DirectoryRuleLog
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.file_check import judge_files
from crossline.rule_registry.history import History
from crossline.rule_registry.rule_files import Known
from crossline.rules.types.threshold import ThresholdRule

from .harness import STREAMS, Harness, rule

MALFORMED = [
    rule("m").replace("'>'", "['>']"),
    rule("m").replace("'>'", "{a: b}"),
    rule("m").replace("field: amount", "field: [amount]"),
    rule("m").replace("value: 100", "value: {list: [x]}"),
    rule("m", status="[active]"),
    rule("m", tags="{a: b}"),
    rule("m", severity="{}"),
    rule("m").replace("rule_type: threshold", "rule_type: [threshold]"),
    rule("m").replace("source_topic: payments", "source_topic: {payments: 1}"),
    rule("m", effective_from="2" * 18),
    "- " * 500,
    "{{{",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_rule_keeps_no_other_back(harness: Harness, text: str) -> None:
    harness.write("m.yaml", text)
    harness.write("a.yaml", rule("a"))
    assert [each.rule.rule_id for each in harness.start().versions] == ["a"]
    harness.write("b.yaml", rule("b"))
    harness.write("m.yaml", rule("first"), text)
    rules, events = harness.take_up()
    assert [(e.event, e.source) for e in events] == [("refused", "m.yaml"), ("published", "b.yaml")]
    assert [each.rule.rule_id for each in rules.versions] == ["a", "b"]


@pytest.fixture
def faults() -> Iterator[list[dict[str, Any]]]:
    with structlog.testing.capture_logs() as logs:
        yield logs


def test_a_fault_of_a_check_refuses_its_file_at_the_rule(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, faults: list[dict[str, Any]]
) -> None:
    real = ThresholdRule.findings

    def breaks(self: ThresholdRule) -> list[Any]:
        if self.rule_id == "broken":
            raise KeyError("oops")
        return real(self)

    monkeypatch.setattr(ThresholdRule, "findings", breaks)
    harness.write("m.yaml", rule("ok"), rule("broken"), rule("bad").replace("amount", "amuont"))
    harness.write("a.yaml", rule("a"))
    assert [each.rule.rule_id for each in harness.start().versions] == ["a"]
    _, refused = judge_files({"m.yaml": FileContent((harness.folder / "m.yaml").read_bytes())}, History(), Known())
    (problem,) = refused["m.yaml"].problems
    assert (problem.line, problem.path) == (6, "[1]")
    assert "KeyError: 'oops'" in problem.found
    assert "a fault of crossline" in str(problem.hint)
    assert {(each["log_level"], each["source"]) for each in faults} == {("error", "m.yaml")}
    assert isinstance(faults[0]["exc_info"], KeyError)


def test_a_fault_of_reading_refuses_its_file(monkeypatch: pytest.MonkeyPatch, faults: list[dict[str, Any]]) -> None:
    def breaks(*_: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(rule_files, "load_yaml", breaks)
    taken, refused = judge_files({"a.yaml": FileContent(b"x"), "b.yaml": FileContent(b"y")}, History(), Known())
    assert (taken, list(refused)) == ([], ["a.yaml", "b.yaml"])
    assert refused["a.yaml"].problems[0].line == 1
    assert [each["log_level"] for each in faults] == ["error", "error"]


def test_reading_is_done_by_poll_alone_and_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.start()
    read: list[str] = []
    real = rule_files.load_yaml

    def counted(text: str, source: str) -> Any:
        read.append(source)
        return real(text, source)

    def reads_again(event: RuleEvent) -> None:
        raise AssertionError(f"{event.rule_id} is read while a batch waits")

    monkeypatch.setattr(rule_files, "load_yaml", counted)
    monkeypatch.setattr(history, "event_rule", reads_again)
    harness.write("a.yaml", rule("a"), rule("b", effective_from=7))
    harness.write("m.yaml", "- [")
    changes = harness.log.poll()
    assert read == ["a.yaml", "m.yaml"]
    # A pipeline that cannot take it up yet asks again and again.
    assert harness.log.poll() is changes
    rules, events = harness.log.take_up(changes, {}, 5)
    assert (len(rules), [e.event for e in events]) == (2, ["refused", "published", "published"])
    assert harness.log.poll() is None
    assert read == ["a.yaml", "m.yaml"]


TOPICS = ["alerts", "alerts.cards"]


def test_a_topic_that_no_sink_has_is_refused(tmp_path: Path) -> None:
    log = DirectoryRuleLog(tmp_path, "p", load_streams(STREAMS, "s"), sink_topics=TOPICS)
    (tmp_path / "a.yaml").write_text(rule("a", sink_topic="alert.cards"), encoding="utf-8")
    (tmp_path / "b.yaml").write_text(rule("b", sink_topic="alerts.cards") + rule("c"), encoding="utf-8")
    assert [each.rule.rule_id for each in log.start(0).versions] == ["b", "c"]
    (tmp_path / "c.yaml").write_text(rule("d", sink_topic="fraud", status="draft"), encoding="utf-8")
    _, (event,) = log.take_up(log.poll(), {}, 1)
    assert (event.event, event.source) == ("refused", "c.yaml")
    assert str(event.text) == (
        "c.yaml:6: [0].sink_topic\n"
        "     6 |   sink_topic: fraud\n"
        '  found "fraud"; expected a topic of the sinks: one of alerts, alerts.cards\n'
        "  name it under topics of the pipeline's Kafka sink, and create it"
    )
    (tmp_path / "a.yaml").write_text(rule("a", sink_topic="alerts"), encoding="utf-8")
    assert [e.event for e in log.take_up(log.poll(), {}, 2)[1]] == ["published"]
    log.close()


def test_a_live_rule_whose_topic_is_gone_can_be_ended(tmp_path: Path) -> None:
    streams = load_streams(STREAMS, "s")
    (tmp_path / "a.yaml").write_text(rule("a", sink_topic="old"), encoding="utf-8")
    before = DirectoryRuleLog(tmp_path, "p", streams)
    before.start(0)
    before.close()
    log = DirectoryRuleLog(tmp_path, "p", streams, sink_topics=TOPICS)
    assert len(log.start(1)) == 1
    (tmp_path / "a.yaml").write_text(rule("a", sink_topic="old", status="retired"), encoding="utf-8")
    assert [(e.event, e.status) for e in log.take_up(log.poll(), {}, 2)[1]] == [("status_changed", "retired")]
    log.close()
