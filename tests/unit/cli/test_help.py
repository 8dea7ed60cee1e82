"""Help pages: of every command, at every width, with every name and every word of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from crossline.cli.main import app, run_command

ROOT: Any = typer.main.get_command(app)


def commands(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
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
    for name, each in getattr(command, "commands", {}).items():
        assert {name, *each.get_short_help_str(1_000).split()} <= words


@pytest.mark.parametrize("path", [[], ["rules"], ["alerts"], ["generate"]])
def test_a_group_alone_says_what_there_is(path: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(path) == 2
    assert "Commands" in "".join(capsys.readouterr())


def test_wrong_use_is_one_line_that_names_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, said in (
        (["alerts", "list", "--limit", "x"], "Invalid value for '--limit'"),
        (["alerts", "list", "--limits", "1"], "No such option"),
        (["alert"], "No such command 'alert'"),
        (["init"], "Missing argument"),
    ):
        assert run_command(arguments) == 2
        told = capsys.readouterr().err
        assert told.startswith(f"error: {said}")
        assert told.endswith(" --help\n")
        assert told.count("\n") == 1


def test_every_command_can_say_it_in_json() -> None:
    commands_alone = [command for command in COMMANDS.values() if not getattr(command, "commands", {})]
    assert commands_alone
    assert [each.name for each in commands_alone if "--json" not in {o for p in each.params for o in p.opts}] == []
