"""A record judged again from a pipeline's log, by the rules, lists and tables in force by its rule log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.backtest.in_process import outcomes
from crossline.basics.errors import CrosslineError, UsageError
from crossline.basics.times import FOREVER_MS, format_instant, parse_instant_ms
from crossline.cli.backtest import lists_for, rules_as_of_log, setting_of, with_tables
from crossline.cli.verify.inputs import inputs_of, places_of, plain_part, topics_of
from crossline.evaluate.bounds import Bounds
from crossline.evaluate.decisions.decision import RulesInForce
from crossline.rule_registry.content import read_text
from crossline.rule_registry.directory import find_log
from crossline.rule_registry.events import RuleEvent
from crossline.rule_registry.log_file import read_log
from crossline.rule_registry.outcomes.policies import policies_in
from crossline.rule_registry.rule_files import read_rules
from crossline.rules.policy.policy import Deciding, Policy, load_policy
from crossline.rules.ruleset import RuleSet
from crossline.runtime.stages.outcome import Outcome
from crossline.serve.ledger.comparison import ReplayResult, causes_of
from crossline.serve.ledger.reports import answered_later
from crossline.serve.ledger.schema import LEDGER_FILE
from crossline.settings.config import PipelineConfig
from crossline.settings.sources import RulesTopic

NO_LOG = "found no rule log beside the rules: judged by rules and lists as they are now"

_LOOKED_MAX = 1_000  # records whose places are looked for
# What is kept of every alert, for the revisions that come of it.
_OF_CAUSE = ("alert_id", "rule_id", "rule_version", "record_id", "corrects", "outcome", "caused_by")


@dataclass(slots=True)
class Log:
    """What a pipeline has kept: its setting, its policy, its rule log, its records as files by stream."""

    config: PipelineConfig
    policy: Policy
    inputs: dict[str, list[str]]
    judged: BacktestSpec
    rule_log: Path | None
    notes: list[str]


def open_log(
    pipeline: Path,
    policy: Path | None,
    given: Mapping[str, Sequence[str]],
    folder: Path,
    receipt: Mapping[str, Any],
    *,
    then: bool = False,
    note_progress: Callable[[str], None] = lambda _: None,
) -> Log:
    """All inputs of the replay, some written to ``folder``; ``note_progress`` is called with the progress in topics.

    Raises UsageError if something is missing, SourceError where a topic cannot be read.
    """
    if not pipeline.is_file():
        raise UsageError(f"--pipeline {pipeline}: no such file; expected the pipeline file that the receipt is of")
    setting = setting_of(None, None, None, str(pipeline), as_of_log=True)
    config = setting.config
    assert config is not None  # noqa: S101 - it was read from a pipeline file
    rule_log = find_log(setting.rules, config.name) if _has_log(setting.rules) else None
    notes = [] if rule_log else [NO_LOG]
    mine = load_policy(read_text(policy), str(policy)) if policy is not None else config.policy
    if policy is None and rule_log is not None:
        mine = _policy_then(mine, read_log(rule_log), receipt, notes)
    if mine is None:
        raise UsageError(
            f"{pipeline}: found no policy; expected policy: FILE, by which decisions are made, or --policy"
        )
    if rule_log is None and isinstance(config.rules, RulesTopic):
        raise UsageError(
            f"{setting.rules}: found no rule log; expected that of the pipeline, which has its rules in a topic"
        )
    if rule_log is not None:
        rules = rules_as_of_log(rule_log, config.streams)
    else:
        rules = RuleSet.from_rules(read_rules(setting.rules, setting.known()))
    topics = topics_of(config, given, folder, receipt, note_progress, then=then)
    inputs = inputs_of(config, given, folder, topics)
    streams = {**config.streams, **{stream: each.spec for stream, each in topics.items()}}
    judged = BacktestSpec(
        rules,
        RecordedInput(streams, inputs),
        lists_for([rules], setting.lists, rule_log, streams),
        setting.defaults,
        Bounds(setting.partition_lag_ms),
        deciding=Deciding(mine, every=True),
    )
    tables = folder / "tables"
    tables.mkdir()
    (judged,) = with_tables([judged], config, rule_log, tables)
    notes += [note for each in topics.values() for note in each.notes]
    return Log(config, mine, inputs, judged, rule_log, notes)


def _policy_then(
    now: Policy | None, events: Sequence[RuleEvent], receipt: Mapping[str, Any], notes: list[str]
) -> Policy | None:
    """The policy that the receipt is by, where the rule log has it, with a note; else the one of ``now``."""
    wanted = receipt.get("policy_digest")
    if now is not None and wanted in {None, "", now.digest}:
        return now
    for span in reversed([*policies_in(events)]):
        found = span.policy() if span.digest == wanted else None
        if found is not None:
            until = "" if span.until_ms == FOREVER_MS else f" to {format_instant(span.until_ms)}"
            text = f"in force from {format_instant(span.from_ms)}{until}"
            notes.append(f"judged by version {span.version} of the policy, which is the receipt's, {text}")
            return found
    return now


def _has_log(rules: Path) -> bool:
    return (rules / ".log").is_dir()


def judge_again(log: Log, receipt: Mapping[str, Any], folder: Path, *, then: bool) -> ReplayResult:
    """What the log gives of the receipt's record, to its end; ``then``: only up to the record, without revisions."""
    answered = receipt["decision"]
    stream, record_id = answered["stream"], answered["record_id"]
    again = ReplayResult(policy_version=log.policy.version, policy_digest=log.policy.digest)
    if stream not in log.config.streams:
        again.missing = f"the pipeline has no stream {stream}; expected the pipeline file that the receipt is of"
        return again
    mine: dict[str, Mapping[str, Any]] = {}  # alerts on the record, by their ids
    for outcome in outcomes(log.judged, folder):
        again.records += outcome.figures["records"]
        _take(again, mine, outcome, stream, record_id)
        if then and again.decision is not None:
            again.revisions.clear()
            break
    # Those of the first decision: what a late record raised there since belongs to a revision.
    ids = [each["alert_id"] for each in (again.decision or {}).get("reasons") or ()]
    again.alerts = {mine[name]["rule_id"]: mine[name] for name in reversed(ids) if name in mine}
    if log.rule_log is not None:
        again.events = read_log(log.rule_log)
    if again.decision is not None:
        again.rules = in_force(log.judged.rules, stream, parse_instant_ms(again.decision["ingest_time"]))
        _with_basis(log, again, stream, parse_instant_ms(again.decision["ingest_time"]))
    elif not again.missing:
        again.missing = f"record {record_id} of {stream} is not in the log: {again.records:,} records were judged"
    return _with_places(log, again, receipt)


