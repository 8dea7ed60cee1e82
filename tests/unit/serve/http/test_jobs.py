"""Jobs: rules tried and files judged in processes of their own, which end on request, or with the server."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.serve.http.kit import NOW_MS, Client, detail, example

from crossline.basics.errors import RetryableError
from crossline.serve.http import commands, jobs
from crossline.serve.http.jobs import Jobs


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (example() / "in/2026-01-05.jsonl").read_text().splitlines()]


def done(client: Client, job_id: str) -> dict[str, Any]:
    """The job, once it is over."""
    held = next(each for each in _jobs(client)._jobs.values() if each.job_id == job_id)
    client.runner.run(held.over.wait())
    body: dict[str, Any] = client.get(f"/v1/jobs/{job_id}").json()
    return body


def _jobs(client: Client) -> Jobs:
    found: Jobs = client.app.state.jobs
    return found


def test_rules_are_tried_on_a_sample(reading: Client) -> None:
    """The example's transfer of more than 1,000.00 is the one alert that its run has of the rule."""
    (alert,) = reading.get("/v1/alerts?rule_id=large_payment").json()["items"]
    text = (example() / "rules/large_payment.yaml").read_text()
    answer = reading.post("/v1/rules:test", json={"rules": {"text": text}, "records": {"payments": records()}})
    assert (answer.status_code, answer.headers["location"]) == (202, f"/v1/jobs/{answer.json()['job_id']}")
    body = done(reading, answer.json()["job_id"])
    assert (body["state"], body["error"], body["progress"]["share"]) == ("done", None, 1.0)
    assert (body["result"]["rule_id"], body["result"]["alerts"]) == ("large_payment", 1)
    assert body["result"]["first"][0]["record_id"] == alert["record_id"]
    assert "found no job" in detail(reading.get(answer.headers["location"], headers={"x-who": "tom"}), 404)
    (listed,) = reading.get("/v1/jobs").json()["items"]
    assert (listed["state"], listed["result"]) == ("done", None)
    assert not list((_jobs(reading)._folder).glob("*")), "what it wrote is gone"


def test_files_are_judged(reading: Client) -> None:
    text = (example() / "rules/large_payment.yaml").read_text().replace("100000", "1")
    wanted = {"compare": {"text": text}, "inputs": {"payments": ["in/*.jsonl"]}}
    body = done(reading, reading.post("/v1/rules:backtest", json=wanted).json()["job_id"])
    assert body["state"] == "done", body
    assert body["result"]["alerts"] == {"card_testing": 1, "large_payment": 1, "spending": 1}
    assert "output" not in body["result"]
    body = done(reading, reading.post("/v1/rules:backtest", json={}).json()["job_id"])
    assert body["result"]["records"] == 24, "the files of its source"


def test_the_first_records_of_a_source_are_a_sample(reading: Client) -> None:
    """Of the example's 24 payments the first five have no transfer over 1,000.00."""
    text = (example() / "rules/large_payment.yaml").read_text()
    for count, alerts in ((5, 0), (24, 1), (20_000, 1)):
        wanted = {"rules": {"text": text}, "first": {"payments": count}}
        body = done(reading, reading.post("/v1/rules:test", json=wanted).json()["job_id"])
        assert (body["state"], body["result"]["alerts"]) == ("done", alerts)
    refused = reading.post("/v1/rules:test", json={"rules": {"text": text}})
    assert "records by stream" in refused.json()["errors"][0]["expected"]


def test_the_thresholds_around_that_of_a_rule_are_judged(reading: Client) -> None:
    """One account makes five small card payments within a minute, so six are never reached."""
    text = (example() / "rules/card_testing.yaml").read_text()
    wanted = {"rules": {"text": text}, "rule_id": "card_testing", "steps": 2, "also": [9]}
    body = done(reading, reading.post("/v1/rules:thresholds", json=wanted).json()["job_id"])
    assert body["state"] == "done", body
    found = [(each["threshold"], each["alerts"]) for each in body["result"]["judged"]]
    assert found == [(3, 1), (4, 1), (5, 1), (6, 0), (7, 0), (9, 0)]
    assert body["result"]["present"]["threshold"] == 5


