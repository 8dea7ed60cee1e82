"""Decisions on all records in a topic: which sinks they may go to."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from crossline.settings.decisions import DecisionSettings
from crossline.settings.fields import Settings
from crossline.settings.kafka import KafkaSinkSettings
from crossline.settings.sinks import ConsoleSettings, JsonlSettings, SqliteSettings, takes_decisions

ALL = DecisionSettings(emit="all", sink_topic="decided")


def sink(**more: Any) -> KafkaSinkSettings:
    return KafkaSinkSettings(kind="kafka", brokers="b:9092", topic="alerts", topics=["decided"], **more)


def test_the_tasks_send_them_to_sinks_with_transactions() -> None:
    assert takes_decisions([sink()], ALL) == []


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ({"behind": True}, "a sink that batches do not wait for"),
        ({"transactions": False}, "a sink without transactions"),
    ],
)
def test_others_are_refused(more: dict[str, bool], found: str) -> None:
    [finding] = takes_decisions([sink(), sink(**more)], ALL)
    assert (finding.path, finding.found) == (("sinks", 1), found)
    assert takes_decisions([sink(**more)], DecisionSettings(sink_topic="decided")) == []


class _Elsewhere(Settings):
    """A sink of another package."""

    kind: Literal["elsewhere"] = "elsewhere"
    keeps: bool = False

    def takes_decisions(self) -> bool:
        return self.keeps


class _Plain(Settings):
    """One that says nothing of decisions."""

    kind: Literal["plain"] = "plain"


def test_a_policy_needs_a_sink_that_says_it_takes_decisions() -> None:
    for none in ([], [_Plain()], [_Elsewhere()], [sink()], [_Plain(), ConsoleSettings(kind="console")]):
        [finding] = takes_decisions(none, None)
        assert (finding.path, finding.found) == (("policy",), "a policy, and no sink that takes decisions")
    for some in ([_Elsewhere(keeps=True)], [SqliteSettings(kind="sqlite", path="a.db"), _Plain()]):
        assert takes_decisions(some, None) == []
    jsonl = [JsonlSettings(kind="jsonl", path="a", decisions=name) for name in (None, "b")]
    assert [bool(takes_decisions([each], None)) for each in jsonl] == [True, False]
