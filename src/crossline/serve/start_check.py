"""Checks that the API can be started by its pipeline's configuration, before anything slow is started."""

from __future__ import annotations

import importlib.util
import os
import ssl
from pathlib import Path

from crossline.basics.errors import PermanentError, UsageError
from crossline.io.webhook.poster import Poster
from crossline.serve.assembly import check_sources, checked
from crossline.serve.ledger.signing import Signer
from crossline.serve.ownership import check_owner
from crossline.settings.config import PipelineConfig
from crossline.settings.process.serve import ServeSettings, TlsSettings

NEEDED = ("argon2", "fastapi", "httptools", "jinja2", "python_multipart", "starlette", "uvicorn", "uvloop")


def check_startable(config: PipelineConfig) -> ServeSettings:
    """The section ``serve`` of ``config``, whose paths are absolute, if an API can be started by it now.

    Raises UsageError if it cannot: what ``crossline serve`` would end with, in its words. What may be better in a
    moment (a ledger that another process has) is no reason.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"the API needs {missing[0]}, which is not installed: pip install 'crossline[serve]'")
    settings, _ = checked(config)
    check_sources(config)
    check_files(settings)
    check_owner(Path(settings.path), config.name)
    _check_place(settings)
    return settings


def check_files(settings: ServeSettings) -> None:
    """Raise UsageError if a file that ``settings`` name cannot be used."""
    if settings.tls is not None:
        _check_certificate(settings.tls)
    if settings.signing_key_file is not None:
        Signer.from_file(settings.signing_key_file)
    for number, address in enumerate(settings.revisions):
        poster = Poster(address)
        try:
            poster.open()
        except PermanentError as error:
            raise UsageError(f"serve.revisions.{number}: {error}") from None
        finally:
            poster.close()
    path = Path(settings.path)
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(
            f"serve.path: {path} cannot be made: found {there}, which is no folder that may be written to; name another"
        )


def _check_certificate(tls: TlsSettings) -> None:
    for name, given in (("cert_file", tls.cert_file), ("key_file", tls.key_file)):
        try:
            with Path(given).open("rb"):
                pass
        except OSError as error:
            raise UsageError(f"serve.tls.{name}: {given} cannot be read: {error.strerror}") from None

    def asked() -> str:
        raise UsageError(f"serve.tls.key_file: {tls.key_file} needs a password; expected a key without one")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.cert_file, tls.key_file, asked)
    except ssl.SSLError as error:
        raise UsageError(
            f"serve.tls: {tls.cert_file} and {tls.key_file} are no certificate with its key ({error.reason or error}); "
            "expected both in PEM form, the certificate first in its file"
        ) from None


def _check_place(settings: ServeSettings) -> None:
    from crossline.serve.app.server import listening  # noqa: PLC0415 - loads the server

    for place, setting in ((settings.place, "serve.listen"), (settings.metrics_place, "serve.metrics")):
        if place is not None:
            bound, _ = listening(place, setting)
            bound.close()
