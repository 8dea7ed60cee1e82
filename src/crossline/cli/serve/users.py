"""``crossline serve users``: make, list, change and disable the console's local users."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from crossline.basics.errors import UsageError
from crossline.basics.times import format_instant
from crossline.cli.serve.setting import PIPELINE, AsJson, PipelineFile, audit_folder, now_ms, serve_settings, this_user
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, show
from crossline.serve.access.audit import AuditLog, Write
from crossline.serve.access.roles import ROLES
from crossline.settings.process.serve import ServeSettings

if TYPE_CHECKING:
    from crossline.serve.console.accounts.users import User, UserFile

STDIN = "-"
app = typer.Typer(help="Make, list, change and disable local users of the console.", no_args_is_help=True)
Name = Annotated[str, typer.Option("--name", help="Name of the user, as in audit events and rule approvals.")]
Roles = Annotated[list[str] | None, typer.Option("--role", help=f"One of {', '.join(ROLES)}; may be given again.")]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="File whose first line is the password; - reads standard input; by default a prompt."
    ),
]


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="users")


@app.command()
def create(
    name: Name,
    *,
    role: Roles = None,
    password_file: PasswordFile = None,
    pipeline: PipelineFile = PIPELINE,
    as_json: AsJson = False,
) -> None:
    """Make a user. The password is stored as an argon2id hash."""
    serve, users = _users(pipeline)
    with _audited(serve, "create", name, None) as write:
        made = users.create(name, role or (), _password(password_file), now_ms=now_ms())
        write.after = made.to_json()
    _report(made, f"{name} may log in: {', '.join(made.roles)}", as_json=as_json)


@app.command(name="list")
def list_users(*, pipeline: PipelineFile = PIPELINE, as_json: AsJson = False) -> None:
    """List users: roles, date of creation, and whether they may log in."""
    serve, users = _users(pipeline)
    found = users.listed()
    if as_json:
        write_lines(orjson.dumps(each.to_json()) for each in found)
        return
    if not found:
        note(f"there are no users in {serve.users}: crossline serve users create makes one")
        return
    table = Listing("name", "roles", "created", "password of", "state", long=("roles",))
    for each in found:
        state = "may log in" if each.disabled_ms is None else f"disabled {format_instant(each.disabled_ms)}"
        times = (format_instant(each.created_ms), format_instant(each.password_ms))
        table.add(each.name, ", ".join(each.roles), *times, state)
    show(table)


@app.command()
def password(
    name: Name, *, password_file: PasswordFile = None, pipeline: PipelineFile = PIPELINE, as_json: AsJson = False
) -> None:
    """Set a user's password; this ends all sessions of the user."""
    serve, users = _users(pipeline)
    with _audited(serve, "password", name, _before(users, name)) as write:
        changed = users.set_password(name, _password(password_file), now_ms=now_ms())
        write.after = changed.to_json()
    _report(changed, f"{name} has another password, and is logged out everywhere", as_json=as_json)


@app.command()
def roles(name: Name, *, role: Roles = None, pipeline: PipelineFile = PIPELINE, as_json: AsJson = False) -> None:
    """Set a user's roles, from the next request on."""
    serve, users = _users(pipeline)
    with _audited(serve, "roles", name, _before(users, name)) as write:
        changed = users.set_roles(name, role or ())
        write.after = changed.to_json()
    _report(changed, f"{name} is {', '.join(changed.roles)}", as_json=as_json)


@app.command()
def disable(
    name: Name,
    *,
    again: Annotated[bool, typer.Option("--undo", help="Enable the user again.")] = False,
    pipeline: PipelineFile = PIPELINE,
    as_json: AsJson = False,
) -> None:
    """Disable a user; this ends all sessions of the user."""
    serve, users = _users(pipeline)
    with _audited(serve, "enable" if again else "disable", name, _before(users, name)) as write:
        changed = users.enable(name) if again else users.disable(name, now_ms=now_ms())
        write.after = changed.to_json()
    _report(changed, f"{name} may log in {'again' if again else 'no more'}", as_json=as_json)


def _users(pipeline: Path) -> tuple[ServeSettings, UserFile]:
    try:
        from crossline.serve.console.accounts.users import UserFile
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the console needs {error.name}, which is not installed: pip install 'crossline[serve]'"
        ) from None
    _, serve = serve_settings(pipeline)
    return serve, UserFile(Path(serve.users))


def _password(file: str | None) -> str:
    """From a file, from standard input, or asked for twice: never from an argument, which others on the machine see."""
    if file is None:
        if not sys.stdin.isatty():
            raise UsageError(
                "found no terminal to ask for the password; expected --password-file FILE, or - for standard input"
            )
        given = getpass("Password: ")
        if getpass("Once more: ") != given:
            raise UsageError("found two different passwords; expected the same twice")
        return given
    try:
        text = sys.stdin.readline() if file == STDIN else Path(file).read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--password-file: {file} cannot be read: {error}") from None
    return text.rstrip("\r\n")


@contextmanager
def _audited(serve: ServeSettings, what: str, name: str, before: Any) -> Iterator[Write]:
    log = AuditLog(audit_folder(serve), now_ms)
    with log.write(this_user(), "CLI", f"serve users {what}", f"users/{name}", before) as write:
        yield write


def _before(users: UserFile, name: str) -> Any:
    found = users.find(name)
    return None if found is None else found.to_json()


def _report(user: User, text: str, *, as_json: bool) -> None:
    if as_json:
        write_lines([orjson.dumps(user.to_json())])
    else:
        typer.echo(text)
