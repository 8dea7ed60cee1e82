"""Database addresses: which are rejected, which hold the batch; passwords are never printed."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest
from dev.services.postgres import LocalPostgres
from pydantic import ValidationError
from structlog.testing import capture_logs

from crossline.basics.errors import CrosslineError, PermanentError, SinkError, UsageError
from crossline.io.postgres.client import DatabaseAddress, address_of, address_of_url
from crossline.io.postgres.reader import PostgresReader
from crossline.io.postgres.sink import PostgresSink
from crossline.io.sinks.base import build_sink
from crossline.settings.postgres import PostgresSettings

from .makers import delivery
from .postgres_kit import place_in

SECRET = "s3kr1t-p4ss"


def settings(**given: Any) -> PostgresSettings:
    return PostgresSettings.model_validate({"kind": "postgres", **given})


def whole(error: BaseException) -> str:
    """All that is ever printed of it."""
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "found no host and no user, expected host and user, or dsn_env"),
        ({"host": "h"}, "found no user, expected host and user, or dsn_env"),
        ({"dsn_env": "D", "host": "h", "user": "u"}, "found dsn_env and host, user, expected dsn_env alone"),
        (
            {"host": "h", "user": "u", "password_env": "A", "password_file": "b"},
            "found both password_env and password_file, expected one of them",
        ),
        ({"host": "h", "user": "u", "schema": 'a"b'}, "expected a name of lower-case letters"),
        ({"host": "h", "user": "u", "schema": "pg_temp"}, "which does not begin with pg_"),
        ({"host": "h", "user": "u", "password": SECRET}, "password"),
        ({"host": "h", "user": "u", "port": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_are_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        settings(**given)


def test_a_password_in_a_pipeline_is_refused_and_not_reported() -> None:
    with pytest.raises(UsageError, match="password") as caught:
        build_sink({"kind": "postgres", "host": "h", "user": "u", "password": SECRET}, "p")
    assert SECRET not in str(caught.value)


def test_the_parts_of_a_place(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(f"{SECRET}\n")
    place = address_of(
        settings(host="db", user="u", password_file=str(tmp_path / "pw"), sslmode="verify-full", ca_file="ca")
    )
    assert (place.name, place.schema) == ("postgresql://u@db:5432/u", "crossline")
    assert place.options["password"] == SECRET
    assert (place.options["sslmode"], place.options["sslrootcert"]) == ("verify-full", "ca")
    assert SECRET not in repr(place)
    dsn = address_of(settings(dsn_env="D", schema="audit"), {"D": f"postgresql://u:{SECRET}@db:6000/x"})
    assert dsn.name == "postgresql://u@db:6000/x?schema=audit"
    assert (dsn.options["password"], SECRET in repr(dsn)) == (SECRET, False)
    words = address_of(settings(dsn_env="D"), {"D": f"host=db user=u password={SECRET}"})
    assert words.name == "postgresql://u@db:5432/u"


@pytest.mark.parametrize(
    ("given", "environment", "text"),
    [
        ({"dsn_env": "D"}, {}, "environment variable D, which dsn_env names, is not set"),
        ({"dsn_env": "D"}, {"D": f"{SECRET} {SECRET}"}, "the connection string in D cannot be read"),
        ({"dsn_env": "D"}, {"D": f"postgresql://u:{SECRET}@[h/x"}, "the connection string in D cannot be read"),
        ({"host": "h", "user": "u", "password_env": "P"}, {"P": ""}, "P, which password_env names, is not set"),
        ({"host": "h", "user": "u", "password_file": "/none"}, {}, "password_file /none cannot be read: No such file"),
    ],
)
def test_places_that_cannot_be_read(given: dict[str, Any], environment: dict[str, str], text: str) -> None:
    with pytest.raises(PermanentError, match=text) as caught:
        address_of(settings(**given), environment)
    assert SECRET not in whole(caught.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (
            f"postgresql://u:{SECRET}@h/x",
            "has a password in it, which others can see: leave it out, and set PGPASSWORD",
        ),
        (f"postgresql://h/x?password={SECRET}", "has a password in it"),
        (f"postgresql://h/x?PASSWORD={SECRET}", "cannot be read"),
        ("postgresql://h/x?schema=A", "schema='A' is no name of a schema"),
        ("postgresql://[h/x", "cannot be read"),
    ],
)
def test_addresses_that_are_refused(url: str, text: str) -> None:
    with pytest.raises(PermanentError, match=text) as caught:
        address_of_url(url)
    assert SECRET not in whole(caught.value)


def test_an_address_keeps_what_the_client_knows() -> None:
    place = address_of_url("postgresql://u@h:1/x?sslmode=require&schema=audit")
    assert (place.schema, place.options["sslmode"]) == ("audit", "require")
    assert address_of_url("postgres://u@h/x").name == "postgresql://u@h:5432/x"


def test_who_is_not_let_in_is_reported_at_the_start(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    good = place_in(postgres_server, postgres_schema)
    wrong = {
        "see that user and password are right": {"password": SECRET},
        "create the database": {"dbname": "none_such"},
        "password authentication failed": {"user": "none_such"},
    }
    for found, changed in wrong.items():
        place = DatabaseAddress({**good.options, **changed}, postgres_schema)
        for use in (PostgresSink(place, "p").open, lambda place=place: PostgresReader(place)):
            with pytest.raises(PermanentError, match=found) as caught:
                use()
            assert SECRET not in whole(caught.value)
            assert postgres_server.password not in whole(caught.value)


def test_who_is_not_let_in_later_is_held(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    """A changed password, a revoked right: a person repairs it while the batch waits."""
    place = place_in(postgres_server, postgres_schema)
    sink = PostgresSink(place, "p")
    sink.open()
    sink.deliver(delivery(0, "a"))
    sink._drop()
    sink.place = DatabaseAddress({**place.options, "password": SECRET}, postgres_schema)
    with pytest.raises(SinkError, match="see that user and password are right") as caught:
        sink.deliver(delivery(1, "b"))
    assert SECRET not in whole(caught.value)
    sink.place = place
    sink.deliver(delivery(1, "b"))
    sink.close()


def test_a_server_that_is_away_is_reported_without_its_password() -> None:
    place = address_of(settings(host="127.0.0.1", port=1, user="u", password_env="P"), {"P": SECRET})
    sink = PostgresSink(place, "p")
    with capture_logs() as logs:
        sink.open()
    assert len(logs) == 1
    with pytest.raises(SinkError, match=r"the store postgresql://u@127.0.0.1:1/u cannot be written now: ") as caught:
        sink.deliver(delivery(0, "a"))
    reading: CrosslineError
    with pytest.raises(SinkError, match="cannot be read now") as reading_error:
        PostgresReader(place)
    reading = reading_error.value
    assert SECRET not in whole(caught.value) + whole(reading) + repr(logs)
