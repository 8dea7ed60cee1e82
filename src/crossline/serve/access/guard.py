"""Puts ``Access`` in front of an app, by the section ``serve`` of the pipeline file."""

from __future__ import annotations

from pathlib import Path

from crossline.logs import get_logger
from crossline.serve.access.credentials import Credentials
from crossline.serve.access.keyring import KeyRing
from crossline.serve.access.middleware import Access, App
from crossline.serve.access.oidc import OidcTokens
from crossline.settings.process.serve import ServeSettings

log = get_logger(__name__)


def guarded(app: App, serve: ServeSettings) -> Access:
    """``app`` behind keys, tokens and limits; an open API is logged.

    Args:
        app: Any ASGI app. Each of its routes needs an entry in ``roles.ROUTES`` (``routes.check_routes`` names those
            without, which are refused to everybody).
        serve: The section, with its paths.

    Example:
        uvicorn.Config(guarded(app, config.serve), **uvicorn_settings(config.serve))
    """
    if serve.open:
        log.warning("the API is open: any user of this machine may call it", listen=str(serve.place))
        return Access(app, None, serve.limits)
    tokens = None if serve.oidc is None else OidcTokens(serve.oidc)
    return Access(app, Credentials(KeyRing(Path(serve.keys)), tokens), serve.limits)
