"""An erasure from begin to end: hold the pipeline, find, note, erase, look again, write the receipt."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from crossline.basics.errors import CrosslineError, UsageError
from crossline.basics.texts.problems import nearest, one_of
from crossline.basics.times import format_instant
from crossline.erasure.holding import Held
from crossline.erasure.journal import SALT_BYTES, Journal, key_digest
from crossline.erasure.place import Counts, Place
from crossline.erasure.places.token_keys import with_tokens
from crossline.erasure.registry import Surroundings, places_of
from crossline.erasure.subject import Key, Subject, form_of, with_forms
from crossline.erasure.unreachable import unreachable
from crossline.settings.config import PipelineConfig

SCHEMA_VERSION = 1
_ROUNDS_MAX = 5  # of looks for record ids: each place may name ids that another one needs

Between = Callable[[str], None]


@dataclass(slots=True)
class PlaceResult:
    """What an erasure did at a place.

    Attributes:
        place: Its name.
        counts: What was found; what was erased, unless it was a dry run.
        state: ``clean``, ``found`` (a dry run), ``erased``, ``left`` or ``failed``.
        why: Why it was left, or failed; empty else.
    """

    place: str
    counts: Counts = field(default_factory=Counts)
    state: str = "clean"
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """As receipts have it."""
        counts = asdict(self.counts)
        return {"place": self.place, "state": self.state, **counts, **({"why": self.why} if self.why else {})}


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is to be erased, and how.

    Attributes:
        keys: The values of the person; none: those of an erasure that was not finished.
        dry_run: Count only: nothing is changed, and no receipt is written.
        while_running: Erase what can be erased beside a running pipeline, and leave the rest.
        between: Called between two steps.
    """

    keys: tuple[Key, ...]
    dry_run: bool = False
    while_running: bool = False
    between: Between = lambda _: None


def check_fields(keys: Sequence[Key], config: PipelineConfig) -> None:
    """Raise UsageError for a key whose field no stream declares: a misspelt one would find nothing."""
    declared = {name for spec in config.streams.values() for name in spec.columns}
    for key in keys:
        if key.field not in declared:
            near = nearest(key.field, declared)
            hint = f": {near}" if near else f"; the streams have {one_of(sorted(declared), 30)}"
            raise UsageError(f"--key: found field {key.field!r}, which no stream declares{hint}")


def erase(held: Held, journal: Journal, asked: Erasure, now_ms: int) -> dict[str, Any]:
    """Erase a person from a pipeline.

    Args:
        held: The pipeline, held for as long as this takes.
        journal: The files of its erasures.
        asked: What is to be erased.
        now_ms: Epoch milliseconds.

    Returns:
        The receipt of erasure, see docs/erasure.md. Its ``result`` is ``erased``, ``nothing found``, ``found`` (a dry
        run) or ``incomplete``.

    Raises:
        StateError: The pipeline has an unfinished batch, or a file is damaged.
        RetryableError: A store does not answer now.
    """
    subject = _subject(journal, replace(asked, keys=with_tokens(held.config.streams, with_forms(asked.keys))))
    if not asked.dry_run:
        held.catch_up()
    around = held.surroundings()
    places = places_of(around)
    results = [PlaceResult(place.name) for place in places]
    _find(places, results, subject)
    if not asked.dry_run:
        journal.begin(subject)
        asked.between("noted")
        _erase(places, results, subject, asked.between, stopped=held.stopped)
        _look_again(places, results, subject)
        asked.between("verified")
    receipt = _receipt(around, subject, results, now_ms, dry_run=asked.dry_run)
    return receipt if asked.dry_run else journal.end(receipt, finished=receipt["result"] != "incomplete")


def _subject(journal: Journal, asked: Erasure) -> Subject:
    """The keys of this erasure, and of one that was not finished, with its pseudonyms."""
    before = journal.unfinished()
    if before is None:
        return Subject(asked.keys, secrets.token_bytes(SALT_BYTES))
    keys = tuple(dict.fromkeys((*before.keys, *asked.keys)))
    return Subject(keys, before.salt, before.ids)


