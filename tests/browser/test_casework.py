"""The queue and the case in a browser: by keys alone, many at once, two people, every width, axe on each."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from playwright.sync_api import Browser, Page, expect

from crossline.serve.decisions.adapters import LedgerDecisions, SqliteReads
from crossline.serve.ledger.receipts import ReceiptEntry
from crossline.serve.ledger.signing import Signer
from crossline.serve.ledger.sqlite import SqliteLedger
from unit.serve.console.cards import cards
from unit.serve.console.kit import room
from unit.serve.ledger.ledgerkit import BASIS, EVIDENCE, FIGURES, asked, key_files

from .accessibility_tree import accessibility_faults
from .conftest import Opened, Site, Watched, watching
from .pictures import DOCS, IN_DOCS, take
from .serving import serving
from .test_pages import faults, looked_at

pytestmark = pytest.mark.xdist_group("casework")  # which has its cards already
MULE, MULE_RECORD = "/cases/C-1?view=open", "t0005122"
LATE_MS = 120_000  # what the engine judges anew takes its time where other tests run
SIZES = ((1440, 900), (1100, 800), (720, 900), (390, 844))


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console over cases of real alerts; the API was asked about one of their records."""
    folder = tmp_path_factory.mktemp("casework")
    with room(folder, project=cards(), decisions=answered(folder)) as made:
        for name in ("ines.vale", "tomas.brandt"):
            made.user(name, "analyst")
        made.user("vera.view", "viewer")
        with serving(made.app) as url:
            yield Site(made, url, url)


def answered(folder: Path) -> LedgerDecisions:
    """A peek allowed the mule's sixth transfer, with a receipt that is signed; the stream decided otherwise."""
    lines = (cards() / "decisions.jsonl").read_text().splitlines()
    body = next(each for each in map(json.loads, lines) if each["record_id"] == MULE_RECORD)
    as_of = {"batch": 7, "age_ms": 180_000, "laid_over": 0}
    first = {**body, "decision": "allow", "score": 0, "reasons": [], "answered": "peek", "as_of": as_of}
    revision = {**body, "kind": "revision", "revision": 1, "decision_id": "r1", "revises": body["decision_id"]}
    private, _ = key_files(folder)
    with closing(SqliteLedger(folder / "ledger.db", Signer.from_file(private))) as ledger:
        ledger.answer([ReceiptEntry(asked(MULE_RECORD), first, BASIS, FIGURES, EVIDENCE)])
        ledger.revise(body["decision_id"], {**revision, "because": "t0004570"})
    return LedgerDecisions(SqliteReads(folder / "ledger.db"), ["payments"])


@pytest.fixture
def seated(browser: Browser, console: Site) -> Iterator[Opened]:
    """Opens a page for somebody who is logged in, and looks afterwards whether its browser complained."""
    with watching(browser, console) as opened:

        def open_for(name: str = "ines.vale", path: str = "/queue?view=open", **more: object) -> Watched:
            at = opened(**more)
            at.log_in(name, path)
            return at

        yield open_for


def come(page: Page) -> None:
    """Wait until the parts that come later are there."""
    expect(page.locator(".sk")).to_have_count(0, timeout=LATE_MS)
    expect(page.locator("#changes[hx-get]")).to_have_count(0, timeout=LATE_MS)


def row_in_focus(page: Page) -> str | None:
    return page.locator("#cases .case.on").get_attribute("data-case")


def test_the_queue_is_walked_by_keys_alone(seated: Opened) -> None:
    page = seated().page
    first, second = (page.locator("#cases .case").nth(number).get_attribute("data-case") for number in (0, 1))
    assert row_in_focus(page) == first
    page.keyboard.press("j")
    assert row_in_focus(page) == second
    expect(page.locator("#preview .head")).to_contain_text(str(second))
    page.keyboard.press("k")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("X")
    expect(page.locator("#picked")).to_contain_text("3 selected")
    page.keyboard.press("Escape")
    expect(page.locator("#pick")).to_be_hidden()
    page.keyboard.press("f")
    expect(page.locator(".dropf")).to_be_visible()
    page.keyboard.press("k")  # focus is on the summary still, which is no field
    at = row_in_focus(page)
    page.keyboard.press("o")
    page.wait_for_url(f"**/cases/{at}?view=open")
    page.go_back()
    page.wait_for_url("**/queue?view=open")
    expect(page.locator("#cases .case.on")).to_have_attribute("data-case", str(at))
    expect(page.locator("#cases .case.on a")).to_be_focused()


