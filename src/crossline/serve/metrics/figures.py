"""What the API did, added up request by request: plain numbers, which the scraper reads at any time.

All of it is added to in the API's event loop, a few microseconds a request; a scrape reads copies in its own thread.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import Any

from crossline.observe.watch.run_figures import Histogram
from crossline.serve.decisions.interfaces import AnswerLedger, IdClaim, RecordedAnswer
from crossline.serve.decisions.reconciliation import Revised
from crossline.serve.decisions.replies import DecisionAnswer
from crossline.serve.decisions.values import LogPosition, SubmittedRecord

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SECONDS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.025, 0.04, 0.07, 0.13, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0)
# Of what was let through to no route: refused before one was found, or not there. What is in such an address is
# anybody's, and is named nowhere.
NO_ROUTE = "(none)"
PUBLIC = frozenset({"/healthz", "/readyz"})
PARTS_MAX, OTHERS = 200, "(others)"


class ApiFigures:
    """The sums of one API process.

    ``requests``: by method, route and status; ``seconds``: by route, until the answer began. ``decisions``: by stream,
    how they were answered, and the decision; ``degraded``: by part, such as ``replica`` or ``rule:card_burst``.
    ``revised``: by stream and how it had been answered. ``ledger``: by what was asked of it. ``on_request``: called
    with each request too: its route, the answer's status, and how long it took, in seconds.
    """

    def __init__(self, on_request: Callable[[str | None, int, float], None] | None = None) -> None:
        self._on_request = on_request
        self.requests: dict[tuple[str, str, str], int] = {}
        self.seconds: dict[str, Histogram] = {}
        self.decisions: dict[tuple[str, str, str], int] = {}
        self.degraded: dict[str, int] = {}
        self.revised: dict[tuple[str, str], int] = {}
        self.ledger = {name: Histogram(SECONDS) for name in ("claim", "answer")}
        self._statuses: dict[int, str] = {}

    def request(self, method: str, route: str | None, status: int, took_s: float) -> None:
        """A request whose answer begins."""
        text = self._statuses.get(status)
        if text is None:
            text = self._statuses[status] = str(status)
        which = ("", NO_ROUTE, text) if route is None else (method, route, text)
        self.requests[which] = self.requests.get(which, 0) + 1
        seconds = self.seconds.get(which[1])
        if seconds is None:
            seconds = self.seconds[which[1]] = Histogram(SECONDS)
        seconds.add(took_s)
        if self._on_request is not None:
            self._on_request(route, status, took_s)

    def before(
        self, then: Callable[[DecisionAnswer, LogPosition | None], None]
    ) -> Callable[[DecisionAnswer, LogPosition | None], None]:
        """For ``Parts.on_answer``: an answer is counted, then ``then``."""

        def both(answer: DecisionAnswer, place: LogPosition | None) -> None:
            self.answered(answer)
            then(answer, place)

        return both

    def answered(self, answer: DecisionAnswer) -> None:
        """A record was decided about."""
        which = (answer.asked.stream, answer.answered, str(answer.decision["decision"]))
        self.decisions[which] = self.decisions.get(which, 0) + 1
        for each in answer.degraded:
            part = each.part if each.part in self.degraded or len(self.degraded) < PARTS_MAX else OTHERS
            self.degraded[part] = self.degraded.get(part, 0) + 1

    def differed(self, revised: Sequence[Revised]) -> None:
        """Answers that the stream decided otherwise."""
        for each in revised:
            which = (each.stream, each.answered)
            self.revised[which] = self.revised.get(which, 0) + 1


class RequestCounter:
    """ASGI middleware around all others: each request in ``figures``."""

    def __init__(self, app: App, figures: ApiFigures) -> None:
        self._app = app
        self._figures = figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, or the life of the server, which is no request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                state = scope.get("state")
                route = None if state is None else state.get("route")
                if route is None and scope["path"] in PUBLIC:
                    route = scope["path"]
                self._figures.request(scope["method"], route, message["status"], time.perf_counter() - began_s)
            await send(message)

        await self._app(scope, receive, send_counted)


class TimedAnswers:
    """The ledger as the service asks it, with the time that requests wait for it."""

    def __init__(self, answers: AnswerLedger, figures: ApiFigures) -> None:
        self._answers = answers
        self._claims, self._kept = figures.ledger["claim"], figures.ledger["answer"]

    async def claim(self, asked: SubmittedRecord, timeout_s: float) -> IdClaim:
        """See ``AnswerLedger``."""
        began_s = time.perf_counter()
        try:
            return await self._answers.claim(asked, timeout_s)
        finally:
            self._claims.add(time.perf_counter() - began_s)

    async def answer(self, answer: DecisionAnswer, body: Mapping[str, Any]) -> RecordedAnswer | None:
        """See ``AnswerLedger``."""
        began_s = time.perf_counter()
        try:
            return await self._answers.answer(answer, body)
        finally:
            self._kept.add(time.perf_counter() - began_s)

    async def release(self, asked: SubmittedRecord) -> None:
        """See ``AnswerLedger``."""
        await self._answers.release(asked)
