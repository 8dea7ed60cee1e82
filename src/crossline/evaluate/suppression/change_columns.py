"""What changes of where rules hold and raise no alert, as columns: a late record may change it at very many records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossline.basics.values import I32, I64
from crossline.evaluate.alerts.hits import Hit, JudgedRows, Trigger
from crossline.evaluate.suppression.last_alerts import Bools
from crossline.rules.policy.hits import DecidingHit
from crossline.rules.ruleset import RuleVersion

NONE = -1


@dataclass(frozen=True, slots=True)
class SuppressionChange:
    """That a rule holds at a record (``stands``) or does so no more.

    ``hit``: the record and the trigger of the change. ``because``: the id of its correction; None: none,
    the record came so.
    """

    hit: Hit
    reason: DecidingHit
    stands: bool = True
    because: str | None = None


@dataclass(frozen=True, slots=True)
class SuppressionChanges:
    """n changes at ``row``s of ``judged``: that a rule holds there (``stands``), or does so no more.

    The other columns are numbers, of ``versions``, of ``alerts`` (the id of the alert of the crossing), of ``triggers``
    and of ``reasons`` (the id of the correction); -1: no such alert, or the record came so.
    """

    judged: JudgedRows
    row: I64
    stands: Bools
    version: I32
    versions: Sequence[RuleVersion]
    alert: I32
    alerts: Sequence[str]
    trigger: I32
    triggers: Sequence[Trigger]
    because: I32
    reasons: Sequence[str]

    def __len__(self) -> int:
        return len(self.row)

    def __iter__(self) -> Iterator[SuppressionChange]:
        """One by one."""
        standing = [DecidingHit.standing_of(each.rule) for each in self.versions]
        columns = (self.row, self.stands, self.version, self.alert, self.trigger, self.because)
        for row, stands, version, alert, trigger, because in zip(*(each.tolist() for each in columns), strict=True):
            yield SuppressionChange(
                hit=_hit_at(self.judged, row, self.versions[version], None if trigger < 0 else self.triggers[trigger]),
                reason=standing[version].standing_on(None if alert < 0 else self.alerts[alert], self._under(row)),
                stands=stands,
                because=None if because < 0 else self.reasons[because],
            )

    def _under(self, row: int) -> int:
        batch = self.judged.batch
        return int(batch.key_hash[batch.key_index[row]])


def _hit_at(judged: JudgedRows, row: int, version: RuleVersion, cause: Trigger | None) -> Hit:
    """What says of a hit where and when it is, and no more."""
    return Hit(
        version=version,
        place=judged.place(row),
        key=judged.key_of(row),
        record_id=judged.record_id(row),
        event_ms=judged.event_ms(row),
        ingest_ms=int(judged.batch.ingest_ms[row]),
        value=None,
        count=0,
        window_start_ms=None,
        window_end_ms=None,
        record_ids=(),
        fields={},
        records=None,
        reached_ms=judged.reached_ms(row),
        cause=cause,
    )
