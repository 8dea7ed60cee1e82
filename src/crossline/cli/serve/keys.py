"""``crossline serve keys``: make, list, rotate and revoke API keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.texts.problems import nearest, one_of
from crossline.basics.times import format_duration, format_instant, parse_duration_ms
from crossline.cli.serve.setting import PIPELINE, AsJson, PipelineFile, audit_folder, now_ms, serve_settings, this_user
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.serve.access.audit import AuditLog, Write
from crossline.serve.access.keyfile import ApiKey, KeyFile
from crossline.serve.access.roles import ROLES, scope_problem
from crossline.settings.process.serve import ServeSettings

NEVER = "never"
app = typer.Typer(help="Make, list, rotate and revoke API keys.", no_args_is_help=True)
Expires = Annotated[str, typer.Option(metavar="DURATION", help=f"Lifetime, such as 90d; {NEVER}: no end.")]


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="keys")


@app.command()
def create(
    name: Annotated[str, typer.Option("--name", help="Owner of the key, as named in audit events and rule approvals.")],
    *,
    scope: Annotated[
        list[str] | None, typer.Option("--scope", help="A scope, such as decide:payments; may be given again.")
    ] = None,
    role: Annotated[
        list[str] | None, typer.Option("--role", help=f"All scopes of a role: {', '.join(ROLES)}; may be given again.")
    ] = None,
    expires: Expires = "90d",
    pipeline: PipelineFile = PIPELINE,
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, this once: only its SHA-256 is kept."""
    config, serve = serve_settings(pipeline)
    scopes = _scopes(scope or (), role or (), config.streams)
    now = now_ms()
    end = _end(expires, now)
    with _audited(serve, "create", name, None) as write:
        key, made = KeyFile(Path(serve.keys)).create(name, scopes, now_ms=now, expires_ms=end)
        write.after = made.to_json(now)
    _hand_over(key, made, now, as_json=as_json)


@app.command(name="list")
def list_keys(*, pipeline: PipelineFile = PIPELINE, as_json: AsJson = False) -> None:
    """List keys: owner, scopes, end, last use. The keys themselves are stored nowhere."""
    _, serve = serve_settings(pipeline)
    keys, now = KeyFile(Path(serve.keys)).listed(), now_ms()
    if as_json:
        write_lines(orjson.dumps(each.to_json(now)) for each in keys)
        return
    if not keys:
        note(f"there are no keys in {serve.keys}: crossline serve keys create makes one")
        return
    table = Listing("key_id", "name", "scopes", "created", "state", "used", long=("scopes",))
    for each in keys:
        used = "never" if each.used_ms is None else f"{format_instant(each.used_ms)[:13]}h"
        table.add(
            each.key_id, each.name, ", ".join(each.scopes), format_instant(each.created_ms), _state(each, now), used
        )
    show(table)


@app.command()
def rotate(
    name: Annotated[str, typer.Option("--name", help="Owner of the key.")],
    *,
    grace: Annotated[str, typer.Option(metavar="DURATION", help="How long the old key stays valid.")] = "24h",
    expires: Expires = "90d",
    pipeline: PipelineFile = PIPELINE,
    as_json: AsJson = False,
) -> None:
    """Make another key of the same name and scopes; the old one stays valid for a grace period."""
    _, serve = serve_settings(pipeline)
    file, now = KeyFile(Path(serve.keys)), now_ms()
    grace_ms = _duration("--grace", grace)
    end = _end(expires, now)
    with _audited(serve, "rotate", name, _of_name(file, name, now)) as write:
        key, made, old = file.rotate(name, now_ms=now, grace_ms=grace_ms, expires_ms=end)
        write.after = [each.to_json(now) for each in (*old, made)]
    _hand_over(key, made, now, as_json=as_json)
    for each in old:
        note(f"key {each.key_id} holds until {format_instant(each.expires_ms or 0)}")


@app.command()
def revoke(
    *,
    name: Annotated[str | None, typer.Option("--name", help="All keys of this owner.")] = None,
    key_id: Annotated[str | None, typer.Option("--id", metavar="KEY_ID", help="One key.")] = None,
    pipeline: PipelineFile = PIPELINE,
    as_json: AsJson = False,
) -> None:
    """Revoke keys now. A running server refuses them within a second."""
    if name is None and key_id is None:
        raise UsageError("found neither --name nor --id; expected one of them")
    _, serve = serve_settings(pipeline)
    file, now = KeyFile(Path(serve.keys)), now_ms()
    before = [each.to_json(now) for each in file.listed() if each.key_id == key_id or each.name == name]
    with _audited(serve, "revoke", name or f"id {key_id}", before) as write:
        ended = file.revoke(name, key_id, now_ms=now)
        write.after = [each.key_id for each in ended]
    if as_json:
        write_lines(orjson.dumps({"key_id": each.key_id, "name": each.name, "revoked_ms": now}) for each in ended)
        return
    for each in ended:
        typer.echo(f"{each.key_id} of {each.name}: revoked")
    if not ended:
        note("all of them were revoked before")


def _hand_over(key: str, made: ApiKey, now: int, *, as_json: bool) -> None:
    """The key alone on the standard output, for ``KEY=$(crossline serve keys create …)``."""
    end = "without an end" if made.expires_ms is None else f"until {format_instant(made.expires_ms)}"
    note(f"key {made.key_id} of {made.name}, {end}: {', '.join(made.scopes)}. It is shown this once")
    if as_json:
        write_lines([orjson.dumps({"key": key, **made.to_json(now)})])
    else:
        typer.echo(key)


@contextmanager
def _audited(serve: ServeSettings, what: str, name: str, before: Any) -> Iterator[Write]:
    log = AuditLog(audit_folder(serve), now_ms)
    with log.write(this_user(), "CLI", f"serve keys {what}", f"keys/{name}", before) as write:
        yield write


def _of_name(file: KeyFile, name: str, now: int) -> list[dict[str, Any]]:
    return [each.to_json(now) for each in file.listed() if each.name == name]


def _scopes(scopes: list[str] | tuple[()], roles: list[str] | tuple[()], streams: Any) -> list[str]:
    for role in roles:
        if role not in ROLES:
            hint = nearest(role, ROLES)
            text = f"--role: found {role}; expected {one_of(ROLES)}"
            raise UsageError(f"{text}; {hint}" if hint else text)
    for scope in scopes:
        problem = scope_problem(scope, streams)
        if problem is not None:
            found, expected, hint = problem
            raise UsageError(f"--scope: found {found}; expected {expected}" + (f"; {hint}" if hint else ""))
    return sorted({*scopes, *(each for role in roles for each in ROLES[role])})


def _end(expires: str, now: int) -> int | None:
    return None if expires == NEVER else now + _duration("--expires", expires)


def _duration(option: str, text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None


def _state(key: ApiKey, now: int) -> str:
    state = key.state(now)
    if state != "good":
        return state
    if key.expires_ms is None:
        return "good, no end"
    left_ms = key.expires_ms - now
    unit_ms = 86_400_000 if left_ms >= 2 * 86_400_000 else 3_600_000 if left_ms >= 2 * 3_600_000 else 60_000
    return f"good, ends in {format_duration(max(unit_ms, left_ms - left_ms % unit_ms))}"
