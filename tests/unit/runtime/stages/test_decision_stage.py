"""The stage that decides: there where a policy is configured, after all that judge, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, load_policy
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.local.memory import MemoryJudge
from crossline.runtime.snapshot.snapshot import HeldSnapshot, PlanSnapshot, snapshot_from_json
from crossline.runtime.sources.intake import ChunkIntake
from crossline.runtime.stages.stages import stages_of

STREAMS = load_streams(
    "{schema_version: 1, streams: {s: {id: i, event_time: {field: t}, fields: {i: string, t: integer}}}}", "stream.yaml"
)
PLAIN = "{rule_id: a, version: 1, rule_type: threshold, source_topic: s, conditions: [{field: t, operator: exists}]}"
OF_HITS = PLAIN.replace("rule_id: a", "rule_id: b").replace("source_topic: s", 'source_topic: "rule:a"')
DECIDING = Deciding(load_policy("{schema_version: 1, version: 3}", "policy.yaml"), every=True, folder="f", pipeline="p")


def snapshot(rules: list[str], **more: Any) -> PlanSnapshot:
    text = "".join(f"- {rule}\n" for rule in rules)
    loaded = RuleSet.from_rules(each.rule for each in load_rules_text(text, "rules.yaml", STREAMS))
    return PlanSnapshot(loaded, dict(STREAMS), Defaults(), 2, Bounds(), **more)


@pytest.mark.parametrize(
    ("rules", "deciding", "names"),
    [
        ([PLAIN], None, ["take in", "judge"]),
        ([PLAIN], DECIDING, ["take in", "judge", "decide"]),
        ([PLAIN, OF_HITS], None, ["take in", "judge", "judge hits 2"]),
        ([PLAIN, OF_HITS], DECIDING, ["take in", "judge", "judge hits 2", "decide"]),
    ],
)
def test_it_is_the_last_one_and_there_only_with_a_policy(
    rules: list[str], deciding: Deciding | None, names: list[str]
) -> None:
    source = HeldSnapshot(snapshot(rules, deciding=deciding))
    stages = stages_of(source, ChunkIntake("s"), MemoryJudge(source))
    assert [stage.name for stage in stages] == names
    assert [stage.by_shard for stage in stages] == [False, *[True] * (len(names) - 1)]


def test_how_is_decided_travels_in_the_snapshot() -> None:
    assert snapshot_from_json(snapshot([PLAIN], deciding=DECIDING).to_json()).deciding == DECIDING
    assert snapshot_from_json(snapshot([PLAIN]).to_json()).deciding is None


def test_a_snapshot_goes_on_with_its_own_policy_and_not_with_that_of_the_run_before() -> None:
    before, now = snapshot([PLAIN], deciding=DECIDING), snapshot([PLAIN])
    assert now.after(before, now.rules, {}).deciding is None
    assert before.after(now, now.rules, {}).deciding == DECIDING
