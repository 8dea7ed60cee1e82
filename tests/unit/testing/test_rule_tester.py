"""``crossline.testing``: the fixture in a test of somebody else's, and what its assertions say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crossline import UsageError, load_streams
from crossline.testing import RuleTester

STREAM = """
schema_version: 1
streams:
  taps:
    id: id
    event_time: {field: at}
    fields: {id: string, card: string, at: integer}
  others:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer}
"""
RULES = """
- {rule_id: two, version: 1, status: draft, rule_type: velocity, source_topic: taps, group_by: card, window: 10s,
   aggregation_type: count, aggregation_threshold: 2, action: block, score: 60}
- {rule_id: elsewhere, version: 1, rule_type: threshold, source_topic: others,
   conditions: [{field: id, operator: exists}]}
"""
TEST = """
import crossline as cl

def tap(number):
    return {"id": str(number), "card": "c", "at": 1_000 * number}

def test_two_taps(rule_tester):
    tester = rule_tester("rules.yaml", cl.load_streams("stream.yaml")["taps"])
    tester.feed([tap(1)])
    tester.assert_no_hits()
    tester.feed([tap(2)])
    tester.assert_hits([{"record": "2", "value": 2, "records": ["1", "2"]}], rule="two")

def test_that_fails(rule_tester):
    tester = rule_tester("rules.yaml", cl.load_streams("stream.yaml")["taps"])
    tester.feed([tap(1), tap(2)])
    tester.assert_hits(["1"])
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stream.yaml").write_text(STREAM)
    Path("rules.yaml").write_text(RULES)


def made(**more: str) -> RuleTester:
    return RuleTester("rules.yaml", load_streams("stream.yaml")["taps"], **more)


def test_a_users_test_uses_the_fixture() -> None:
    """By the name of the plug-in, as an installation loads it."""
    Path("test_rules.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "crossline.testing.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, "test_rules.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "a hit at 1: found no such hit" in done.stdout
    assert "two at 2: not expected (" in done.stdout


def test_the_plug_in_loads_nothing_of_the_engine() -> None:
    code = "import sys, crossline.testing.plugin; print(*(n for n in sys.modules if n.startswith('crossline.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["crossline.testing", "crossline.testing.plugin"]


def test_decisions_are_kept_too() -> None:
    Path("policy.yaml").write_text("schema_version: 1\nversion: 1\nbands: [{from: 50, decision: block}]\n")
    mine = made(policy="policy.yaml")
    mine.feed([{"id": "1", "card": "c", "at": 1}, {"id": "2", "card": "c", "at": 2}])
    assert [each["decision"] for each in mine.decisions] == ["allow", "block"]


def test_a_record_that_does_not_fit_is_an_error_of_the_test() -> None:
    mine = made()
    with pytest.raises(AssertionError, match="record 0: missing_field: field card"):
        mine.feed([{"id": "1", "at": 1}])
    mine.feed([{"id": "2", "at": 1}], refused=True)
    assert [each.reason for each in mine.dead_letters] == ["missing_field", "missing_field"]


def test_a_rule_that_is_not_there_is_reported() -> None:
    with pytest.raises(UsageError, match="found no rule three under test"):
        made().assert_no_hits(rule="three")
    Path("rules.yaml").write_text(RULES[RULES.index("- {rule_id: elsewhere") :])
    with pytest.raises(UsageError, match="found no rule that reads taps and no other stream"):
        made()


def test_rules_that_do_not_fit_the_stream_are_reported() -> None:
    Path("rules.yaml").write_text(RULES.replace("group_by: card", "group_by: crad"))
    with pytest.raises(UsageError, match=r"does not fit stream taps:\nrule two: found .*crad"):
        made()
