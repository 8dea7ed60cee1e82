"""People: who may log in with which roles; nobody changes himself."""

from __future__ import annotations

from pathlib import Path

from ..kit import room  # noqa: TID252 - the kit of the console's tests


def test_roles_are_set_and_users_disabled_by_another_person(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        ines, olga = at.seated("ines.vale"), at.seated("olga.ops", "operator")
        assert 'Change<span class="vh"> ines.vale</span>' in olga.get("/people").text
        assert 'Change<span class="vh"> olga.ops</span>' not in olga.get("/people").text
        answer = olga.act("/people/ines.vale/roles", {"role": ["viewer", "approver"]})
        assert answer.headers["location"] == "/people"
        assert "ines.vale is viewer, approver from now on." in olga.get("/people").text
        assert "from now on." not in olga.get("/people").text  # it is shown once
        assert "viewer, approver" in ines.get("/profile").text
        assert olga.act("/people/ines.vale/disable").status_code == 303
        page = olga.get("/people").text
        assert "ines.vale is disabled and logged out everywhere." in page
        assert 'action="/people/ines.vale/enable"' in page
        assert ines.get("/profile").status_code == 303
        assert olga.act("/people/ines.vale/enable").status_code == 303
        assert ines.log_in("ines.vale").status_code == 303


def test_what_cannot_be_changes_nothing(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        at.user("ines.vale")
        olga = at.seated("olga.ops", "operator")
        for path, form, status in (
            ("/people/olga.ops/roles", {"role": "viewer"}, 409),
            ("/people/olga.ops/disable", {}, 409),
            ("/people/nobody.here/disable", {}, 404),
            ("/people/ines.vale/roles", {"role": "root"}, 400),
            ("/people/ines.vale/roles", {}, 400),
        ):
            assert olga.act(path, form).status_code == status, path
        assert [each.roles for each in at.parts.users.listed()] == [("analyst",), ("operator",)]
        ines = at.seat()
        assert ines.log_in("ines.vale").status_code == 303
        assert ines.get("/people").status_code == 403
        assert ines.act("/people/olga.ops/disable").status_code == 403
        assert "People" not in ines.get("/profile").text  # what a role may not see is absent


def test_a_notice_for_another_user_is_not_shown(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        at.user("ines.vale")
        olga, other = at.seated("olga.ops", "operator"), at.seated("mary", "operator")
        olga.act("/people/ines.vale/enable")
        other.cookies["crossline-notice"] = olga.cookies["crossline-notice"]
        assert "may log in again." not in other.get("/people").text
        assert "may log in again." in olga.get("/people").text


def test_what_was_done_is_not_taken_by_a_script_that_reads_a_page_anew(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        at.user("ines.vale")
        olga = at.seated("olga.ops", "operator")
        olga.act("/people/ines.vale/enable")
        for header in ({"Sec-Fetch-Mode": "cors"}, {"HX-Request": "true"}):
            assert "may log in again." not in olga.get("/people", headers=header).text
        assert "may log in again." in olga.get("/people", headers={"Sec-Fetch-Mode": "navigate"}).text