def test_the_next_rows_come_before_they_are_reached(seated: Opened) -> None:
    page = seated().page
    expect(page.locator("#cases .case")).to_have_count(50)
    page.locator("#cases").evaluate("list => list.scrollTo(0, list.scrollHeight / 2)")
    expect(page.locator("#cases .case")).to_have_count(63)
    expect(page.locator("#more-rows")).to_have_count(0)


def test_many_are_resolved_and_it_is_undone(seated: Opened) -> None:
    page = seated(path="/queue?view=open&rule=merchant_turnover").page
    for _ in range(3):
        page.keyboard.press("x")
        page.keyboard.press("j")
    expect(page.locator("#picked")).to_contain_text("3 selected")
    page.keyboard.press("r")
    expect(page.locator("#ask")).to_contain_text("Resolve 3 cases")
    page.get_by_label("fraud", exact=True).check()
    page.get_by_role("button", name="Resolve 3").click()
    expect(page.get_by_text("3 cases resolved as fraud.")).to_be_visible()
    expect(page.locator("#cases .case")).to_have_count(9)
    page.keyboard.press("z")
    expect(page.get_by_text("Undone for 3 cases.")).to_be_visible()
    expect(page.locator("#cases .case")).to_have_count(12)


def test_assigning_keeps_the_place(seated: Opened) -> None:
    page = seated(path="/queue?view=open&rule=card_two_countries").page
    for _ in range(5):
        page.keyboard.press("j")
    at = row_in_focus(page)
    page.keyboard.press("a")
    expect(page.get_by_text(f"{at} assigned to you.")).to_be_visible()
    expect(page.locator("#cases .case.on")).to_have_attribute("data-case", str(at))
    expect(page.locator("#cases .case.on .av")).to_have_text("IV")
    page.keyboard.press("z")
    expect(page.get_by_text("Undone for 1 case.")).to_be_visible()


def test_new_cases_are_reported_and_nothing_moves(seated: Opened) -> None:
    page = seated().page
    page.evaluate("document.querySelector('#news').dataset.news = '/queue/news?view=open&seen=60'")
    page.evaluate("document.querySelector('#cases .case a').id = 'f-held'")
    page.locator("#f-held").focus()
    at, before = row_in_focus(page), page.locator("#cases .case").count()
    page.evaluate("document.dispatchEvent(new CustomEvent('crossline:event', {detail: {kind: 'case', body: {}}}))")
    expect(page.locator("#news")).to_contain_text("3 new cases above")
    expect(page.locator("#news-status")).to_contain_text("3 new cases above")
    assert (row_in_focus(page), page.locator("#cases .case").count()) == (at, before)
    assert page.evaluate("document.activeElement.id") == "f-held"  # it is announced, and does not move the focus
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press(".")
    page.wait_for_url("**seen=60")
    expect(page.locator("#cases .fresh-row")).to_have_count(3)


def test_every_width_holds_and_axe_finds_nothing(seated: Opened, axe: str) -> None:
    page = seated(reduced_motion="reduce").page
    origin = page.url.partition("/queue")[0]
    for path in ("/queue?view=open", "/queue?view=open&ask=resolve&case=C-2", MULE, f"{MULE}&ask=snooze", "/views"):
        page.goto(origin + path)
        come(page)
        found = [*faults(page, axe), *accessibility_faults(page)]
        assert page.locator("h1").count() == 1, path
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                found += looked_at(page)
        assert found == [], path


def test_the_window_is_drawn_to_the_width_that_is_there(seated: Opened) -> None:
    page = seated(path=MULE).page
    come(page)

    def widths() -> tuple[int, int]:
        drawn = page.locator(".draw svg").get_attribute("width")
        return int(str(drawn)), int(page.evaluate("document.querySelector('#measured').clientWidth")) - 32

    assert len(set(widths())) == 1
    page.set_viewport_size({"width": 1200, "height": 900})
    expect(page.locator("#evidence")).to_have_attribute("data-width", str(widths()[1]))
    assert len(set(widths())) == 1


def test_a_drawing_says_in_words_what_figures_and_table_say(seated: Opened) -> None:
    page = seated(path=MULE).page
    come(page)
    text = "Distinct count reaches 6 at 00:04:16.550; the threshold is 6."
    expect(page.get_by_role("img", name=text)).to_be_visible()
    expect(page.get_by_role("img", name="Twelve payments from 23:")).to_be_visible()
    expect(page.get_by_role("region", name="Records, 12").get_by_role("row")).to_have_count(1 + 12)
    expect(page.get_by_role("row", name="crosses the threshold")).to_contain_text("00:04:16.550")
    expect(page.locator(".fig")).to_contain_text("6 at least 6")


