"""``/v1/rules:test``, ``/v1/rules:backtest`` and ``/v1/jobs``: rules tried on records, each in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Request
from fastapi import Path as InPath
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from crossline.basics.texts.problems import nearest, one_of, shown
from crossline.basics.times import instant_text
from crossline.io.files.compression import packing_of
from crossline.io.files.patterns import matching_files
from crossline.serve.approvals.file import ApprovalFile, proof_id_of
from crossline.serve.approvals.values import KeptProof
from crossline.serve.http.deps import Dependencies
from crossline.serve.http.jobs import ENDED, Job, Jobs
from crossline.serve.http.paging import page
from crossline.serve.http.principals import Asking, needs
from crossline.serve.http.problems import invalid, not_found
from crossline.serve.http.queries import json_answer, only_known
from crossline.serve.http.reads.alerts import instant
from crossline.serve.http.writes.bodies import Body, RuleFile
from crossline.settings.sources import ApiSettings, FilesSettings, RulesTopic

RECORDS_MAX = 20_000
INPUTS_MAX = 50
JobId = Annotated[str, InPath(max_length=100, description="Id of the job.")]


class Test(Body):
    """Rules, and a sample."""

    rules: RuleFile = Field(description="The rules to try: drafts and paused ones too.")
    records: dict[str, list[dict[str, Any]]] = Field(
        default={}, max_length=INPUTS_MAX, description="Records by stream, in the order of their coming."
    )
    first: dict[str, Annotated[int, Field(ge=1, le=RECORDS_MAX)]] = Field(
        default={},
        max_length=INPUTS_MAX,
        description="Instead, or for other streams: so many records from the beginning of the source's files, which "
        "hold JSON lines.",
    )
    record: Annotated[str, Field(max_length=1_000)] | None = Field(
        default=None, description="Id of one record: each rule's figure at it, and why it did not fire."
    )


class Backtest(Body):
    """Rules, and files of the past."""

    rules: RuleFile | None = Field(default=None, description="The rules; else those of the pipeline.")
    compare: RuleFile | None = Field(default=None, description="Others: what would appear and disappear.")
    inputs: dict[str, list[str]] | None = Field(
        default=None,
        max_length=INPUTS_MAX,
        description="Files by stream, relative to the pipeline's folder; else those of its sources of kind files.",
    )


class Proof(Body):
    """A rule, and the past that it is to be proven by."""

    rules: RuleFile = Field(description="A file with the one rule.")
    inputs: dict[str, list[str]] | None = Field(
        default=None,
        max_length=INPUTS_MAX,
        description="Files by stream, relative to the pipeline's folder; else those of its sources of files or api.",
    )
    from_: str | None = Field(default=None, alias="from", max_length=40, description="Alerts from then on count.")
    to: str | None = Field(default=None, max_length=40, description="And those before then.")
    amount: Annotated[str, Field(max_length=200)] | None = Field(
        default=None, description="The field whose sum is the money at stake."
    )


def trial_routes(deps: Dependencies, jobs: Jobs) -> APIRouter:
    """The routes that try rules, and those of jobs."""
    routes = APIRouter(tags=["rules"])

    @routes.post("/v1/rules:test", openapi_extra=needs("rules:draft"), summary="Try rules on a sample", status_code=202)
    async def test(request: Request, wanted: Test, who: Asking) -> Any:
        """A job: what each rule found in the sample, and where it came closest."""
        only_known(request)
        wanted.rules.checked()
        files = await run_in_threadpool(_sample, deps, wanted)

        def arguments(folder: Path) -> list[str]:
            names = {*wanted.records, *wanted.first}
            given = [part for name in sorted(names) for part in ("--input", f"{name}={folder / f'{name}.jsonl'}")]
            of = [] if wanted.record is None else ["--record", wanted.record]
            pipeline = ["--pipeline", str(deps.pipeline), "--json"]
            return ["rules", "test", str(folder / file_in("rules", wanted.rules)), *given, *of, *pipeline]

        return accepted(jobs.start("test", who.name, files, arguments))

    @routes.post(
        "/v1/rules:backtest", openapi_extra=needs("rules:draft"), summary="Judge files of the past", status_code=202
    )
    async def backtest(request: Request, wanted: Backtest, who: Asking) -> Any:
        """A job: how many alerts there would be, and what another rule set would change."""
        only_known(request)
        given = {"rules": wanted.rules, "compare": wanted.compare}
        named = {name: file for name, file in given.items() if file is not None}
        files = {file_in(name, file): file.checked().data for name, file in named.items()}
        inputs = await run_in_threadpool(inputs_of, deps, wanted.inputs)

        def arguments(folder: Path) -> list[str]:
            rules = [part for name, file in named.items() for part in (f"--{name}", str(folder / file_in(name, file)))]
            log = ["--as-of-log"] if wanted.rules is None and isinstance(deps.config.rules, RulesTopic) else []
            output = ["--output", str(folder / "alerts.jsonl"), "--json"]
            return ["backtest", "--pipeline", str(deps.pipeline), *rules, *log, *inputs, *output]

        return accepted(jobs.start("backtest", who.name, files, arguments))

    @routes.post(
        "/v1/rules:prove", openapi_extra=needs("rules:draft"), summary="Prove what a rule would do", status_code=202
    )
    async def prove(request: Request, wanted: Proof, who: Asking) -> Any:
        """A job: alerts a day against the live version, by the labels that were given, with digests of all of it."""
        only_known(request)
        files = {file_in("rules", wanted.rules): wanted.rules.checked().data}
        inputs = [] if wanted.inputs is None else await run_in_threadpool(inputs_of, deps, wanted.inputs)
        more = bounds_in(wanted.from_, wanted.to)
        if (labels := await run_in_threadpool(labels_of, deps)) is not None:
            more += ["--labels", str(labels)]
        more += ["--amount", wanted.amount] if wanted.amount else []

        def arguments(folder: Path) -> list[str]:
            rules = str(folder / file_in("rules", wanted.rules))
            return ["rules", "prove", rules, "--pipeline", str(deps.pipeline), *inputs, *more, "--json"]

        return accepted(jobs.start("prove", who.name, files, arguments))

    return routes


def job_routes(deps: Dependencies, jobs: Jobs, kept: ApprovalFile) -> APIRouter:
    """The routes of jobs."""
    routes = APIRouter(tags=["jobs"])

    @routes.get("/v1/jobs", openapi_extra=needs("rules:draft"), summary="The jobs of the caller, the latest first")
    async def listed(request: Request, who: Asking) -> Any:
        """Without their results."""
        only_known(request)
        rows = [{**each.to_json(), "result": None} for each in jobs.of(who.name)]
        return json_answer(page(rows, None))

    @routes.get("/v1/jobs/{job_id}", openapi_extra=needs("rules:draft"), summary="A job: how far it is, its result")
    async def job(request: Request, job_id: JobId, who: Asking) -> Any:
        """``state``: ``queued``, ``running``, ``done``, ``failed`` or ``ended``. A proof that is done is kept."""
        only_known(request)
        found = _one(jobs, job_id, who.name)
        result = found.result
        if found.kind == "prove" and found.state == "done" and isinstance(result, Mapping) and "digests" in result:
            proof = KeptProof(proof_id_of(result), who.name, deps.now_ms(), result)
            await run_in_threadpool(kept.keep_proof, proof)
        return _as_json(found)

    @routes.delete("/v1/jobs/{job_id}", openapi_extra=needs("rules:draft"), summary="End a job")
    async def end(request: Request, job_id: JobId, who: Asking) -> Any:
        """One that is over stays as it is."""
        only_known(request)
        found = _one(jobs, job_id, who.name)
        await jobs.end(found)
        return _as_json(found)

    return routes


def inputs_of(deps: Dependencies, given: Mapping[str, Sequence[str]] | None) -> list[str]:
    """The ``--input`` options: files below the pipeline's folder, and no others. Raises ProblemError else."""
    found: list[str] = []
    if given is None:
        for name, source in deps.config.sources.items():
            if isinstance(source, FilesSettings):
                found += ["--input", f"{name}={source.path}"]
        if not found:
            raise invalid("/inputs", "no source of kind files in the pipeline", "inputs: {STREAM: [FILE]}")
        return found
    root = deps.pipeline.resolve().parent
    for stream, patterns in given.items():
        _check_stream(deps, "/inputs", stream)
        for pattern in patterns:
            parts = PurePosixPath(pattern).parts
            if not parts or pattern.startswith("/") or "\0" in pattern or any(each.startswith(".") for each in parts):
                raise invalid(f"/inputs/{stream}", shown(pattern), "a name or pattern below the pipeline's folder")
            matched = [Path(each) for each in matching_files([str(root / pattern)])]
            if not matched or any(not each.resolve().is_relative_to(root) for each in matched):
                raise invalid(f"/inputs/{stream}", f"no file {shown(pattern)}", "files below the pipeline's folder")
            found += ["--input", f"{stream}={root / pattern}"]
    return found


