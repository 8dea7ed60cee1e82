"""Where a URI leads: the file system that pyarrow has for it, made once a process.

Credentials come from where AWS's own libraries look for them (environment, files, roles), never from a URI, which is
printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs as pafs

from crossline.core.basics.errors import UsageError
from crossline.core.settings.checkpoint import ENDPOINT, REGION, check_uri

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_CONNECT_S, _ANSWER_S = 5.0, 30.0
_TRIES = 3  # of the library itself, within a second or two; whoever calls tries longer


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a file system. ``whole``: what is written is there, under its name, once it is whole."""

    fs: pafs.FileSystem
    base: str
    whole: bool


# By URI: file systems hold connections. In a process that was forked since they would be somebody else's.
_PLACES: dict[tuple[int, str], Place] = {}


def is_uri(root: str) -> bool:
    """Whether ``root`` is a URI and no path."""
    return "://" in root


def under(root: str, *parts: str) -> str:
    """What lies below ``root``, a path or a URI."""
    stem, mark, query = root.partition("?") if is_uri(root) else (root, "", "")
    return "/".join([stem.rstrip("/"), *parts]) + mark + query


def place_of(root: str, environment: Mapping[str, str] = os.environ) -> Place:
    """The place of ``root``. Raises UsageError where there is no way to such a one."""
    if not is_uri(root):
        return Place(pafs.LocalFileSystem(), root, whole=False)
    key = (os.getpid(), root)
    if key not in _PLACES:
        _PLACES[key] = _opened(root, environment)
    return _PLACES[key]


def _opened(uri: str, environment: Mapping[str, str]) -> Place:
    wrong = check_uri(uri)
    if wrong is not None:
        raise UsageError(f"{uri}: found {wrong[0]}, expected {wrong[1]}")
    parts = urlsplit(uri)
    if parts.scheme == "hdfs":
        try:
            fs, base = pafs.FileSystem.from_uri(uri)
        except OSError as error:
            raise UsageError(
                f"{uri} cannot be reached: {error}; HDFS needs Hadoop's own library: set HADOOP_HOME, JAVA_HOME and "
                "CLASSPATH (`hadoop classpath --glob`)"
            ) from error
        return Place(fs, base.rstrip("/"), whole=False)
    asked = dict(parse_qsl(parts.query))
    endpoint = asked.get(ENDPOINT) or next((environment[name] for name in _ENDPOINTS if environment.get(name)), None)
    region = asked.get(REGION) or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    fs = pafs.S3FileSystem(
        endpoint_override=endpoint,
        region=region,
        connect_timeout=_CONNECT_S,
        request_timeout=_ANSWER_S,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
        background_writes=False,
        allow_delayed_open=True,  # one request for what is small
    )
    return Place(fs, f"{parts.netloc}{parts.path}".rstrip("/"), whole=True)
