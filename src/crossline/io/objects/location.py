"""The pyarrow file system of a URI, created once per process.

Credentials come from where AWS's own libraries look for them (environment, files, roles), never from a URI, which is
printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa

from crossline.basics.errors import UsageError
from crossline.basics.texts.uris import ENDPOINT, REGION, asked_in, check_uri

if TYPE_CHECKING:
    from pyarrow import fs as pafs

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_CONNECT_S, _ANSWER_S = 5.0, 30.0
_S3 = ("s3", "s3a")
_WHOLE = (*_S3, "gs", "gcs", "abfs", "abfss")
_TRIES = 3  # of the library itself, within a second or two; the callers retry for longer


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """A folder of a file system. ``whole``: a file appears under its name only once it is complete."""

    fs: pafs.FileSystem
    base: str
    whole: bool


# By process and URI: file systems hold connections, which a forked process must not share.
_PLACES: dict[tuple[int, str], StoreLocation] = {}


def is_uri(root: str) -> bool:
    """Whether ``root`` is a URI and no path."""
    return "://" in root


def under(root: str, *parts: str) -> str:
    """What lies below ``root``, a path or a URI."""
    stem, mark, query = root.partition("?") if is_uri(root) else (root, "", "")
    return "/".join([stem.rstrip("/"), *parts]) + mark + query


def location_of(root: str, environment: Mapping[str, str] = os.environ) -> StoreLocation:
    """The location of ``root``. Raises UsageError where its scheme is not supported."""
    from pyarrow import fs as pafs  # noqa: PLC0415 - it loads slowly, and whoever only asks for names needs none

    if not is_uri(root):
        return StoreLocation(pafs.LocalFileSystem(), root, whole=False)
    key = (os.getpid(), root)
    if key not in _PLACES:
        _PLACES[key] = _opened(root, environment)
    return _PLACES[key]


def _opened(uri: str, environment: Mapping[str, str]) -> StoreLocation:
    from pyarrow import fs as pafs  # noqa: PLC0415 - as above

    scheme = uri.partition("://")[0]
    if scheme == "hdfs":
        from crossline.io.objects.hdfs import hdfs  # noqa: PLC0415 - as above

        split = urlsplit(uri)
        return StoreLocation(hdfs(f"hdfs://{split.netloc}"), split.path.rstrip("/"), whole=False)
    if scheme not in _S3 or check_uri(uri) is not None:
        return _by_pyarrow(uri, scheme)
    parts = urlsplit(uri)
    query = asked_in(parts.query)
    endpoint = query.get(ENDPOINT) or next((environment[name] for name in _ENDPOINTS if environment.get(name)), None)
    region = query.get(REGION) or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    fs = pafs.S3FileSystem(
        endpoint_override=endpoint,
        region=region,
        connect_timeout=_CONNECT_S,
        request_timeout=_ANSWER_S,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
        background_writes=False,
        allow_delayed_open=True,  # one request for what is small
    )
    return StoreLocation(fs, f"{parts.netloc}{parts.path}".rstrip("/"), whole=True)


def _by_pyarrow(uri: str, scheme: str) -> StoreLocation:
    """As pyarrow reads it: the state of ``detect`` may be at any URI that it knows, written in its own way."""
    from pyarrow import fs as pafs  # noqa: PLC0415 - as above

    try:
        fs, base = pafs.FileSystem.from_uri(uri)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(
            f"a place with a URI of {scheme}:// cannot be reached: {type(error).__name__}, expected one that pyarrow "
            "knows"
        ) from error
    return StoreLocation(fs, base.rstrip("/"), whole=scheme in _WHOLE)