def test_a_dot_and_its_row_name_each_other(seated: Opened) -> None:
    page = seated(path=MULE).page
    come(page)
    page.locator(".draw .dot[data-record=t0005122]").first.hover(force=True)
    expect(page.locator("tr[data-record=t0005122]")).to_have_class("cross marked")


def test_a_receipt_is_read_on_its_case_copied_whole_and_holds(seated: Opened, console: Site) -> None:
    """What is copied is checked as docs/receipts.md says: the digest, and the signature over it."""
    page = seated(path=MULE, permissions=["clipboard-read", "clipboard-write"]).page
    beside = page.get_by_role("complementary")
    expect(beside).to_contain_text("answered by the API, peek")
    expect(beside).to_contain_text("revised by the stream, after t0004570")
    page.get_by_text("The whole receipt").click()
    page.keyboard.press("c")
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    receipt = json.loads(copied)
    assert receipt["decision"]["record_id"] == MULE_RECORD
    assert receipt["decision"]["decision"] == "allow"  # as it was answered then
    rests = {name: value for name, value in receipt.items() if name not in {"digest", "signature"}}
    canonical = json.dumps(rests, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = hashlib.sha256(canonical).hexdigest()
    assert receipt["digest"] == digest
    expect(beside).to_contain_text(f"{digest[:12]}…{digest[-4:]}")
    assert console.room is not None
    public = load_pem_public_key((console.room.folder / "signing.pub.pem").read_bytes())
    public.verify(base64.b64decode(receipt["signature"]), f"crossline receipt 1\n{digest}".encode())  # type: ignore[union-attr,call-arg]  # Ed25519


def test_the_documentation_has_its_pictures(browser: Browser, console: Site, tmp_path: Path) -> None:
    """They can be taken; with CROSSLINE_WRITE_PAGES=1 these are the ones that the documentation shows."""
    folder = DOCS if os.environ.get("CROSSLINE_WRITE_PAGES") else tmp_path
    take(browser, console.url, IN_DOCS, folder)
    for name, (_, size, _) in IN_DOCS.items():
        assert struct.unpack(">II", (folder / f"{name}.png").read_bytes()[16:24]) == size
    pages = "".join((DOCS / each).read_text() for each in ("../../README.md", "../console.md"))
    assert {each.stem for each in DOCS.glob("*.png")} == set(IN_DOCS)
    assert [name for name in IN_DOCS if f"pictures/{name}.png" not in pages] == []


def test_two_people_on_one_case(seated: Opened) -> None:
    ines, tomas = seated(path="/cases/C-7").page, seated("tomas.brandt", "/cases/C-7").page
    ines.reload()
    expect(ines.locator("#state")).to_contain_text("tomas.brandt")
    tomas.keyboard.press("r")
    tomas.get_by_label("good", exact=True).check()
    tomas.get_by_label("Reason").fill("a club's yearly fee")
    tomas.get_by_role("button", name="Resolve", exact=True).click()
    expect(tomas.get_by_text("C-7 resolved as good.")).to_be_visible()
    event = "{detail: {kind: 'case', body: {number: 'C-7'}}}"
    ines.evaluate(f"document.dispatchEvent(new CustomEvent('crossline:event', {event}))")
    expect(ines.locator("#state")).to_contain_text("tomas.brandt resolved this case at")
    expect(ines.locator(".acts button[disabled]")).to_have_count(4)


def test_all_of_it_works_without_script(seated: Opened) -> None:
    page = seated(java_script_enabled=False, path="/queue?view=open&rule=account_cash_out").page
    page.get_by_label("Select C-10", exact=True).check()
    page.get_by_role("button", name="Snooze").click()
    page.get_by_label("Until").select_option(index=0)
    page.get_by_role("button", name="Snooze", exact=True).click()
    expect(page.get_by_text("C-10 snoozed.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone for 1 case.")).to_be_visible()
    page.locator("#cases .case a").first.click()
    expect(page.get_by_role("heading", name="Decision")).to_be_visible()
    beside = page.locator("#evidence noscript a")
    if beside.count():  # else it was judged a moment ago, and stands there already
        page.goto(page.url.partition("/cases")[0] + str(beside.get_attribute("href")), timeout=LATE_MS)
    expect(page.get_by_role("heading", name="Records")).to_be_visible(timeout=LATE_MS)