def _with_basis(log: Log, again: ReplayResult, stream: str, ingest_ms: int) -> None:
    """The lists and models that the record is judged by."""
    from crossline.serve.replica.basis import models_of

    again.lists = {name: each.digests(stream) for name, each in log.judged.lists.items()}
    again.models = models_of(RulesInForce(log.judged.rules, stream).at(ingest_ms))


def _take(
    again: ReplayResult, mine: dict[str, Mapping[str, Any]], outcome: Outcome, stream: str, record_id: str
) -> None:
    """What a batch has on the record."""
    for alert in outcome.alerts:
        if alert["kind"] == "shadow":
            continue
        again.raised[alert["alert_id"]] = {
            **{name: alert.get(name) for name in _OF_CAUSE},
            "record_ids": alert["evidence"].get("record_ids") or (),
        }
        if alert["record_id"] == record_id and alert["corrects"] is None:
            mine.setdefault(alert["alert_id"], alert)
    for decision in _decisions_on(outcome.decisions, stream, record_id):
        if decision.get("revises"):
            again.revisions.append(decision)
        elif again.decision is None:
            again.decision = decision
    for letter in outcome.dead:
        if letter.stream == stream and letter.record_id == record_id and again.decision is None:
            again.missing = f"the log refuses the record: {letter.reason}, {letter.detail}"
    for late in outcome.late:
        if late.stream == stream and late.record_id == record_id and again.decision is None:
            again.missing = f"the record came {late.lateness_ms:,} ms late, too late to be judged"


def _decisions_on(decisions: Sequence[Mapping[str, Any]], stream: str, record_id: str) -> Iterable[Mapping[str, Any]]:
    """Those on one record; of many that are lines of JSON only those are read that have its id."""
    lines = getattr(decisions, "lines", None)
    if lines is not None:
        part = plain_part(record_id)
        decisions = [orjson.loads(line) for line in lines() if part in line]
    return [each for each in decisions if each["stream"] == stream and each["record_id"] == record_id]


def in_force(rules: RuleSet, stream: str, ingest_ms: int) -> list[dict[str, Any]]:
    """The rules over a stream at an ingest time, as receipts say them."""
    found = sorted(RulesInForce(rules, stream).at(ingest_ms), key=lambda rule: (rule.rule_id, rule.version))
    return [{"rule_id": rule.rule_id, "version": rule.version, "digest": rule.body_digest()} for rule in found]


def _with_places(log: Log, again: ReplayResult, receipt: Mapping[str, Any]) -> ReplayResult:
    """Where the records stand that may have made a difference, and which of them came after the answer."""
    answered = receipt["decision"]
    ids = {answered["record_id"]}
    for figure in receipt["figures"]:
        alert = again.alerts.get(figure["name"])
        theirs = set(alert["evidence"].get("record_ids") or ()) if alert is not None else set()
        ids |= set(figure["record_ids"]) ^ theirs
    for name, alert in again.alerts.items():
        if not any(figure["name"] == name for figure in receipt["figures"]):
            ids |= set(alert["evidence"].get("record_ids") or ())
    before = again.decision or {}
    for revision in again.revisions:
        for alert in causes_of(before, revision, again.raised):
            ids |= {alert["record_id"], *alert["record_ids"], *([alert["caused_by"]] if alert["caused_by"] else [])}
        before = revision
    looked_for = {answered["record_id"], *islice(sorted(ids), _LOOKED_MAX)}
    by_stream = places_of(log.inputs, log.config.streams, dict.fromkeys(log.inputs, looked_for))
    places = {name: place for found in by_stream.values() for name, place in found.items()}
    own = by_stream.get(answered["stream"], {}).get(answered["record_id"])
    looked = own is not None and len(ids) <= _LOOKED_MAX
    if own is not None:
        places[answered["record_id"]] = own
    return replace(again, places=places, looked=looked, later=_later(log, answered, ids))


def _later(log: Log, answered: Mapping[str, Any], ids: Collection[str]) -> frozenset[str]:
    """The ids that the pipeline's ledger answered after ``answered``, where it is shared or on this machine."""
    serve = log.config.serve
    if serve is None or (serve.ledger is None and not (Path(serve.path) / LEDGER_FILE).is_file()):
        return frozenset()
    try:
        return answered_later(
            serve.ledger or Path(serve.path) / LEDGER_FILE, answered["stream"], answered["record_id"], ids
        )
    except CrosslineError as error:
        log.notes.append(f"which records came after the answer is not known: {error}")
        return frozenset()
