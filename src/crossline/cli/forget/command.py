"""The command: its options, its texts, its exit code."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show

HELP = "Erase a person from tables, files, state, stores and receipts of a pipeline."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="forget", help=HELP)(forget)


def forget(
    pipeline: Annotated[Path, typer.Argument(help="The pipeline file.", exists=True, dir_okay=False)],
    key: Annotated[
        list[str] | None, typer.Option("--key", help="FIELD=VALUE of the person; repeat it for each field and value.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only; nothing is changed.")] = False,
    while_running: Annotated[
        bool, typer.Option("--while-running", help="Erase what can be erased beside a running pipeline.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The receipt as JSON on stdout.")] = False,
) -> None:
    """Erase the rows of a person, and replace mentions in rows of others; figures of others stay.

    Write values that are the person's alone. Without --key, an erasure that was interrupted is finished. Exit codes: 0
    erased or nothing found, 1 something is left, 2 wrong use.
    """
    do_without_pandas()
    from crossline.erasure.holding import holding
    from crossline.erasure.journal import FOLDER, Journal
    from crossline.erasure.run import Erasure, check_fields, erase
    from crossline.erasure.subject import Key
    from crossline.rule_registry.content import read_pipeline_in_place

    keys = tuple(dict.fromkeys(Key.parse(each) for each in key or ()))
    config = read_pipeline_in_place(pipeline)
    journal = Journal(pipeline.parent / FOLDER, config.name)
    if not keys and not journal.pending.exists():
        raise UsageError("found no --key; expected FIELD=VALUE, for example --key account_id=a7")
    check_fields(keys, config)
    asked = Erasure(keys, dry_run=dry_run, while_running=while_running)
    with holding(config, dry_run=dry_run, while_running=while_running) as held:
        receipt = erase(held, journal, asked, time.time_ns() // 1_000_000)
    if as_json:
        write_lines([orjson.dumps(receipt)])
    else:
        _show(receipt)
    if receipt["result"] == "incomplete":
        raise typer.Exit(1)


def _show(receipt: Mapping[str, Any]) -> None:
    from crossline.erasure.run import forms_found, lines_of

    table = Listing("place", "state", "rows gone", "rows changed", "rows kept", "files", "bytes")
    for row in lines_of(receipt):
        table.add(*row)
    show(table)
    others = Listing("not reached", "why", "until")
    for each in receipt["not_reached"]:
        others.add(each["place"], each["why"], each["until"] or "not known here")
    show(others)
    for each in receipt["places"]:
        if each.get("why"):
            note(f"{each['place']}: {each['why']}")
    for text in forms_found(receipt):
        note(text)
    digest = f", receipt {receipt['digest'][:12]}…" if "digest" in receipt else ""
    note(f"{receipt['result']}: {receipt['record_ids']:,} records of the person{digest}")
