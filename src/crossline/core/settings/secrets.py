"""Passwords: settings say where one stands, and never what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from crossline.core.basics.errors import PermanentError
from crossline.core.texts.problems import Finding

A_SECRET = "a secret"  # noqa: S105 - the word, not one


def two_places(password_env: str | None, password_file: str | None) -> list[Finding]:
    """A password that is said to stand in two places."""
    if password_env and password_file:
        return [Finding(("password_file",), "both password_env and password_file", "one of them")]
    return []


def password_of(
    password_env: str | None, password_file: str | None, environment: Mapping[str, str], read: Callable[[str], str]
) -> str | None:
    """The password that stands in either place; None where neither is named.

    ``read`` gives the text of a file. Raises PermanentError where the variable is not set or the file not readable.
    """
    if password_env is not None:
        value = environment.get(password_env)
        if not value:
            raise PermanentError(
                f"environment variable {password_env}, which password_env names, is not set: export it first"
            )
        return value
    if password_file is None:
        return None
    try:
        return read(password_file).strip()
    except OSError as error:
        raise PermanentError(f"password_file {password_file} cannot be read: {error.strerror}") from None
