"""Where commands look for an alert by its id: the store or the file that the options name, then the lake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from crossline.basics.errors import PermanentError, UsageError
from crossline.cli.alerts.lake_source import LakeAlerts, LakeSource, lake_of_options
from crossline.cli.alerts.origin import AlertReader, OriginOptions
from crossline.cli.alerts.store_options import opened_store
from crossline.cli.alerts.text import candidates
from crossline.cli.terminal.notes import note
from crossline.io.stores.protocol import AlertFilter, StoredAlert


@dataclass(frozen=True, slots=True)
class AlertSearch:
    """Finds alerts by their ids.

    Attributes:
        store: The store or the file of alerts; None: the pipeline has none that can be read.
        lake: The pipeline's lake, where it has one.
        why: Why there is no store.
    """

    store: AlertReader | None
    lake: LakeSource | None
    why: str = ""

    def find(self, alert_id: str) -> tuple[list[StoredAlert], AlertReader]:
        """The alert whose id starts with ``alert_id``, of each pipeline that has it, and what has it.

        Raises PermanentError if there is none, or several start so.
        """
        for source in self._sources():
            found = source.find(alert_id)
            if len({each.alert["alert_id"] for each in found}) > 1:
                several = candidates([each.alert for each in found])
                raise PermanentError(f"several alerts start with {alert_id!r}; give more of the id:\n{several}")
            if found:
                if self.lake is not None and source is not self.store:
                    why = f"{self.store.name} does not have the alert" if self.store is not None else self.why
                    note(f"the alert is from the lake: {why}")
                return found, source
        raise self._nothing(alert_id)

    def _sources(self) -> Iterator[AlertReader]:
        if self.store is not None:
            yield self.store
        if self.lake is not None:
            yield LakeAlerts(self.lake)

    def _nothing(self, alert_id: str) -> PermanentError:
        places = [] if self.store is None else [self.store.name]
        if self.lake is not None:
            places.append(f"the lake ({self.lake.why})" if self.lake.why else "the lake")
        text = f"no alert in {' or in '.join(places)} has an id that starts with {alert_id!r}"
        if self.store is None:
            return PermanentError(text)
        total = self.store.count(AlertFilter())
        more = f"it has {total:,} alerts: see crossline alerts list" if total else "it has no alerts at all"
        return PermanentError(f"{text}; {more}")


@contextmanager
def opened(asked: OriginOptions) -> Iterator[AlertSearch]:
    """What the options name, for as long as the context lasts.

    Raises UsageError where they name neither a store, nor a file of alerts, nor a pipeline with a lake.
    """
    with ExitStack() as stack:
        other = asked.db is not None or asked.alerts is not None
        lake = stack.enter_context(lake_of_options(asked.pipeline, other_store=other))
        if asked.alerts is not None:
            yield AlertSearch(stack.enter_context(asked.lines()), lake)
            return
        try:
            store = stack.enter_context(opened_store(asked.db, None if asked.db else asked.pipeline))
        except UsageError as error:
            if lake is None or asked.db is not None:
                raise
            yield AlertSearch(None, lake, str(error))
            return
        yield AlertSearch(store, lake)
