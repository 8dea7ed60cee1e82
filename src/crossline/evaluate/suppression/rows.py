"""Records at which rules hold and raise no alert, of one state store and batch, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossline.basics.bits import set_bits
from crossline.basics.byte_slices import take_bytes
from crossline.basics.values import I32, I64, U8
from crossline.evaluate.alerts.alert import alert_id_of
from crossline.evaluate.alerts.hits import Hit, JudgedRows
from crossline.evaluate.alerts.origins import record_and_alert_of
from crossline.evaluate.decisions.blocks import alert_bytes
from crossline.evaluate.suppression.last_alerts import ALERT_BYTES, Bools, Keys, LastAlertChanges, LastAlerts, Pairs
from crossline.plan.compile import StorePlan, StreamPlan
from crossline.rules.ruleset import RuleVersion
from crossline.state.batch import Hits


@dataclass(frozen=True, slots=True)
class SuppressedRows:
    """m records, and the n reasons that hold at them without an alert of their own.

    ``judged``: what the ``rows`` (int64[m], ascending) are of. ``reason_row`` (int64[n], ascending) counts among these,
    ``version`` among ``versions``. ``alert`` (uint8[n, 16]): that of the crossing, where it is ``named``. ``key_hash``:
    uint64[n].
    """

    judged: JudgedRows
    rows: I64
    reason_row: I64
    version: I32
    versions: Sequence[RuleVersion]
    alert: U8
    named: Bools
    key_hash: Any

    def only(self, chosen: Bools) -> SuppressedRows:
        """Those of the reasons that are ``chosen``."""
        rows, reason_row = np.unique(self.rows[self.reason_row[chosen]], return_inverse=True)
        return SuppressedRows(
            judged=self.judged,
            rows=rows,
            reason_row=reason_row.astype(np.int64),
            version=self.version[chosen],
            versions=self.versions,
            alert=self.alert[chosen],
            named=self.named[chosen],
            key_hash=self.key_hash[chosen],
        )

    def ids(self) -> tuple[U8, I64]:
        """The ids of the records, end to end, and their offsets."""
        batch, rows, plan = self.judged.batch, self.rows, self.judged.plan
        if plan.reports:
            return take_bytes(batch.id_bytes, batch.id_offsets[rows], np.diff(batch.id_offsets)[rows])
        texts = [record_and_alert_of(plan, known)[0].encode() for known in self.judged.ids(rows).to_pylist()]
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        return np.frombuffer(b"".join(texts), np.uint8), offsets


def satisfied_pairs(hits: Hits) -> Pairs:
    """Where the marks of a batch's rows say that lines hold."""
    at, line = set_bits(hits.sat)
    return Pairs(hits.retained[at].astype(np.int64), line)


def suppressed_rows(
    judged: JudgedRows, hits: Hits, found: Sequence[Hit], last_alerts: LastAlerts
) -> tuple[SuppressedRows | None, LastAlertChanges | None]:
    """Where the state store's rules hold at rows of the batch and raise no alert, and what became of ``last_alerts``.

    ``found``: what was made of ``hits``, one for each.
    """
    held = satisfied_pairs(hits)
    if not len(held):
        return None, None
    counted = delivered(judged.plan, judged.store_plan)
    if not counted.all():
        held = held.only(counted[held.line])
        if not len(held):
            return None, None
    at = np.flatnonzero(counted[hits.line])
    at = at[np.lexsort((hits.line[at], hits.row[at]))]
    emitted = Pairs(hits.row[at].astype(np.int64), hits.line[at].astype(np.int64))
    ids = b"".join(alert_bytes(alert_id_of(found[number])) for number in at.tolist())
    alerts = np.frombuffer(ids, np.uint8).reshape(-1, ALERT_BYTES)
    batch = judged.batch
    keys = Keys.of(batch)
    lines = [(line.rule_id, line.version) for line in judged.store_plan.plan.judging]
    alert, named, crossed = last_alerts.follow(held, emitted, alerts, lines, keys, batch.clock_ms)
    standing = np.ones(len(held), np.bool_)
    standing[held.places_of(emitted)] = False
    version, versions = versions_in_force(judged, held)
    chosen = np.flatnonzero(standing & (version >= 0))
    if not len(chosen):
        return None, crossed
    rows, reason_row = np.unique(held.row[chosen], return_inverse=True)
    of_key = batch.key_hash[batch.key_index[held.row[chosen]]]
    suppressed = SuppressedRows(
        judged=judged,
        rows=rows,
        reason_row=reason_row.astype(np.int64),
        version=version[chosen],
        versions=versions,
        alert=alert[chosen],
        named=named[chosen],
        key_hash=of_key,
    )
    return suppressed, crossed


def delivered(plan: StreamPlan, store_plan: StorePlan) -> Bools:
    """Of each line whether its alerts go to sinks: others only feed rules, or are holds, which count as hits."""
    programs = (plan.programs[line.rule_id, line.version] for line in store_plan.plan.judging)
    rules = (spans[0].rule for spans in store_plan.versions)
    pairs = zip(programs, rules, strict=True)
    return np.array([program.emission.delivered and not rule.is_hold for program, rule in pairs], np.bool_)


def versions_in_force(judged: JudgedRows, held: Pairs) -> tuple[I32, list[RuleVersion]]:
    """Of each pair the number of the rule version in force, among those returned; -1 where a shadow rule held."""
    store_plan, ingest_ms = judged.store_plan, judged.batch.ingest_ms
    versions, of_line, several = list[RuleVersion](), np.full(len(store_plan.versions), -1, np.int32), list[int]()
    for line, spans in enumerate(store_plan.versions):
        if len(spans) > 1 or spans[0].slots is not None:
            several.append(line)  # in force again after a pause, under another status, or for a share of keys
        elif spans[0].kind == "active":
            of_line[line] = len(versions)
            versions.append(spans[0])
    number: I32 = of_line[held.line]
    for line in several:
        at = np.flatnonzero(held.line == line)
        at_ms = ingest_ms[held.row[at]]
        for each in store_plan.versions[line]:
            if each.kind == "active":
                mine = at[(at_ms >= each.effective_from_ms) & (at_ms < each.effective_until_ms)]
                number[mine if each.slots is None else mine[_has(judged, each, held.row[mine])]] = len(versions)
                versions.append(each)
    return number, versions


def _has(judged: JudgedRows, version: RuleVersion, rows: I64) -> Bools:
    """At which of ``rows`` a version that has a share of keys decides; each key is looked at once."""
    keys, key_of_row = np.unique(judged.batch.key_index[rows], return_inverse=True)
    firsts = np.zeros(len(keys), np.int64)
    firsts[key_of_row] = rows
    of_keys = [version.of_key(judged.key_of(row)) is version for row in firsts.tolist()]
    found: Bools = np.array(of_keys, np.bool_)[key_of_row]
    return found
