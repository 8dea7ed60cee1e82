"""The models of a plan snapshot, each in a process that one starts and all its copies ask in turn."""

from __future__ import annotations

from collections.abc import Iterator

from crossline.basics.models.model import Model
from crossline.basics.models.processes import HERE, ModelError
from crossline.logs import get_logger
from crossline.runtime.snapshot.snapshot import PlanSnapshot

log = get_logger(__name__)


def running_models(snapshot: PlanSnapshot) -> Iterator[Model]:
    """Those that rules of ``snapshot`` score with, each once."""
    found: dict[str, Model] = {}
    for plan in snapshot.plans():
        for state_store in plan.state_stores:
            for line in getattr(state_store.plan, "formulas", ()):
                if line.verdict.scored:
                    model = line.verdict.scored.scorer.model
                    found.setdefault(model.digest, model)
    yield from found.values()


class RunningModels:
    """Those of the snapshot that copies of this process judge by; one that cannot run is reported once a snapshot."""

    def __init__(self) -> None:
        self._snapshot: PlanSnapshot | None = None
        self._models: list[Model] = []
        self._reported: set[str] = set()

    def run(self, snapshot: PlanSnapshot) -> None:
        """Have the models of ``snapshot`` run: where they do, that takes microseconds."""
        if snapshot is not self._snapshot:
            self._snapshot, self._models, self._reported = snapshot, list(running_models(snapshot)), set()
        for model in self._models:
            try:
                HERE.ready(model.digest, model.data)
            except ModelError as error:
                if model.digest not in self._reported:
                    self._reported.add(model.digest)
                    log.warning(
                        "a model cannot run; its rules degrade what they judge", model=model.name, error=str(error)
                    )
