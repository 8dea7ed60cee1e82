"""``doctor`` on a real database."""

from __future__ import annotations

from dev.services.postgres import LocalPostgres

from crossline.cli.doctor.postgres import postgres_findings
from crossline.io.postgres.migrate import newest
from crossline.settings.config import load_pipeline

from .postgres_kit import opened, place_in

TEXT = """
schema_version: 1
name: p
streams: {s: {id: id, event_time: {field: at}, fields: {id: string, at: integer}}}
sources: {s: {kind: files, path: in}}
rules: {kind: directory, path: rules}
sinks: [{kind: console}, {kind: postgres, @}]
"""


def finding(given: str, **environment: str) -> tuple[str, str]:
    pipeline = load_pipeline(TEXT.replace("@", given), "pipeline.yaml", str)
    (found,) = postgres_findings(pipeline, environment)
    return found.status, f"{found.name}: {found.found} | {found.advice}"


def test_what_is_there_and_what_is_missing(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    given = f"host: {postgres_server.host}, port: {postgres_server.port}, user: crossline, schema: {postgres_schema}"
    given += ", password_env: P"
    secret = postgres_server.password
    status, found = finding(given, P=secret)
    assert (status, f"; no tables yet; the next start makes those of version {newest()} |" in found) == ("ok", True)
    place = place_in(postgres_server, postgres_schema)
    with opened(place):
        pass
    status, found = finding(given, P=secret)
    assert status == "ok"
    assert f"postgres {place.name}: PostgreSQL " in found
    assert f"; tables of version {newest()} | nothing to do" in found
    status, found = finding(given, P="wr0ng")
    assert (status, "see that user and password are right" in found, "wr0ng" in found) == ("missing", True, False)
    status, found = finding(given)
    assert status == "missing"
    assert found.startswith("postgres: environment variable P, which password_env names, is not set: export it first |")
    status, found = finding("host: 127.0.0.1, port: 1, user: u")
    assert (status, "cannot be written now" in found) == ("missing", True)


def test_a_user_who_may_make_nothing(postgres_server: LocalPostgres, postgres_schema: str) -> None:
    role = f"reader_{postgres_schema}"
    with postgres_server.connect() as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'open sesame'".encode())
    given = f"host: {postgres_server.host}, port: {postgres_server.port}, user: {role}, dbname: crossline"
    status, found = finding(f"{given}, schema: {postgres_schema}, password_env: P", P="open sesame")
    assert status == "missing"
    assert "and the user may make no schema | GRANT CREATE ON DATABASE … TO it" in found
