"""Compares a receipt with the result of judging its record again from the log: plain values, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.basics.times import BEGINNING_MS, format_instant, parse_instant_ms
from crossline.evaluate.alerts.alert_json import read_quickly
from crossline.rule_registry.events import RuleEvent

# The fields of a decision that count: times and the way of answering differ each time.
OF_DECISION = ("decision", "score", "policy_version", "rules_digest")
OF_REASON = ("rule_id", "rule_version", "action", "score", "alert_id", "standing")
OF_FIGURE = ("value", "window_start", "window_end", "count")
_IDS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """Where a record stands in the log: a byte of a file, or an offset of a partition (``unit``).

    ``digest``: of its JSON as canonical JSON; None if it is no JSON.
    """

    file: str
    at: int
    digest: str | None = None
    unit: str = "byte"


@dataclass(slots=True)
class ReplayResult:
    """What judging again gave of a record.

    ``decision``: the first on it, None if there is none, ``missing`` then has the reason. ``alerts``: those on it, by
    rule id. ``revisions``: of the decision, in their order. ``raised``: alerts and corrections, on whichever records,
    by their ids, each with ``record_ids``, which it rests on. ``rules``: those in force, as receipts say them.
    ``lists``: by name, of each version the ingest time from which it holds, and its digest. ``models``: of the rules in
    force, by name their digests; None: not compared.
    ``places``: of records that figures rest on, by id; ``looked``: they were found where there are any. ``later``: of
    these, the ids that are known to have come after the answer. ``events``: the rule log's. ``records``: how many were
    judged.
    """

    decision: Mapping[str, Any] | None = None
    missing: str = ""
    alerts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    revisions: list[Mapping[str, Any]] = field(default_factory=list)
    raised: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: Sequence[Mapping[str, Any]] = ()
    lists: Mapping[str, Sequence[tuple[int, str]]] = field(default_factory=dict)
    models: Mapping[str, str] | None = None
    policy_version: int = 0
    policy_digest: str = ""
    places: dict[str, RecordPlace] = field(default_factory=dict)
    looked: bool = False
    later: frozenset[str] = frozenset()
    events: Sequence[RuleEvent] = ()
    records: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the log gives otherwise. ``because``: sentences on what made it so, where that is known."""

    what: str
    receipt: Any
    log: Any
    because: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {"what": self.what, "receipt": self.receipt, "log": self.log, "because": list(self.because)}


def differences(receipt: Mapping[str, Any], again: ReplayResult) -> list[Difference]:
    """All that the log gives otherwise than the receipt; none: it is the same."""
    answered = receipt["decision"]
    if again.decision is None:
        return [Difference("record", answered["record_id"], None, (again.missing,))]
    found = list(_of_record(receipt, again))
    if answered.get("answered") == "fallback":
        return [*found, *_of_fallback(answered, again), *_revised(again)]
    if answered.get("answered") == "exact" and receipt["policy_digest"] is None:
        # The pipeline itself decided: the decision names the digest of the rules, and there is nothing else to compare.
        return [*found, *_of_decision(answered, again.decision, _rests_on(again)), *_revised(again)]
    found += [*_of_rules(receipt, again), *_of_policy(receipt, again), *_of_lists(receipt, again)]
    found += _of_models(receipt, again)
    found += _of_figures(receipt, again)
    because = tuple(dict.fromkeys(cause for each in found for cause in each.because))
    return [*found, *_of_decision(answered, again.decision, because or _rests_on(again)), *_revised(again)]


def _of_record(receipt: Mapping[str, Any], again: ReplayResult) -> Iterator[Difference]:
    place = again.places.get(receipt["decision"]["record_id"])
    if place is not None and place.digest is not None and place.digest != receipt["record_digest"]:
        text = f"the record in the log ({_place_text(place)}) has other fields than the one that was asked about"
        yield Difference("record_digest", receipt["record_digest"], place.digest, (text,))


def _of_decision(
    answered: Mapping[str, Any], decided: Mapping[str, Any], because: tuple[str, ...]
) -> Iterator[Difference]:
    for name in OF_DECISION:
        if name in answered and answered[name] != decided.get(name):
            yield Difference(name, answered[name], decided.get(name), because)
    mine, theirs = _reasons(answered), _reasons(decided)
    if mine != theirs:
        yield Difference("reasons", list(mine.values()), list(theirs.values()), because)


