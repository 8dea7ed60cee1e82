"""The client of a REST catalog: requests with a time limit, errors that name the server and never the token.

pyiceberg's client waits for ever, and repeats what servers answer, which may have the token in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException, Timeout

from crossline.basics.errors import CrosslineError, StateError, UsageError
from crossline.lake.catalogs.unavailable import LakeUnavailableError
from crossline.settings.process.lake import RestCatalogSettings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

CONNECT_S, ANSWER_S = 10.0, 60.0
HIDDEN = "***"
_BAD_REQUEST = 400
_TEXT_MAX = 300
# Of a failed connection, urllib3 gives the system's reason within the text of several nested errors.
_SYSTEM_REASON = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")


def rest_catalog(
    name: str,
    settings: RestCatalogSettings,
    properties: Mapping[str, str],
    environment: Mapping[str, str] = os.environ,
    *,
    answer_s: float = ANSWER_S,
) -> Catalog:
    """The catalog behind a server that speaks Iceberg's REST protocol.

    Args:
        name: What clients call the catalog.
        settings: The address of the server, its name for the warehouse, and where the token is.
        properties: How files are reached; the server may override them.
        environment: Has the token.
        answer_s: How long an answer is waited for, in seconds.

    Raises:
        UsageError: The environment has no token where one is expected.
        LakeUnavailableError: The server does not answer now.
        StateError: The server refuses the request, or does not speak the protocol.
    """
    from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415 - an extra

    token = _token(settings, environment)

    class TimedRestCatalog(RestCatalog):
        def _create_session(self) -> Session:
            session = super()._create_session()
            session.hooks["response"].append(_without(token))
            for scheme in ("http://", "https://"):
                session.mount(scheme, _TimedAdapter(settings.uri, answer_s))
            return session

    given: dict[str, Any] = dict(properties)
    given.pop("warehouse", None)  # a server knows warehouses by names of its own
    given |= {"auth": {"type": "noop"}} if token is None else {}
    given |= rest_properties(settings, environment)
    try:
        return TimedRestCatalog(name, **given)
    except Exception as error:  # noqa: BLE001 - the library raises errors of many kinds
        raise rest_error(settings, error) from None


def rest_properties(settings: RestCatalogSettings, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The server's address, its name for the warehouse, and the token. Raises UsageError where the token is missing."""
    token = _token(settings, environment)
    given = {"uri": settings.uri, "warehouse": settings.warehouse, "token": token}
    return {name: value for name, value in given.items() if value is not None}


def rest_error(settings: RestCatalogSettings, error: Exception) -> CrosslineError:
    """What is raised for ``error``, which came as the catalog was opened: retryable if the server may recover."""
    from pyiceberg.exceptions import (  # noqa: PLC0415 - an extra
        ForbiddenError,
        ServerError,
        ServiceUnavailableError,
        TooManyRequestsError,
        UnauthorizedError,
    )

    if isinstance(error, CrosslineError):
        return error
    text = (str(error) or type(error).__name__).splitlines()[0][:_TEXT_MAX]
    if isinstance(error, (ServerError, ServiceUnavailableError, TooManyRequestsError)):
        return LakeUnavailableError(f"the REST catalog at {settings.uri} cannot answer now: {text}")
    if isinstance(error, (UnauthorizedError, ForbiddenError)):
        source = "names no token: set token_env" if settings.token_env is None else f"has it in {settings.token_env}"
        return StateError(
            f"the REST catalog at {settings.uri} refuses access: {text}; expected a token that may use the namespace, "
            f"and the pipeline file {source}"
        )
    return StateError(
        f"the REST catalog at {settings.uri} cannot be used: {text}; expected a server of Iceberg's REST protocol at "
        "this address, without /v1, and, if it has several warehouses, the name of one in catalog.warehouse"
    )


def _token(settings: RestCatalogSettings, environment: Mapping[str, str]) -> str | None:
    if settings.token_env is None:
        return None
    token = environment.get(settings.token_env, "").strip()
    if not token:
        raise UsageError(f"environment variable {settings.token_env}, which token_env names, is not set")
    return token


def _without(token: str | None) -> Any:
    """A hook that takes the token out of the texts of errors."""

    def hide(response: Response, *_: Any, **__: Any) -> Response:
        if token is not None and response.status_code >= _BAD_REQUEST:
            response._content = response.content.replace(token.encode(), HIDDEN.encode())  # noqa: SLF001 - has no setter
        return response

    return hide


class _TimedAdapter(HTTPAdapter):
    """Sends requests with a time limit, and raises errors in the words of crossline."""

    def __init__(self, uri: str, answer_s: float) -> None:
        self._uri, self._answer_s = uri, answer_s
        super().__init__()

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = (min(CONNECT_S, self._answer_s), self._answer_s)
        try:
            return super().send(request, *args, **options)
        except RequestException as error:
            raise LakeUnavailableError(
                f"the REST catalog at {self._uri} does not answer: {self._reason(error)}; expected a running server "
                "of Iceberg's REST protocol, see catalog.uri"
            ) from None

    def _reason(self, error: RequestException) -> str:
        if isinstance(error, Timeout):
            return f"nothing came within {self._answer_s:g} s"
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        found = _SYSTEM_REASON.search(text)
        return found.group(1) if found else text[:_TEXT_MAX]
