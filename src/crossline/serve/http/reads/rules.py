"""``/v1/rules``: rules as they are live, their versions, and what waits, by the rule log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath

from crossline.basics.texts.problems import nearest, shown
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.outcomes.overview import Row, about, event_row, pending
from crossline.rule_registry.sources.review import review_digest
from crossline.rules.base import Rule
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.etags import etag_of
from crossline.serve.http.principals import needs
from crossline.serve.http.problems import ProblemError, not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.rulebook import Rulebook, rulebook
from crossline.settings.config import PipelineConfig

EVENTS_MAX = 1_000
_OF_TAG = ("rule_id", "version", "status", "body", "tripped")

RuleName = Annotated[str, InPath(description="Name of the rule.")]


def rule_routes(deps: Dependencies) -> APIRouter:
    """The routes that read rules."""
    routes = APIRouter(tags=["rules"])

    @routes.get("/v1/rules", openapi_extra=needs("read:alerts"), summary="List rules as they are live")
    def rules(request: Request) -> Any:
        """Of each rule the version in force and drafts that wait; ``waiting``: versions that need approval."""
        only_known(request)
        rows, events, refused = read_rules(deps.config)
        waiting = [
            {**event_row(each), "etag": waiting_tag(each.rule_id, each.version, each.digest)}
            for each in pending(events)
        ]
        return json_answer(
            {
                "items": [_as_json(each) for each in rows],
                "waiting": waiting,
                "refused": [{"source": source, "detail": text} for source, text in refused.items()],
                "next_cursor": None,
            }
        )

    @routes.get("/v1/rules/{rule_id}", openapi_extra=needs("read:alerts"), summary="A rule, in the version in force")
    def rule(request: Request, rule_id: RuleName) -> Any:
        """Its ETag is what ``:approve`` and ``:set-status`` want in ``If-Match``."""
        only_known(request)
        rows = versions_of(deps.config, rule_id)
        current = current_of(rows)
        return json_answer(_as_json(current), headers={"ETag": tag_of(current)})

    @routes.get(
        "/v1/rules/{rule_id}/versions",
        openapi_extra=needs("read:alerts"),
        summary="All versions of a rule, and its log",
    )
    def versions(request: Request, rule_id: RuleName) -> Any:
        """``events``: what became effective when, of the rule and of lists it refers to; the last 1,000."""
        only_known(request)
        rows = versions_of(deps.config, rule_id)
        snapshot = rulebook(deps.config)
        folder, events = snapshot.folder, snapshot.events
        known = events and folder.histories and rule_id in folder.histories[0].rules
        mine = about(rule_id, folder.histories[0], events) if known else []
        listed = [event_row(each) for each in mine[-EVENTS_MAX:]]
        return json_answer({"items": [_as_json(each) for each in rows], "events": listed, "next_cursor": None})

    return routes


def read_rules(config: PipelineConfig) -> tuple[list[Row], list[RuleEvent], Mapping[str, str]]:
    """Rules as rows, the log, and the files that are refused, as ``crossline rules list`` has them."""
    found = rulebook(config)
    return list(found.rows), found.events, found.refused


def versions_of(config: PipelineConfig, rule_id: str) -> list[Row]:
    """The versions of a rule, by number: those of the log, and those that stand in files and wait to be loaded.

    Raises ProblemError if there is none.
    """
    rows = rulebook(config).versions
    mine = sorted((row for row in rows if row["rule_id"] == rule_id), key=lambda row: int(row["version"]))
    if not mine:
        raise not_found(f"rule {shown(rule_id)}", nearest(rule_id, {row["rule_id"] for row in rows}))
    return mine


def current_of(rows: Sequence[Row], version: int | None = None) -> Row:
    """Of the versions of a rule that one; None: that in force, else the last."""
    if version is None:
        in_force = [row for row in rows if row["live"] and row["status"] != "draft"]
        return (in_force or list(rows))[-1]
    found = next((row for row in rows if row["version"] == version), None)
    if found is None:
        raise not_found(f"version {version} of rule {rows[0]['rule_id']}", f"its last is {rows[-1]['version']}")
    return found


def tag_of(row: Row) -> str:
    """The entity tag of a version: of its content, and of its status."""
    return etag_of({name: row.get(name) for name in _OF_TAG})


def waiting_tag(rule_id: str | None, version: int | None, digest: str | None) -> str:
    """The entity tag of a version that waits for approval. ``digest``: of what is approved, as the log has it."""
    return etag_of([rule_id, version, digest])


def tags_of_rule(config: PipelineConfig, rule: Rule) -> tuple[str, ...]:
    """By which a version may be named that waits: as ``waiting`` of ``GET /v1/rules`` has it, or as a version.

    A version is answered without the bytes of its files (a model): a version with such files has the first tag alone.
    """
    own = waiting_tag(rule.rule_id, rule.version, review_digest(rule))
    if type(rule).files:
        return (own,)
    words = _words(rule.display_json())
    rows = [each for each in rulebook(config).versions if _words(each["body"]) == words]
    return (own, *(tag_of(each) for each in rows))


def tags_of_version(config: PipelineConfig, rule_id: str, version: int | None) -> tuple[int, tuple[str, ...]]:
    """A version of a rule (None: that in force) and its entity tags, as ``GET /v1/rules`` answers them.

    One that waits for approval has a second one, or that alone where it stands in a topic: the log alone knows it.
    Raises ProblemError if there is none.
    """
    snapshot = rulebook(config)
    tags = tuple(
        waiting_tag(each.rule_id, each.version, each.digest)
        for each in pending(snapshot.events)
        if (each.rule_id, each.version) == (rule_id, version)
    )
    try:
        row = current_of(versions_of(config, rule_id), version)
    except ProblemError:
        if not tags:
            raise
        return int(version or 0), tags
    number = int(row["version"])
    rules = _rules_of(snapshot, rule_id, number) if config.rules.review != "none" else []
    more = (waiting_tag(rule_id, number, review_digest(each)) for each in rules)
    return number, tuple(dict.fromkeys((tag_of(row), *tags, *more)))


def _rules_of(snapshot: Rulebook, rule_id: str, version: int) -> list[Rule]:
    """A version as it stands in a file, and in the log."""
    found = [each.rule for each in snapshot.folder.rules()[0] if each.rule.rule_id == rule_id]
    for history in snapshot.folder.histories:
        found += history.rules[rule_id].versions.values() if rule_id in history.rules else ()
    return [each for each in found if each.version == version]


def _words(body: Mapping[str, Any]) -> dict[str, Any]:
    """All that an approval covers, of a version as it is answered."""
    return {name: value for name, value in body.items() if name not in {"status", "share"}}


def _as_json(row: Row) -> Row:
    return {**row, "etag": tag_of(row)}
