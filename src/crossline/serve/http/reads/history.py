"""What the lake has and the store does not: alerts and decisions older than those of the store.

A list goes on in the lake at the instant of the oldest row of the store: rows of one instant may be in the store or in
the lake alone, and their ids say which were listed.

The lake is read by the command line in a process of its own: planning its files would delay decisions. Whether it has
anything older is asked once in ten minutes, so that lists that end in the store do not wait for it. While the lake
cannot be read, these lists still name a next page, which is answered 503: a client sees that rows are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Literal

import orjson
from starlette.concurrency import run_in_threadpool

from crossline.basics.errors import RetryableError, UsageError
from crossline.basics.times import format_instant, parse_instant_ms
from crossline.evaluate.alerts.alert_json import read_alert
from crossline.io.stores.protocol import AlertFilter, DecisionFilter
from crossline.lake.catalogs.catalog import sqlite_file
from crossline.logs import get_logger
from crossline.serve.fault_log import TellableError
from crossline.serve.http.commands import CommandResult, Commands
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.problems import ProblemError, not_found

NOT_READ = "the lake was not read"  # in what ``crossline alerts show`` says of a lake that fails
LAKE = "lake"  # the first part of a cursor into it
KNOWN_S, RETRY_S = 600.0, 10.0  # when an answer is asked for again, and a failed one
BEGIN_MS = -62_135_596_800_000  # the start of the year 1
NO_END_MS = 253_402_300_799_999  # the end of the year 9999
TIES_MAX = 100_000  # rows of a store at one instant
What = Literal["alerts", "decisions"]
Row = Mapping[str, Any]
_ID: dict[What, str] = {"alerts": "alert_id", "decisions": "decision_id"}

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LakePlace:
    """Where a list goes on in the lake: before ``end_ms``, without the first ``skipped`` rows of these.

    Attributes:
        end_ms: Epoch milliseconds, exclusive.
        skipped: How many rows of the last instant were listed already.
    """

    end_ms: int
    skipped: int = 0

    def as_list(self) -> list[str | int]:
        """As a cursor has it."""
        return [LAKE, self.end_ms, self.skipped]

    @staticmethod
    def of(place: Sequence[Any]) -> LakePlace | None:
        """The place of a cursor; None: it is none of the lake."""
        if len(place) != 3 or place[0] != LAKE or not all(type(each) is int for each in place[1:]):
            return None
        within = BEGIN_MS <= place[1] <= NO_END_MS + 1 and 0 <= place[2] < 2**31
        return LakePlace(place[1], place[2]) if within else None


@dataclass(frozen=True, slots=True)
class LakePage:
    """Rows, and where the next ones are; None: there are no more."""

    rows: Sequence[Row]
    next: LakePlace | None


@dataclass(frozen=True, slots=True)
class _Answer:
    """Whether the lake has anything older than ``end_ms``; ``failed``: it could not be read. Good until ``until_s``."""

    until_s: float
    end_ms: int
    found: bool
    failed: bool = False


@dataclass(slots=True)
class LakeReads:
    """Lists what a pipeline's lake has."""

    deps: Dependencies
    commands: Commands
    clock_s: Callable[[], float] = time.monotonic
    _known: dict[str, _Answer] = field(default_factory=dict)

    @property
    def there(self) -> bool:
        """Whether the pipeline has a lake."""
        return self.deps.config.lake is not None

    def forget(self) -> None:
        """Ask the lake again at the next list."""
        self._known.clear()

    async def older(self, what: What) -> LakePlace | None:
        """Where a list that ended in the store goes on; None: the lake has nothing older, or was not made yet.

        A lake that cannot be read may have something: the next page is the one that fails.
        """
        if not self.there:
            return None
        answer = await self._asked(what)
        return LakePlace(answer.end_ms) if answer.found or answer.failed else None

    async def _asked(self, what: What) -> _Answer:
        """Whether the lake has anything older than the store, as it was or is now."""
        end_ms = await run_in_threadpool(self._store_begins, what)
        known = self._known.get(what)
        if known is not None and known.end_ms == end_ms and self.clock_s() < known.until_s:
            return known
        found = failed = False
        made = await run_in_threadpool(self._made)
        if made:
            try:
                found = bool((await self.page(what, [], LakePlace(end_ms), 1, self.deps.waits.probe_s)).rows)
            except RetryableError:
                failed = True
        kept_s = KNOWN_S if made and not failed else RETRY_S
        self._known[what] = answer = _Answer(self.clock_s() + kept_s, end_ms, found, failed)
        return answer

    async def _may_have(self, what: What) -> bool:
        """Whether the lake has anything older than the store. Raises RetryableError where it cannot be read."""
        if not self.there:
            return False
        answer = await self._asked(what)
        if answer.failed:
            raise _unreadable()
        return answer.found

    def _made(self) -> bool:
        """Whether there is a lake by now, as far as this can be seen without reading it."""
        place = sqlite_file(self.deps.config)
        return place is None or place.exists()

    async def alerts(self, which: AlertFilter, place: LakePlace, limit: int) -> LakePage:
        """Alerts that match, the latest first, each with its ``status``; without those that the store has listed."""
        names = {"--rule": which.rule_id, "--kind": which.kind, "--severity": which.severity}
        given = [f"{name}={value}" for name, value in names.items() if value is not None]
        given += [f"--key={name}={value}" for name, value in which.key.items()]
        if any("=" in name for name in which.key):
            return LakePage([], None)  # no field has such a name, and the command line would read another
        asked = [*given, *_since(which.since_ms)]
        return await self.page("alerts", asked, _within(place, which.until_ms), limit)

    async def decisions(
        self, which: DecisionFilter, place: LakePlace, limit: int, decision_id: str | None = None
    ) -> LakePage:
        """Decisions and revisions that match, the latest first; without those that the store has listed."""
        names = {
            "--record": which.record_id,
            "--stream": which.stream,
            "--decision": which.decision,
            "--id": decision_id,
        }
        given = [f"{name}={value}" for name, value in names.items() if value is not None]
        asked = [*given, *_since(which.since_ms)]
        return await self.page("decisions", asked, _within(place, which.until_ms), limit)

    async def on_record(self, record_id: str, stream: str | None) -> list[Row]:
        """The decisions on a record, each with its revisions, in the order of their ids, if the store may lack them."""
        if not await self._may_have("decisions"):
            return []
        found = await self.decisions(DecisionFilter(stream=stream, record_id=record_id), LakePlace(NO_END_MS), 1_000)
        return _with_revisions(found.rows)

    async def decision(self, decision_id: str) -> Row | None:
        """A decision with its revisions; None: the lake does not have it, or nothing older than the store."""
        if "\0" in decision_id or not await self._may_have("decisions"):
            return None
        found = await self.decisions(DecisionFilter(), LakePlace(NO_END_MS), 1_000, decision_id)
        return next((each for each in _with_revisions(found.rows) if each["decision_id"] == decision_id), None)

    async def alert(self, alert_id: str) -> dict[str, Any]:
        """An alert by its id or the start of it, with its corrections.

        Raises ProblemError if there is none, RetryableError if the lake cannot be read.
        """
        missing = not_found(f"alert {alert_id}", "GET /v1/alerts lists those there are")
        if not await self._may_have("alerts"):
            raise missing
        given = ["alerts", "show", alert_id, "--pipeline", str(self.deps.pipeline), "--no-records", "--json"]
        done = await self.show(given, missing)
        found: dict[str, Any] = read_alert(done.out.splitlines()[0])
        corrections = found.get("corrections", [])
        status = str(corrections[-1]["outcome"]) if corrections else "standing"
        return {**found, "status": status, "corrections": corrections}

    async def show(self, arguments: Sequence[str], missing: ProblemError) -> CommandResult:
        """The answer of ``crossline alerts show``.

        Raises ``missing`` if there is no such alert, RetryableError if it may be in the lake, which cannot be read.
        """
        try:
            return await self.commands.run(arguments, self.deps.waits.answer_s)
        except ProblemError as error:
            if self.there and NOT_READ in error.detail and await run_in_threadpool(self._made):
                log.warning("the lake cannot be read", error=error.detail)
                raise _unreadable() from error
            if error.status == HTTPStatus.BAD_REQUEST:
                raise
            raise missing from None

    async def page(
        self, what: What, given: Sequence[str], place: LakePlace, limit: int, wait_s: float | None = None
    ) -> LakePage:
        """Rows of ``crossline lake WHAT``, the latest first.

        Those of the instant at which the list goes on that the store has were listed: they are left out. Raises
        RetryableError where the lake cannot be read; why is in the log, since it names files of the server.
        """
        if place.end_ms <= BEGIN_MS or any("\0" in each for each in given):
            return LakePage([], None)  # nothing that is stored has this character, and no command line can
        listed = await run_in_threadpool(self._store_has, what, place.end_ms - 1)
        most = place.skipped + limit + 1 + len(listed)
        until = ["--until", format_instant(place.end_ms)] if place.end_ms <= NO_END_MS else []
        asked = ["lake", what, "--pipeline", str(self.deps.pipeline), *given, *until, "--limit", str(most), "--json"]
        try:
            done = await self.commands.run(asked, self.deps.waits.answer_s if wait_s is None else wait_s)
        except (ProblemError, RuntimeError) as error:
            log.warning("the lake cannot be read", error=str(error))
            raise _unreadable() from error
        except RetryableError as error:
            log.warning("the lake was not read in time", error=str(error))
            raise
        read = read_alert if what == "alerts" else orjson.loads
        return _page([read(line) for line in done.out.splitlines()], _ID[what], place, limit, listed)

    def _store_has(self, what: What, at_ms: int) -> frozenset[str]:
        """The ids of the rows of the store at an instant, in epoch milliseconds."""
        until_ms = at_ms + 1 if at_ms < NO_END_MS else None
        return frozenset(each[_ID[what]] for each in self._stored(what, at_ms, until_ms, TIES_MAX))

    def _store_begins(self, what: What) -> int:
        """Where the lake goes on, epoch milliseconds: behind the instant of the oldest row of the store.

        Rows of that instant may be in the store or in the lake alone. Without a row in the store, the end of time.
        """
        oldest = next(iter(self._stored(what, None, None, 1)), None)
        return NO_END_MS if oldest is None else parse_instant_ms(oldest["event_time"]) + 1

    def _stored(self, what: What, since_ms: int | None, until_ms: int | None, limit: int) -> list[Row]:
        """The first rows of the store within a span; none where there is no store, or none yet."""
        try:
            with closing(self.deps.store()) as store:
                if what == "alerts":
                    span = AlertFilter(since_ms=since_ms, until_ms=until_ms)
                    return list(store.alerts(span, limit, newest_first=False))
                which = DecisionFilter(since_ms=since_ms, until_ms=until_ms)
                return list(store.decisions(which, limit, newest_first=False))
        except (UsageError, ProblemError):
            return []