def bounds_in(from_: str | None, to: str | None) -> list[str]:
    """An interval of the past as the command takes it. Raises ProblemError for what is no instant."""
    bounds = {"--from": instant("/from", from_), "--to": instant("/to", to)}
    return [part for name, ms in bounds.items() if ms is not None for part in (name, instant_text(ms) or "")]


def labels_of(deps: Dependencies) -> Path | None:
    """The file of labels, if there is one."""
    if deps.desk is None or not deps.desk.file.rows("SELECT 1 FROM labels_now LIMIT 1"):
        return None
    return deps.desk.file.path


def _sample(deps: Dependencies, wanted: Test) -> dict[str, bytes]:
    """The files of a trial."""
    files = {file_in("rules", wanted.rules): wanted.rules.checked().data}
    if not wanted.records and not wanted.first:
        raise invalid("/records", "no stream", "records by stream, or first: {STREAM: how many}")
    for stream, count in wanted.first.items():
        _check_stream(deps, "/first", stream)
        files[f"{stream}.jsonl"] = _first_lines(deps, stream, count)
    for stream, records in wanted.records.items():
        _check_stream(deps, "/records", stream)
        if len(records) > RECORDS_MAX:
            raise invalid(f"/records/{stream}", f"{len(records):,} records", f"at most {RECORDS_MAX:,}")
        try:
            files[f"{stream}.jsonl"] = b"".join(orjson.dumps(each) + b"\n" for each in records)
        except TypeError as error:
            raise invalid(f"/records/{stream}", f"a value that JSON cannot hold ({error})", "JSON values") from None
    return files


