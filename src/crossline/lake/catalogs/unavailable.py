"""The error of a lake that does not answer."""

from __future__ import annotations

from crossline.basics.errors import RetryableError


class LakeUnavailableError(RetryableError):
    """The catalog or the files of the lake do not answer now."""
