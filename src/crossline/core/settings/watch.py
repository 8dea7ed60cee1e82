"""How a running pipeline is watched, and when a rule of it has raised too much."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from crossline.core.settings.fields import DurationMs, Settings
from crossline.core.texts.problems import Finding
from crossline.core.texts.validation import refusal

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535
_PLACE = re.compile(r"(?:(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+))?:)?(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens; port 0: any that is free."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether this machine alone gets to it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def place_of(text: str) -> Place | None:
    """The place that ``text`` names: ``9464``, ``:9464``, ``127.0.0.1:9464``, ``[::1]:9464``; None where it is none.

    Without a host it is the loopback address.
    """
    found = _PLACE.fullmatch(text)
    if found is None or int(found[3]) > PORT_MAX:
        return None
    if found[1]:
        try:
            ipaddress.IPv6Address(found[1])
        except ValueError:
            return None
    return Place(found[1] or found[2] or LOOPBACK, int(found[3]))


def _listen(value: Any) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    place = place_of(text) if isinstance(text, str) else None
    if place is None:
        raise refusal("HOST:PORT, such as 127.0.0.1:9464, or a port of the loopback address")
    return str(place)


class WatchSettings(Settings):
    """A server of the run: `/metrics` for Prometheus, `/healthz` and `/readyz` for who starts and stops it.

    It asks nobody who they are: on other addresses than those of loopback, let a network or a proxy do that.
    """

    listen: Annotated[str, BeforeValidator(_listen)] = Field(
        default=f"{LOOPBACK}:9464", description="HOST:PORT; a port alone is one of the loopback address."
    )
    ready_within: DurationMs = Field(
        default=60_000, description="How old the last batch may be while input waits, before `/readyz` says no."
    )
    rules_max: int = Field(
        default=100, ge=1, le=10_000, description="Rules that figures name; those of the rest are told together."
    )

    @property
    def place(self) -> Place:
        """``listen``, read."""
        found = place_of(self.listen)
        assert found is not None  # noqa: S101 - it was checked
        return found


class BreakerSettings(Settings):
    """A rule that raises more alerts than this at the records of one interval goes to shadow."""

    alerts_max: int = Field(ge=1, lt=2**53, description="Most alerts at records ingested in one interval.")
    per: DurationMs = Field(
        default=60_000, description="The interval; each begins at a whole multiple of it, on the ingest clock."
    )

    def findings(self) -> list[Finding]:
        """An interval without an extent."""
        return [] if self.per else [Finding(("per",), "0 s", "a time, such as 1m")]