def _first_lines(deps: Dependencies, stream: str, count: int) -> bytes:
    """The first lines of the files of a stream's source."""
    source, pointer = deps.config.sources.get(stream), f"/first/{stream}"
    paths = matching_files([source.path]) if isinstance(source, FilesSettings | ApiSettings) else []
    if not paths or deps.config.streams[stream].format != "json":
        raise invalid(pointer, "no files of JSON lines in its source", "records in the request")
    found: list[bytes] = []
    for path in paths:
        with Path(path).open("rb") as file:
            if packing_of(file) is not None:
                raise invalid(pointer, "compressed files", "files of plain JSON lines, or records in the request")
            found += islice(file, count - len(found))
        if len(found) >= count:
            break
    return b"".join(line if line.endswith(b"\n") else line + b"\n" for line in found)


def _check_stream(deps: Dependencies, pointer: str, stream: str) -> None:
    if stream not in deps.config.streams:
        known = deps.config.streams
        raise invalid(f"{pointer}/{stream}", f"stream {shown(stream)}", one_of(known), nearest(stream, known))


def file_in(name: str, file: RuleFile) -> str:
    """What it is called in the job's folder."""
    return f"{name}{PurePosixPath(file.name).suffix}"


def _one(jobs: Jobs, job_id: str, who: str) -> Job:
    found = jobs.get(job_id, who)
    if found is None:
        raise not_found(f"job {shown(job_id)}", "a job belongs to its caller, and ends with the server")
    return found


def _as_json(job: Job) -> Any:
    headers = {} if job.state in ENDED else {"Retry-After": "1"}
    return json_answer(job.to_json(), 200, headers)


def accepted(job: Job) -> Any:
    """The answer to who asked for a job."""
    return json_answer(job.to_json(), 202, {"Location": f"/v1/jobs/{job.job_id}", "Retry-After": "1"})
