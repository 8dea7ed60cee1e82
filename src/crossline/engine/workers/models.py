"""The models of a book, each in a process that one starts and all its copies ask in turn."""

from __future__ import annotations

from collections.abc import Iterator

from crossline.core.models.model import Model
from crossline.core.models.processes import HERE, ModelError
from crossline.engine.book.book import Book
from crossline.logs import get_logger

log = get_logger(__name__)


def models_of(book: Book) -> Iterator[Model]:
    """Those that rules of ``book`` score with, each once."""
    found: dict[str, Model] = {}
    for plan in book.plans():
        for layer in plan.layers:
            for line in getattr(layer.kernel, "formulas", ()):
                if line.verdict.scored:
                    model = line.verdict.scored.scorer.model
                    found.setdefault(model.digest, model)
    yield from found.values()


class RunningModels:
    """Those of the book that copies of this process judge by; what cannot run is told once for each book."""

    def __init__(self) -> None:
        self._book: Book | None = None
        self._models: list[Model] = []
        self._told: set[str] = set()

    def run(self, book: Book) -> None:
        """Have the models of ``book`` run: where they do, that takes microseconds."""
        if book is not self._book:
            self._book, self._models, self._told = book, list(models_of(book)), set()
        for model in self._models:
            try:
                HERE.ready(model.digest, model.data)
            except ModelError as error:
                if model.digest not in self._told:
                    self._told.add(model.digest)
                    log.warning(
                        "a model cannot run; its rules degrade what they judge", model=model.name, error=str(error)
                    )
