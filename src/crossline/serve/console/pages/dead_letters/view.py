"""``/dead-letters``, ``/dead-letters/{id}``: what could not be read, why, from where; sent again once it is mended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import urlencode

from crossline.basics.texts.plaintext import printable, printable_lines
from crossline.basics.times import parse_instant_ms
from crossline.ingest.decode.reasons import REASONS
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.flash import saying
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Crumb, ShortcutKey
from crossline.serve.console.pages.dead_letters.context import DeadPage, LetterPage, LetterRow, ReasonTab, SentRecord
from crossline.serve.console.pages.dead_letters.display import (
    HEX_BYTES,
    TEXT_CHARS,
    bytes_of,
    draft_of,
    hex_lines,
    read_of,
    size_of,
    some_of,
    text_of,
)
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, Shown, moved
from crossline.serve.http.problems import ProblemError
from crossline.serve.http.reads.dead_letters import State

LETTERS, LETTER = "/v1/dead-letters", "/v1/dead-letters/{letter_id}"
RESEND = "/v1/dead-letters/{letter_id}:resend"
ROWS = 50
STATES: tuple[State, ...] = get_args(State)
WORDS = {"open": "Open", "sent": "Sent again", "all": "All"}
MEANS: Mapping[str, str] = {
    **{str(reason): means for reason, means in REASONS.items()},
    "duplicate_id": "an id that came before; the first record counts",
}


async def view(asked: PageRequest) -> DeadPage:
    """Those of one reason, or all, the latest first."""
    reason, state = asked.query.get("reason", "")[:60], asked.query.get("state", "open")
    kept = {name: value for name, value in (("reason", reason), ("state", state)) if value}
    given = {**kept, "limit": ROWS}
    if asked.query.get("before"):
        given["cursor"] = asked.query["before"]
    listed = await called(asked, "GET", LETTERS, query=given)
    older = {**kept, "before": listed["next_cursor"]} if listed["next_cursor"] else {}
    return DeadPage(
        shell=asked.shell("Dead letters"),
        reason=reason,
        means=MEANS.get(reason, ""),
        tabs=_tabs(listed, reason, state),
        states=tuple((WORDS[each], _at({**kept, "state": each}), each == state) for each in STATES),
        rows=tuple(_row(asked, each) for each in listed["items"]),
        kept_in=listed["kept_in"] or "",
        missing=listed["missing"] or "",
        counted="" if listed["counted_all"] else "Counts are of the latest 50,000.",
        older=_at(older) if older else "",
        newest=_at(kept) if asked.query.get("before") else "",
    )


async def one(asked: PageRequest) -> LetterPage:
    """A dead letter with its bytes, and the form that sends it again."""
    return _page(asked, await _fetched(asked))


async def resend(asked: PageRequest) -> Any:
    """Send it again."""
    record = asked.form.get("record", "")
    path = {"letter_id": asked.path["letter_id"]}
    try:
        letter = await called(asked, "POST", RESEND, path, {"record": record})
    except ProblemError as error:
        if error.status not in {400, 409, 422}:
            raise
        return Shown(_page(asked, await _fetched(asked), record, _reason_of(error)), error.status)
    text = f"Sent again as record {letter['sent']['record_id']}; the pipeline reads it with its next batch."
    return saying(moved(f"/dead-letters/{segment(letter['id'])}"), asked, text)


def _reason_of(error: ProblemError) -> str:
    """What was wrong with the record; the API's own text."""
    text = error.errors[0].found if error.errors else error.detail
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _at(query: Mapping[str, str]) -> str:
    return f"/dead-letters?{urlencode(query)}" if query else "/dead-letters"


