"""Measures a replay of a lake beside DuckDB: ``python -m bench.lake_replay --folder F --records N [--rounds R]``.

``--folder`` has the lake that ``bench.lake_lookup --folder F --records N`` made. The rule adds the amounts of an
account within two hours. Both engines read the same Parquet files, and their counts of alerts must be equal. DuckDB
computes the window by SQL; the replay judges by the engine of the pipeline, with alerts and evidence. ``--kill-after``
kills the replay after so many seconds and resumes it once.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import orjson

from bench.report import Report, say
from crossline.lake.catalogs.catalog import open_lake
from crossline.lake.reading import LakeReader
from crossline.rule_registry.content import read_pipeline_in_place

RULE = """\
- {rule_id: burst, version: 1, rule_type: velocity, source_topic: %s, group_by: account_id, window: 2h,
   aggregation_type: sum, aggregation_field: amount_cents, aggregation_threshold: 390000, emit: every}
"""
SQL = """
SELECT count(*) FROM (
  SELECT sum(amount_cents) OVER (PARTITION BY account_id ORDER BY _event_time
    RANGE BETWEEN INTERVAL 7199999 MILLISECONDS PRECEDING AND CURRENT ROW) AS n
  FROM read_parquet($files)
) WHERE n >= 390000
"""


def replay(pipeline: Path, rules: Path, output: Path, kill_after_s: float | None) -> tuple[float, int, float]:
    """Seconds, alerts, and the seconds of a run that was killed before."""
    command = [sys.executable, "-m", "crossline.cli.main", "replay", "--pipeline", str(pipeline), "--rules", str(rules)]
    command += ["--output", str(output), "--json"]
    lost_s = 0.0
    if kill_after_s is not None:
        command += ["--resume", str(output.with_suffix(".kept"))]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as killed:
            try:
                killed.wait(kill_after_s)
            except subprocess.TimeoutExpired:
                killed.kill()
        lost_s = kill_after_s
    began_s = time.monotonic()
    made = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures = orjson.loads(made.stdout)
    return time.monotonic() - began_s, sum(figures["alerts"].values()), lost_s


def by_duckdb(reader: LakeReader, stream: str) -> tuple[float, int]:
    """Seconds and alerts."""
    import duckdb  # noqa: PLC0415 - of the development environment

    (table,) = (each for each in reader.tables() if each.layout.name == f"records_{stream}")
    files = [task.file.file_path.removeprefix("file://") for task in table.table.scan().plan_files()]
    began_s = time.monotonic()
    with duckdb.connect() as db:
        (found,) = db.execute(SQL, {"files": files}).fetchone() or (0,)
    return time.monotonic() - began_s, int(found)


def measure(folder: Path, records: int, rounds: int, kill_after_s: float | None) -> Report:
    """Run both in turns."""
    report = Report("lake_replay", f"A replay of {records:,} records of a lake, beside DuckDB for the same figures")
    pipeline = folder / "pipeline.yaml"
    config = read_pipeline_in_place(pipeline)
    (stream,) = config.streams
    rules = folder / "burst.yaml"
    rules.write_text(RULE % stream)
    reader = LakeReader(open_lake(config), config)
    for number in range(rounds):
        found = []
        for name in ("crossline replay", "DuckDB"):
            lost_s = 0.0
            if name == "DuckDB":
                took_s, alerts = by_duckdb(reader, stream)
            else:
                took_s, alerts, lost_s = replay(pipeline, rules, folder / "alerts.jsonl", kill_after_s)
            found.append(alerts)
            report.add(
                round=number + 1,
                engine=name,
                seconds=round(took_s, 1),
                records_per_s=round(records / took_s),
                alerts=alerts,
                killed_after_s=lost_s,
                load=round(os.getloadavg()[0], 1),
            )
            say(orjson.dumps(report.rows[-1]).decode())
        if len(set(found)) != 1:
            raise SystemExit(f"the engines differ: {found}")
    return report


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--records", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--kill-after", type=float)
    given = parser.parse_args()
    measure(given.folder.absolute(), given.records, given.rounds, given.kill_after).finish()


if __name__ == "__main__":
    main()
