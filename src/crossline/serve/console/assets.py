"""Styles, scripts and fonts: read at the start, compressed once, each address good for ever."""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from starlette.responses import Response

FOLDER = Path(__file__).parent / "assets"
PREFIX = "/assets/"
STYLE, ICON = "console.css", "icon.svg"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_PACKED = {".css", ".js", ".svg"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent. ``packed``: by gzip; None if that is no shorter."""

    data: bytes
    packed: bytes | None
    kind: str


class ChangedAssetError(Exception):
    """A vendored file is not the one that the manifest pins."""


@dataclass(frozen=True)
class Assets:
    """All files. ``prefix``: under which they are, which has the digest of all of them in it."""

    prefix: str
    files: dict[str, Asset]

    def answer(self, path: str, accepts: str) -> Response | None:
        """The answer to a GET of ``path``; None if there is nothing (any more)."""
        found = self.files.get(path.removeprefix(self.prefix)) if path.startswith(self.prefix) else None
        if found is None:
            return None
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        if found.packed is not None and "gzip" in accepts:
            return Response(found.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=found.kind)
        return Response(found.data, headers=headers, media_type=found.kind)


@cache
def assets() -> Assets:
    """Of the package. Raises ChangedAssetError if a vendored file is not as the manifest pins it."""
    for pinned in manifest():
        if hashlib.sha256((FOLDER / pinned["file"]).read_bytes()).hexdigest() != pinned["sha256"]:
            raise ChangedAssetError(f"{pinned['file']} is not the file that assets/manifest.json pins; install anew")
    raw = {
        str(path.relative_to(FOLDER)): path.read_bytes()
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in _TYPES and path.parent.name != "css"
    }
    # One request for all of our own style, in the order of the files' names.
    raw[STYLE] = b"\n".join(path.read_bytes() for path in sorted((FOLDER / "css").glob("*.css")))
    whole = hashlib.sha256()
    for name, data in sorted(raw.items()):
        whole.update(f"{name}\0{len(data)}\0".encode() + data)
    return Assets(f"{PREFIX}{whole.hexdigest()[:16]}/", {name: _asset(name, data) for name, data in raw.items()})


def manifest() -> list[dict[str, Any]]:
    """Vendored files: ``file``, ``sha256``, ``name``, ``version``, ``licence``."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())
    return found


def _asset(name: str, data: bytes) -> Asset:
    suffix = Path(name).suffix
    packed = gzip.compress(data, 9, mtime=0) if suffix in _PACKED else None
    return Asset(data, packed if packed is not None and len(packed) < len(data) else None, _TYPES[suffix])