def _tabs(listed: Mapping[str, Any], reason: str, state: str) -> tuple[ReasonTab, ...]:
    """All reasons together, then each."""
    name = "open" if state == "open" else "count"
    of = {each["reason"]: each["count"] - each["open"] if state == "sent" else each[name] for each in listed["counts"]}
    more = "" if listed["counted_all"] else "+"
    tabs = [ReasonTab("All reasons", _at({"state": state}), f"{sum(of.values()):,}{more}", not reason)]
    for each, number in of.items():
        tabs.append(ReasonTab(each, _at({"reason": each, "state": state}), f"{number:,}{more}", each == reason))
    if reason and reason not in of:
        tabs.append(ReasonTab(reason, _at({"reason": reason, "state": state}), f"0{more}", current=True))
    return tuple(tabs)


def _row(asked: PageRequest, each: Mapping[str, Any]) -> LetterRow:
    sent = each["sent"]
    return LetterRow(
        address=f"/dead-letters/{segment(each['id'])}",
        reason=each["reason"],
        detail=each["detail"],
        stream=each["stream"],
        where=f"{each['partition']}:{each['offset']}",
        at=_moment(asked, each["delivered_at"]),
        some=some_of(each),
        size=size_of(each),
        sent="" if sent is None else f"by {sent['by']}",
    )


def _moment(asked: PageRequest, text: str | None) -> Moment | None:
    return None if text is None else asked.times.moment(parse_instant_ms(text))


async def _fetched(asked: PageRequest) -> Mapping[str, Any]:
    found: Mapping[str, Any] = await called(asked, "GET", LETTER, {"letter_id": asked.path["letter_id"]})
    return found


def _page(asked: PageRequest, letter: Mapping[str, Any], record: str | None = None, wrong: str = "") -> LetterPage:
    raw, sent = bytes_of(letter), letter["sent"]
    read, broke = read_of(letter["avro"])
    draft, lost = draft_of(raw) if letter["avro"] is None else (read, broke and "It has what could be read.")
    text = "" if raw is None or letter["avro"] is not None else text_of(raw)
    title = f"{letter['reason']} at {letter['partition']}:{letter['offset']}"
    return LetterPage(
        shell=asked.shell(
            title, (Crumb("Dead letters", "/dead-letters"), Crumb(title)), (ShortcutKey(("e",), "mend it"),)
        ),
        name=letter["id"],
        reason=letter["reason"],
        means=MEANS.get(letter["reason"], ""),
        detail=letter["detail"],
        stream=letter["stream"],
        partition=letter["partition"],
        offset=letter["offset"],
        record_id=letter["record_id"] or "",
        at=_moment(asked, letter["delivered_at"]),
        size=size_of(letter),
        text=text,
        octets=() if raw is None or text else tuple(hex_lines(raw)),
        read=printable_lines(read[:TEXT_CHARS]),
        broke=printable(broke),
        cut=_cut(letter, raw, text),
        sent=None
        if sent is None
        else SentRecord(
            sent["by"],
            asked.times.moment(parse_instant_ms(sent["at"])),
            sent["record_id"],
            f"{sent['partition']}:{sent['offset']}",
        ),
        why_not=_why_not(asked, letter),
        draft=draft if record is None else record,
        lost=lost,
        wrong=wrong,
    )


def _cut(letter: Mapping[str, Any], raw: bytes | None, text: str) -> str:
    """What of the bytes is not shown."""
    if raw is None:
        return ""
    if text:
        return f"The first {TEXT_CHARS:,} characters." if len(raw.decode()) > TEXT_CHARS or letter["cut"] else ""
    return f"The first {HEX_BYTES:,} bytes." if len(raw) > HEX_BYTES else ""


def _why_not(asked: PageRequest, letter: Mapping[str, Any]) -> str:
    if letter["sent"] is not None:
        return ""
    if not asked.allows("write:records"):
        return f"To send it again needs the scope write:records, which {asked.who.name} has not."
    why = letter["why_not"] or ""
    return f"It cannot be sent again from here: {why}." if why else ""


PAGE = Page(
    "dead",
    (
        PageRoute("GET", "/dead-letters", view),
        PageRoute("GET", "/dead-letters/{letter_id}", one),
        PageRoute("POST", "/dead-letters/{letter_id}/resend", resend),
    ),
    label="Dead letters",
    group="Operations",
)
