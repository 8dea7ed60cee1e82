"""One listener for programs and for people: what is the API's goes to the API, all else to the console."""

from __future__ import annotations

from crossline.serve.access.middleware import App, Receive, Scope, Send

PROBES = frozenset({"/healthz", "/readyz"})
API = "/v1"


class Split:
    """ASGI app. The life of the server is the API's."""

    def __init__(self, api: App, console: App) -> None:
        self._api = api
        self._console = console

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or the life of the server."""
        is_api = scope["type"] != "http" or is_of_api(scope["path"])
        await (self._api if is_api else self._console)(scope, receive, send)


def is_of_api(path: str) -> bool:
    """Whether a decoded path is the API's.

    >>> [is_of_api(each) for each in ("/v1/alerts", "/v1", "/readyz", "/v10", "/queue", "/")]
    [True, True, True, False, False, False]
    """
    return path.startswith(f"{API}/") or path == API or path in PROBES