def test_a_job_that_fails_says_why(reading: Client) -> None:
    text = (example() / "rules/large_payment.yaml").read_text().replace("amount_cents", "amount")
    body = done(reading, reading.post("/v1/rules:backtest", json={"rules": {"text": text}}).json()["job_id"])
    assert (body["state"], body["result"]) == ("failed", None)
    assert body["error"].startswith("2 problems in rules.yaml\n")
    assert "did you mean amount_cents?" in body["error"]


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (":backtest", {"inputs": {"payments": ["../*.jsonl"]}}, "below the pipeline's folder"),
        (":backtest", {"inputs": {"payments": ["/etc/passwd"]}}, "below the pipeline's folder"),
        (":backtest", {"inputs": {"payments": [".hidden"]}}, "below the pipeline's folder"),
        (":backtest", {"inputs": {"payments": ["in/\0"]}}, "below the pipeline's folder"),
        (":backtest", {"inputs": {"payments": ["in/none*"]}}, "found no file"),
        (":backtest", {"inputs": {"payment": ["in/*.jsonl"]}}, "did you mean payments?"),
        (":backtest", {"rules": {"name": "a/../b.yaml", "text": ""}}, "letters, digits"),
        (":test", {"rules": {"text": "x"}, "records": {"../x": [{}]}}, 'found stream "../x"'),
        (":test", {"rules": {"text": "x"}, "records": {}}, "/records"),
        (":test", {"rules": {"text": "x"}, "records": {"payments": [{"a": 2**70}]}}, "64"),
        (":test", {"rules": {"text": "x"}, "records": {"payments": ["x"]}}, "/records/payments/0"),
    ],
)
def test_what_no_job_is_made_of(reading: Client, path: str, body: object, text: str) -> None:
    assert text in detail(reading.post(f"/v1/rules{path}", json=body), 422)
    assert reading.get("/v1/jobs").json()["items"] == []


def test_links_out_of_the_folder_are_not_followed(writing: Client, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.jsonl").write_text("{}\n")
    (folder / "in/link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    answer = writing.post("/v1/rules:backtest", json={"inputs": {"payments": ["in/*.jsonl"]}})
    assert "files below the pipeline's folder" in detail(answer, 422)


WAITS = "import signal, sys; print('begun', file=sys.stderr, flush=True); signal.pause()"


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that say that they began, and wait for a signal."""

    def instead(_: object) -> list[str]:
        return [sys.executable, "-c", WAITS]

    monkeypatch.setattr(jobs, "command_line", instead)


@pytest.mark.usefixtures("waiting")
def test_jobs_wait_for_each_other_and_are_ended(tmp_path: Path) -> None:
    async def begun(job: jobs.Job) -> None:
        while job.message != "begun":  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.01)

    async def main() -> None:
        held = Jobs(tmp_path / "jobs", lambda: NOW_MS, running_max=1)
        first = held.start("test", "mary", {}, lambda _: [])
        second = held.start("test", "mary", {}, lambda _: [])
        await begun(first)
        assert (first.state, second.state) == ("running", "queued")
        await held.end(second)
        assert (second.state, second.started_ms) == ("ended", None)
        third = held.start("test", "mary", {}, lambda _: [])
        await held.end(first)
        assert (first.state, first.error) == ("ended", "it was ended before it was done")
        await begun(third)
        queued = [held.start("test", "mary", {}, lambda _: []) for _ in range(jobs.QUEUED_MAX)]
        with pytest.raises(RetryableError, match="20 jobs wait already"):
            held.start("test", "mary", {}, lambda _: [])
        await held.close()
        assert {each.state for each in (third, *queued)} == {"ended"}
        assert not (tmp_path / "jobs").exists()

    asyncio.run(main())


@pytest.mark.usefixtures("waiting")
def test_old_jobs_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT_MAX", 3)

    async def main() -> None:
        held = Jobs(tmp_path / "jobs", lambda: NOW_MS)
        made = []
        for _ in range(5):
            made.append(held.start("test", "mary", {}, lambda _: []))
            await held.end(made[-1])
        assert held.of("mary") == made[:1:-1]
        await held.close()

    asyncio.run(main())


PARENT = """
import subprocess, sys
sys.path[:0] = []
from crossline.serve.http.commands import command_line
child = subprocess.Popen([*command_line(["generate", "tx", "--records", "1000000000", "--output", sys.argv[1]])])
print(child.pid, flush=True)
child.wait()
"""


def test_a_command_ends_with_a_server_that_is_killed(tmp_path: Path) -> None:
    """The server gets SIGKILL: no process is left to end its jobs, so the operating system does."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "out.jsonl")], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    descriptor = os.pidfd_open(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        assert select.select([descriptor], [], [], 60)[0] == [descriptor], "it lives on"
    finally:
        os.close(descriptor)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_jobs_report_the_same_as_the_command_line(tmp_path: Path) -> None:
    async def main() -> None:
        runs = commands.Commands()
        done = await runs.run(["rules", "check", str(example() / "rules"), "--json"], 60)
        assert json.loads(done.out)["rules"] == 3
        with pytest.raises(commands.ProblemError) as error:
            await runs.run(["rules", "list", "--rules", str(tmp_path / "none")], 60)
        assert error.value.status == 400
        assert error.value.detail.startswith("found no folder")

    asyncio.run(main())


def test_of_a_command_that_failed_its_error_is_reported_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "1,000 records, 50%, 0:01 left\nerror: x.yaml:1\n  error: of its own\n"
    message = f"import sys; sys.stderr.write({text!r}); sys.exit(1)"
    monkeypatch.setattr(jobs, "command_line", lambda _: [sys.executable, "-c", message])

    async def main() -> None:
        held = Jobs(tmp_path / "jobs", lambda: NOW_MS)
        job = held.start("backtest", "mary", {}, lambda _: [])
        await job.over.wait()
        assert (job.state, job.error) == ("failed", "x.yaml:1\n  error: of its own")
        await held.close()

    asyncio.run(main())
