"""Building blocks of pipeline.yaml: durations, and settings whose ``kind`` determines their other keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError, model_validator

from crossline.basics.texts.problems import Finding, nearest, one_of, shown
from crossline.basics.texts.uris import check_uri
from crossline.basics.texts.validation import findings_from_validation, refusal, refusals
from crossline.basics.times import DURATION_FORM, parse_duration_ms


class Settings(BaseModel):
    """Settings that a person wrote: frozen, nothing coerced, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def findings(self) -> list[Finding]:
        """What is wrong with these settings as a whole; nothing unless a kind overrides it."""
        return []

    def takes_decisions(self) -> bool:
        """Of a sink whether decisions get to it as alerts do; one that keeps them reports it here."""
        return False

    @model_validator(mode="after")
    def _check(self) -> Settings:
        findings = self.findings()
        if findings:
            raise refusals(findings)
        return self


def _duration_ms(value: Any) -> int:
    try:
        return parse_duration_ms(value)
    except ValueError as error:
        text = str(error)
        raise refusal(DURATION_FORM, None if DURATION_FORM in text else text) from None


# Written as 45s or 2 min, held as whole milliseconds.
DurationMs = Annotated[int, BeforeValidator(_duration_ms)]


def not_empty(what: str) -> BeforeValidator:
    """A validator that asks for ``what`` where there is an empty mapping or list."""

    def check(value: Any) -> Any:
        if value in ({}, []):
            raise refusal(what)
        return value

    return BeforeValidator(check)


def by_kind(kinds: Mapping[str, type[Settings]]) -> Callable[[Any], Settings]:
    """A validator that reads a mapping with the model that its ``kind`` names.

    pydantic's own discriminated unions put the kind into the path of an error, where the file has no such place.
    """

    def read(value: Any) -> Settings:
        if not isinstance(value, dict):
            raise refusal(f"a mapping with kind: {one_of(kinds)}")
        if "kind" not in value:
            raise refusals([Finding(("kind",), "nothing", f"kind, which is {one_of(kinds)}")])
        kind = value["kind"]
        model = kinds.get(kind) if isinstance(kind, str) else None
        if model is None:
            raise refusals([Finding(("kind",), shown(kind), one_of(kinds), nearest(kind, kinds))])
        try:
            return model.model_validate(value)
        except ValidationError as error:
            raise refusals(findings_from_validation(error, model)) from None

    return read


_OF_SPARK = re.compile(r"spark\.[A-Za-z0-9_.-]+", re.ASCII)
_SECRET = re.compile(r"secret|password|token|access[.]?key|credential", re.IGNORECASE)
# Settings that another key of the file sets, or that answers depend on.
_OURS = {
    "spark.master": "set engine.master instead",
    "spark.app.name": "it is the pipeline's name",
    "spark.submit.deployMode": "the driver is the process of crossline run",
    "spark.sql.adaptive.enabled": "shards are tasks, which Spark must not merge or split",
    "spark.sql.session.timeZone": "times are written in UTC",
}


def _spark_settings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise refusal("a mapping of Spark's settings, by their names, to values")
    findings, found = list[Finding](), dict[str, str]()
    for name, each in value.items():
        if not isinstance(name, str) or not _OF_SPARK.fullmatch(name):
            findings.append(Finding((str(name),), shown(name), "a name that begins with spark."))
        elif _SECRET.search(name) and not name.endswith((".file", ".enabled")):
            expected = "no secrets in this file"
            findings.append(Finding((name,), "a secret", expected, "see SPARK_CONF_DIR in operations.md, Clusters"))
        elif name in _OURS:
            findings.append(Finding((name,), "a setting that crossline makes", "another one", _OURS[name]))
        elif not isinstance(each, str | int | float):
            findings.append(Finding((name,), shown(each), "text, a number, true or false"))
        else:
            found[name] = str(each).lower() if isinstance(each, bool) else str(each)
    if findings:
        raise refusals(findings)
    return found


# Settings of Spark by name, all of them texts, as Spark has them.
SparkSettings = Annotated[dict[str, str], BeforeValidator(_spark_settings)]


def _check_uri(value: str) -> str:
    wrong = check_uri(value) if "://" in value else None
    if wrong is not None:
        found, expected = wrong
        raise refusal(expected, found=found)
    return value


# A folder, or a place on a store.
FolderOrUri = Annotated[str, AfterValidator(_check_uri)]
