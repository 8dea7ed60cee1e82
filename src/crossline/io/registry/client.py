"""A client of a schema registry (Confluent's HTTP protocol): reads a schema by its id, and registers one."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from pydantic import ValidationError

from crossline.basics.errors import PermanentError, SourceError, UsageError
from crossline.basics.texts.validation import findings_from_validation
from crossline.io.net.deadline import Deadline, NoAnswerError
from crossline.io.net.http import HttpAddress
from crossline.settings.registry import RegistrySettings

# As the protocol has them: what is not there although the registry is.
UNKNOWN = {40_401, 40_402, 40_403}
BODY_BYTES_MAX = 8 << 20
REFERENCES_MAX = 200
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_FORBIDDEN = {401, 403}


class UnknownSchemaError(Exception):
    """The registry has no such schema."""


@dataclass(frozen=True, slots=True)
class SchemaAnswer:
    """The final answer for a schema id: the texts of its schema, references first; or why it cannot be used."""

    texts: tuple[str, ...] = ()
    refused: str = ""


@dataclass(frozen=True, slots=True)
class RegistryClient:
    """The address and credentials of a registry; a plain value that can be pickled. Its password is never printed."""

    urls: tuple[str, ...]
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    answer_s_max: float = 10.0

    def schema(self, number: int) -> SchemaAnswer:
        """The schema of ``number``.

        Raises UnknownSchemaError where there is none, SourceError where no registry answers, PermanentError where the
        registry refuses the credentials.
        """
        found = self._request("GET", f"/schemas/ids/{number}")
        kind = found.get("schemaType") or "AVRO"
        if kind != "AVRO":
            return SchemaAnswer(refused=f"schema {number} of the registry is one of {kind}, expected one of Avro")
        texts: dict[tuple[str, int], str] = {}
        try:
            self._referred(found.get("references") or (), texts, set())
        except UnknownSchemaError:
            return SchemaAnswer(refused=f"schema {number} refers to schemas that the registry has not")
        return SchemaAnswer((*texts.values(), str(found["schema"])))

    def _referred(self, references: Any, texts: dict[tuple[str, int], str], met: set[tuple[str, int]]) -> None:
        """The texts of referenced schemas; each follows its own references."""
        for each in references:
            place = str(each["subject"]), int(each["version"])
            if place in met:
                continue
            met.add(place)
            if len(met) > REFERENCES_MAX:
                raise UnknownSchemaError
            found = self._request("GET", f"/subjects/{quote(place[0], safe='')}/versions/{place[1]}?deleted=true")
            self._referred(found.get("references") or (), texts, met)
            texts[place] = str(found["schema"])

    def latest(self, subject: str) -> int:
        """The number of the newest schema under a name. Raises as ``schema`` does."""
        found = self._request("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        return int(found["id"])

    def register(self, subject: str, text: str) -> int:
        """The number of a schema, which is put there where it is not yet. Raises as ``schema`` does."""
        found = self._request("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})
        return int(found["id"])

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """The answer of the first registry that has one."""
        failures: list[str] = []
        for url in self.urls:
            try:
                return self._request_one(url, method, path, body)
            except SourceError as error:
                failures.append(str(error))
        raise SourceError("; ".join(failures))

    def _request_one(self, url: str, method: str, path: str, body: Mapping[str, Any] | None) -> Mapping[str, Any]:
        try:
            status, raw = self._exchange(url, method, path, body)
        except OSError as error:
            raise SourceError(f"the registry at {url} does not answer: {_why(error)}") from error
        found = _object(raw)
        if status == 200 and ("schema" in found or "id" in found):
            return found
        if status == 404 and found.get("error_code") in UNKNOWN:
            raise UnknownSchemaError
        text = f"the registry at {url} answers {status} to {method} {path}: {_reason_of(found, raw)}"
        if status in _FORBIDDEN:
            raise PermanentError(f"{text}; see `username` and its password in `registry`, and what it may read")
        if method == "POST" and status in {409, 422}:
            raise PermanentError(text)
        raise SourceError(text)

    def _exchange(self, url: str, method: str, path: str, body: Mapping[str, Any] | None) -> tuple[int, bytes]:
        """Status and body; all of it is there within ``answer_s_max``, or the next address is tried."""
        sent = None if body is None else json.dumps(body).encode()
        target = f"{urlsplit(url).path.rstrip('/')}{path}"
        address, deadline = HttpAddress(url, self.ca_file, kept_max=0), Deadline(self.answer_s_max)
        headers = self._headers()
        reply = address.request(method, target, deadline, body=sent, headers=headers, bytes_max=BODY_BYTES_MAX)
        if not reply.whole:
            raise SourceError(f"the registry at {url} answers with more than {BODY_BYTES_MAX} bytes to {path}")
        return reply.status, reply.body

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": _ACCEPT, "Content-Type": "application/json"}
        if self.username is not None:
            given = f"{self.username}:{self.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(given).decode()}"
        return headers


def register_at(url: str, topic: str, text: str) -> int:
    """The number of a schema of the values of ``topic``, under the default subject name of producers."""
    try:
        settings = RegistrySettings(url=url)
    except ValidationError as error:
        problems = [
            f"found {each.found}, expected {each.expected}"
            for each in findings_from_validation(error, RegistrySettings)
        ]
        raise UsageError(f"the registry's address: {'; '.join(problems)}") from None
    return RegistryClient(tuple(settings.urls)).register(f"{topic}-value", text)


def _object(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _reason_of(found: Mapping[str, Any], raw: bytes) -> str:
    text = str(found.get("message") or raw[:200].decode("utf-8", "replace")) or "nothing"
    return " ".join(text.split())[:200]


def _why(error: Exception) -> str:
    if isinstance(error, NoAnswerError):
        return "it took too long"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
