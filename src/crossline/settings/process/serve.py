"""The decision API: where it listens, how it answers, who may ask."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from crossline.basics.texts.problems import Finding, shown
from crossline.basics.texts.uris import is_loopback
from crossline.basics.times import format_duration
from crossline.settings.fields import DurationMs, Settings
from crossline.settings.postgres import LedgerSettings
from crossline.settings.process.casework import CasesSettings
from crossline.settings.watch import LOOPBACK, Address, checked_place, place_of
from crossline.settings.webhook import PostingSettings

TIMEOUT_MS_MIN, TIMEOUT_MS_MAX = 5, 30_000
CALLBACK = "/login/callback"


class TlsSettings(Settings):
    """A certificate, and its key."""

    cert_file: str = Field(min_length=1, description="The certificate and those above it, in PEM form.")
    key_file: str = Field(min_length=1, description="Its private key, in PEM form, without a password.")


class OidcSettings(Settings):
    """Bearer tokens of an identity provider."""

    issuer: str = Field(min_length=1, description="The provider, as the tokens name it; its keys are found from there.")
    audience: str = Field(min_length=1, description="Whom the tokens must be for.")
    roles_claim: str = Field(default="roles", min_length=1, description="The claim that lists a principal's roles.")
    client_id: str | None = Field(
        default=None, min_length=1, description="What the provider calls the console; with it people log in there."
    )
    client_secret_env: str | None = Field(
        default=None,
        min_length=1,
        description="Name of the environment variable that holds the console's secret, where the provider gave it one.",
    )
    callback: str | None = Field(
        default=None,
        min_length=1,
        description="Where the provider sends people back, such as https://crossline.example/login/callback; by "
        "default, `/login/callback` of the address at which they asked.",
    )

    def findings(self) -> list[Finding]:
        """A provider whose keys anybody on the way could replace; a console that it does not know."""
        found = [
            Finding((name,), shown(address), "an address that begins with https://")
            for name, address in (("issuer", self.issuer), ("callback", self.callback))
            if address is not None and not _is_safe(address)
        ]
        if self.callback is not None and not self.callback.endswith(CALLBACK):
            found.append(Finding(("callback",), shown(self.callback), f"an address that ends with {CALLBACK}"))
        if self.client_id is None and (self.client_secret_env or self.callback):
            found.append(Finding(("client_id",), "none", "what the provider calls the console"))
        return found


def _is_safe(address: str) -> bool:
    """Whether what is read there cannot be changed on the way."""
    host = address.partition("://")[2].partition("/")[0]
    host = host.rpartition(":")[0] or host
    return address.startswith("https://") or (address.startswith("http://") and is_loopback(host))


class LimitSettings(Settings):
    """What one key may ask."""

    per_s: int = Field(default=5_000, ge=1, description="Requests a second of one key, over time.")
    burst: int = Field(default=10_000, ge=1, description="Requests that one key may send at once.")
    body_max: int = Field(
        default=65_536, ge=1, le=16 << 20, description="Most bytes of a record; of a batch 500 times."
    )


class RevisionSettings(PostingSettings):
    """An address that is notified where the stream decides otherwise than the API answered, signed with a key.

    The key is the password that the settings name. Revisions of one record are posted in their order.
    """

    give_up: DurationMs = Field(
        default=259_200_000, ge=1, description="How long a revision is tried while the address does not answer."
    )
    pending_max: int = Field(
        default=100_000, ge=1, le=10_000_000, description="Revisions that may wait for this address, on disk."
    )


def _place_or_none(value: Any) -> str | None:
    return None if value is None else checked_place(value)


class ServeSettings(Settings):
    """The API over a pipeline, and the console: decisions, reads, writes, events, pages."""

    listen: Annotated[str, BeforeValidator(checked_place)] = Field(
        default=f"{LOOPBACK}:8080", description="HOST:PORT; a port alone is one of the loopback address."
    )
    metrics: Annotated[str | None, BeforeValidator(_place_or_none)] = Field(
        default=None,
        description="HOST:PORT where Prometheus reads the API's figures, such as 127.0.0.1:9465; else nowhere.",
    )
    tls: TlsSettings | None = Field(default=None, description="Certificate; without one it speaks plain HTTP.")
    mode: Literal["peek", "exact"] = Field(
        default="peek",
        description="How a request is answered that does not say. `peek`: at once, by the state as of the last batch "
        "and what came through this API since. `exact`: by the pipeline itself, once its batch is through.",
    )
    timeout: DurationMs = Field(
        default=50, description="Time within which a request is answered that does not say; then by the fallback."
    )
    replicas: int = Field(default=1, ge=1, le=16, description="Processes that hold the state and answer `peek`.")
    behind_max: DurationMs = Field(
        default=1_000, description="How old a replica's state may be while batches go on; beyond, the fallback answers."
    )
    path: str = Field(
        default="out/serve", min_length=1, description="Folder of what was answered: ledger, receipts, audit, cases."
    )
    ledger: LedgerSettings | None = Field(
        default=None,
        description="PostgreSQL with the answers of all APIs of this pipeline; without it they are in `path`, for the "
        "processes of this machine.",
    )
    keep: DurationMs = Field(
        default=90 * 86_400_000,
        description="How long answers and receipts are kept; an id that is asked about after that is answered anew.",
    )
    keys: str = Field(default="keys.db", min_length=1, description="File of the API keys, made by `serve keys create`.")
    console: bool = Field(default=True, description="Whether the console for people is served at the same address.")
    users: str = Field(
        default="users.db", min_length=1, description="File of the console's local users, made by `serve users create`."
    )
    oidc: OidcSettings | None = Field(default=None, description="Tokens that are accepted besides keys.")
    open: bool = Field(default=False, description="No key is required; on loopback only, for a demonstration.")
    limits: LimitSettings = Field(default_factory=LimitSettings, description="What one key may ask.")
    revisions: list[RevisionSettings] = Field(
        default=[], description="Addresses that are notified where the stream decides otherwise than the API answered."
    )
    cases: CasesSettings = Field(default_factory=CasesSettings, description="How alerts become cases.")
    signing_key_file: str | None = Field(
        default=None, min_length=1, description="Ed25519 private key, in PEM form, that receipts are signed with."
    )

    @property
    def metrics_place(self) -> Address | None:
        """``metrics``, read."""
        return None if self.metrics is None else place_of(self.metrics)

    @property
    def place(self) -> Address:
        """``listen``, read."""
        found = place_of(self.listen)
        assert found is not None  # noqa: S101 - it was checked
        return found

    def findings(self) -> list[Finding]:
        """A time that no request may have, and an API that is open to other machines."""
        found = []
        if not TIMEOUT_MS_MIN <= self.timeout <= TIMEOUT_MS_MAX:
            found.append(Finding(("timeout",), format_duration(self.timeout), "5ms to 30s"))
        if self.open and not self.place.loopback:
            found.append(Finding(("open",), f"true, and listen: {self.listen}", "keys, or an address of loopback"))
        urls = [each.url for each in self.revisions]
        for number, url in enumerate(urls):
            if url in urls[:number]:
                found.append(Finding(("revisions", number, "url"), "an address that stands above", "each address once"))
        return found
