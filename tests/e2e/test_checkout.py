"""examples/checkout as it stands: pipeline and API in one process, the shop in another, and the lines of its page."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from dev.services.supervision import free_ports

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkout"
START_S_MAX = 300.0
CROSSLINE = [sys.executable, "-m", "crossline.cli.main"]


def can_serve() -> bool:
    found = subprocess.run([*CROSSLINE, "run", "--help"], capture_output=True, text=True, check=True).stdout
    return "--serve" in found


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[str]:
    """The address of the example's API, once it answers."""
    if not can_serve():
        pytest.skip("`crossline run` has no --serve yet")
    folder, (port,) = tmp_path / "checkout", free_ports()
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("out", "in", "__pycache__"))
    settings = (folder / "pipeline.yaml").read_text()
    assert settings.count("127.0.0.1:8080") == 1
    (folder / "pipeline.yaml").write_text(settings.replace("127.0.0.1:8080", f"127.0.0.1:{port}\n  behind_max: 20s"))
    url, log = f"http://127.0.0.1:{port}", tmp_path / "run.log"
    with log.open("wb") as out:
        running = subprocess.Popen(
            [*CROSSLINE, "run", str(folder / "pipeline.yaml"), "--serve"], stdout=out, stderr=out
        )
    try:
        await_ready(url, running, log)
        assert f"127.0.0.1:{port}" in log.read_text()
        yield url
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.wait(60)
        finally:
            running.kill()


def await_ready(url: str, running: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline_s and running.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(f"{url}/readyz", timeout=10, trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail(f"it does not answer:\n{log.read_text()[-3_000:]}")


def shop_asks(serving: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CROSSLINE_KEY"}
    shop = [sys.executable, str(EXAMPLE / "shop.py"), "--url", serving, "--timeout", "20"]
    done = subprocess.run(shop, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    paid = [line.split()[3] for line in done.stdout.splitlines() if " EUR  " in line]
    # Ann, four times Bob, twice Cleo, twice Dan; then Dan, who was released.
    assert paid == ["allow", *["allow"] * 3, "step_up", "allow", "review", "block", "block", "allow"]
    assert "released: called back, it was him" in done.stdout


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "answer-a-payment.md"
HERE = "127.0.0.1:8080"


def curl_lines() -> list[str]:
    """As they stand on the page: one begins with its name, or waits for it, and goes on until the quotes are closed."""
    commands: list[str] = []
    for block in re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if commands and commands[-1].count("'") % 2:
                commands[-1] += f"\n{line}"
            elif line.startswith(("curl ", "until curl ")):
                commands.append(line)
    return commands


def asked(command: str, url: str) -> Any:
    """What a shell prints for the command, its address in the place of the page's."""
    assert command.count(HERE) == 1, command
    found = subprocess.run(
        ["sh", "-c", command.replace(HERE, url.removeprefix("http://"))], capture_output=True, text=True, check=True
    )
    return json.loads(found.stdout)


def curl_asks(serving: str) -> None:
    ready, decide, *reads = curl_lines()
    assert asked(ready, serving)["ok"] is True
    # The example's time is for a machine that does nothing else.
    assert decide.count("timeout_ms=250") == 1
    body = asked(decide.replace("timeout_ms=250", "timeout_ms=20000"), serving)
    (shown,) = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    content = json.loads(shown)
    # What stands on the page beside it: the same names, and the same values of what the payment alone decides.
    assert body.keys() == content.keys()
    assert [each.keys() for each in body["reasons"]] == [each.keys() for each in content["reasons"]]
    assert {name: each.keys() for name, each in body["figures"].items()} == {
        name: each.keys() for name, each in content["figures"].items()
    }
    assert body["as_of"].keys() == content["as_of"].keys()
    same = ("stream", "record_id", "decision", "score", "answered", "degraded", "policy_version", "schema_version")
    assert {name: body[name] for name in same} == {name: content[name] for name in same}
    assert [{**each, "alert_id": ""} for each in body["reasons"]] == [
        {**each, "alert_id": ""} for each in content["reasons"]
    ]
    assert asked(decide, serving) == body
    decisions, alerts, entity, rules = [asked(each, serving) for each in reads]
    assert [each["decision_id"] for each in decisions["items"]] == [body["decision_id"]]
    assert [each["key"] for each in alerts["items"]] in ([], [{"account_id": "eve"}])  # once its batch is through
    assert entity["field"] == "account_id"
    assert [each["rule_id"] for each in rules["items"]] == ["account_burst", "account_spend", "dear_without_cvv"]


def test_what_the_page_reports_to_do_works(serving: str) -> None:
    """In its order, over one pipeline: curl, then the shop, which does what is decided."""
    if shutil.which("curl") is not None:  # few machines have none
        curl_asks(serving)
    shop_asks(serving)
