"""Lines of the log have the ids of the run and of what is being done."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest
import structlog

from crossline import logs
from crossline.cli.logs import LogFormat, configure
from crossline.logs import get_logger, of_run, of_work


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(logs, "_of_run", {})
    yield
    structlog.reset_defaults()


def test_ids(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogFormat.JSON)
    log = get_logger("x")
    log.warning("before")
    of_run(pipeline="p")
    with of_work(batch_id=7):
        log.warning("within", alert_ids=["a"])
        with of_work(batch_id=8, stream="s"):
            log.warning("deeper")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(copy_context().run, log.warning, "of a sink").result()
        other = threading.Thread(target=log.warning, args=("of nobody",))
        other.start()
        other.join()
        log.warning("its own", batch_id=9)
    log.warning("after")
    found = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    ids = [(each["event"], each.get("pipeline"), each.get("batch_id")) for each in found]
    assert ids == [
        ("before", None, None),
        ("within", "p", 7),
        ("deeper", "p", 8),
        ("of a sink", "p", 7),
        ("of nobody", "p", None),
        ("its own", "p", 9),
        ("after", "p", None),
    ]
    assert (found[1]["alert_ids"], found[1]["level"], found[2]["stream"]) == (["a"], "warning", "s")
    assert all("timestamp" in each for each in found)


def test_text_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogFormat.TEXT)
    get_logger("x").warning("said", id="a\x1b[31m")
    found = capsys.readouterr().err
    assert "said" in found
    assert "\x1b" not in found
    configure()
    get_logger("x").warning("said")
    assert json.loads(capsys.readouterr().err)["event"] == "said", "it is no terminal"
