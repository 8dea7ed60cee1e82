"""A version goes live by and by: for which keys it decides, what it does there, wider, or back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from crossline.basics.share import keys_of
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.flash import saying
from crossline.serve.console.pages.rules.context import PredictionRow, Rollout
from crossline.serve.console.request import PageRequest, moved
from crossline.serve.http.reads.rules import current_of, tag_of, versions_of

WIDER = ("1%", "5%", "10%", "25%", "50%", "100%")
NONE = "0%"
ACTS = ("widen", "back")
Row = Mapping[str, Any]


def rollout_of(rows: Sequence[Row], now: Row, kept: PredictionRow | None, asked: str) -> Rollout:
    """Of the version in force ``now``; ``rows``: all versions; ``asked``: the share that is about to be set."""
    share, before = share_of(now), before_of(rows, now)
    text = ""
    if now["status"] == "active":
        text = f"Version {now['version']} decides about {'all keys' if share is None else f'{share} of keys'}."
        if share is not None and before:
            text += f" Version {before} goes on for the others."
    watching = ""
    if kept is not None and now["status"] in {"active", "shadow"}:
        watching = f"Watching: predicted {kept.predicted.partition(',')[0]}, {kept.today}."
    wider = tuple(each for each in WIDER if keys_of(each) > keys_of(share)) if now["status"] == "active" else ()
    return Rollout(
        version=int(now["version"]),
        caption=text,
        watching=watching,
        wider=wider,
        back=before if now["status"] == "active" and share != NONE else 0,
        asked=asked if asked in wider else "",
        etag=tag_of(dict(now)),
    )


def share_of(row: Row) -> str | None:
    """The share of keys that a version has; None: all."""
    share: str | None = row["body"].get("share")
    return None if share is None or keys_of(share) == keys_of(None) else share


def before_of(rows: Sequence[Row], now: Row) -> int:
    """The version that ``now`` left keys to, or that it replaced; 0: none that was active."""
    older = [
        int(each["version"])
        for each in rows
        if each["version"] < now["version"]
        and share_of(each) is None
        and any(span["kind"] == "active" for span in each["judges"])
    ]
    return max(older, default=0)


def consequence_of(rows: Sequence[Row], now: Row, act: str, wanted: str, kept: PredictionRow | None) -> str:
    """What widening or rolling back does, before it is done; empty for another act."""
    version, share, before = now["version"], share_of(now), before_of(rows, now)
    if act == "back" and before:
        if share is None:
            return (
                f"The text of version {before} becomes a new version and replaces version {version} for all records "
                "from now on. Alerts already raised stay."
            )
        return (
            f"Version {before} decides about all keys again from now on. Version {version} is judged as a shadow, and "
            "decides about none. Alerts already raised stay."
        )
    if act != "widen" or not wanted:
        return ""
    was = f" (now {share})" if share is not None else ""
    what = (
        f"Version {version} {f'replaces version {before}' if before else 'decides'} for all records from now on{was}."
        if keys_of(wanted) == keys_of(None)
        else f"Version {version} decides about {wanted} of keys from now on{was}; those that it has stay its own."
    )
    foretold = f" Predicted for all keys: {kept.predicted.partition(',')[0]}." if kept is not None else ""
    return f"{what}{foretold} You can roll back; alerts already raised stay."


async def widen(asked: PageRequest) -> Any:
    """Another share of keys, by the API."""
    rule_id, share = asked.path["rule_id"], asked.form.get("share", "")
    done = await called(
        asked,
        "POST",
        "/v1/rules/{rule_id}:set-share",
        {"rule_id": rule_id},
        {"share": share, "version": int(asked.form.get("version", "0"))},
        match=asked.form.get("etag", ""),
    )
    text = f"Version {done['version']} of {rule_id} is to decide about {share} of keys, "
    text += pending_text(done) or "from the next batch on."
    return saying(moved(f"/rules/{segment(rule_id)}"), asked, text)


async def narrow_to_none(asked: PageRequest, rows: Sequence[Row], now: Row) -> Any:
    """Roll back while the version before goes on: it has all keys again."""
    rule_id = asked.path["rule_id"]
    body = {"share": NONE, "version": int(now["version"])}
    route = "/v1/rules/{rule_id}:set-share"
    done = await called(asked, "POST", route, {"rule_id": rule_id}, body, match=tag_of(dict(now)))
    text = f"Version {before_of(rows, now)} of {rule_id} is to decide about all keys again, "
    text += pending_text(done) or "from the next batch on."
    return saying(moved(f"/rules/{segment(rule_id)}"), asked, text)


def pending_text(done: Mapping[str, Any]) -> str:
    """The end of a sentence about a pending change; empty: nothing is pending."""
    return "once a second person approves of it, under Approvals: it waits until then." if done.get("waits") else ""


async def versions_and_live(asked: PageRequest) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All versions of the rule, and that in force. Raises ProblemError (404) if there is none."""
    rows = await asyncio.to_thread(versions_of, asked.parts.deps.config, asked.path["rule_id"])
    return rows, current_of(rows)
