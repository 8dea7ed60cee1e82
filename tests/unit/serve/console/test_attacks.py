"""Attempts to get in without a right, or to act with the rights of another user."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import pytest

from crossline.settings.process.serve import LimitSettings

from .kit import HERE, HOST, PASSWORD, room

MINUTE_MS = 60_000


def test_no_page_without_a_session(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seat()
        for path in ("/", "/audit", "/people", "/profile", "/events", "/nothing", "/decisions/x"):
            answer = seat.get(path)
            assert (answer.status_code, answer.headers["location"]) == (303, f"/login?next={path}"), path
        assert (
            seat.get("/audit", {"HX-Request": "true", "HX-Current-URL": f"http://{HOST}/audit?who=x"}).headers[
                "hx-redirect"
            ]
            == "/login?next=/audit%3Fwho%3Dx"
        )
        for path in ("/profile", "/people/ines.vale/roles", "/logout"):
            assert seat.post(path, {"token": "x"}).headers["location"] == "/login?next=/"
        for cookie in ("", "x", "a" * 43, "'; DROP TABLE sessions --", "\u00e4" * 43):
            seat.cookies = {"crossline": cookie}
            asked = {"Cookie": f"crossline={cookie}".encode()}
            assert seat.get("/profile", asked).status_code == 303  # type: ignore[dict-item] - bytes, as a socket has them


def test_an_id_that_was_there_before_the_log_in_is_worth_nothing(tmp_path: Path) -> None:
    """Session fixation: a cookie set in a browser before the log-in is worthless afterwards."""
    with room(tmp_path) as at:
        at.user("ines.vale")
        seat = at.seat()
        seat.cookies = {"crossline": "A" * 43}
        assert seat.log_in("ines.vale").status_code == 303
        first = seat.cookies["crossline"]
        assert first != "A" * 43
        assert at.seat(cookies={"crossline": "A" * 43}).get("/profile").status_code == 303
        assert seat.log_in("ines.vale").status_code == 303
        assert seat.cookies["crossline"] != first
        assert at.seat(cookies={"crossline": first}).get("/profile").status_code == 303  # its id ended with the new one


def test_the_cookie_goes_to_no_other_site(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("ines.vale")
        line = next(each for each in seat.set_cookies if each.startswith("crossline="))
        assert {part.strip() for part in line.split(";")[1:]} == {"HttpOnly", "Path=/", "SameSite=strict"} or {
            part.strip() for part in line.split(";")[1:]
        } == {"HttpOnly", "Path=/", "SameSite=Strict"}
        kept = (at.folder / "serve/console.db").read_bytes()
        assert seat.cookies["crossline"].encode() not in kept
        assert hashlib.sha256(seat.cookies["crossline"].encode()).digest() in kept
        assert (at.folder / "serve/console.db").stat().st_mode & 0o777 == 0o600
        assert (at.folder / "users.db").stat().st_mode & 0o777 == 0o600
        assert PASSWORD.encode() not in (at.folder / "users.db").read_bytes()


def test_a_form_of_another_session_does_nothing(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        ines, olga = at.seated("ines.vale"), at.seated("olga.ops", "operator")
        stolen = ines.token()
        for token in ({}, {"token": stolen}, {"token": ""}, {"token": "\u00e4"}, {"token": olga.cookies["crossline"]}):
            answer = olga.post("/people/ines.vale/disable", token)
            assert answer.status_code == 403, token
        assert olga.post("/people/ines.vale/disable", {}, {"X-Crossline-Token": stolen}).status_code == 403
        assert at.parts.users.find("ines.vale").disabled_ms is None  # type: ignore[union-attr]
        assert olga.post("/people/ines.vale/disable", {}, {"X-Crossline-Token": olga.token()}).status_code == 303
        assert at.parts.users.find("ines.vale").disabled_ms is not None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null"},
        {"Origin": f"http://{HOST}.evil.example"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": f"http://{HOST}", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {},
    ],
)
def test_a_page_of_another_origin_has_no_effect(tmp_path: Path, sent: dict[str, str]) -> None:
    """Also where it has the token: it may have been shown on a screen."""
    with room(tmp_path) as at:
        seat = at.seated("olga.ops", "operator")
        token = seat.token()
        answer = seat.ask("POST", "/profile", sent, data={"theme": "dark", "token": token})
        assert answer.status_code == 403
        assert at.parts.preferences.of("olga.ops").theme == "system"
        at.user("ines.vale")
        other = at.seat().ask("POST", "/login", sent, data={"user": "ines.vale", "password": PASSWORD})
        assert other.status_code == 403


def test_a_session_ends_by_itself(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("ines.vale")
        at.clock.now_ms += 30 * MINUTE_MS - 1
        assert seat.get("/profile").status_code == 200  # used: it goes on
        at.clock.now_ms += 30 * MINUTE_MS - 1
        assert seat.get("/events").status_code == 409  # a tab that is open, which is no use of it
        at.clock.now_ms += 1
        answer = seat.get("/profile?x=1")
        assert answer.headers["location"] == "/login?next=/profile%3Fx%3D1&over=1"
        assert "You were logged out after 30 minutes without use" in seat.get(answer.headers["location"]).text
        assert seat.log_in("ines.vale").status_code == 303
        for _ in range(29):  # 12 hours but 25 minutes, always used
            at.clock.now_ms += 24 * MINUTE_MS
            assert seat.get("/profile").status_code == 200
        at.clock.now_ms += 24 * MINUTE_MS
        assert seat.get("/profile").status_code == 303


def test_a_session_outlives_the_server(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        cookies = at.seated("ines.vale").cookies
    (tmp_path / "serve").rename(tmp_path / "kept")
    (tmp_path / "again").mkdir()
    with room(tmp_path / "again", users=str(tmp_path / "users.db")) as at:
        at.parts.sessions._kept.path.write_bytes((tmp_path / "kept/console.db").read_bytes())
        assert at.seat(cookies=cookies).get("/profile").status_code == 200


def test_who_is_disabled_or_has_another_password_is_out_at_once(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        one, other = at.seated("ines.vale"), at.seat()
        assert other.log_in("ines.vale").status_code == 303
        at.clock.now_ms += 1
        at.parts.users.set_password("ines.vale", "another long password", now_ms=at.clock.now_ms)
        assert [each.get("/profile").status_code for each in (one, other)] == [303, 303]
        assert other.log_in("ines.vale", "another long password").status_code == 303
        at.parts.users.disable("ines.vale", now_ms=at.clock.now_ms)
        assert other.get("/profile").status_code == 303
        assert other.log_in("ines.vale", "another long password").status_code == 422


def test_roles_hold_from_the_next_request_on(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("ines.vale")
        assert seat.get("/audit").status_code == 403
        at.parts.users.set_roles("ines.vale", ["operator"])
        assert seat.get("/audit").status_code == 200


def test_log_out_ends_the_session_and_not_the_cookie_alone(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("ines.vale")
        kept = dict(seat.cookies)
        assert seat.act("/logout").headers["location"] == "/login"
        assert "crossline" not in seat.cookies
        assert at.seat(cookies=kept).get("/profile").status_code == 303
        one, other = at.seat(), at.seat()
        for each in (one, other):
            assert each.log_in("ines.vale").status_code == 303
        assert one.act("/logout/everywhere").status_code == 303
        assert other.get("/profile").status_code == 303


def test_passwords_are_tried_five_times(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        at.user("ines.vale")
        seat = at.seat()
        for left in ("4 tries are left", "3 tries are left", "2 tries are left", "1 try is left"):
            answer = seat.log_in("ines.vale", "wrong password")
            assert answer.status_code == 422
            assert f"The user or the password is not right. {left}, then you wait 15 minutes." in answer.text
        assert "You can try again at 06:19:16 UTC" in seat.log_in("ines.vale", "wrong password").text
        for password in ("wrong password", PASSWORD):  # the right one opens nothing now
            answer = seat.log_in("ines.vale", password)
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "900")
        assert at.seat(peer="127.0.0.2").log_in("ines.vale").status_code == 303  # a stranger locks no user out
        at.clock.now_ms += 15 * MINUTE_MS
        assert seat.log_in("ines.vale").status_code == 303


def test_a_name_that_is_nobodys_is_answered_as_any_other_and_is_not_logged(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        at.user("ines.vale")
        known, unknown = (at.seat().log_in(name, "wrong password") for name in ("ines.vale", "my secret password"))
        assert known.text.replace("ines.vale", "") == unknown.text.replace("my secret password", "")
        assert (known.status_code, unknown.status_code) == (422, 422)
        assert "my secret password" not in at.parts.audit.path.read_text()
        assert [each["principal"] for each in at.audited() if each["outcome"] == "begun"] == ["ines.vale", "nobody"]


@pytest.mark.parametrize(
    "evil",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "\\/evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "/login",
        "/audit\r\nSet-Cookie: crossline=x",
        "/logout",
        " //evil.example",
        "/" + "a" * 3_000,
        "evil.example",
        "",
    ],
)
def test_no_redirect_to_another_site_after_the_log_in(tmp_path: Path, evil: str) -> None:
    with room(tmp_path) as at:
        at.user("ines.vale")
        seat = at.seat()
        answer = seat.log_in("ines.vale", next=evil)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert sum(line.startswith("crossline=") for line in seat.set_cookies) == 1
        assert seat.ask("GET", "/login", params={"next": evil}).headers["location"] == "/"


def test_what_is_sent_is_shown_as_text(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        sign = "<script>alert(1)</script>\"'"
        answer = at.seat().log_in(sign, "wrong password", next=f"/{sign}")
        assert "<script>" not in answer.text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;" in answer.text
        seat = at.seated("olga.ops", "operator")
        for path in (f"/audit?who={sign}", f"/people?user={sign}", f"/{sign}", f"/audit?outcome={sign}"):
            assert "<script>alert" not in seat.get(path).text, path


def test_paths_and_heads_of_any_kind_lead_nowhere(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("olga.ops", "operator")
        for path in (
            "/assets/../app.py",
            "/assets/x/console.css",
            f"{at.console._assets.prefix}../app.py",
            f"{at.console._assets.prefix}manifest.json",
            f"{at.console._assets.prefix}%2e%2e/manifest.json",
            "/audit/..%2f..%2fetc/passwd",
            "/people/%00/roles",
        ):
            assert seat.get(path).status_code == 404, path
        for sent in ({"Content-Length": "-1"}, {"Transfer-Encoding": "gzip"}):
            assert seat.ask("POST", "/profile", {**HERE, **sent}).status_code == 400
        two = f"crossline={seat.cookies['crossline']}; crossline={'B' * 43}"
        assert seat.get("/profile", {"Cookie": two}).status_code == 303  # one of both is not ours


def test_a_body_is_bounded_and_is_a_form(tmp_path: Path) -> None:
    with room(tmp_path, limits=LimitSettings(body_max=2_000)) as at:
        seat = at.seated("ines.vale")
        assert seat.post("/profile", {"zone": "x" * 3_000}).status_code == 413
        assert (
            seat.ask("POST", "/profile", {**HERE, "Content-Type": "application/json"}, content=b"{}").status_code == 422
        )
        broken = {**HERE, "Content-Type": "multipart/form-data"}
        assert seat.ask("POST", "/profile", broken, content=b"--x").status_code == 400


def test_limits_are_those_of_the_api(tmp_path: Path) -> None:
    with room(tmp_path, limits=LimitSettings(per_s=1, burst=8)) as at:
        seat = at.seated("ines.vale")
        found = [seat.get("/profile") for _ in range(10)]
        assert [each.status_code for each in found[:8]] == [200] * 8
        assert found[-1].status_code == 429
        assert int(found[-1].headers["retry-after"]) >= 1
        assert at.seat(peer="127.0.0.9").get("/login").status_code == 200


def test_the_open_demonstration_answers_this_machine_alone(tmp_path: Path) -> None:
    with room(tmp_path, open_=True) as at:
        seat = at.seat()
        assert seat.get("/components").status_code == 200
        assert seat.get("/people").status_code == 403  # an anonymous user is no admin
        assert at.seat(host="evil.example").get("/components").status_code == 403
        assert at.seat(host="127.0.0.1.evil.example:8080").get("/components").status_code == 403
        assert seat.post("/profile", {"theme": "dark"}).status_code == 403  # no token
        assert seat.act("/profile", {"theme": "dark"}).status_code == 303
        assert at.seat().ask("POST", "/profile", {"Origin": "http://localhost:1"}).status_code == 403


def test_a_file_that_others_can_write_opens_nothing(tmp_path: Path) -> None:
    with room(tmp_path) as at:
        seat = at.seated("ines.vale")
        (tmp_path / "users.db").chmod(0o644)
        answer = seat.get("/profile")
        assert answer.status_code == 500
        assert "users.db" not in answer.text  # the log says which
        with sqlite3.connect(tmp_path / "users.db") as db:
            assert db.execute("SELECT count(*) FROM users").fetchone() == (1,)
