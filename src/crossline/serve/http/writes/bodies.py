"""Bodies of requests that change rules."""

from __future__ import annotations

import re
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, model_validator

from crossline.basics.share import read_share
from crossline.basics.texts.problems import shown
from crossline.basics.texts.yamltext import SIZE_MAX
from crossline.rule_registry.content import FileContent
from crossline.rule_registry.rule_files import SUFFIXES
from crossline.serve.http.problems import invalid

_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)


class Body(BaseModel):
    """A body; names that it does not have are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def check_values(cls, given: Any) -> Any:
        """Refuse what JSON may write and nothing can keep: half a surrogate pair, a number of more than 64 bits."""
        try:
            orjson.dumps(given)
        except (TypeError, RecursionError) as error:
            raise ValueError(f"text in UTF-8 and numbers of 64 bits ({error})") from None
        return given


class RuleFile(Body):
    """A file of rules."""

    name: str = Field(default="rules.yaml", max_length=104, description="What the file is called in the folder.")
    text: str = Field(max_length=SIZE_MAX, description="Its content: YAML or JSON, a rule or a list of rules.")

    def checked(self) -> FileContent:
        """Its bytes. Raises ProblemError for a name that is none."""
        if _FILE.fullmatch(self.name) is None or not self.name.endswith(SUFFIXES):
            raise invalid(
                "/name", shown(self.name), f"letters, digits, _ . -, at most 100, that end in {', '.join(SUFFIXES)}"
            )
        return FileContent(self.text.encode())


class PublishedFile(RuleFile):
    """A file of rules that is to be published under its name."""

    name: str = Field(max_length=104, description="What the file is called in the folder: it replaces that one.")


class Approval(Body):
    """The version that is approved."""

    rule_id: str = Field(max_length=200, description="Name of the rule.")
    version: int = Field(ge=1, lt=2**31, description="The reviewed version.")
    proof_id: str | None = Field(
        default=None, max_length=100, description="Digest of the reviewed proof; required by `review: proven`."
    )


class NewStatus(Body):
    """Another status of a version."""

    status: Literal["draft", "shadow", "active", "paused", "retired"] = Field(description="The new status.")
    version: int | None = Field(default=None, ge=1, lt=2**31, description="The version; by default the highest.")


class NewShare(Body):
    """Another share of keys of a version."""

    share: str = Field(max_length=20, description="Of its keys, such as `10%`; the version before has the others.")
    version: int | None = Field(default=None, ge=1, lt=2**31, description="The version; by default the highest.")

    def checked(self) -> str:
        """The share as it was written. Raises ProblemError for what is none."""
        try:
            return read_share(self.share)
        except ValueError as error:
            raise invalid("/share", shown(self.share), str(error).removeprefix("expected ")) from None
