"""Sensitive fields of a stream: which they are, whose key tokenises each, and where the keys are."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from crossline.basics.texts.problems import Finding, nearest, shown
from crossline.basics.texts.validation import refusals

# A token: so much of an HMAC in base32. A value of this form is a token already, wherever it comes from.
PREFIX, DIGITS = "tok_", 24
TOKEN = re.compile(rf"{PREFIX}[a-z2-7]{{{DIGITS}}}", re.ASCII)
MASTER_KEY_ENV = "CROSSLINE_TOKEN_KEY"
_DOMAIN = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
_KINDS = ("string", "integer")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class SensitiveField(_Model):
    """A field whose values become tokens.

    ``person``: the field of the record that names the person whose key is used; None: the value names the person.
    ``domain``: fields of one domain have equal tokens for equal values; None: the name of the field.
    """

    person: str | None = None
    domain: str | None = None


class TokenSettings(_Model):
    """Where the keys of persons are, and the master key that they are wrapped with.

    ``path``: the file of kind sqlite. ``dsn_env``, ``schema_name``: of kind postgres, the variable with the connection
    string, and the schema of the table. ``lists``: by name of a list of sensitive values, their domain.
    """

    kind: Literal["sqlite", "postgres"] = "sqlite"
    path: str = "tokens.db"
    dsn_env: str | None = None
    schema_name: str = "crossline_tokens"
    master_key_env: str | None = None
    master_key_file: str | None = None
    lists: dict[str, str] = {}

    def in_folder(self, folder: str) -> TokenSettings:
        """The same with relative paths joined to ``folder``."""
        key_file = self.master_key_file
        moved = None if key_file is None else posixpath.join(folder, key_file)
        return self.model_copy(update={"path": posixpath.join(folder, self.path), "master_key_file": moved})

    @model_validator(mode="after")
    def _check(self) -> TokenSettings:
        findings = list(self._findings())
        if findings:
            raise refusals(findings)
        return self

    def _findings(self) -> Iterator[Finding]:
        if self.kind == "postgres" and not self.dsn_env:
            yield Finding((), "no dsn_env", "the environment variable with the connection string of PostgreSQL")
        if self.kind == "sqlite" and self.dsn_env is not None:
            yield Finding(("dsn_env",), "dsn_env beside kind: sqlite", "kind: postgres, or no dsn_env")
        if self.master_key_env is not None and self.master_key_file is not None:
            yield Finding(("master_key_file",), "both master_key_env and master_key_file", "one of them")
        if not self.path or "\0" in self.path:
            yield Finding(("path",), shown(self.path), "the name of a file")


def sensitive_findings(
    sensitive: Mapping[str, SensitiveField], columns: Mapping[str, Any], roles: Mapping[str, str]
) -> Iterator[Finding]:
    """What is wrong with a stream's ``sensitive``. ``roles``: fields that are its id or a time, with what they are."""
    for name, each in sensitive.items():
        at = ("sensitive", name)
        spec = columns.get(name)
        if spec is None:
            yield Finding(at, shown(name), "a field of this stream", nearest(name, columns))
            continue
        if spec.is_list or spec.kind not in _KINDS:
            yield Finding(at, f"{name} of type {spec}", "a field of type string or integer")
        if name in roles:
            hint = "use an id that says nothing of a person" if roles[name] == "id" else None
            yield Finding(at, f"{name}, the {roles[name]} of the record", "a field that is neither id nor time", hint)
        if each.domain is not None and not _DOMAIN.fullmatch(each.domain):
            expected = "a name of letters, digits, and . _ -, at most 64"
            yield Finding((*at, "domain"), shown(each.domain), expected)
        if each.person is not None:
            yield from _person_findings(name, each.person, sensitive, columns)


def _person_findings(
    name: str, person: str, sensitive: Mapping[str, SensitiveField], columns: Mapping[str, Any]
) -> Iterable[Finding]:
    at, spec = ("sensitive", name, "person"), columns.get(person)
    if spec is None:
        return [Finding(at, shown(person), "a field of this stream", nearest(person, columns))]
    if spec.is_list or spec.kind not in _KINDS:
        return [Finding(at, f"{person} of type {spec}", "a field of type string or integer")]
    if person == name:
        return [Finding(at, person, "another field", "leave person out: the value itself names the person")]
    if person in sensitive and sensitive[person].person is not None:
        expected = "a field that names the person by itself"
        return [Finding(at, f"{person}, which has a person of its own", expected, f"{person}: {{}}")]
    return []
