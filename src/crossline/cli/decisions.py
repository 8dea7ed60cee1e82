"""``crossline decisions``: what was decided about records, on what reasons, and what corrections made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from crossline.basics.errors import PermanentError
from crossline.basics.texts.plaintext import printable
from crossline.cli.alerts.store_options import Db, Pipeline, Since, Until, opened_store, since_until
from crossline.cli.terminal import tables as terminal
from crossline.cli.terminal.notes import note, write_lines
from crossline.cli.terminal.tables import Listing, NameValues
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.stores.protocol import DecisionFilter, Store

# What a store can count to.
LIMIT_MAX = 2**63 - 1
_SHOWN_MAX = 1_000
_ID_WIDTH = 8
_STYLES = {"allow": "green", "review": "yellow", "step_up": "yellow", "block": "bold red"}

app = typer.Typer(help="List and show decisions on records.", no_args_is_help=True)


class DecisionKind(StrEnum):
    """What may be decided, the gravest last."""

    ALLOW = "allow"
    REVIEW = "review"
    STEP_UP = "step_up"
    BLOCK = "block"


def register(parent: typer.Typer) -> None:
    """Add the command to the command line."""
    parent.add_typer(app, name="decisions")


@app.command(name="list")
def list_decisions(
    *,
    db: Db = None,
    pipeline: Pipeline = None,
    decision: Annotated[DecisionKind | None, typer.Option(help="Only this decision.")] = None,
    not_allowed: Annotated[bool, typer.Option("--not-allowed", help="All but allow.")] = False,
    record: Annotated[str | None, typer.Option(help="Only decisions on this record.")] = None,
    stream: Annotated[str | None, typer.Option(help="Only decisions on records of this stream.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="The most decisions to list.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """List decisions and their revisions, the latest first."""
    since_ms, until_ms = since_until(since, until)
    which = DecisionFilter(decision.value if decision else None, stream, record, since_ms, until_ms, not_allowed)
    with opened_store(db, pipeline) as store:
        found = list(store.decisions(which, limit))
        if as_json:
            write_lines(map(json_bytes, found))
            return
        if not found:
            note(_nothing(store))
            return
        terminal.show(_table(found, {name: _cause(store, name) for name in _causes(found)}))
        total = store.count_decisions(which)
    if total > len(found):
        note(f"the latest {len(found):,} of {total:,} decisions; --limit {total} lists all")


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the decision, its first characters, or a record id.")
    ],
    *,
    db: Db = None,
    pipeline: Pipeline = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Show the decision on a record: its reasons, its policy, and its revisions."""
    with opened_store(db, pipeline) as store:
        found = store.find_decisions(name, _SHOWN_MAX)
        if not found:
            total = store.count_decisions(DecisionFilter())
            raise PermanentError(
                f"no decision in {store.name} has an id that starts with {name!r}, nor is one about such a record; "
                + (f"it has {total:,} decisions: see crossline decisions list" if total else "it has none at all")
            )
        revisions = _whole(found, store)
    if as_json:
        write_lines(map(json_bytes, revisions))
        return
    for number, decision in enumerate(revisions):
        terminal.show(*([Text()] if number else []), _story(decision))


def _whole(found: Sequence[Mapping[str, Any]], store: Store) -> list[dict[str, Any]]:
    """All that was decided about the records of ``found``, each once, in order of its revisions."""
    records = dict.fromkeys((each["stream"], each["record_id"]) for each in found)
    revisions: dict[str, dict[str, Any]] = {}
    for stream, record_id in records:
        which = DecisionFilter(stream=stream, record_id=record_id)
        ours = list(store.decisions(which, _SHOWN_MAX, newest_first=False))
        revisions |= {each["decision_id"]: each for each in sorted(ours, key=lambda each: int(each.get("revision", 0)))}
    return list(revisions.values())


def _nothing(store: Store) -> str:
    total = store.count_decisions(DecisionFilter())
    return f"no decision matches; the store has {total:,}" if total else f"the store {store.name} has no decisions yet"


def _causes(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(
        dict.fromkeys(str(each["because"]) for each in decisions if each.get("revises") and each.get("because"))
    )


def _cause(store: Store, name: str) -> str:
    """Why a decision was revised: what became of which rule's alert, by which record; else the id alone."""
    alert = next((each.alert for each in store.find(name, 1)), None)
    if alert is None or not alert.get("outcome"):
        return f"by {name[:_ID_WIDTH]}"
    return f"alert of {alert['rule_id']}@{alert['rule_version']} {alert['outcome']} by record {alert.get('caused_by')}"


def _table(decisions: Sequence[Mapping[str, Any]], causes: Mapping[str, str]) -> Listing:
    table = Listing("id", "happened", "decision", "score", "record", "why", long=("record", "why"))
    for each in decisions:
        revised = f" (revision {each['revision']})" if each.get("revises") else ""
        table.add(
            Text(printable(each["decision_id"][:_ID_WIDTH]), "cyan"),
            Text(printable(each["event_time"]), "dim"),
            Text(printable(each["decision"] + revised), _STYLES.get(each["decision"], "")),
            str(each["score"]),
            f"{each['record_id']} of {each['stream']}",
            _reasons(each, causes),
        )
    return table


def _reasons(decision: Mapping[str, Any], causes: Mapping[str, str]) -> str:
    """The rules that it rests on; of a revision what made it too."""
    reasons = ", ".join(f"{each['rule_id']}@{each['rule_version']}" for each in decision.get("reasons") or ())
    if not decision.get("revises"):
        return reasons
    return f"{reasons or 'no rule any more'}; revised: {causes.get(str(decision.get('because')), 'not known why')}"


def _story(decision: Mapping[str, Any]) -> RenderableType:
    head = Text(printable(decision["decision"]), _STYLES.get(decision["decision"], "bold"))
    head.append(printable(f"  {decision['record_id']} of {decision['stream']}"), "bold")
    return Group(head, NameValues(_decision_rows(decision)))


def _decision_rows(decision: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield decision.get("kind", "decision"), decision["decision_id"]
    if decision.get("revises"):
        yield "revises", f"{decision['revises']}, because of {decision.get('because')}"
    yield "score", str(decision["score"])
    yield "policy", f"version {decision['policy_version']}"
    for reason in decision.get("reasons") or ():
        rule = f"{reason['rule_id']}@{reason['rule_version']}"
        yield "because", f"{rule} asks for {reason['action']} (score {reason['score']}): {reason['message']}"
        if reason.get("standing"):
            yield "", f"alert {reason.get('alert_id') or 'not known'}, raised when it began to hold"
        elif reason.get("alert_id"):
            yield "", f"alert {reason['alert_id']}"
    yield "happened", decision["event_time"]
    for name, at in (("ingested", "ingest_time"), ("decided", "decided_at")):
        if decision.get(at):
            yield name, decision[at]
    if decision.get("degraded"):
        yield "degraded", ", ".join(map(str, decision["degraded"]))
