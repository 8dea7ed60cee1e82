"""Tables that change while the pipeline runs, at the worst moment: what records meet is what the log says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from crossline.basics.errors import CrosslineError
from crossline.rule_registry.content import digest_of
from crossline.runtime.changes.rule_changes import RuleChanges

from .killing import TIERED, TIERS, as_of_log, same_everywhere, tiers
from .project import Project
from .traffic import lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FIELDS = TIERS["tier"]["fields"]
SINKS = [{"kind": "sqlite", "path": "out/alerts.db"}, {"kind": "jsonl", "path": "out/alerts.jsonl"}]


def changed_and_struck(project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, change: bytes) -> None:
    """Records, then a table that changes; the pipeline ends when its next batch is planned, and judged by nothing."""
    log = records(240, seed=5)
    project.give("0.jsonl", lines(log[:120]))

    def struck(_: RuleChanges) -> None:
        raise RuntimeError("struck")

    with monkeypatch.context() as patched, project.start(spark) as running:
        running.until_read(120)
        patched.setattr(RuleChanges, "_put_in_force", struck)
        patched.setattr(RuleChanges, "_between", lambda _: None)
        project.put(project.root / "tiers.jsonl", change)
        running.until_logged("table_changed", files={"tiers.jsonl": digest_of(change)})
        project.give("1.jsonl", lines(log[120:]))
        with pytest.raises(CrosslineError, match="struck"):
            running.pipeline.wait()


@pytest.mark.parametrize("now", ["the same", "another field"])
def test_what_was_logged_before_a_kill_holds_for_a_batch_that_was_planned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str
) -> None:
    (tmp_path / "tiers.jsonl").write_bytes(tiers("abc"))
    project = Project(tmp_path, [TIERED], enrich=TIERS, sinks=SINKS)
    changed_and_struck(project, spark, monkeypatch, tiers("xyz"))
    enrich = {"tier": {**TIERS["tier"], "fields": {**FIELDS, "colour": "string?"}}}
    if now == "another field":
        project.pipeline.write_text(yaml.safe_dump({**project.settings, "enrich": enrich}))
    project.drain(spark)
    then = as_of_log(project)
    assert {alert["key"]["tier.name"] for alert in then.values()} == set("abcxyz")
    same_everywhere(project, then)