def _find(places: Sequence[Place], results: Sequence[PlaceResult], subject: Subject) -> None:
    """Look until no place names a record that was not known."""
    for _ in range(_ROUNDS_MAX):
        known = subject.count()
        for place, result in zip(places, results, strict=True):
            with _failures(result):
                result.counts = place.find(subject)
                result.state = "found" if result.counts.found else "clean"
        if subject.count() == known:
            return


def _erase(
    places: Sequence[Place], results: Sequence[PlaceResult], subject: Subject, between: Between, *, stopped: bool
) -> None:
    for place, result in zip(places, results, strict=True):
        if result.state == "failed":
            continue
        if place.needs_stop and not stopped:
            result.state, result.why = "left", "the pipeline or its API runs"
            continue
        with _failures(result):
            counts = place.erase(subject)  # also where nothing was found: a killed erasure may have left a file
            result.counts = counts
            result.state = "erased" if counts.found else "clean"
        between(place.name)


def _look_again(places: Sequence[Place], results: Sequence[PlaceResult], subject: Subject) -> None:
    for place, result in zip(places, results, strict=True):
        if result.state in {"left", "failed"}:
            continue
        with _failures(result):
            left = place.find(subject)
            if left.found:
                result.state, result.why = "failed", f"{left.gone + left.changed} rows with a trace are there again"


class _failures:  # noqa: N801 - a context
    """A failure at a place is noted there; the other places go on."""

    def __init__(self, result: PlaceResult) -> None:
        self._result = result

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if isinstance(error, CrosslineError | OSError):
            self._result.state = "failed"
            self._result.why = str(error).partition("\n")[0] or type(error).__name__
            return True
        return False


def _receipt(
    around: Surroundings, subject: Subject, results: Sequence[PlaceResult], now_ms: int, *, dry_run: bool
) -> dict[str, Any]:
    salt = secrets.token_bytes(SALT_BYTES)
    total = Counts()
    for each in results:
        total += each.counts
    return {
        "schema_version": SCHEMA_VERSION,
        "pipeline": around.config.name,
        "at": format_instant(now_ms),
        "result": _result(results, dry_run=dry_run),
        "keys": [_key(subject, key, salt) for key in subject.keys],
        "salt": salt.hex(),
        "record_ids": subject.count(),
        "places": [_without_values(subject, each.to_json()) for each in results],
        "total": asdict(total),
        "not_reached": [asdict(each) for each in unreachable(around)],
    }


def _key(subject: Subject, key: Key, salt: bytes) -> dict[str, Any]:
    """A key as receipts have it: without its value."""
    form = form_of(key.value)
    known = {"field": key.field, "digest": key_digest(key, salt), "found": key in subject.met}
    return known if form is None else {**known, "form": form}


def _without_values(subject: Subject, place: Mapping[str, Any]) -> dict[str, Any]:
    """Errors name files, and a file may be named after somebody."""
    found: dict[str, Any] = subject.scrub(place)
    return found


def _result(results: Sequence[PlaceResult], *, dry_run: bool) -> str:
    states = {each.state for each in results}
    if states & {"failed", "left"}:
        return "incomplete"
    if dry_run:
        return "found" if "found" in states else "nothing found"
    return "erased" if "erased" in states else "nothing found"


def forms_found(receipt: Mapping[str, Any]) -> Iterator[str]:
    """For people: in which forms of Unicode the values of a field were found, where they have several."""
    forms: dict[str, list[str]] = {}
    for each in receipt["keys"]:
        if "form" in each:
            forms.setdefault(each["field"], []).append(f"{each['form']} {'found' if each['found'] else 'not found'}")
    yield from (f"{name}, by form of Unicode: {', '.join(some)}" for name, some in forms.items())


def lines_of(receipt: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The rows of a table for people: place, state, rows gone, rows changed, rows kept, files, bytes."""
    for each in receipt["places"]:
        numbers = (each[name] for name in ("gone", "changed", "kept", "files", "size"))
        yield (each["place"], each["state"], *(f"{number:,}" for number in numbers))