def _reasons(decision: Mapping[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = [{name: each.get(name) or None for name in OF_REASON} for each in decision.get("reasons") or ()]
    return {tuple(each.values()): each for each in found}


def _of_fallback(answered: Mapping[str, Any], again: ReplayResult) -> Iterator[Difference]:
    decided = again.decision or {}
    if answered["decision"] != decided.get("decision"):
        parts = [each if isinstance(each, dict) else {"part": each} for each in answered.get("degraded") or ()]
        whys = [": ".join(str(each[name]) for name in ("part", "why") if name in each) for each in parts]
        text = f"the policy's fallback answered, since the record could not be judged in time ({'; '.join(whys)})"
        yield Difference("decision", answered["decision"], decided.get("decision"), (text,))


def _revised(again: ReplayResult) -> Iterator[Difference]:
    """What the stream made of its own decision later."""
    before = again.decision or {}
    for revision in again.revisions:
        text = f"revision {revision.get('revision')} of the decision"
        because = tuple(f"{text}: {_cause(each, again)}" for each in causes_of(before, revision, again.raised))
        parts = ("decision", "score")
        was, now = ({name: each.get(name) for name in parts} for each in (before, revision))
        yield Difference("revision", was, now, because or (f"{text}, because of {revision.get('because')}",))
        before = revision


def causes_of(
    before: Mapping[str, Any], revision: Mapping[str, Any], raised: Mapping[str, Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The alerts and corrections for which a decision was revised: those it names, and those of its reasons."""
    mine, theirs = ({each.get("alert_id") for each in body.get("reasons") or ()} for body in (before, revision))
    named = raised.get(str(revision.get("because")))
    found = {} if named is None else {named["alert_id"]: named}
    found |= {
        name: alert
        for name, alert in raised.items()
        if alert["corrects"] in mine - theirs or (alert["corrects"] is None and name in theirs - mine)
    }
    return list(found.values())


def _cause(alert: Mapping[str, Any], again: ReplayResult) -> str:
    rule = f"the alert of {alert['rule_id']}@{alert['rule_version']} on record {alert['record_id']}"
    caused_by = alert.get("caused_by")
    if caused_by:
        return f"{rule} was {alert.get('outcome')} because of record {caused_by}{_where(again, caused_by)}"
    # A late alert has only its evidence: records that came late stand behind its record.
    own = again.places.get(alert["record_id"])
    behind = [name for name in alert["record_ids"] if own and (place := again.places.get(name)) and _behind(place, own)]
    late = " and ".join(f"{name}{_where(again, name)}" for name in behind)
    return f"{rule} was raised late" + (f" because of record {late}" if late else "")


def _behind(place: RecordPlace, other: RecordPlace) -> bool:
    return (place.file, place.at) > (other.file, other.at)


def _of_rules(receipt: Mapping[str, Any], again: ReplayResult) -> Iterator[Difference]:
    mine = {each["rule_id"]: each for each in receipt["rules"]}
    theirs = {each["rule_id"]: each for each in again.rules}
    decided_ms = _instant(receipt["decision"].get("decided_at"))
    for rule_id in sorted({*mine, *theirs}):
        before, after = mine.get(rule_id), theirs.get(rule_id)
        if before != after:
            because = _events(again.events, rule_id, decided_ms, before and before["version"])
            yield Difference(f"rule {rule_id}", _version(before), _version(after), because)


def _version(rule: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if rule is None else {name: rule[name] for name in ("version", "digest")}


# What else happens to a rule changes no verdict: its file is gone, a version waits, a model did not score.
_OF_JUDGING = frozenset({"published", "status_changed", "ended", "tripped"})


def _events(events: Iterable[RuleEvent], rule_id: str, since_ms: int | None, known: int | None) -> tuple[str, ...]:
    """The events since the answer by which a rule judges otherwise; else the last such event.

    ``known``: the version that the answer knew. A publication from before it may be in force from its batch on only.
    """
    mine = [each for each in events if each.rule_id == rule_id and each.event in _OF_JUDGING]
    others = [each for each in mine if each.version != known or each.event != "published"]
    since = [each for each in others if since_ms is not None and each.at_ms >= since_ms]
    if not mine:
        return (f"the rule log knows no rule {rule_id}",)
    return tuple(f"rule log: {_event(each)}" for each in since or mine[-1:])


def _event(event: RuleEvent) -> str:
    begins = "the beginning" if event.effective_from_ms is None else format_instant(event.effective_from_ms)
    text = f"{event.rule_id} version {event.version} {event.event} at {format_instant(event.at_ms)}"
    text += f", status {event.status}" if event.status else ""
    return text + f", effective from {begins}" + (f", by {event.who}" if event.who else "")


def _of_policy(receipt: Mapping[str, Any], again: ReplayResult) -> Iterator[Difference]:
    if receipt["policy_digest"] != again.policy_digest:
        before, now = receipt["decision"].get("policy_version"), again.policy_version
        text = f"the answer is by version {before} of the policy, the pipeline has version {now}"
        if before == now:
            text = f"version {now} of the policy was changed since"
        hint = "name the file as it was with --policy, to judge by that"
        yield Difference("policy_digest", receipt["policy_digest"], again.policy_digest, (f"{text}: {hint}",))


def _of_lists(receipt: Mapping[str, Any], again: ReplayResult) -> Iterator[Difference]:
    """Lists that are another at the record than the answer knew, and since when."""
    ingest_ms = _instant((again.decision or {}).get("ingest_time"))
    for name, known in sorted(receipt["lists"].items()):
        versions = again.lists.get(name)
        if versions is None or ingest_ms is None:
            continue  # no rule of the log refers to it
        begins, now = [each for each in versions if each[0] <= ingest_ms][-1]
        if known != now:
            yield Difference(f"list {name}", known, now, tuple(_since(name, known, begins, versions, again.events)))


def _since(
    name: str, known: str, begins_ms: int, versions: Sequence[tuple[int, str]], events: Iterable[RuleEvent]
) -> Iterator[str]:
    """Since when a list is what it is at the record, and when it was what the answer knew."""
    if begins_ms > BEGINNING_MS:
        yield f"list {name} has another content for records ingested from {format_instant(begins_ms)} on"
    if known not in {digest for _, digest in versions}:
        yield f"no version of list {name} in the rule log is the one that the answer knew"
    changed = [each for each in events if each.event == "list_changed" and each.list_name == name]
    for each in changed[-1:]:
        by = f", by {each.who}" if each.who else ""
        yield f"rule log: list {name} changed last at {format_instant(each.at_ms)}{by}"


def _of_models(receipt: Mapping[str, Any], again: ReplayResult) -> Iterator[Difference]:
    """Models of the rules in force that are others; another model makes another version, with its own event."""
    if again.models is None:
        return
    for name in sorted({*receipt["models"], *again.models}):
        before, now = receipt["models"].get(name), again.models.get(name)
        if before != now:
            text = "the rules in force at the record score with another file of that name; see the rule's version"
            yield Difference(f"model {name}", before, now, (text,))


def _of_figures(receipt: Mapping[str, Any], again: ReplayResult) -> Iterator[Difference]:
    mine = {each["name"]: each for each in receipt["figures"]}
    for name in sorted({*mine, *again.alerts}):
        figure, alert = mine.get(name), again.alerts.get(name)
        if figure is None or alert is None:
            because = _only(receipt, again, alert) if alert is not None else ()
            value = None if alert is None else read_quickly(alert["value"])
            yield Difference(f"figure {name}", figure and figure["value"], value, because)
            continue
        evidence = alert["evidence"]
        because = tuple(_counted(figure, evidence, again))
        theirs = {**{part: read_quickly(alert.get(part)) for part in OF_FIGURE[:-1]}, "count": evidence.get("count")}
        parts = {part: (figure[part], theirs[part]) for part in OF_FIGURE if figure[part] != theirs[part]}
        if parts or because:
            yield Difference(
                f"figure {name}",
                {part: was for part, (was, _) in parts.items()} or figure["value"],
                {part: now for part, (_, now) in parts.items()} or theirs["value"],
                because,
            )


def _counted(figure: Mapping[str, Any], evidence: Mapping[str, Any], again: ReplayResult) -> Iterator[str]:
    """The records that the log's figure is of and the receipt's is not, and the other way round."""
    mine, theirs = list(figure["record_ids"]), list(evidence.get("record_ids") or ())
    added = [each for each in theirs if each not in mine]
    gone = [each for each in mine if each not in theirs]
    if figure["count"] > len(mine) and gone == mine[: len(gone)] and len(gone) <= len(added):
        gone = []  # a receipt names the last of many: those that came in between pushed them out
    for record_id in added:
        yield f"record {record_id} counts in the log{_where(again, record_id)}; the answer did not know of it"
    for record_id in gone:
        place = again.places.get(record_id)
        if place is not None:
            where = f"stands in the log ({_place_text(place)}) and does not count there"
        else:
            where = "is not in the log" if again.looked else "does not count in the log"
        yield f"record {record_id} counted for the answer; it {where}"


def _only(receipt: Mapping[str, Any], again: ReplayResult, alert: Mapping[str, Any]) -> tuple[str, ...]:
    """What is known of a figure that the receipt does not have: the records that came later, else all it rests on."""
    own = receipt["decision"]["record_id"]
    ids = [each for each in alert["evidence"].get("record_ids") or () if each != own]
    later = [each for each in ids if each in again.later]
    if later:
        return tuple(
            f"record {each} counts in the log{_where(again, each)}; it was answered after this one" for each in later
        )
    if not ids:
        return ()
    shown = ", ".join(ids[-_IDS_SHOWN:]) + (f" and {len(ids) - _IDS_SHOWN:,} more" if len(ids) > _IDS_SHOWN else "")
    return (f"in the log it rests on {shown}; the receipt does not say which of them the answer knew",)


def _rests_on(again: ReplayResult) -> tuple[str, ...]:
    return (
        ()
        if again.alerts
        else ("no figure of a rule explains the difference: the rules compare the record alone, or a list",)
    )


def _where(again: ReplayResult, record_id: str | None) -> str:
    place = again.places.get(record_id or "")
    return f" ({_place_text(place)})" if place else ""


def _place_text(place: RecordPlace) -> str:
    return f"{place.file}, {place.unit} {place.at:,}"


def _instant(text: Any) -> int | None:
    try:
        return parse_instant_ms(text)
    except (TypeError, ValueError):
        return None
