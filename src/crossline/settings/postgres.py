"""The settings of a PostgreSQL database. Passwords are named, never written."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field

from crossline.basics.texts.problems import Finding, shown
from crossline.settings.secrets import Password
from crossline.settings.sinks_base import BEHIND, SinkSettings

SCHEMA, LEDGER_SCHEMA = "crossline", "crossline_ledger"
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_PARTS = ("host", "dbname", "user", "password_env", "password_file", "sslmode", "ca_file")


class DatabaseSettings(Password):
    """Where a PostgreSQL database is, and who asks there."""

    dsn_env: str | None = Field(
        default=None,
        min_length=1,
        description="Name of the environment variable that holds a connection string; in place of all that follows but "
        "`schema`.",
    )
    host: str | None = Field(default=None, min_length=1, description="Host; needed where there is no `dsn_env`.")
    port: int = Field(default=5432, ge=1, le=65_535, description="Port.")
    dbname: str | None = Field(default=None, min_length=1, description="Database; by default, that called as `user`.")
    user: str | None = Field(default=None, min_length=1, description="User; needed where there is no `dsn_env`.")
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] | None = Field(
        default=None, description="As PostgreSQL means it; `verify-full` beyond this machine. By default, `prefer`."
    )
    ca_file: str | None = Field(default=None, description="File with the certificates to trust, in PEM form.")
    schema_name: str = Field(
        default=SCHEMA, alias="schema", description="Schema of its tables; made where it is not there."
    )

    def findings(self) -> list[Finding]:
        """Two ways to the database or none, a password from two places, a schema that needs quotes."""
        found = super().findings()
        if self.dsn_env is not None:
            more = [name for name in _PARTS if getattr(self, name) is not None]
            if more:
                found.append(Finding(("dsn_env",), f"dsn_env and {', '.join(more)}", "dsn_env alone, or host and user"))
        elif self.host is None or self.user is None:
            missing = [name for name in ("host", "user") if getattr(self, name) is None]
            found.append(Finding((missing[0],), f"no {' and no '.join(missing)}", "host and user, or dsn_env"))
        if not is_schema_name(self.schema_name):
            expected = "a name of lower-case letters, digits and _, which does not begin with pg_"
            found.append(Finding(("schema",), shown(self.schema_name), expected))
        return found


class PostgresSettings(SinkSettings, DatabaseSettings):
    """A PostgreSQL database: alerts, shadow alerts, corrections, decisions, dead letters, late records, rule events.

    It is read by `crossline alerts` and `crossline decisions`. See [postgres.md](postgres.md).
    """

    PLACE: ClassVar = ("dsn_env", "host", "port", "dbname", "user", "schema_name")
    NEEDS: ClassVar = "crossline[postgres]"

    kind: Literal["postgres"] = Field(description="Which kind of sink this is.")
    behind: bool = Field(default=True, description=BEHIND)

    def takes_decisions(self) -> bool:
        """It keeps all of them."""
        return True


class LedgerSettings(DatabaseSettings):
    """A PostgreSQL database with the answers of all APIs of a pipeline: an id has one answer, whichever was asked."""

    schema_name: str = Field(
        default=LEDGER_SCHEMA, alias="schema", description="Schema of its tables, for a ledger alone; made if missing."
    )


def is_schema_name(text: str) -> bool:
    """Whether ``text`` may name a schema of ours."""
    return _SCHEMA_NAME.fullmatch(text) is not None and not text.startswith("pg_")
