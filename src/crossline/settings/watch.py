"""How a running pipeline is watched, and when a rule of it has raised too much."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from crossline.basics.texts.problems import Finding, shown
from crossline.basics.texts.uris import is_loopback
from crossline.basics.texts.validation import refusal
from crossline.settings.fields import DurationMs, Settings
from crossline.settings.secrets import A_SECRET, Password

LOOPBACK = "127.0.0.1"
PORT_MAX = 65_535
_PLACE = re.compile(r"(?:(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+))?:)?(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens; port 0: any that is free."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether this machine alone gets to it."""
        return is_loopback(self.host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def place_of(text: str) -> Address | None:
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
    return Address(found[1] or found[2] or LOOPBACK, int(found[3]))


def checked_place(value: Any) -> str:
    """``value`` as HOST:PORT, of a key with an address to listen on."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    place = place_of(text) if isinstance(text, str) else None
    if place is None:
        raise refusal("HOST:PORT, such as 127.0.0.1:9464, or a port of the loopback address")
    return str(place)


_COLLECTOR = "http:// or https://, a host, and the path above /v1/traces"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)


class OtlpSettings(Password):
    """A collector of OpenTelemetry that is sent spans of batches, by OTLP over HTTP.

    What stands here goes before the environment's `OTEL_EXPORTER_OTLP_…`; of those that name what is not here
    (`OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_…`) all hold. The password is a header's content.
    """

    endpoint: str | None = Field(
        default=None,
        min_length=1,
        description="Address, without `/v1/traces`; else that of the environment, else port 4318 of this machine.",
    )
    header: str = Field(default="authorization", description="The header that the password is sent in, as it stands.")
    ca_file: str | None = Field(default=None, description="File with the certificates to trust, in PEM form.")

    def findings(self) -> list[Finding]:
        """An address that is none, that holds a password, or that a password would be sent to in the clear."""
        found = super().findings()
        if _HEADER.fullmatch(self.header) is None:
            found.append(Finding(("header",), shown(self.header), "the name of a header, such as authorization"))
        if self.endpoint is None:
            return found
        try:
            parts = urlsplit(self.endpoint)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return [*found, Finding(("endpoint",), "an address that cannot be read", _COLLECTOR)]
        if "@" in parts.netloc or parts.query:
            hint = "say in header which one holds the key, and in password_env or password_file where it stands"
            return [*found, Finding(("endpoint",), A_SECRET, "no user, no password and no key in an address", hint)]
        if parts.scheme not in {"http", "https"} or not host or parts.fragment:
            return [*found, Finding(("endpoint",), shown(self.endpoint), _COLLECTOR)]
        if parts.scheme == "http" and (self.password_env or self.password_file) and not is_loopback(host):
            found.append(Finding(("endpoint",), f"http:// to {host}", "https://, for a password is sent there"))
        return found


class WatchSettings(Settings):
    """A server of the run: `/metrics` for Prometheus, `/healthz` and `/readyz` for who starts and stops it.

    It authenticates no one: on addresses other than loopback, let a network or a proxy do that.
    """

    listen: Annotated[str, BeforeValidator(checked_place)] = Field(
        default=f"{LOOPBACK}:9464", description="HOST:PORT; a port alone is one of the loopback address."
    )
    ready_within: DurationMs = Field(
        default=60_000, description="How old the last batch may be while input waits, before `/readyz` answers 503."
    )
    rules_max: int = Field(
        default=100,
        ge=1,
        le=10_000,
        description="The number of rules with figures of their own; those of the other rules are added up.",
    )
    otlp: OtlpSettings | None = Field(
        default=None,
        description="A collector of OpenTelemetry that gets spans of batches. None: set by the environment.",
    )

    @property
    def place(self) -> Address:
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
