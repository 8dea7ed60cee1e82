"""Flash messages: the result of an action, shown on the next page; in a signed cookie."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

import orjson
from starlette.requests import Request
from starlette.responses import Response

from crossline.serve.console.layout.shell import Toast

if TYPE_CHECKING:
    from crossline.serve.console.gate import Gate
    from crossline.serve.console.request import PageRequest

COOKIE = "crossline-notice"
LASTS_S = 60
TEXT_MAX = 300


def saying(answer: Response, asked: PageRequest, text: str, undo: str = "") -> Response:
    """``answer``, after which the next page shows ``text``. ``undo``: the address of the form that undoes it."""
    message = base64.urlsafe_b64encode(orjson.dumps([text[:TEXT_MAX], undo])).decode().rstrip("=")
    value = f"{message}.{_mac(message, asked.token)}"
    answer.headers.append("set-cookie", asked.gate.cookie_of(COOKIE, value, lasts_s=LASTS_S))
    return answer


def message_in(request: Request, token: str) -> Toast | None:
    """What the page is to say; None if nothing, or this session did not write it.

    A script that reads a page anew, or a part of one, is shown nothing: a message would be lost on it.
    """
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate" or "hx-request" in request.headers:
        return None
    message, _, mac = request.cookies.get(COOKIE, "").partition(".")
    if (
        not message
        or not token
        or not hmac.compare_digest(mac.encode("utf-8", "replace"), _mac(message, token).encode())
    ):
        return None
    try:
        text, undo = orjson.loads(base64.urlsafe_b64decode(message + "=" * (-len(message) % 4)))
    except (ValueError, binascii.Error):
        return None
    return Toast(str(text), str(undo))


def clearing_header(gate: Gate) -> str:
    """A header that ends it."""
    return gate.cookie_of(COOKIE, "", lasts_s=0)


def _mac(text: str, token: str) -> str:
    return hmac.new(token.encode(), f"notice {text}".encode(), hashlib.sha256).hexdigest()[:32]
