"""Help pages: of every command, at every width, with every name and every word of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from crossline.cli.app import COMMANDS as LISTED
from crossline.cli.app import app
from crossline.cli.main import run_command
from crossline.io.sqlite.sink import SqliteSink

ROOT: Any = typer.main.get_command(app)


def below(command: Any) -> dict[str, Any]:
    """The commands of a group, by name."""
    if not hasattr(command, "list_commands"):
        return {}
    context = typer.Context(command)
    return {name: command.get_command(context, name) for name in command.list_commands(context)}


def commands(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, each in below(command).items():
        yield from commands(each, (*path, name))


COMMANDS = dict(commands())


@pytest.mark.parametrize("columns", [30, 40, 79, 80, 120])
@pytest.mark.parametrize("path", list(COMMANDS), ids=" ".join)
def test_a_page_fits_and_is_whole(
    path: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = COMMANDS[path]
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run_command([*path, "--help"]) == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= columns
    assert "…" not in page
    words = set(page.replace("│", " ").split())
    for parameter in command.params:
        if parameter.param_type_name == "option":
            assert set(parameter.opts) <= words
        assert set((parameter.help or "").split()) <= words
    for name, each in below(command).items():
        assert {name, *each.get_short_help_str(1_000).split()} <= words


@pytest.mark.parametrize("columns", [40, 100])
@pytest.mark.parametrize("path", [[], ["rules"], ["alerts"], ["generate"]])
def test_a_group_alone_says_once_what_there_is(
    path: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run_command(path) == 2
    text = "".join(capsys.readouterr())
    assert (text.count("Usage:"), text.count("Commands")) == (1, 1)


def test_wrong_use_is_one_line_that_names_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in (
        (["alerts", "list", "--limit", "x"], "Invalid value for '--limit'"),
        (["alerts", "list", "--limits", "1"], "No such option"),
        (["alert"], "No such command 'alert'"),
        (["init"], "Missing argument"),
    ):
        assert run_command(arguments) == 2
        reported = capsys.readouterr().err
        assert reported.startswith(f"error: {text}")
        assert reported.endswith(" --help\n")
        assert reported.count("\n") == 1


def test_every_command_can_say_it_in_json() -> None:
    commands_alone = [command for command in COMMANDS.values() if not below(command)]
    assert commands_alone
    assert [each.name for each in commands_alone if "--json" not in {o for p in each.params for o in p.opts}] == []


def test_the_page_of_all_commands_says_of_each_what_it_says_itself() -> None:
    assert {name: each.get_short_help_str(1_000) for name, each in below(ROOT).items()} == LISTED


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends, in a process of its own."""
    code = "import sys\nfrom crossline.cli.main import run_command\nrun_command(sys.argv[1:])\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


# What takes long to load, and judges or moves records.
HEAVY = {"pyspark", "pandas", "numpy", "pyarrow", "numba", "llvmlite", "confluent_kafka", "onnxruntime", "psycopg"}
STREAM = """
schema_version: 1
streams:
  s: {id: i, event_time: {field: t}, fields: {i: string, t: integer, k: string, v: integer}}
"""
RULE = """
- {rule_id: r, version: 1, rule_type: velocity, source_topic: s, group_by: k, aggregation_type: sum,
   aggregation_field: v, aggregation_threshold: 3, window: 10s}
"""


# What judging with a policy, over the network, of other formats and of other kinds of rules needs.
UNUSED_IN_A_BACKTEST = {
    "crossline.generate.cards",
    "crossline.ingest.avro.records",
    "crossline.io.registry.client",
    "crossline.io.sinks.base",
    "crossline.rules.types.velocity",
    "crossline.runtime.stages.decision_stage",
    "crossline.runtime.state_log.state_log",
    "crossline.runtime.workers.kernel_warmup",
    "crossline.state.panes.store",
    "crossline.state.patterns.store",
    "crossline.state.retraction.kernel",
    "confluent_kafka",
    "numba",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pyspark",
    "tenacity",
}
THRESHOLD_RULE = """
- {rule_id: r, version: 1, rule_type: threshold, source_topic: s,
   conditions: [{field: v, operator: ">", value: 3}]}
"""
RECORD = '{"i": "a", "t": 1769851800000, "k": "x", "v": 5}\n'


def test_no_command_loads_what_only_another_one_uses(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "r.yaml").write_text(RULE)
    (tmp_path / "stream.yaml").write_text(STREAM)
    store = SqliteSink(tmp_path / "some.db", "p")
    store.open()
    store.close()
    config = {"crossline.settings.config"}
    check = config | {"rich.console", "sqlite3", "crossline.rule_registry.publish", "crossline.rules.types.threshold"}
    for arguments, unused in (
        (("--help",), HEAVY | config | {"pydantic", "yaml", "sqlite3"}),
        (("rules", "check", "--help"), HEAVY | config),
        (("rules", "check", str(tmp_path / "rules"), "--stream", str(tmp_path / "stream.yaml")), HEAVY | check),
        (("alerts", "list", "--db", str(tmp_path / "some.db")), HEAVY | config | {"crossline.rules.base"}),
        (("alerts", "list", "--db", "none.db"), HEAVY | config),
    ):
        assert (arguments[:2], unused & loaded_by(*arguments)) == (arguments[:2], set())


def test_a_small_backtest_loads_what_its_rules_need(tmp_path: Path) -> None:
    for name, text in (("r.yaml", THRESHOLD_RULE), ("stream.yaml", STREAM), ("in.jsonl", RECORD)):
        (tmp_path / name).write_text(text)
    given = ("--input", str(tmp_path / "in.jsonl"), "--stream", str(tmp_path / "stream.yaml"))
    written = str(tmp_path / "alerts.jsonl")
    unused = UNUSED_IN_A_BACKTEST | {"crossline.settings.config"}
    for arguments in (
        ("backtest", *given, "--rules", str(tmp_path / "r.yaml"), "--output", written),
        ("rules", "test", str(tmp_path / "r.yaml"), *given),
    ):
        assert (arguments[:2], unused & loaded_by(*arguments)) == (arguments[:2], set())
    assert len(Path(written).read_text().splitlines()) == 1
