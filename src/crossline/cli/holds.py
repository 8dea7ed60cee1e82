"""``crossline holds``: a person has records of a key held until an instant, releases it, lists what is held."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant, parse_duration_ms, parse_instant_ms
from crossline.cli.rules.release import key_given
from crossline.cli.rules.topic import PIPELINE, As, PipelineFile, ask_there, goes_to_topic
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.rule_registry.content import read_pipeline_in_place
from crossline.rule_registry.directory import logs_in
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.outcomes.manual_holds import held_by_hand
from crossline.rule_registry.sources.hold_placement import ask_in_folder
from crossline.rule_registry.sources.holds import EndWish, HoldWish, new_hold_id
from crossline.rule_registry.sources.ownership import user_name
from crossline.rule_registry.sources.releases import key_text
from crossline.rules.holds.release import release_key

_LOADED = "effective when a pipeline loads it; a running one does within two seconds"

app = typer.Typer(help="Hold a key by hand until an instant, release it, list what is held.", no_args_is_help=True)

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason; it is written to the rule log.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="holds")


@app.command()
def place(
    *,
    key: Annotated[
        list[str],
        typer.Option("--key", metavar="FIELD=VALUE", help="What is held; given again for each field of the key."),
    ],
    until: Annotated[str, typer.Option(metavar="WHEN", help="End: an instant, or a duration from now, such as 24h.")],
    reason: Reason,
    action: Annotated[str | None, typer.Option(help="review, step_up or block; not with --rule.")] = None,
    rule: Annotated[
        str | None, typer.Option(metavar="ID", help="Hold as alerts of this rule do; the rule must have a hold.")
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option(help="Only records of this stream; by default all streams with these fields.")
    ] = None,
    hold_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="32 hex digits: a repeated request takes effect once.")
    ] = None,
    pipeline: PipelineFile = PIPELINE,
    as_: As = None,
    as_json: AsJson = False,
) -> None:
    """Give records of a key an action from now until an instant."""
    now_ms = time.time_ns() // 1_000_000
    wish = HoldWish(
        hold_id or new_hold_id(),
        release_key(_as_tokens(pipeline, key_given(key))),
        _until_ms(until, now_ms),
        _given(reason),
        now_ms,
        action,
        rule,
        tuple(stream or ()),
    )
    body = {"hold_id": wish.hold_id, "key": dict(wish.key), "until": format_instant(wish.until_ms)}
    text = f"{wish.hold_id}: {key_text(wish.key)} held until {format_instant(wish.until_ms)}"
    _ask(wish, pipeline, as_, body, text, as_json=as_json)


@app.command()
def release(
    hold_id: Annotated[str, typer.Argument(metavar="ID", help="Which hold; see crossline holds list.")],
    *,
    reason: Reason,
    pipeline: PipelineFile = PIPELINE,
    as_: As = None,
    as_json: AsJson = False,
) -> None:
    """End a hold placed by a person. Holds by alerts are released by crossline rules release."""
    wish = EndWish(hold_id, _given(reason), time.time_ns() // 1_000_000)
    body = {"hold_id": hold_id, "released": True}
    _ask(wish, pipeline, as_, body, f"{hold_id}: released", as_json=as_json)


@app.command(name="list")
def list_holds(*, pipeline: PipelineFile = PIPELINE, as_json: AsJson = False) -> None:
    """List the holds placed by people that the pipeline applies now."""
    config = read_pipeline_in_place(pipeline)
    path = logs_in(config.rules.path).get(config.name)
    rows = [each.to_json() for each in held_by_hand(read_log(path) if path else [], time.time_ns() // 1_000_000)]
    if as_json:
        write_lines(orjson.dumps(row) for row in rows)
        return
    table = Listing("hold", "key", "action", "since", "until", "by", "reason", long=("reason",))
    for row in rows:
        since = row["since"] or "the beginning"
        key = key_text(release_key(row["key"]))
        table.add(row["hold_id"], key, row["action"], since, row["until"], row["placed_by"], row["reason"])
    show(table)
    if not rows:
        note("no holds by people; for holds by alerts see crossline alerts")


def _as_tokens(pipeline: Path, key: dict[str, str]) -> dict[str, str]:
    from crossline.io.tokens.lookup import key_as_tokens

    return key_as_tokens(read_pipeline_in_place(pipeline).streams, key, make=True)


def _ask(
    wish: HoldWish | EndWish, pipeline: Path, as_: str | None, body: Mapping[str, Any], text: str, *, as_json: bool
) -> None:
    if goes_to_topic(pipeline):
        sent = ask_there(wish, pipeline, as_, wish.asked_ms)
        by = f"sent to topic {sent['topic']} by {sent['who']}"
    elif as_ is not None:
        raise UsageError(f"--as {as_}: of files in a folder who owns them counts; run this as the one who asks")
    else:
        fresh = ask_in_folder(read_pipeline_in_place(pipeline), wish, wish.asked_ms)
        sent = {"who": user_name(os.geteuid()), **({} if fresh else {"change": "unchanged"})}
        by = f"by {sent['who']}"
    if as_json:
        write_lines([orjson.dumps({**body, "reason": wish.reason, **sent})])
    else:
        done = "is there already; nothing changes" if sent.get("change") == "unchanged" else _LOADED
        typer.echo(f"{text}, {by}; {done}")


def _given(reason: str) -> str:
    if not reason.strip():
        raise UsageError("found no reason; expected why: --reason TEXT")
    return reason.strip()


def _until_ms(text: str, now_ms: int) -> int:
    try:
        return now_ms + parse_duration_ms(text)
    except ValueError:
        pass
    try:
        return parse_instant_ms(text)
    except ValueError as error:
        raise UsageError(f"--until takes an instant or a time such as 24h; {error}") from None
