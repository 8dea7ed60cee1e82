"""The ids of alerts and of their corrections, at very many rows: each is made once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crossline.basics.fields import canonical_key
from crossline.basics.values import I32, I64
from crossline.evaluate.alerts.alert import alert_id, correction_id
from crossline.evaluate.alerts.hits import JudgedRows
from crossline.evaluate.suppression.holding import Holding


class CorrectionNames:
    """Those of rows ``judged``, of which ``held`` are named."""

    def __init__(self, judged: JudgedRows, held: Holding) -> None:
        self._judged, self._held, self._keys = judged, held, dict[int, str]()

    def alerts(self) -> tuple[I32, Sequence[str]]:
        """Of each the number of the alert of its crossing, -1: none; and the ids of these."""
        known = np.flatnonzero(self._held.crossing >= 0)
        return self._alerts(known, self._held.crossing[known])

    def corrections(self, trigger: I32, causes: Sequence[str]) -> tuple[I32, Sequence[str]]:
        """Of each the number of its correction by a trigger, -1: there is none; and the ids of these.

        ``causes``: the records that triggers are. What is corrected is the alert of the crossing, or else the row's.
        """
        caused, crossing = np.flatnonzero(trigger >= 0), self._held.crossing
        of_alert, alerts = self._alerts(caused, np.where(crossing < 0, self._held.record, crossing)[caused])
        count = np.int64(len(alerts))
        used, number = np.unique(trigger[caused] * count + of_alert[caused], return_inverse=True)
        because = np.full(len(trigger), -1, np.int32)
        because[caused] = number
        pairs = (divmod(each, len(alerts)) for each in used.tolist())
        return because, [correction_id(alerts[alert], causes[cause]) for cause, alert in pairs]

    def _alerts(self, at: I64, records: I64) -> tuple[I32, Sequence[str]]:
        """The number of the alert of each of those held ``at``, whose crossing is at one of ``records``; the ids."""
        held, judged = self._held, self._judged
        lines, texts = judged.store_plan.plan.judging, held.texts
        key = judged.batch.key_index[held.row[at]].astype(np.int64)
        code = (key * np.int64(len(lines)) + held.line[at]) * np.int64(len(texts)) + records
        _, first, of = np.unique(code, return_index=True, return_inverse=True)
        number = np.full(len(held), -1, np.int32)
        number[at] = of
        where = zip(held.row[at[first]].tolist(), held.line[at[first]].tolist(), records[first].tolist(), strict=True)
        return number, [
            alert_id(lines[line].rule_id, lines[line].version, self._key(row), texts[record])
            for row, line, record in where
        ]

    def _key(self, row: int) -> str:
        number = int(self._judged.batch.key_index[row])
        known = self._keys.get(number)
        if known is None:
            known = self._keys[number] = canonical_key(self._judged.key_of(row))
        return known