def _page(rows: Sequence[Row], name: str, place: LakePlace, limit: int, listed: frozenset[str]) -> LakePage:
    """The first ``limit`` of ``rows`` behind ``place`` whose id is not ``listed``, and where the next one is."""
    fresh = [at for at in range(place.skipped, len(rows)) if rows[at][name] not in listed]
    shown = [rows[at] for at in fresh[:limit]]
    if len(fresh) <= limit or not shown:
        return LakePage(shown, None)
    last: str = shown[-1]["event_time"]
    skipped = sum(1 for each in rows[: fresh[limit - 1] + 1] if each["event_time"] == last)
    return LakePage(shown, LakePlace(parse_instant_ms(last) + 1, skipped))


def _unreadable() -> TellableError:
    return TellableError("the pipeline's lake cannot be read now; send it again later", 10_000)


def _since(since_ms: int | None) -> list[str]:
    return [] if since_ms is None else ["--since", format_instant(since_ms)]


def _within(place: LakePlace, until_ms: int | None) -> LakePlace:
    if until_ms is None or until_ms >= place.end_ms:
        return place
    return LakePlace(until_ms)


def _with_revisions(rows: Sequence[Row]) -> list[Row]:
    """Decisions with their revisions in the order in which they came, by their ids."""
    ordered = sorted(rows, key=lambda each: int(each.get("revision", 0)))
    first = {each["decision_id"]: each for each in ordered if not each.get("revises")}
    return [
        {**first[name], "revisions": [each for each in ordered if each.get("revises") == name]}
        for name in sorted(first)
    ]
