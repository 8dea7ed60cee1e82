"""Where the schemas of Avro records are asked for."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field

from crossline.basics.texts.problems import Finding, shown
from crossline.basics.texts.uris import is_loopback
from crossline.settings.secrets import A_SECRET, Password

_FORM = "http:// or https://, a host, and the path above /schemas"


class RegistrySettings(Password):
    """A schema registry that speaks Confluent's protocol; streams of `format: avro` need one."""

    url: str = Field(
        min_length=1,
        description="Address, with the path above `/schemas`; several, separated by commas, are asked in turn. With a "
        "password `https://…`; `http://` on this machine only.",
    )
    username: str | None = Field(default=None, description="User name, where the registry asks for one.")
    ca_file: str | None = Field(
        default=None, description="File with the certificates to trust, in PEM form; by default, those of the machine."
    )

    @property
    def urls(self) -> list[str]:
        """The addresses, without a slash at their end."""
        return [each.strip().rstrip("/") for each in self.url.split(",") if each.strip()]

    def findings(self) -> list[Finding]:
        """Addresses that are none, hold a password, or get one in the clear; a user without a password, or reverse."""
        secret = bool(self.password_env or self.password_file)
        found = [finding for url in self.urls for finding in _of_url(url, secret=secret)]
        if not self.urls:
            found.append(Finding(("url",), shown(self.url), _FORM))
        found += super().findings()
        if bool(self.username) != secret:
            has, lacks = ("username", "password") if self.username else ("password", "username")
            found.append(Finding(("username",), f"a {has} without a {lacks}", "both or neither"))
        return found


def _of_url(url: str, *, secret: bool) -> list[Finding]:
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        return [Finding(("url",), "an address that cannot be read", _FORM)]
    if "@" in parts.netloc:
        hint = "name the user in username, and where the password stands in password_env or password_file"
        return [Finding(("url",), A_SECRET, "no user and no password in an address", hint)]
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment or not port_is_one:
        return [Finding(("url",), shown(url), _FORM)]
    if secret and parts.scheme == "http" and not is_loopback(parts.hostname):
        return [Finding(("url",), f"http:// to {parts.hostname}", "https://, for a password is sent there")]
    return []
