"""Decisions of a pipeline in Spark, in stages and in one task, a batch run again: what the naive twin says."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from crossline.basics.errors import CrosslineError, UsageError
from crossline.runtime.pipeline import planner
from crossline.runtime.pipeline.assemble import RunOptions, assemble
from crossline.runtime.spark import flow
from oracle.decisions import ExpectedDecision, naive_decisions
from oracle.naive import running_max_ingest

from .project import Project
from .traffic import DEFAULTS, RULES, expected, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crossline.io.sinks.base import Delivery

pytestmark = pytest.mark.spark
POLICY: dict[str, Any] = {
    "schema_version": 1,
    "version": 3,
    "decide": [{"when": "action == 'review'", "decision": "block"}],
    "bands": [{"from": 10, "decision": "review"}, {"from": 20, "decision": "step_up"}],
}
ASKED = {"burst": ("review", 40), "every_sum": ("allow", 10), "as_it_came": ("step_up", 10), "watched": ("block", 100)}


def comparable(decision: dict[str, Any]) -> ExpectedDecision:
    return ExpectedDecision(
        decision["decision_id"],
        decision["record_id"],
        decision["decision"],
        decision["score"],
        tuple(
            (each["rule_id"], each["rule_version"], each["alert_id"], each.get("standing", False))
            for each in decision["reasons"]
        ),
        round(datetime.fromisoformat(decision["ingest_time"]).timestamp() * 1000),
    )


def written_in(folder: Path) -> list[ExpectedDecision]:
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [comparable(json.loads(line)) for line in lines]


class KilledError(Exception):
    """What ends a run once a batch is delivered, and before Spark knows."""


@pytest.mark.parametrize("in_process", ["never", "auto"])
def test_decisions_of_a_run_that_is_ended_in_the_midst(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_process: str
) -> None:
    plans: list[str] = []
    for name in ("in_stages", "in_one_task"):
        plan = getattr(flow, name)
        noted = lambda *given, name=name, plan=plan: (plans.append(name), plan(*given))[1]  # noqa: E731
        monkeypatch.setattr(planner, name, noted)
    rules = [
        {**rule, **({"action": asked[0], "score": asked[1]} if (asked := ASKED.get(rule["rule_id"])) else {})}
        for rule in RULES
    ]
    log = records(240, seed=7)
    project = Project(
        tmp_path,
        rules,
        policy="policy.yaml",
        decisions={"emit": "all", "path": "out/decided"},
        sources={"payments": {"kind": "files", "path": "in", "max_batch_bytes": 6_000}},
    )
    project.set_engine(in_process=in_process)
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    project.give("all.jsonl", lines(log))

    def killed(delivery: Delivery, _: object) -> None:
        if delivery.batch_id == 2:
            raise KilledError

    with pytest.raises(CrosslineError, match="the query failed"):
        assemble(spark, project.config(), RunOptions(complete=True, on_batch=killed)).start().drain()
    before = {row[0] for row in project.rows("SELECT record_id FROM decisions")}
    changed = {**POLICY, "version": 4, "score": "max"}
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(changed))
    project.drain(spark)

    ingest = running_max_ingest([record["event_time"] for record in log])
    judged = [
        {"_id": record["id"], "_event_ms": record["event_time"], "_ingest_ms": ms}
        for record, ms in zip(log, ingest, strict=True)
    ]
    first, later = (
        naive_decisions(policy, rules, expected(rules, log), judged, DEFAULTS, every=True)
        for policy in (POLICY, changed)
    )
    written = written_in(tmp_path / "out" / "decided")
    known = sum(each in first for each in written)
    wanted = [*first[:known], *later[known:]]
    assert 0 < known < len(wanted), "the new policy holds for what comes after the batch that was not committed"
    assert sorted(written, key=lambda each: each.record_id) == sorted(wanted, key=lambda each: each.record_id)
    stored = [json.loads(body) for (body,) in project.rows("SELECT body FROM decisions ORDER BY seq")]
    assert [comparable(each) for each in stored] == [each for each in wanted if each.reasons]
    assert before == {each.record_id for each in wanted[:known] if each.reasons}
    assert {each.decision for each in wanted} == {"allow", "review", "step_up", "block"}
    assert len({each["rules_digest"] for each in stored}) == 1
    # Beside Spark, all but the first.
    assert plans == ["in_stages"] if in_process == "auto" else {"in_stages", "in_one_task"} == set(plans)

    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({**changed, "score": "sum"}))
    with pytest.raises(UsageError, match="version 4 has decided before, with another content"):
        assemble(spark, project.config())
