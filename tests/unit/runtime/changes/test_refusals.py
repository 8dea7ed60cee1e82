"""Refusals written to a topic: each at least once, over stops and outages of brokers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson

from crossline.rule_registry.events import RuleEvent
from crossline.runtime.changes.publications import RefusalTopic


class Topic:
    """A teller whose broker answers when the test says so."""

    topic = "refusals"

    def __init__(self) -> None:
        self.posted: dict[int, tuple[bytes, bytes, Mapping[str, str]]] = {}
        self.pending: dict[int, str | None] = {}

    def post(self, number: int, key: bytes, value: bytes, headers: Mapping[str, str]) -> None:
        self.posted[number] = (key, value, headers)

    def answers(self) -> dict[int, str | None]:
        answers, self.pending = self.pending, {}
        return answers

    def close(self, wait_s: float = 2.0) -> dict[int, str | None]:  # noqa: ARG002 - nothing is waited for
        return self.answers()


def refused(number: int) -> RuleEvent:
    return RuleEvent("refused", number, source=f"rule/bad/{number}", digest="d", text="wrong")


def begun(path: Path, log: list[RuleEvent]) -> tuple[RefusalTopic, Topic]:
    topic = Topic()
    refusals = RefusalTopic(topic, path / "p.refusals", "p")
    refusals.begin(log)
    return refusals, topic


def test_each_refusal_is_reported_once_while_all_goes_well(tmp_path: Path) -> None:
    log = [RuleEvent("started", 0), refused(1), refused(2)]
    refusals, topic = begun(tmp_path, log)
    refusals.send()
    assert sorted(topic.posted) == [0, 1]
    assert topic.posted[1][0] == b"rule/bad/2"
    assert orjson.loads(topic.posted[1][1])["text"] == "wrong"
    topic.pending = {0: None, 1: None}
    topic.posted.clear()
    refusals.add([RuleEvent("published", 3), refused(4)])
    refusals.send()
    assert sorted(topic.posted) == [2]
    topic.pending = {2: None}
    refusals.close()
    again, quiet = begun(tmp_path, [*log, refused(4)])
    again.send()
    assert quiet.posted == {}


def test_one_that_was_not_taken_is_sent_again(tmp_path: Path) -> None:
    refusals, topic = begun(tmp_path, [refused(1), refused(2)])
    refusals.send()
    topic.pending = {0: "brokers are down", 1: None}
    topic.posted.clear()
    refusals.send()
    assert sorted(topic.posted) == [0]
    refusals.send()
    assert sorted(topic.posted) == [0], "it is under way"


def test_what_was_not_reported_before_a_stop_is_reported_after_it_under_the_same_name(tmp_path: Path) -> None:
    log = [refused(1), refused(2)]
    refusals, first = begun(tmp_path, log)
    refusals.send()
    first.pending = {1: None}  # and the first one is lost
    refusals.close()
    again, second = begun(tmp_path, log)
    again.send()
    assert sorted(second.posted) == [0, 1]
    assert second.posted[0][2] == first.posted[0][2]
    assert second.posted[0][2]["refusal_id"] != second.posted[1][2]["refusal_id"]
