"""After its summary the demo goes on with more payments, the console beside them, until it is interrupted."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from crossline.cli.demo import live_traffic
from crossline.cli.demo.accounts import new_password
from crossline.cli.demo.command import _lay_out
from crossline.runtime.pipeline.assemble import read_config
from crossline.serve.console.accounts.users import UserFile
from crossline.settings.config import in_folder

PEOPLE_SHOWN = (["ines.vale"], ["oda.lind"])


class Interrupted:
    """A run that Ctrl-C reaches, and that ends by itself after it."""

    commands: list[list[str]]

    def __init__(self, command: list[str]) -> None:
        self.commands.append(command)
        self._waits = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        assert self._waits == 2, "it is waited for after Ctrl-C too"

    def poll(self) -> int | None:
        return 0 if self._waits == 2 else None

    def wait(self) -> int:
        self._waits += 1
        if self._waits == 1:
            raise KeyboardInterrupt
        return 0


def test_the_same_pipeline_has_more_payments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    folder = tmp_path / "demo"
    _lay_out(folder, 8_000, 1_000)
    config = in_folder(read_config(str(folder / "pipeline.yaml")), str(folder))
    assert config.serve is not None
    Interrupted.commands = []
    started = Path(config.engine.checkpoint) / "sources/payments/started.json"
    started.parent.mkdir(parents=True)
    started.write_text('{"started_ms": 1, "chunk_records": 500}')
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    live_traffic.go_on(config, folder, 8_000)
    monkeypatch.undo()
    kept = (folder / "in/payments.jsonl").read_bytes().splitlines()  # what a rule can be tried on
    assert (len(kept), json.loads(kept[-1])["transaction_id"]) == (8_000, "t0007999")
    ((_, *command),) = Interrupted.commands
    assert command == ["-m", "crossline.cli.main", "run", str(folder / "pipeline.yaml"), "--serve"]
    after = read_config(str(folder / "pipeline.yaml"))
    assert after.watch is not None
    assert after.slo is not None, "the pages of the pipeline and of its objectives have something to show"
    source = after.sources["payments"].model_dump()
    before = config.sources["payments"].model_dump()["base_ms"]
    assert (source["records"], source["pace_per_s"], source["base_ms"]) == (10**9, 20, before)
    # Payment n is of n / 20 s after the first, and comes then.
    assert json.loads(started.read_text()) == {"started_ms": before, "chunk_records": 500}
    assert after.serve is not None
    assert after.serve.cases.money is not None
    found = capfd.readouterr().err
    assert f"http://{config.serve.place}/" in found
    _two_people(Path(config.serve.users), found, open_=after.serve.open)


def _two_people(users: Path, text: str, *, open_: bool) -> None:
    """Both log in with what was shown, and neither may write a rule and approve it too."""
    assert not open_, "without users there is no second person"
    file = UserFile(users)
    shown = {words[0]: words[1] for line in text.splitlines() if (words := line.split())[:1] in PEOPLE_SHOWN}
    scopes = {}
    for name, password in shown.items():
        user = file.find(name)
        assert user is not None
        assert file.passwords.fits(user.password, password)
        assert password.encode() not in users.read_bytes()
        scopes[name] = user.scopes & {"rules:draft", "rules:approve"}
    assert scopes == {"ines.vale": {"rules:draft"}, "oda.lind": {"rules:approve"}}


def test_passwords_of_two_demos_differ() -> None:
    made = {new_password() for _ in range(20)}
    assert len(made) == 20
    assert all(re.fullmatch(r"([a-z2-9]{4}-){3}[a-z2-9]{4}", each) for each in made)
