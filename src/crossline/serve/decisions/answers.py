"""What is answered of what was judged: by a replica, by the stream itself, or by the policy's fallback."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from crossline.rules.policy.words import ACTIONS
from crossline.serve.decisions.interfaces import ServiceParts
from crossline.serve.decisions.replies import DecisionAnswer, fallback_decision
from crossline.serve.decisions.values import Degraded, NotJudgedError, RecordVerdict, SubmittedRecord
from crossline.serve.fault_log import noted, with_fault

PLAIN = frozenset({"a score that is no finite number"})  # why a model has no score, which discloses nothing of it


class AnswerBuilder:
    """Makes answers. ``parts``: who judges, and the fallback where no replica answers."""

    def __init__(self, parts: ServiceParts) -> None:
        self._judge, self._by_fallback = parts.judge, parts.fallback

    async def judged(self, asked: SubmittedRecord) -> DecisionAnswer:
        """The answer of a replica. Raises NotJudgedError if it has none."""
        (verdict,) = await self._judge.judge([asked])
        return self.peek(asked, verdict)

    def peek(self, asked: SubmittedRecord, verdict: RecordVerdict | NotJudgedError) -> DecisionAnswer:
        """A replica's reply as an answer. Raises NotJudgedError where the reply is empty."""
        if isinstance(verdict, NotJudgedError):
            raise verdict
        basis = self._judge.basis(verdict.basis)
        judged = (verdict.figures, verdict.evidence, verdict.as_of, _public(verdict.degraded), basis)
        return DecisionAnswer(asked, verdict.decision, "peek", *judged)

    def answer(self, asked: SubmittedRecord, within_s: float, judged: asyncio.Future[DecisionAnswer]) -> DecisionAnswer:
        """What was judged within this time; by the fallback where nothing was."""
        if not judged.done():
            judged.cancel()
            return self.fallback(asked, Degraded("replica", f"no answer within {round(within_s * 1000)} ms"))
        error = judged.exception()
        if error is None:
            return self._graver(judged.result())
        if isinstance(error, NotJudgedError):
            return self.fallback(asked, Degraded(error.part, error.why))
        fault = noted("a record could not be judged", error, stream=asked.stream)
        return self.fallback(asked, Degraded("replica", with_fault("it failed", fault)))

    def fallback(self, asked: SubmittedRecord, *why: Degraded) -> DecisionAnswer:
        """The decision of the policy where nothing was judged."""
        decision = fallback_decision(asked, self._by_fallback.decide(asked), self._by_fallback.version)
        return DecisionAnswer(asked, decision, "fallback", degraded=why)

    def _graver(self, answer: DecisionAnswer) -> DecisionAnswer:
        """The verdict; or, where a rule could not be judged, the fallback's decision, if that is graver."""
        if not answer.degraded:
            return answer
        instead = self.fallback(answer.asked, *answer.degraded)
        judged, plain = (ACTIONS.index(each.decision["decision"]) for each in (answer, instead))
        return instead if plain > judged else answer


def _public(degraded: Sequence[Degraded]) -> tuple[Degraded, ...]:
    """What could not be judged, for the caller: the message of the model's library is in the log."""
    return tuple(
        each
        if each.why in PLAIN
        else replace(
            each, why=with_fault("its model could not score the record", noted(f"{each.part} failed", each.why))
        )
        for each in degraded
    )
