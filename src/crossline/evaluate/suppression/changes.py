"""What a late record changes of where rules hold and raise no alert: records come to be held, and others cease to be.

Each is emitted like a hit that a correction reinstates or retracts, so decisions are revised by it. A late record may
change very many, so all of a piece are found at once, as columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from crossline.basics.fields import canonical_key
from crossline.basics.values import I64
from crossline.evaluate.alerts.alert import alert_id, correction_id
from crossline.evaluate.alerts.corrections import have_arrived_after, is_own, replayed_rows, trigger_of
from crossline.evaluate.alerts.hits import Hit, JudgedRows
from crossline.evaluate.decisions.blocks import alert_text
from crossline.evaluate.suppression.change_columns import SuppressionChanges
from crossline.evaluate.suppression.holding import Holding, held_at
from crossline.evaluate.suppression.last_alerts import Bools, LastAlertChanges, LastAlerts
from crossline.evaluate.suppression.names import CorrectionNames
from crossline.evaluate.suppression.rows import SuppressedRows, suppressed_rows
from crossline.ingest.route.plan_inputs import CAUSE
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.state.batch import Cause, Hits, ReplayedRows


def replayed_suppressions(
    plan: StreamPlan, store_plan: StorePlan, replayed: Sequence[ReplayedRows], logs: int
) -> Iterator[SuppressionChanges]:
    """The changes by replayed rows; ``logs``: the number of logs of the judged records."""
    for piece in replayed:
        if piece.hits.sat.any():
            judged = replayed_rows(plan, store_plan, piece, logs)
            holding = held_at(judged, piece)
            if len(holding):
                yield _changes(judged, piece, holding, logs)


def _changes(judged: JudgedRows, replayed: ReplayedRows, held: Holding, logs: int) -> SuppressionChanges:
    """What each replay changes of the one before it, and what came in order, replay by replay.

    A replay without a cause follows nothing: what came with it in order is there, and the rest stood before.
    """
    caused = np.array([cause is not None for cause in replayed.causes], np.bool_)
    follows = np.append(caused & ~replayed.begins, False)
    replay, name, count = replayed.replay[held.row].astype(np.int64), held.name, np.int64(held.names)
    code = replay * count + name
    order = np.argsort(code, kind="stable")
    before = _found(code, order, code - count)
    known = (before >= 0) & follows[replay]
    other = ~known | (held.crossing[before] != held.crossing)
    came = np.flatnonzero(np.where(caused[replay], other, replayed.fresh[held.row]))
    gone = np.flatnonzero(follows[replay + 1] & (_found(code, order, code + count) < 0))
    at, of = np.append(came, gone), np.append(replay[came], replay[gone] + 1)
    stands = np.arange(len(at)) < len(came)
    by_replay = np.argsort(of, kind="stable")
    at, of, stands = at[by_replay], of[by_replay], stands[by_replay]
    plainly = ~caused[of]
    unknown = np.flatnonzero(~plainly & stands & ~known[at])
    plainly[unknown] = have_arrived_after(judged, replayed, held.row[at[unknown]], of[unknown])
    plainly |= is_own(judged, replayed, held.row[at], of)
    return _named(judged, replayed, held.only(at), stands, np.where(plainly, -1, of), logs)


def _found(codes: I64, order: I64, wanted: I64) -> I64:
    """Of each of ``wanted`` where it is among ``codes``, which ``order`` puts in order; -1: it is not."""
    if not len(codes):
        return np.full(len(wanted), -1, np.int64)
    at = order[np.minimum(np.searchsorted(codes[order], wanted), len(order) - 1)]
    found: I64 = np.where(codes[at] == wanted, at, -1)
    return found


def _named(
    judged: JudgedRows, replayed: ReplayedRows, held: Holding, stands: Bools, of: I64, logs: int
) -> SuppressionChanges:
    """The changes at ``held``, each caused as replay ``of`` was, -1: by the row itself."""
    used, number = np.unique(of, return_inverse=True)
    causes = [replayed.causes[replay] for replay in used.tolist() if replay >= 0]
    trigger = (number - (len(used) - len(causes))).astype(np.int32)
    of_cause = [cause for cause in causes if cause is not None]
    names = CorrectionNames(judged, held)
    alert, alerts = names.alerts()
    because, reasons = names.corrections(trigger, [cause.record_id for cause in of_cause])
    return SuppressionChanges(
        judged=judged,
        row=held.row,
        stands=stands,
        version=held.version,
        versions=held.versions,
        alert=alert,
        alerts=alerts,
        trigger=trigger,
        triggers=[trigger_of(judged.plan, cause, logs) for cause in of_cause],
        because=because,
        reasons=reasons,
    )


def suppressions_of(
    judged: JudgedRows,
    hits: Hits,
    found: Sequence[Hit],
    last_alerts: LastAlerts,
    causes: Sequence[Cause],
    logs: int,
) -> tuple[SuppressedRows | None, Sequence[SuppressionChanges], LastAlertChanges | None]:
    """Where the rules of a store hold at rows of a batch and raise no alert; ``found``: what was made of ``hits``.

    ``causes``: of rows that other records triggered. ``last_alerts`` is moved on; what of it changed
    is returned too.
    """
    held, crossed = suppressed_rows(judged, hits, found, last_alerts)
    if held is None or not causes:
        return held, (), crossed
    changes, rest = _with_causes(held, causes, logs)
    return rest, () if changes is None else (changes,), crossed


def _with_causes(
    held: SuppressedRows, causes: Sequence[Cause], logs: int
) -> tuple[SuppressionChanges | None, SuppressedRows | None]:
    """Rows that are hits, in two parts: those with another record as trigger, and the rest."""
    judged, triggers = held.judged, [trigger_of(held.judged.plan, cause, logs) for cause in causes]
    number = judged.rows[CAUSE][held.rows]
    other = [
        at >= 0 and triggers[at].place[1:] != judged.place(row)[1:] for at, row in zip(number, held.rows, strict=True)
    ]
    apart = np.array(other, np.bool_)[held.reason_row]
    if not apart.any():
        return None, held
    mine = np.flatnonzero(apart)
    row, trigger = held.rows[held.reason_row[mine]], number[held.reason_row[mine]]
    alerts, reasons = list[str](), list[str]()
    for at, of, by in zip(mine.tolist(), row.tolist(), trigger.tolist(), strict=True):
        rule = held.versions[held.version[at]].rule
        own = (rule.rule_id, rule.version, canonical_key(judged.key_of(of)), judged.record_id(of))
        alerts.append(alert_text(held.alert[at].tobytes()) if held.named[at] else alert_id(*own))
        reasons.append(correction_id(alerts[-1], causes[by].record_id))
    each = np.arange(len(mine), dtype=np.int32)
    changes = SuppressionChanges(
        judged=judged,
        row=row,
        stands=np.ones(len(mine), np.bool_),
        version=held.version[mine],
        versions=held.versions,
        alert=np.where(held.named[mine], each, -1).astype(np.int32),
        alerts=alerts,
        trigger=trigger.astype(np.int32),
        triggers=triggers,
        because=each,
        reasons=reasons,
    )
    return changes, None if apart.all() else held.only(~apart)
