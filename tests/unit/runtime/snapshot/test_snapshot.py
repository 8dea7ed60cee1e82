"""The plan snapshot: rules, streams, lists and layout as one value that comes back from a file as it went."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
import yaml

from crossline.basics.conditions.lists import named_list
from crossline.basics.errors import StateError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import FOREVER_MS
from crossline.evaluate.bounds import Bounds
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.changes.backfill import new_state_stores
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile, StaticSnapshot, snapshot_from_json
from e2e.traffic import CASH, RULES, STREAM, STREAMS, Body, velocity

DEFAULTS = Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)
LISTS = {
    "stolen": named_list(["c1", 7, 1.5]).then([(True, FOREVER_MS), ("c1", 5_000), (1, 6_000)], {STREAM: 3_000}),
    "none": named_list([]),
}


def rules_of(bodies: list[Body]) -> RuleSet:
    return RuleSet.from_rules([each.rule for each in load_rules_text(yaml.safe_dump(bodies), "rules.yaml")])


def snapshot_of(bodies: list[Body]) -> PlanSnapshot:
    return PlanSnapshot(
        rules_of(bodies), {STREAM: StreamSpec.model_validate(STREAMS[STREAM])}, DEFAULTS, 5, Bounds(250), LISTS
    )


def test_what_comes_back_is_what_went() -> None:
    snapshot = snapshot_of(RULES)
    again = snapshot_from_json(snapshot.to_json())
    assert again.to_json() == snapshot.to_json()
    assert (again.rules, again.streams, again.defaults) == (snapshot.rules, snapshot.streams, snapshot.defaults)
    assert (again.shards, again.bounds, again.lists) == (5, Bounds(250), LISTS)
    assert again.plan(STREAM).state_stores == snapshot.plan(STREAM).state_stores


def test_a_snapshot_of_an_older_version_has_plain_lists() -> None:
    raw = orjson.loads(snapshot_of(RULES).to_json())
    raw["lists"] = {"stolen": ["c1", 7]}
    assert snapshot_from_json(orjson.dumps(raw)).lists == {"stolen": named_list(["c1", 7])}


def test_state_stores_in_use_stay_as_they_are_when_rules_come() -> None:
    snapshot = snapshot_of(RULES)
    richer = snapshot.with_rules(
        rules_of([*RULES, velocity("more", "sum", 3, aggregation_field="price", conditions=CASH)]), {}
    )
    before = [lp.state_store for lp in snapshot.plan(STREAM).state_stores]
    after = [lp.state_store for lp in snapshot_from_json(richer.to_json()).plan(STREAM).state_stores]
    assert [state_store for state_store in after if state_store in before] == before
    assert new_state_stores(snapshot, richer) == {
        STREAM: tuple(state_store for state_store in after if state_store not in before)
    }
    assert len(after) == len(before) + 1


def test_a_rule_that_needs_nothing_new_adds_no_state_store() -> None:
    snapshot = snapshot_of(RULES)
    assert new_state_stores(snapshot, snapshot.with_rules(rules_of([*RULES, velocity("soon", threshold=9)]), {})) == {}


@pytest.mark.parametrize("kind", ["file", "static"])
def test_a_task_reads_the_snapshot_once(tmp_path: Path, kind: str) -> None:
    file = SnapshotFile(str(tmp_path / "deep" / "snapshot.json"))
    file.replace(snapshot_of(RULES))
    source = file if kind == "file" else StaticSnapshot(snapshot_of(RULES).to_json())
    assert source.current() is source.current()


def test_a_snapshot_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    file = SnapshotFile(str(tmp_path / "snapshot.json"))
    for rules in (RULES, RULES[:1], RULES[:2]):
        file.replace(snapshot_of(rules))
        assert file.current().rules == rules_of(rules)
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot.json"]


def test_a_snapshot_of_another_version_is_reported() -> None:
    older = orjson.dumps({k: v for k, v in orjson.loads(snapshot_of(RULES).to_json()).items() if k != "format"})
    with pytest.raises(
        StateError, match=r"a plan snapshot of format 1; this crossline reads 4.*move the checkpoint away"
    ):
        snapshot_from_json(older)
