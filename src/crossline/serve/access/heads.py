"""The head of a request: refused where two readers could take it for two things, or where it is for another host."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from crossline.core.texts.uris import is_loopback
from crossline.serve.http.problems import refusal

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::\d{1,5})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Head:
    """What a head says. ``credential``: the header Authorization; ``length``: bytes of the body, where that is told."""

    credential: bytes | None
    length: int | None


def checked_head(scope: MutableMapping[str, Any]) -> Head:
    """The head of a request. Raises ProblemError (400) where it says a thing twice, or two lengths of the body."""
    credential: bytes | None = None
    length: int | None = None
    coded = False
    for name, value in scope["headers"]:
        if name == b"authorization":
            if credential is not None:
                raise refusal(400, "found two headers Authorization; expected one")
            credential = value
        elif name == b"content-length":
            if length is not None or not value.isdigit():
                raise refusal(400, "found no plain Content-Length, or two; expected one number")
            length = int(value[:20])
        elif name == b"transfer-encoding":
            if coded or value.lower() != b"chunked":
                raise refusal(400, "found a Transfer-Encoding that is not chunked; expected none, or chunked")
            coded = True
    if coded and length is not None:
        raise refusal(400, "found Content-Length and Transfer-Encoding; expected one of them")
    return Head(credential, length)


@lru_cache(maxsize=256)
def is_here(host: bytes) -> bool:
    """Whether a header Host names this machine by its loopback address."""
    found = _HOST.fullmatch(host.decode("latin-1").lower())
    return found is not None and is_loopback(found[1] or found[2])
