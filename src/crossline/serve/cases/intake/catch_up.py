"""The output of batches that no API followed, from the store of the alert sink, once the feed has them no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import orjson

from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.io.stores.protocol import AlertFilter, DecisionFilter, Store
from crossline.serve.cases.intake.batches import CaseIntake, Step

AT_ONCE = 250  # that are held in memory, and written in one transaction


class Missed:
    """Brings what was missed into cases.

    Args:
        pipeline: Whose alerts in the store.
        open_store: Opens the store anew; None: the pipeline has none.
    """

    def __init__(self, pipeline: str, open_store: Callable[[], Store | None]) -> None:
        self._pipeline = pipeline
        self._open = open_store

    def take(self, intake: CaseIntake, first: int, last: int) -> int | None:
        """The alerts and decisions of batches ``first`` to ``last``, in order of their event times; how many they are.

        Alerts that are there already change nothing, so an interrupted intake is repeated. None if there is no
        store. Raises RetryableError if the store or the file of cases cannot be used now.
        """
        store = self._open()
        if store is None:
            return None
        try:
            count, steps = 0, _steps(store, (self._pipeline, first, last))
            while part := list(islice(steps, AT_ONCE)):
                intake.take(part, None)
                count += len(part)
            return count
        finally:
            store.close()


def _steps(store: Store, batches: tuple[str, int, int]) -> Iterator[Step]:
    """Alerts first: decisions are about alerts that are known then."""
    for alert in store.alerts(AlertFilter(batches=batches), newest_first=False):
        yield "alerts", json_bytes(alert)
    for decision in store.decisions(DecisionFilter(batches=batches, but_allowed=True), newest_first=False):
        yield "decisions", orjson.dumps(decision)
