"""What ``crossline doctor`` finds about the PostgreSQL databases of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from crossline.basics.errors import CrosslineError
from crossline.cli.doctor.machine import CheckResult
from crossline.settings.config import PipelineConfig
from crossline.settings.postgres import PostgresSettings

_ANSWER_S_MAX = 10.0
_RIGHTS = "SELECT has_database_privilege(current_database(), 'CREATE')"


def postgres_findings(pipeline: PipelineConfig, environment: Mapping[str, str]) -> list[CheckResult]:
    """Whether each database lets us in, and has tables that this crossline writes, or lets us make them."""
    sinks = [sink for sink in pipeline.sinks if isinstance(sink, PostgresSettings)]
    return [_finding(sink, environment) for sink in sinks]


def _finding(settings: PostgresSettings, environment: Mapping[str, str]) -> CheckResult:
    try:
        from crossline.io.net.deadline import Deadline
        from crossline.io.postgres.client import address_of, connection_deadline, translated_errors
        from crossline.io.postgres.migrate import newest, version_of

        place = address_of(settings, environment)
        deadline = Deadline(_ANSWER_S_MAX)
        with (
            translated_errors(place, writing=True, opening=True),
            place.connect() as connection,
            connection_deadline(connection, deadline),
        ):
            version = version_of(connection, place)
            row = connection.execute(_RIGHTS).fetchone()
            server = connection.info.parameter_status("server_version")
    except CrosslineError as error:
        found, _, advice = str(error).partition("; ")
        return CheckResult("postgres", "missing", found, advice or "is it running, are `host` and `port` right?")
    name, (makes,) = f"postgres {place.name}", row or (False,)
    if version == newest():
        return CheckResult(name, "ok", f"PostgreSQL {server}; tables of version {version}")
    found = f"PostgreSQL {server}; {'no tables yet' if version is None else f'tables of version {version}'}"
    if version is None and not makes:
        return CheckResult(
            name, "missing", f"{found}, and the user may make no schema", "GRANT CREATE ON DATABASE … TO it"
        )
    return CheckResult(name, "ok", f"{found}; the next start makes those of version {newest()}")
