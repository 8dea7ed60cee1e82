"""The settings of an address that alerts are posted to. The key that signs is named, never written."""

from __future__ import annotations

from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field

from crossline.basics.texts.problems import Finding, shown
from crossline.basics.texts.uris import is_loopback
from crossline.settings.fields import DurationMs
from crossline.settings.secrets import Password
from crossline.settings.sinks_base import BEHIND, SinkSettings


class PostingSettings(Password):
    """An address that signed messages are posted to. The key that signs is the password that the settings name."""

    url: str = Field(min_length=1, description="Address, `https://…`; `http://` on this machine only.")
    attempts: int = Field(default=8, ge=1, description="How often one message is refused until it is parked.")
    timeout: DurationMs = Field(default=5_000, ge=1, description="How long connecting and a whole answer may take.")
    parallel: int = Field(default=4, ge=1, le=64, description="How many entities are posted about at once.")
    ca_file: str | None = Field(default=None, description="File with the certificates to trust, in PEM form.")

    def findings(self) -> list[Finding]:
        """An address that is none, that holds a password, or that would send messages in the clear."""
        found = super().findings()
        try:
            parts = urlsplit(self.url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            return [*found, Finding(("url",), shown(self.url), "an address, https://HOST/…")]
        if parts.username is not None or parts.password is not None:
            found.append(Finding(("url",), "an address with a user in it", "an address without; messages are signed"))
        elif parts.scheme not in {"http", "https"} or not host:
            found.append(Finding(("url",), shown(self.url), "an address, https://HOST/…"))
        elif parts.scheme == "http" and not is_loopback(host):
            found.append(Finding(("url",), f"http:// to {host}", "https://, for alerts name people"))
        if not (self.password_env or self.password_file):
            found.append(Finding(("password_env",), "nothing", "password_env or password_file: the key that signs"))
        return found


class WebhookSettings(SinkSettings, PostingSettings):
    """Alerts posted as JSON to an address, signed with a key, in order for each entity; what is refused is parked.

    The key is the password that the settings name.
    """

    PLACE: ClassVar = ("url",)

    kind: Literal["webhook"] = Field(description="Which kind of sink this is.")
    behind: bool = Field(default=True, description=BEHIND)
    parked: str = Field(min_length=1, description="File for what the address refuses, as JSON lines.")
    decisions: bool = Field(default=False, description="Whether decisions are posted too.")

    def takes_decisions(self) -> bool:
        """As the setting ``decisions`` has it."""
        return self.decisions
