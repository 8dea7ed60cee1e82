"""What the demo shows of its lake: commands that there are, in the demo's folder."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
import typer

from crossline.cli.app import app
from crossline.cli.demo import lake_tour
from crossline.cli.demo.lake_tour import LatePublication, steps, tour
from crossline.generate.labels import PlantedFraud
from crossline.rules.rule_reader import load_rules_text
from crossline.runtime.work.totals import Totals


def test_the_rule_comes_after_a_third_of_the_payments(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    late = LatePublication(tmp_path, 90)
    late.note(Totals(records=29))
    assert late.tour([]) == []
    assert not (tmp_path / lake_tour.RULE_FILE).exists()
    late.note(Totals(records=31))
    at_ms = late.at_ms
    late.note(Totals(records=90))
    assert late.at_ms == at_ms is not None
    (rule,) = load_rules_text((tmp_path / lake_tour.RULE_FILE).read_text(), "web_spree.yaml", None)
    assert rule.rule.rule_id == "web_spree"


def test_each_step_is_a_command_with_options_that_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("pipeline.yaml", lake_tour.FIGURES_FILE, lake_tour.LABELS_FILE):
        (tmp_path / name).touch()
    for _, arguments in steps(["--labels-file", lake_tour.LABELS_FILE, "--labels-known-by", "now"], 0):
        command: click.Command = typer.main.get_command(app)
        rest = list(arguments)
        while isinstance(command, click.Group):
            found = command.get_command(click.Context(command), rest.pop(0))
            assert found is not None, arguments
            command = found
        command.make_context("crossline", rest)


def test_it_ends_with_a_step_that_fails_and_says_what_it_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fraud = PlantedFraud("f1", "account_takeover", ("t1", "t2"), {"account_id": "a1"}, 0, 1)
    (step,) = tour(tmp_path, [fraud], 0)
    assert (step.command, step.exit_code) == ("crossline lake write pipeline.yaml --once", 2)
    assert "pipeline.yaml" in step.printed
    assert step.printed in capsys.readouterr().err
    assert json.loads((tmp_path / lake_tour.LABELS_FILE).read_text())["record_ids"] == ["t1", "t2"]
