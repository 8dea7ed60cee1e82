"""A package of another author: its rule type judges, its sink gets deliveries, and its faults are reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crossline.cli.init import template_files

from .third_party_plugin import ENTRY_POINTS, install

RULE = """
rule_id: large
version: 1
rule_type: at_least
source_topic: payments
entity: account_id
field: amount_cents
least: 150000
score: 60
"""
CASES = """
cases:
  - name: at least 1,500 euros
    record: {account_id: a, merchant_id: m, channel: card, paid_at: "2026-01-05T09:00:00Z"}
    records: [{payment_id: p1, amount_cents: 149999}, {payment_id: p2, amount_cents: 150000}]
    hits: [{record: p2, key: {account_id: a}}]
"""
DELIVER = """
import json, sys
from crossline.io.sinks.base import Delivery, build_sink
sink = build_sink({"kind": "ledger", "path": "ledger.txt"}, "shop")
sink.open()
alerts = [json.loads(line) for line in open("alerts.jsonl")]
for _ in range(2):
    sink.deliver(Delivery("shop", 0, alerts))
sink.close()
print(type(sink).__module__, len(open("ledger.txt").readlines()))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one rule of the foreign type, and a pipeline with the foreign sink."""
    for name, content in template_files():
        if not name.startswith("rules/"):
            (tmp_path / "shop" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "shop" / name).write_bytes(content)
    folder = tmp_path / "shop"
    (folder / "rules").mkdir()
    (folder / "rules" / "large.yaml").write_text(RULE)
    (folder / "rules" / "large.cases.yaml").write_text(CASES)
    text = (folder / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(text.replace("  - {kind: console}", "  - {kind: ledger, path: ledger.txt}"))
    return folder


def run(project: Path, *command: str, code: int = 0) -> str:
    """A command where the package is installed, if it is; what it prints, or says of its failure."""
    path = os.pathsep.join([str(project.parent / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def crossline(project: Path, *command: str, code: int = 0) -> str:
    return run(project, "-m", "crossline", *command, code=code)


def test_a_rule_type_and_a_sink_of_a_third_party(project: Path) -> None:
    install(project.parent / "site")
    crossline(project, "rules", "check", "rules", "--pipeline", "pipeline.yaml")
    tried = crossline(project, "rules", "test", "rules", "--stream", "stream.yaml", "--json")
    assert [json.loads(line)["passed"] for line in tried.splitlines()] == [True]
    given = ("--pipeline", "pipeline.yaml", "--input", "in/*.jsonl", "--json")
    assert json.loads(crossline(project, "backtest", *given))["alerts"] == {"large": 1}
    assert run(project, "-c", DELIVER) == "shop_plugins.sink 1\n"


def test_without_the_package_its_names_are_unknown(project: Path) -> None:
    assert "expected one of absence" in crossline(project, "rules", "test", "rules", "--stream", "stream.yaml", code=2)
    found = crossline(project, "rules", "check", "rules", "--pipeline", "pipeline.yaml", code=2)
    assert 'found "ledger"; expected one of sqlite, jsonl, console, kafka' in found


def test_what_takes_other_settings_is_refused_at_its_place(project: Path) -> None:
    install(project.parent / "site")
    text = (project / "pipeline.yaml").read_text()
    (project / "pipeline.yaml").write_text(text.replace("path: ledger.txt", "file: ledger.txt"))
    found = crossline(project, "rules", "check", "rules", "--pipeline", "pipeline.yaml", code=2)
    assert "sinks[2].file" in found
    assert "unknown field file" in found


def test_a_sink_names_what_it_needs(project: Path) -> None:
    install(project.parent / "site", imports="import ledger_client")
    (project / "alerts.jsonl").touch()
    found = run(project, "-c", DELIVER, code=1)
    text = "a sink of kind ledger needs ledger_client, which is not installed: pip install 'shop-plugins[ledger]'"
    assert text in found


@pytest.mark.parametrize(
    ("entry_points", "text"),
    [
        (
            ENTRY_POINTS.replace("rule:AtLeastRule", "rule:NoSuchRule"),
            "at_least of package shop-plugins 1.0 (shop_plugins.rule:NoSuchRule) cannot be loaded for",
        ),
        (
            ENTRY_POINTS.replace("rule:AtLeastRule", "settings:LedgerSettings"),
            "expected a subclass of crossline.rules.base.Rule, which crossline.rule_types asks for",
        ),
        (
            ENTRY_POINTS + "\n[crossline.aggregates]\nhalf = shop_plugins.half\n",
            "half of package shop-plugins 1.0 (shop_plugins.half) cannot be loaded for crossline.aggregates: Module",
        ),
        (
            ENTRY_POINTS + "\n[crossline.aggregates]\nhalf = shop_plugins.rule:AtLeastRule\n",
            "expected a module, which crossline.aggregates asks for",
        ),
        (
            ENTRY_POINTS + "\n[crossline.aggregates]\nhalf = shop_plugins.rule\n",
            "shop_plugins.rule declares no aggregate: AGGREGATE = Aggregate(...) is expected",
        ),
    ],
    ids=["not there", "something else", "no aggregate there", "no module", "none declared"],
)
def test_what_cannot_be_loaded_is_reported(project: Path, entry_points: str, text: str) -> None:
    install(project.parent / "site", entry_points=entry_points)
    reported = crossline(project, "rules", "test", "rules", "--stream", "stream.yaml", code=2)
    assert text in reported


def test_two_packages_with_one_name_are_reported(project: Path) -> None:
    install(project.parent / "site")
    other = ENTRY_POINTS.replace("at_least = shop_plugins.rule", "at_least = other_plugins.rule")
    install(project.parent / "site", entry_points=other, name="other-plugins")
    reported = crossline(project, "rules", "test", "rules", "--stream", "stream.yaml", code=2)
    assert "two packages bring at_least for crossline.rule_types: " in reported
    assert "uninstall one of them" in reported


def test_a_name_of_ours_stays_ours(project: Path) -> None:
    """A package cannot put another rule type in the place of one that is here."""
    install(project.parent / "site", entry_points="[crossline.rule_types]\nthreshold = shop_plugins.rule:AtLeastRule\n")
    (project / "rules" / "large.yaml").write_text(RULE)
    reported = crossline(project, "rules", "test", "rules", "--stream", "stream.yaml", code=2)
    assert "rule_type threshold is crossline.rules.types.threshold.ThresholdRule already; uninstall the" in reported
