"""``/v1/dead-letters``: what could not be read, and sending it again, mended."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from crossline.basics.texts.problems import shown
from crossline.basics.times import instant_text
from crossline.serve.dead_letters.repair import NotFitError
from crossline.serve.dead_letters.resend import RAW_BYTES_MAX, DeadLetters, Resender
from crossline.serve.dead_letters.resend_log import Resent
from crossline.serve.dead_letters.stores import box_of, why_none
from crossline.serve.dead_letters.values import LetterBox, StoredDeadLetter
from crossline.serve.http.deps import Dependencies, required
from crossline.serve.http.paging import LIMIT_DEFAULT, Cursor, Limit, cursor_of, page, place_of
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import invalid, not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.writes.bodies import Body

SHOWN_BYTES = 2_048  # of each letter of a list
WHOLE_BYTES = 1 << 20
_READ, _WRITE = needs("read:records"), needs("write:records")
State = Literal["open", "sent", "all"]
LetterId = Annotated[str, Path(max_length=60, description="Id of the dead letter, as in the list.")]


class ResendBody(Body):
    """The record as it should have been."""

    record: str = Field(
        max_length=RAW_BYTES_MAX,
        description="Its JSON, as text; it has to fit the stream as any record does. Into a topic of Avro it is "
        "written by the topic's newest schema.",
    )


def dead_routes(deps: Dependencies) -> APIRouter:
    """The routes of dead letters."""
    routes = APIRouter(tags=["dead letters"])

    @routes.get("/v1/dead-letters", openapi_extra=_READ, summary="Records that could not be read, the latest first")
    def letters(
        request: Request,
        reason: Annotated[str | None, Query(max_length=60, description="Only of this reason.")] = None,
        state: Annotated[State, Query(description="`open`: not sent again; `sent`: sent again.")] = "all",
        limit: Limit = LIMIT_DEFAULT,
        cursor: Cursor = None,
    ) -> Any:
        """With their bytes, the first 2,048: as text (`raw`), or in base 64 where they are no UTF-8 (`raw_base64`).

        `counts`: by reason, of the latest 50,000; `counted_all`: there are no more. A page may have fewer than `limit`:
        read on while there is a `next_cursor`. Where no sink can be read back, `missing` reports it.
        """
        only_known(request)
        return json_answer(letters_of(deps, reason, state, limit, cursor))

    @routes.get("/v1/dead-letters/{letter_id}", openapi_extra=_READ, summary="A dead letter with all its bytes")
    def letter(request: Request, letter_id: LetterId) -> Any:
        """All that was kept of them. `why_not`: why it cannot be sent again; null: it can.

        `avro`: of a stream of Avro, the record as JSON by the schema that it names, as far as it can be read; `broke`:
        why no more of it could.
        """
        only_known(request)
        return json_answer(letter_of(deps, letter_id))

    @routes.post(
        "/v1/dead-letters/{letter_id}:resend", openapi_extra=_WRITE, summary="Send a dead letter again, mended"
    )
    async def resend(request: Request, letter_id: LetterId, wanted: ResendBody, who: Asking) -> Any:
        """Into the stream that it was meant for, once. A record that would be refused again is 422, with the reason.

        One that was sent again already is 409, and so is a record whose id the stream has.
        """
        only_known(request)
        kept = await run_in_threadpool(_stored_letter, deps, letter_id)
        resending: Resender = required(_dead(deps).resending, "log to send into", "send through the API that has it")
        try:
            raw = wanted.record.encode()
        except UnicodeEncodeError:
            raise invalid("/record", "half of a character", "JSON in Unicode") from None
        try:
            sent = await resending.send(kept, raw, who.name)
        except NotFitError as error:
            raise invalid("/record", f"a record that would be refused again ({error})", "one that fits") from None
        # Without its bytes, since the audit log keeps the answer.
        answer = {"id": kept.name, "stream": sent.stream, "reason": sent.reason}
        return json_answer({**answer, "sent": _sent(sent)})

    return routes


def letters_of(deps: Dependencies, reason: str | None, state: str, limit: int, cursor: str | None) -> dict[str, Any]:
    """A page of dead letters, and how many there are."""
    of = f"dead:{reason}:{state}"
    before = place_of(cursor, of, _is_place)[0] if cursor else None
    box = box_of(deps.config, lambda: deps.open_store(deps.config))
    if box is None:
        nothing = {"counts": [], "counted_all": True, "kept_in": None, "missing": why_none(deps.config)}
        return {**page([], None), **nothing}
    found = box.page(reason, before, limit)
    sent = _dead(deps).resent.of([each.identity for each in found.found])
    rows = [_as_json(each, sent.get(each.identity), SHOWN_BYTES) for each in found.found]
    kept = [each for each in rows if state == "all" or (each["sent"] is not None) == (state == "sent")]
    more = None if found.before is None else cursor_of([found.before], of)
    return {**page(kept, more), **_counted(deps, box), "kept_in": box.name, "missing": None}


def letter_of(deps: Dependencies, letter_id: str) -> dict[str, Any]:
    """A dead letter, whole. Raises ProblemError (404) if there is none."""
    kept = _stored_letter(deps, letter_id)
    dead = _dead(deps)
    sent = dead.resent.of([kept.identity]).get(kept.identity)
    why = "it was sent again" if sent is not None and sent.log is not None else _why_not(dead, kept.letter.stream)
    return {**_as_json(kept, sent, WHOLE_BYTES), "avro": _viewed(dead, kept), "why_not": why or None}


def _viewed(dead: DeadLetters, kept: StoredDeadLetter) -> dict[str, Any] | None:
    """Its record as JSON, as far as it can be read; None if it is not of Avro, or has no bytes."""
    raw = kept.letter.raw
    if raw is None or len(raw) > WHOLE_BYTES or dead.resending is None:
        return None
    found = dead.resending.view(kept.letter.stream, raw)
    if found is None:
        return None
    return {"schema": found.schema, "record": found.record, "broke": found.broke or None, "read_bytes": found.read}


def _why_not(dead: DeadLetters, stream: str) -> str:
    if dead.resending is None:
        return "this server has no log to send into: the API beside the pipeline has"
    return dead.resending.why_not(stream)


def _counted(deps: Dependencies, box: LetterBox) -> dict[str, Any]:
    counts, sent = box.counts(), _dead(deps).resent.counts()
    reasons = [
        {"reason": reason, "count": number, "open": max(0, number - sent.get(reason, 0))}
        for reason, number in counts.by_reason.items()
    ]
    return {"counts": reasons, "counted_all": counts.whole}


def _stored_letter(deps: Dependencies, letter_id: str) -> StoredDeadLetter:
    number = letter_id.partition("-")[0]
    box = box_of(deps.config, lambda: deps.open_store(deps.config))
    found = None
    if box is not None and number.isascii() and number.isdigit() and len(number) < 19:
        found = box.one(int(number))
    if found is None or found.name != letter_id:
        raise not_found(f"dead letter {shown(letter_id)}", "GET /v1/dead-letters lists those there are")
    return found


def _as_json(kept: StoredDeadLetter, sent: Resent | None, most: int) -> dict[str, Any]:
    letter = kept.letter
    return {
        "id": kept.name,
        "stream": letter.stream,
        "reason": letter.reason,
        "detail": letter.detail,
        "partition": letter.partition,
        "offset": letter.offset,
        "record_id": letter.record_id,
        "delivered_at": kept.delivered_at,
        **_bytes(letter.raw, most),
        "sent": None if sent is None or sent.log is None else _sent(sent),
    }


def _bytes(raw: bytes | None, most: int) -> Mapping[str, Any]:
    """The first bytes, as text where all of them are."""
    if raw is None:
        return {"bytes": None, "raw": None, "raw_base64": None, "cut": False}
    some, cut = raw[:most], len(raw) > most
    try:
        raw.decode()
    except UnicodeDecodeError:
        return {"bytes": len(raw), "raw": None, "raw_base64": base64.b64encode(some).decode(), "cut": cut}
    return {"bytes": len(raw), "raw": some.decode(errors="ignore"), "raw_base64": None, "cut": cut}


def _sent(sent: Resent) -> dict[str, Any]:
    return {
        "by": sent.who,
        "at": instant_text(sent.at_ms),
        "record_id": sent.record_id,
        "partition": sent.log,
        "offset": sent.place,
    }


def _dead(deps: Dependencies) -> DeadLetters:
    found: DeadLetters = required(deps.dead, "list of what was sent again", "start crossline serve over the pipeline")
    return found


def _is_place(place: list[Any]) -> bool:
    return len(place) == 1 and type(place[0]) is int and 0 < place[0] < 2**62
