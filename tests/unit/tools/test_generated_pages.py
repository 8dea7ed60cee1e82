"""Generated pages: those that are committed are current, and none leaves anything out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tools.docs import commands, http_api, kernel_memory, metrics, python_api
from tools.docs.configuration import reference
from tools.docs.markdown import cell, table

import crossline
from crossline.cli.app import COMMANDS
from crossline.settings.config import EngineSettings, PipelineDefaults
from crossline.settings.kafka import KafkaSecurity
from crossline.settings.sinks import SINKS
from crossline.settings.sources import SOURCES
from crossline.state.memory import layout as at

ROOT = Path(__file__).parents[3]


def test_every_key_has_a_description() -> None:
    assert "| None |" not in reference()
    for model in [*SOURCES.values(), *SINKS.values(), EngineSettings, PipelineDefaults, KafkaSecurity]:
        assert all(field.description for field in model.model_fields.values()), model


def test_the_reference_is_current() -> None:
    page = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    assert page == reference(), "run: python -m tools.docs.configuration > docs/configuration.md"


def test_the_kernels_memory_is_drawn_whole() -> None:
    """Each word and each field by its name, with its offset below the box that it begins."""
    page = kernel_memory.page()
    missing = [word.name for word in at.TABLE.words if f"| {word.number} | `{word.name}` |" not in page]
    rows = (at.RECORD, at.KEYED, at.MATCH_STEP)
    missing += [
        field.name for row in rows for field in row.fields if f"| `{field.name}` | {field.offset} |" not in page
    ]
    parts = [(part, field) for row in rows for part in row.parts for field in part.item.fields]
    missing += [field.name for part, field in parts if f"| `{part.name}.{field.name}` | {field.offset} |" not in page]
    assert missing == []
    assert parts


def test_every_command_stands_in_the_reference() -> None:
    page = commands.page()
    headings = re.findall(r"^##+ crossline (.+)$", page, re.MULTILINE)
    assert {each.split()[0] for each in headings} == set(COMMANDS)
    assert {"rules check", "rules publish", "alerts show", "serve users create", "backtest"} <= set(headings)
    backtest = page.partition("## crossline backtest\n")[2].partition("\n## ")[0]
    assert "| `--compare <path>` |" in backtest
    assert "--help" not in page.replace("its `--help` says", "")


def test_every_metric_that_the_watching_files_name_stands_in_the_reference() -> None:
    """The alerting rules of Prometheus are written by hand, elsewhere."""
    page = metrics.page()
    known = set(re.findall(r"^\| `(crossline_\w+)` \|", page, re.MULTILINE))
    rules = [yaml.safe_load((ROOT / "deploy/watch" / name).read_text()) for name in ("alerts.yaml", "api-alerts.yaml")]
    texts = [rule["expr"] for file in rules for group in file["groups"] for rule in group["rules"]]
    named = {name for text in texts for name in re.findall(r"crossline_\w+", text)}
    assert named
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in named} - known == set()
    assert "| `crossline_dead_letters_total` | counter | `stream` `reason` |" in page


def test_every_operation_and_body_stands_in_the_reference() -> None:
    document = json.loads((ROOT / "docs/openapi.json").read_text())
    page = http_api.page()
    wanted = [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]
    assert [name for name in wanted if page.count(f"\n### {name}\n") != 1] == []
    assert [name for name in document["components"]["schemas"] if f"\n### {name}\n" not in page] == []
    label = page.partition("\n### PUT /v1/labels/{stream}/{record_id}\n")[2].partition("\n### ")[0]
    assert "Scope: `write:labels`." in label
    assert "Body: [`Label`](#label)." in label


def test_every_public_name_stands_in_the_reference() -> None:
    page = python_api.page()
    shown = {name for name in crossline.__all__ if f"\n::: crossline.{name}\n" in page}
    assert shown == set(crossline.__all__) - {"__version__"}
    assert "\n::: crossline.client.Client\n" in page
    assert "\n::: crossline.testing.RuleTester\n" in page


@pytest.mark.parametrize(("text", "written"), [("a|b", "a\\|b"), ("two\n lines", "two lines"), ("", "")])
def test_a_cell_stays_a_cell(text: str, written: str) -> None:
    assert cell(text) == written


def test_a_table_without_rows_is_none() -> None:
    assert list(table(("a", "b"), [])) == []
    assert list(table(("a", "b"), [("1", "2")])) == ["| a | b |", "|---|---|", "| 1 | 2 |", ""]
