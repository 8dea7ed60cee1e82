"""A pipeline on disk whose batches the test makes, and replicas of it in processes of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.replicated import Pipeline

from crossline.basics.conditions.lists import named_lists
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, Policy
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot
from crossline.runtime.state_log import cache as caching
from crossline.serve.decisions.values import SubmittedRecord
from crossline.serve.replica.replicas import Replicas

STREAM = "payments"
START_MS = 1_700_000_000_000
SPEC = StreamSpec.model_validate(
    {
        "format": "json",
        "id": "id",
        "event_time": {"field": "at", "unit": "ms"},
        "fields": {"id": "string", "account": "string", "amount": "integer", "at": "integer"},
    }
)
BURST = {
    "rule_id": "burst",
    "version": 1,
    "rule_type": "velocity",
    "source_topic": STREAM,
    "group_by": "account",
    "aggregation_type": "count",
    "aggregation_threshold": 3,
    "window": "60s",
    "action": "review",
    "score": 40,
}


def rules_of(*bodies: dict[str, Any]) -> RuleSet:
    made = [read_rule(body) for body in bodies]
    assert not any(found for _, found in made), [found for _, found in made]
    return RuleSet.from_rules(rule for rule, _ in made if rule is not None)


def snapshot_of(*bodies: dict[str, Any], shards: int = 2) -> PlanSnapshot:
    policy = Policy.model_validate({"schema_version": 1, "version": 1})
    lists = named_lists({"cash": ["CSH"]})
    deciding = Deciding(policy, every=True)
    return PlanSnapshot(rules_of(*bodies), {STREAM: SPEC}, Defaults(), shards, Bounds(0), lists, deciding=deciding)


class Asks:
    """Records in the order in which they are made, a second of event time apart."""

    def __init__(self) -> None:
        self.made = 0

    def record(self, account: str = "a1", **more: Any) -> SubmittedRecord:
        self.made += 1
        at_ms = START_MS + 1_000 * self.made
        fields = {"id": f"t{self.made}", "account": account, "amount": 100, "at": at_ms, **more}
        return SubmittedRecord(self.made, STREAM, fields["id"], json.dumps(fields).encode(), "", at_ms)

    def records(self, count: int, account: str = "a1") -> list[SubmittedRecord]:
        return [self.record(account) for _ in range(count)]


def lines(asked: Sequence[SubmittedRecord]) -> list[tuple[str, list[bytes]]]:
    return [(STREAM, [each.raw for each in asked])]


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    caching._CACHE.clear()
    (tmp_path / "checkpoint").mkdir()
    yield Pipeline(tmp_path / "checkpoint", snapshot_of(BURST))
    caching._CACHE.clear()


async def ready(replicas: Replicas, batch: int) -> None:
    """Until what is judged on has ``batch``."""
    async with asyncio.timeout(60):
        while not (replicas.lag().ready and replicas.lag().batch >= batch):  # noqa: ASYNC110 - other processes say when
            await asyncio.sleep(0.01)
