"""The settings of a Redis sink. The password is named, never written."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from crossline.settings.fields import DurationMs
from crossline.settings.secrets import Password
from crossline.settings.sinks_base import SinkSettings

DAY_MS = 86_400_000
_LONGEST_MS = 36_525 * DAY_MS  # a server refuses times that it cannot count
Port = Annotated[int, Field(ge=1, le=65_535)]


class RedisSettings(SinkSettings, Password):
    """Alerts once, the status of each entity, the last decision about each record, in Redis or what speaks like it."""

    PLACE: ClassVar = ("host", "port", "db", "prefix")
    NEEDS: ClassVar = "crossline[redis]"

    kind: Literal["redis"] = Field(description="Which kind of sink this is.")
    host: str = Field(default="127.0.0.1", min_length=1, description="Host of the server.")
    port: Port = Field(default=6379, description="Its port.")
    db: int = Field(default=0, ge=0, description="Number of the database.")
    username: str | None = Field(default=None, description="User name; by default, the server's default user.")
    tls: bool = Field(default=False, description="Whether the connection is encrypted.")
    ca_file: str | None = Field(default=None, description="File with the certificates to trust, in PEM form.")
    prefix: str | None = Field(
        default=None, min_length=1, description="Begins every key; by default `crossline:` and the pipeline's name."
    )
    in_force: DurationMs = Field(
        default=3_600_000, ge=1, le=_LONGEST_MS, description="How long an alert's action is in force for its entity."
    )
    known: DurationMs = Field(
        default=7 * DAY_MS,
        ge=1,
        le=_LONGEST_MS,
        description="How long ids of alerts, and decisions, stay: what comes again by then is known.",
    )
    stream_max: int = Field(default=100_000, ge=1, description="How many alerts the stream holds, about.")

    def takes_decisions(self) -> bool:
        """It keeps all of them."""
        return True
