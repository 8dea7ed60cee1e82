"""Dry runs: records that are judged as if they had been posted, and of which nothing is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

import orjson

from crossline.io.sinks.base import wall_clock_ms
from crossline.serve.decisions.answers import AnswerBuilder
from crossline.serve.decisions.replies import DecisionAnswer, HttpReply, differs
from crossline.serve.decisions.values import Judge, NotJudgedError, RecordVerdict, SubmittedRecord


class DryRunService:
    """Judges records of one request in one call, so in one throwaway copy of the replica's state, however many."""

    def __init__(self, judge: Judge, judging: AnswerBuilder) -> None:
        self._judge = judge
        self._judging = judging

    async def replies(self, asked: Sequence[SubmittedRecord | HttpReply], within_s: float) -> list[HttpReply]:
        """What would be answered, within this time, had they been posted one after the other; refusals stand.

        Each sees those before it, as it would if they were asked about. One that comes again gets the same reply.
        """
        first: dict[str, SubmittedRecord] = {}
        for each in asked:
            if isinstance(each, SubmittedRecord):
                first.setdefault(each.record_id, each)
        of_each = await self._judged(list(first.values()), within_s)
        replies = []
        for each in asked:
            if isinstance(each, HttpReply):
                replies.append(each)
            elif each.digest != first[each.record_id].digest:
                replies.append(differs(each))
            else:
                replies.append(of_each[each.record_id])
        return replies

    async def _judged(self, asked: list[SubmittedRecord], within_s: float) -> dict[str, HttpReply]:
        """By record id the reply to each of ``asked``, whose ids are theirs alone."""
        if not asked:
            return {}
        begun_s = asyncio.get_running_loop().time()
        whole = asyncio.ensure_future(self._judge.judge(asked, keep=False))
        await asyncio.wait({whole}, timeout=within_s)
        took_ms = (asyncio.get_running_loop().time() - begun_s) * 1000
        found: dict[str, HttpReply] = {}
        for number, each in enumerate(asked):
            answer = self._judging.answer(each, within_s, self._one(each, whole, number))
            body = {**answer.to_json(wall_clock_ms(), took_ms), "receipt": None}
            found[each.record_id] = HttpReply(HTTPStatus.OK, orjson.dumps(body))
        whole.cancel()
        return found

    def _one(
        self, asked: SubmittedRecord, whole: asyncio.Future[list[RecordVerdict | NotJudgedError]], number: int
    ) -> asyncio.Future[DecisionAnswer]:
        """What became of one of them."""
        mine: asyncio.Future[DecisionAnswer] = asyncio.get_running_loop().create_future()
        if whole.done():
            try:
                mine.set_result(self._judging.peek(asked, whole.result()[number]))
            except Exception as error:  # noqa: BLE001 - whatever it is, the answer reports it
                mine.set_exception(error)
        return mine
