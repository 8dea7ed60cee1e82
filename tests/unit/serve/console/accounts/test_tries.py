"""How often passwords may be tried: by one from one place, by one from anywhere, from one place by anyone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crossline.serve.console.accounts.login_attempts import Tries
from crossline.serve.console.accounts.store import kept_in

MINUTE_MS = 60_000


def test_many_at_once_are_no_more_than_one_after_another(tmp_path: Path) -> None:
    tries = Tries(kept_in(tmp_path))
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda _: tries.take("ines.vale", "10.0.0.1", 0).made, range(16)))
    assert sum(made) == 5


def test_addresses_in_turn_are_bounded_too(tmp_path: Path) -> None:
    tries = Tries(kept_in(tmp_path))
    assert [tries.take("ines.vale", f"10.0.0.{peer}", 0).made for peer in range(60)].count(True) == 50
    assert tries.take("tomas.brandt", "10.0.0.1", 0).made


def test_names_in_turn_are_bounded_too(tmp_path: Path) -> None:
    tries = Tries(kept_in(tmp_path))
    assert [tries.take(f"user{number}", "10.0.0.1", 0).made for number in range(40)].count(True) == 30
    assert tries.take("user0", "10.0.0.2", 0).made


def test_right_passwords_of_an_office_lock_nobody_out(tmp_path: Path) -> None:
    tries = Tries(kept_in(tmp_path))
    for number in range(100):
        assert tries.take(f"user{number % 50}", "10.0.0.1", number).made
        tries.right(f"user{number % 50}", "10.0.0.1")


def test_the_wait_counts_from_the_last_try_and_outlives_the_server(tmp_path: Path) -> None:
    tries = Tries(kept_in(tmp_path))
    for minute in range(5):
        assert tries.take("ines.vale", "10.0.0.1", minute * MINUTE_MS).left == 4 - minute
    again = Tries(kept_in(tmp_path))
    refused = again.take("ines.vale", "10.0.0.1", 10 * MINUTE_MS)
    assert (refused.made, refused.until_ms) == (False, 19 * MINUTE_MS)
    assert not again.take("ines.vale", "10.0.0.1", 19 * MINUTE_MS - 1).made
    assert again.take("ines.vale", "10.0.0.1", 19 * MINUTE_MS).made
