"""Lists: which there are and who reads them; entries are put in and ended, with a reason, by who may."""

from __future__ import annotations

import re
from pathlib import Path

from .working import seat, working

RULE = """\
rule_id: watched
version: 1
rule_type: threshold
source_topic: payments
conditions: [{field: account_id, operator: in, value: {list: accounts}}]
"""


def test_lists_say_who_reads_them_and_find_an_entry(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        vera = seat(at, "vera.lux")
        page = vera.get("/lists").text
        assert re.search(r'href="/lists/accounts">accounts</a></td><td class="num">2<', page)  # a9's time is over
        found = vera.get("/lists?entry=a1").text
        assert found.count("<b>yes</b>") == 1
        assert 'href="/lists/cards?value=a1"' in found
        page = vera.get("/lists/accounts").text
        assert "no rule in force reads it" in page
        assert "needs the scope write:lists, which vera.lux has not" in page
        assert "a9</td><td>" in page
        assert ", over" in page
        assert vera.get("/lists/acounts").status_code == 404


def test_entries_are_put_in_and_ended_with_a_reason(tmp_path: Path) -> None:
    with working(tmp_path) as at:
        olga, file = seat(at, "olga.ops"), at.folder / "lists/accounts.yaml"
        form = {"value": "a<7>", "until": "2026-01-06T08:00", "reason": "asked for by the bank"}
        refused = olga.act("/lists/accounts/put", {**form, "reason": ""})
        assert refused.status_code == 422
        assert 'value="a&lt;7&gt;"' in refused.text  # what was typed is kept
        assert "a<7>" not in file.read_text()
        assert olga.act("/lists/accounts/put", form).status_code == 303
        assert "2026-01-06T08:00:00" in file.read_text()
        assert "stands in accounts until 2026-01-06 08:00 UTC" in olga.get("/lists/accounts").text
        assert olga.act("/lists/accounts/put", {**form, "until": ""}).status_code == 303  # another end
        assert "2026-01-06" not in file.read_text()
        page = olga.get("/lists/accounts?end=a%3C7%3E").text
        etag = re.search(r'name="etag" value="([^"]+)"', page)
        assert etag is not None
        gone = {"value": "a<7>", "etag": etag[1].replace("&#34;", '"'), "reason": "it was a mistake"}
        assert olga.act("/lists/accounts/end", {**gone, "etag": '"x"'}).status_code == 412
        assert olga.act("/lists/accounts/end", gone).status_code == 303
        assert "a<7>" not in file.read_text()
        assert olga.act("/lists/accounts/put", {**form, "until": "2020-01-01T00:00"}).status_code == 422
        assert seat(at, "ines.vale").act("/lists/accounts/put", form).status_code == 403
        caption = [each for each in at.audited() if each.get("resource") == "/lists/accounts/end"]
        assert [each["principal"] for each in caption] == ["olga.ops", "olga.ops"]
