"""Rules as English, word for word; and every type is said, by its program alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.core.plan.compile import compile_stream
from crossline.core.rules.base import Defaults
from crossline.core.rules.ruleset import RuleSet, load_rules_text
from crossline.core.streams.schema import load_streams
from crossline.core.workbench.kept import kept_by
from crossline.core.workbench.said import said

FOLDER = Path(__file__).parents[3] / "golden" / "workbench"
STREAMS = load_streams((FOLDER / "stream.yaml").read_text(), "stream.yaml")
SPEC = STREAMS["payments"]
RULES = [each.rule for each in load_rules_text((FOLDER / "explain.yaml").read_text(), "explain.yaml", STREAMS)]


def test_the_sentences() -> None:
    told = "".join(f"{rule.rule_id}: {said(rule, rule.program(SPEC, Defaults()))}\n\n" for rule in RULES)
    expected = FOLDER / "explain.txt"
    if not expected.exists():
        expected.write_text(told)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert told == expected.read_text()


def test_what_is_kept_and_shared() -> None:
    plan = compile_stream(RuleSet.from_rules(RULES), "payments", SPEC, Defaults())
    (declines,) = kept_by(plan, "declines")
    assert (declines.key_fields, declines.shared_with) == (("card",), ("share", "travel"))
    # 90 days of silence are the furthest that a rule of the card looks back.
    assert (declines.retention_ms, declines.lateness_ms) == (90 * 86_400_000, 120_000)
    assert set(declines.columns) == {"amount", "place.lat", "place.lon"}
    assert len(declines.entries) == 1
    (alone,) = kept_by(plan, "before")
    assert (alone.key_fields, alone.shared_with, alone.columns) == (("card", "device"), (), ("status",))
    (ingest,) = kept_by(plan, "on_ingest_time")
    assert (ingest.key_fields, ingest.time_mode, ingest.lateness_ms) == ((), "processing_time", 0)
    assert kept_by(plan, "large") == []
