"""The profile: what a person prefers holds on every page, from then on."""

from __future__ import annotations

from pathlib import Path

from ..kit import room  # noqa: TID252 - the kit of the console's tests


def test_a_setting_holds_on_every_page_and_for_no_other_user(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        ines, olga = at.seated("ines.vale"), at.seated("olga.ops", "operator")
        chosen = {"theme": "dark", "density": "compact", "zone": "Asia/Kolkata", "keys": "off"}
        assert ines.act("/profile", chosen).status_code == 303
        page = ines.get("/profile").text
        for caption in ('data-theme="dark"', 'data-density="compact"', 'data-keys="off"', 'data-zone="Asia/Kolkata"'):
            assert caption in page
        # 12 hours after the log-in at 06:04:16 UTC, which is 23:34:16 in a zone of +05:30.
        assert ">23:34:16</time>" in page
        assert "23:34:16.550 Asia/Kolkata (+05:30), 2026-11-24T18:04:16.550Z" in page
        assert 'data-density="comfortable"' in olga.get("/profile").text


def test_what_is_no_choice_is_refused_where_it_stands(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("ines.vale")
        for form in ({"theme": "pink"}, {"zone": "Mars/Olympus"}, {"zone": "../etc/passwd"}, {"keys": ""}):
            assert seat.act("/profile", form).status_code == 422, form
        assert 'data-density="comfortable"' in seat.get("/profile").text
