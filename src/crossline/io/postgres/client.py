"""The address of a database, its connections, and its errors."""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from crossline.basics.errors import CrosslineError, PermanentError, SinkError, StateError, UsageError
from crossline.io.net.deadline import Deadline, DeadlineCutter, NoAnswerError, within
from crossline.io.postgres.rows import TABLES
from crossline.settings.postgres import SCHEMA, DatabaseSettings, is_schema_name

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise PermanentError(
        f"PostgreSQL needs a client that is not installed ({error}): pip install 'crossline[postgres]'"
    ) from None

Connection = psycopg.Connection[tuple[Any, ...]]

# What it would say beside an error, such as of a rollback that a broken connection took no more, is in the error.
_SILENT = logging.getLogger("psycopg")
_SILENT.propagate = False
_SILENT.addHandler(logging.NullHandler())

CONNECT_S_MAX = 5
GREET_S_MAX = 30.0  # all hosts, their greetings, and what is set up
# A peer that is gone without a word shows within half a minute.
_ALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}
# What passes by itself: classes of SQLSTATE, and single ones.
_PASSING = ("08", "53", "57", "58", "40")
_PASSING_STATES = {"55P03", "25006", "55006"}
# SQLSTATEs that an operator can fix while a batch is held, each with what to do.
_MENDABLE = {
    "28": "see that user and password are right, and that pg_hba.conf lets it in",
    "3D000": "create the database",
    "3F000": "create the schema, or let the user create it",
    "42501": "grant the user what it lacks",
    "42P01": "a table of the store was dropped; restore it",
    "42703": "a column of the store was renamed or dropped; put it back",
    "42P10": "a key of the store was dropped; put it back",
    # The statements are always the same: any other error of this class is one of the tables.
    "42": "a table of the store was changed; put back what it had",
    "23": "a constraint that the store does not make was added to a table; take it away",
    "22001": "a column of the store was made narrower; put it back",
    "55000": "a table of the store became something that takes no rows; put it back",
    "P0001": "a trigger that the store does not make refuses rows; take it away",
}
OURS = {name for columns in TABLES.values() for name in columns}
_NULL = "23502"  # of a column of ours it is what was given that is wrong
# A connection that is refused has no SQLSTATE for us, only the server's words.
_REFUSED = {
    "password authentication failed": "28",
    "no password supplied": "28",
    "no pg_hba.conf entry": "28",
    "permission denied for database": "42501",
    'role "': "28",
    'database "': "3D000",
}


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """A schema of a database. ``options``: what the client needs to connect, the password among it."""

    options: Mapping[str, Any] = field(repr=False)
    schema: str

    @property
    def name(self) -> str:
        """The address without secrets."""
        given = self.options
        user = f"{given['user']}@" if given.get("user") else ""
        host, port = given.get("host") or given.get("hostaddr") or "", given.get("port") or 5432
        dbname = given.get("dbname") or given.get("user") or ""
        more = "" if self.schema == SCHEMA else f"?schema={self.schema}"
        return f"postgresql://{user}{host}:{port}/{dbname}{more}"

    def connect(self, stop: threading.Event | None = None) -> Connection:
        """A connection in autocommit mode, with the schema in its search path.

        ``stop``: gives up soon after it is set. Raises what psycopg raises.
        """
        options = {"connect_timeout": CONNECT_S_MAX, "application_name": "crossline", **_ALIVE, **self.options}
        deadline = Deadline(GREET_S_MAX, stop)
        try:
            connection = within(deadline, lambda: psycopg.connect(**options, autocommit=True), "postgres")
        except NoAnswerError as error:
            raise psycopg.OperationalError(str(error)) from error
        try:
            with connection_deadline(connection, deadline):
                connection.execute("SELECT set_config('search_path', %s, false)", (f'"{self.schema}", pg_temp',))
                connection.execute("SET timezone = 'UTC'")
        except BaseException:
            connection.close()
            raise
        return connection

    def lock_key(self) -> int:
        """The key of the advisory lock that guards changes to the tables of this schema."""
        digest = hashlib.blake2b(f"crossline\x1f{self.schema}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)


def address_of(settings: DatabaseSettings, environment: Mapping[str, str] = os.environ) -> DatabaseAddress:
    """The address in ``settings``. Raises PermanentError where its password cannot be read."""
    if settings.dsn_env is not None:
        return DatabaseAddress(
            _read_dsn(_variable(environment, settings.dsn_env), settings.dsn_env), settings.schema_name
        )
    options: dict[str, Any] = {"host": settings.host, "port": settings.port, "user": settings.user}
    options["dbname"] = settings.dbname or settings.user
    password = settings.password(environment, lambda path: Path(path).read_text(encoding="utf-8"))
    if password is not None:
        options["password"] = password
    if settings.sslmode is not None:
        options["sslmode"] = settings.sslmode
    if settings.ca_file is not None:
        options["sslrootcert"] = settings.ca_file
    return DatabaseAddress(options, settings.schema_name)


def address_of_url(url: str) -> DatabaseAddress:
    """The address in a URL of the command line; the password comes from PGPASSWORD, PGPASSFILE or ~/.pgpass.

    Raises UsageError where the URL is invalid, or contains a password, which other users would see.
    """
    advice = "leave it out, and set PGPASSWORD or write it into ~/.pgpass"
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        secret = bool(parts.password) or any(name == "password" for name, _ in query)
    except ValueError:
        raise UsageError("the address of the store cannot be read; write postgresql://user@host:port/dbname") from None
    if secret:
        raise UsageError(f"the address of the store has a password in it, which others can see: {advice}")
    schemas = [value for name, value in query if name == "schema"]
    rest = urlencode([(name, value) for name, value in query if name != "schema"])
    schema = schemas[-1] if schemas else SCHEMA
    if not is_schema_name(schema):
        raise UsageError(f"schema={schema!r} is no name of a schema; write lower-case letters, digits and _")
    return DatabaseAddress(_read_dsn(urlunsplit(parts._replace(query=rest)), "the address"), schema)


def _read_dsn(text: str, where: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(text)
    except psycopg.Error:  # its words may have the password in them
        raise PermanentError(
            f"the connection string in {where} cannot be read; write postgresql://user:password@host:port/dbname, "
            "or host=… port=… dbname=… user=… password=…"
        ) from None


def _variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise PermanentError(f"environment variable {name}, which dsn_env names, is not set: export it first")
    return value


@contextmanager
def connection_deadline(connection: Connection, deadline: Deadline) -> Iterator[None]:
    """Close the connection at ``deadline``: psycopg waits for a silent server without end.

    Raises psycopg's OperationalError then.
    """

    def cut() -> None:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

    cutting = DeadlineCutter(deadline, cut)
    try:
        with cutting:
            yield
    except psycopg.Error as error:
        if cutting.over:
            raise psycopg.OperationalError(f"{deadline.reason}: {error}") from error
        raise


@contextmanager
def translated_errors(place: DatabaseAddress, *, writing: bool, opening: bool = False) -> Iterator[None]:
    """Translates psycopg errors: transient errors, and those that an operator can fix, are retryable.

    ``opening``: an error that an operator has to fix ends the start.
    """
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, place, writing=writing, opening=opening) from error


def _translated(error: psycopg.Error, place: DatabaseAddress, *, writing: bool, opening: bool) -> CrosslineError:
    state = error.sqlstate or _state_of_words(error)
    what = f"the store {place.name} cannot be {'written' if writing else 'read'}"
    text = " ".join(str(error).split())
    advice = _MENDABLE.get(state) or _MENDABLE.get(state[:2])
    if advice is not None and not (state == _NULL and error.diag.column_name in OURS):
        return (PermanentError if opening else SinkError)(f"{what}: {text}; {advice}")
    if state[:2] in _PASSING or state in _PASSING_STATES:
        return SinkError(f"{what} now: {text}")
    return StateError(f"the store {place.name} cannot hold what it was given: {text}" if writing else f"{what}: {text}")


def _state_of_words(error: psycopg.Error) -> str:
    """The SQLSTATE, or its class, of a failed connection, whose error has none."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return "XX000"
    text = str(error)
    return next((state for words, state in _REFUSED.items() if words in text), "08006")
