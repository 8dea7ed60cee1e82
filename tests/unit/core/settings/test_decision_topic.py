"""Decisions on all records in a topic: which sinks they may go to."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.core.settings.decisions import DecisionSettings
from crossline.core.settings.kafka import KafkaSinkSettings
from crossline.core.settings.sinks import takes_decisions

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
