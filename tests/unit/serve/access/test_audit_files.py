"""The audit log over several files: one chain over all writers and kills; a missing file is reported."""

from __future__ import annotations

import json
import multiprocessing
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.serve.http.kit import client_of, dependencies, project

from crossline.cli.main import run_command
from crossline.serve.access.audit import AuditLog, verify
from crossline.serve.access.auditfiles import lines_of, parts_of
from crossline.serve.access.roles import Principal

ANN = Principal("ann", frozenset({"write:labels"}), "token")
FEW = 2_000  # some six lines
PIPELINE = """schema_version: 1
name: payments
streams: stream.yaml
sources: {payments: {kind: api, path: in/payments}}
rules: {kind: directory, path: rules/}
sinks: [{kind: sqlite, path: out/alerts.db}]
policy: policy.yaml
serve: {path: "."}
"""
STREAM = """schema_version: 1
streams:
  payments: {format: json, id: id, event_time: {field: at, unit: ms}, fields: {id: string, at: integer}}
"""


def log_in(folder: Path) -> AuditLog:
    return AuditLog(folder / "audit", lambda: 1_767_225_600_000, rotate_bytes=FEW)


def label(log: AuditLog, record: str) -> None:
    with log.write(ANN, "PUT", "/v1/labels/{stream}/{record_id}", f"payments/{record}") as write:
        write.after = True


def written(folder: Path, count: int = 20) -> AuditLog:
    log = log_in(folder)
    for number in range(count):
        label(log, f"t{number}")
    return log


def test_one_chain_over_files_that_are_named_by_their_lines(tmp_path: Path) -> None:
    log = written(tmp_path)
    parts = parts_of(log.path)
    assert len(parts) > 2
    assert [part.first for part in parts] == [1, *(part.last + 1 for part in parts[:-1])]
    sizes = [part.path.stat().st_size for part in parts]
    assert min(sizes) >= FEW
    assert max(sizes) < FEW + 1_000
    found = [(number, json.loads(line)["sequence"]) for number, line in lines_of(log.path)]
    assert found == [(number, number) for number in range(1, 41)]
    assert [number for number, _ in lines_of(log.path, parts[1].last - 1)] == list(range(parts[1].last, 41))
    shown = verify(log.path)
    assert (shown.events, shown.problems, shown.open_writes, shown.torn) == (40, (), (), 0)
    assert all(part.path.stat().st_mode & 0o077 == 0 for part in parts)
    # Who comes next goes on in the chain, also where all was put away and the new file is not there yet.
    log.path.rename(log.path.with_name(f"audit-{parts[-1].last + 1:012}-{40:012}.jsonl"))
    assert verify(log.path).events == 40
    label(log_in(tmp_path), "next")
    assert (verify(log.path).events, verify(log.path).problems) == (42, ())


def test_what_is_missing_or_altered_in_any_file_is_found(tmp_path: Path) -> None:
    log = written(tmp_path)
    first, second, *_ = parts_of(log.path)
    whole = second.path.read_bytes()
    second.path.write_bytes(whole.replace(b"payments/t", b"payments/x", 1))
    assert "digest is another one" in verify(log.path).problems[0]
    second.path.unlink()
    assert "lines are missing" in verify(log.path).problems[0]
    second.path.write_bytes(whole)
    assert verify(log.path).problems == ()
    first.path.unlink()
    assert f"found event {second.first}; expected 1" in verify(log.path).problems[0]


def test_half_a_line_of_a_kill_is_not_put_away(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    label(log, "t1")
    while log.path.stat().st_size < FEW:
        log.begin(ANN, "PUT", "/v1/labels/{stream}/{record_id}", "payments/t2")
    with log.path.open("ab") as file:
        file.write(b'{"half')
    before = verify(log.path).events
    other = log_in(tmp_path)
    label(other, "next")  # says how long the half line is, in the same file; then it is put away
    label(other, "after")
    assert len(parts_of(log.path)) == 1
    assert (verify(log.path).events, verify(log.path).problems) == (before + 4, ())


def _label_many(folder: str) -> None:
    written(Path(folder))


def test_processes_and_threads_write_one_chain_over_many_files(tmp_path: Path) -> None:
    processes = [multiprocessing.get_context("spawn").Process(target=_label_many, args=(str(tmp_path),)) for _ in "ab"]
    log = log_in(tmp_path)
    threads = [threading.Thread(target=lambda: [label(log, "x") for _ in range(20)]) for _ in range(2)]
    for each in (*processes, *threads):
        each.start()
    for each in (*threads, *processes):
        each.join()
    found = verify(log.path)
    assert (found.events, found.problems, found.open_writes) == (160, (), ())
    assert len(parts_of(log.path)) > 10


def test_who_reads_while_it_is_put_away_reads_each_line_once(tmp_path: Path) -> None:
    log = written(tmp_path, 4)
    reading = lines_of(log.path)
    begun = [next(reading)]
    label(log, "more")
    label(log, "more")
    numbers = [number for number, _ in [*begun, *reading]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 8


def test_the_route_reads_on_behind_half_a_line(tmp_path: Path) -> None:
    """As a kill leaves it: the next line says how long it is, and the number of each is that of its place."""
    log = AuditLog(tmp_path, lambda: 5)
    label(log, "t1")
    with log.path.open("ab") as file:
        file.write(b'{"principal":"ma')
    label(AuditLog(tmp_path, lambda: 6), "t2")
    deps = replace(dependencies(project(tmp_path / "shop"), tmp_path / "serve"), audit=log.path)
    with client_of(deps) as client:
        found = client.get("/v1/audit").json()["items"]
    assert [each["number"] for each in found] == [1, 2, 3, 4, 5]
    assert found[2]["line"] is None
    assert [each["line"]["sequence"] for each in found if each["line"] is not None] == [1, 2, 3, 4]
    assert verify(log.path).problems == ()


def test_the_route_and_the_command_read_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project(tmp_path)
    log = written(tmp_path)
    deps = replace(dependencies(folder, tmp_path / "serve"), audit=log.path)
    with client_of(deps) as client:
        some = client.get("/v1/audit?after=5&limit=20").json()["items"]
        assert [each["number"] for each in some] == list(range(6, 26))
        assert [each["line"]["sequence"] for each in some] == list(range(6, 26))
        log.path.unlink()  # all that there is was put away
        assert len(client.get("/v1/audit?limit=100").json()["items"]) == parts_of(log.path)[-1].last
    audited = tmp_path / "pipeline.yaml"
    audited.write_text(PIPELINE)
    (tmp_path / "stream.yaml").write_text(STREAM)
    (tmp_path / "policy.yaml").write_text("schema_version: 1\nversion: 1\n")
    assert run_command(["serve", "audit", "verify", "--pipeline", str(audited), "--json"]) == 0
    body = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (body["events"], body["problems"]) == (parts_of(log.path)[-1].last, [])
