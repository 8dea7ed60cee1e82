"""Passwords and keys that settings name, and never hold: pipeline.yaml is read by many, and committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import Field

from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import Finding
from crossline.basics.texts.uris import A_SECRET as A_SECRET  # noqa: PLC0414 - settings name it as theirs
from crossline.settings.fields import Settings


class Password(Settings):
    """Where a password is: in a variable of the environment, or in a file."""

    password_env: str | None = Field(
        default=None, description="Name of the environment variable that holds the password."
    )
    password_file: str | None = Field(default=None, description="File that holds the password and nothing else.")

    def findings(self) -> list[Finding]:
        """A password from two places."""
        if self.password_env and self.password_file:
            return [Finding(("password_file",), "both password_env and password_file", "one of them")]
        return []

    def password(self, environment: Mapping[str, str], read: Callable[[str], str]) -> str | None:
        """The password that these settings name; None where they name none.

        ``read`` gives the text of a file. Raises PermanentError where the variable is not set or the file not readable.
        """
        if self.password_env is not None:
            value = environment.get(self.password_env)
            if not value:
                raise PermanentError(
                    f"environment variable {self.password_env}, which password_env names, is not set: export it first"
                )
            return value
        if self.password_file is None:
            return None
        try:
            return read(self.password_file).strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise PermanentError(f"password_file {self.password_file} cannot be read: {reason}") from None
