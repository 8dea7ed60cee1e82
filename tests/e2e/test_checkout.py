"""examples/checkout as it stands: the pipeline and its API in one process, the shop in another."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from crossline.services.guarded import free_ports

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkout"
START_S_MAX = 300.0
CROSSLINE = [sys.executable, "-m", "crossline.cli.main"]


def can_serve() -> bool:
    said = subprocess.run([*CROSSLINE, "run", "--help"], capture_output=True, text=True, check=True).stdout
    return "--serve" in said


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


def test_the_shop_asks_and_does_what_is_decided(serving: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "CROSSLINE_KEY"}
    shop = [sys.executable, str(EXAMPLE / "shop.py"), "--url", serving, "--timeout", "20"]
    done = subprocess.run(shop, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    paid = [line.split()[3] for line in done.stdout.splitlines() if " EUR  " in line]
    # Ann, four times Bob, twice Cleo, twice Dan; then Dan, who was released.
    assert paid == ["allow", *["allow"] * 3, "step_up", "allow", "review", "block", "block", "allow"]
    assert "released: called back, it was him" in done.stdout
