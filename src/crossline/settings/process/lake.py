"""The lake: the Iceberg tables that a pipeline's records, alerts and decisions are kept in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator

from crossline.basics.texts.problems import Finding, one_of, shown
from crossline.settings.fields import DurationMs, FolderOrUri, Settings, by_kind
from crossline.settings.postgres import DatabaseSettings

# By table, what is kept longer than the rest is asked for by this name.
TABLES = (
    *("records", "alerts", "corrections", "decisions", "receipts", "rule_events", "dead_letters", "late_records"),
    *("labels", "cases"),
)
DAY_MS = 86_400_000
STATE_EVERY_MS_MIN = 60_000


class SqliteCatalogSettings(Settings):
    """A catalog in a file of SQLite, for one machine."""

    kind: Literal["sqlite"] = Field(description="Which kind of catalog this is.")
    path: str = Field(default="out/lake/catalog.db", min_length=1, description="The file; it is made if it is missing.")


class PostgresCatalogSettings(DatabaseSettings):
    """A catalog in a PostgreSQL database, in its schema `public`."""

    kind: Literal["postgres"] = Field(description="Which kind of catalog this is.")


class RestCatalogSettings(Settings):
    """A catalog server that speaks Iceberg's REST protocol."""

    kind: Literal["rest"] = Field(description="Which kind of catalog this is.")
    uri: str = Field(min_length=1, description="Address of the server, without a user or password.")
    warehouse: str | None = Field(default=None, min_length=1, description="The server's name for the warehouse.")
    token_env: str | None = Field(
        default=None, min_length=1, description="Name of the environment variable that holds a bearer token."
    )

    def findings(self) -> list[Finding]:
        """An address that is none, or that holds a secret."""
        host = self.uri.partition("://")[2].partition("/")[0]
        if not self.uri.startswith(("http://", "https://")) or not host:
            return [Finding(("uri",), shown(self.uri), "an address that begins with http:// or https://")]
        if "@" in host:
            return [Finding(("uri",), "a user or password in it", "an address alone, and token_env for the token")]
        return []


Catalog = Annotated[
    SqliteCatalogSettings | PostgresCatalogSettings | RestCatalogSettings,
    PlainValidator(
        by_kind({"sqlite": SqliteCatalogSettings, "postgres": PostgresCatalogSettings, "rest": RestCatalogSettings})
    ),
]


class LakeSettings(Settings):
    """Iceberg tables with every record, alert and decision. See [lake.md](lake.md)."""

    path: FolderOrUri = Field(
        default="out/lake", min_length=1, description="Folder of the tables, or `s3://BUCKET/PREFIX`."
    )
    catalog: Catalog | None = Field(
        default=None, description="The catalog of the tables; by default a SQLite file, `catalog.db` in `path`."
    )
    namespace: str | None = Field(
        default=None,
        min_length=1,
        pattern=r"^[A-Za-z0-9_]{1,64}$",
        description="Namespace of the tables in the catalog; by default the pipeline's name, with `_` for `.` and `-`.",
    )
    writer: bool = Field(
        default=True, description="Whether `crossline run` starts the writer; if not, start `crossline lake write`."
    )
    commit_every: DurationMs = Field(
        default=60_000, ge=1_000, description="Time between two commits; each table then gets a file for each day."
    )
    commit_bytes: int = Field(
        default=128 * 1024 * 1024, ge=1 << 20, description="Most bytes of records (in memory) in one commit."
    )
    snapshots_max: int = Field(
        default=100, ge=2, description="Snapshots of a table that maintenance keeps; a commit takes longer with more."
    )
    maintain_every: DurationMs = Field(
        default=3_600_000, ge=60_000, description="Time between two rounds of maintenance that the writer does."
    )
    keep: dict[str, DurationMs] = Field(
        default_factory=dict,
        description="By table, for how long its rows are kept, by event time, in whole days; by default for ever.",
    )

    state_every: DurationMs = Field(
        default=DAY_MS,
        description="Time between two snapshots of the pipeline's state in the lake; `0s`: none is taken.",
    )
    state_keep: int = Field(default=7, ge=1, description="Snapshots of the state that are kept, the newest ones.")

    def findings(self) -> list[Finding]:
        """Tables that are none; spans that are no days; no catalog beside an object store."""
        found = [Finding(("keep", name), shown(name), one_of(TABLES)) for name in self.keep if name not in TABLES]
        found += [
            Finding(("keep", name), "less than a whole number of days", "whole days, such as 30d")
            for name, ms in self.keep.items()
            if name in TABLES and (ms % DAY_MS or not ms)
        ]
        if 0 < self.state_every < STATE_EVERY_MS_MIN:
            found.append(Finding(("state_every",), f"{self.state_every} ms", "60s or longer, or 0s for none"))
        if self.catalog is None and "://" in self.path:
            expected = "catalog: {kind: postgres, ...} or {kind: rest, ...}; a SQLite file cannot be on an object store"
            found.append(Finding(("catalog",), f"none, beside {shown(self.path)}", expected))
        return found
