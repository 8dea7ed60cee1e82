"""Records per second that one core decodes: ``python bench/decode.py [--records N] [--rounds R]``.

Workload ``tx``. Bad lines are truncated lines, spread evenly. The cases take turns; the table shows medians. It also
shows a peer: pyarrow's own JSON reader with the same schema. That reader checks less and fails at the first bad line.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import pyarrow as pa
import pyarrow.json

from crossline.basics.streams.schema import load_streams
from crossline.generate.tx import tx_lines, tx_records
from crossline.ingest.decode import RecordLayout, decode_csv, decode_lines, decode_table, decode_values, make_layout

STREAM = """
schema_version: 1
streams:
  tx:
    id: transaction_id
    event_time: {field: event_time, unit: ms}
    fields:
      transaction_id: string
      account_id: string
      card_hash: string
      merchant_id: string
      amount_cents: integer
      currency: string
      lat: number
      lon: number
      event_time: integer
      payment_type: string
"""
RESULTS = Path(__file__).parent / "results"
Case = tuple[str, Callable[[], int]]


def spoil(lines: list[bytes], share: float) -> list[bytes]:
    """The lines with a share of them cut short, evenly spread; at least one where the share is not 0."""
    count = max(1, round(len(lines) * share)) if share else 0
    spoilt = list(lines)
    for place in np.linspace(0, len(lines) - 1, count + 2)[1:-1].astype(int) if count else []:
        spoilt[place] = spoilt[place][:-7]
    return spoilt


def csv_lines(table: pa.Table) -> list[bytes]:
    """The table's rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return out.getvalue().encode().splitlines()


def cases(layout: RecordLayout, records: int) -> list[Case]:
    """The cases: a name, and a call that returns the number of decoded records."""
    lines = tx_lines(0, records, 1).splitlines()
    table = tx_records(0, records, 1)
    rows, header = csv_lines(table), table.column_names
    schema = pa.schema([(name, field.type) for name, field in zip(header, table.schema, strict=True)])
    shares = {"clean": 0.0, f"1 bad in {records}": 1 / records, "1 % bad": 0.01, "10 % bad": 0.1}
    offsets = np.arange(records)

    def peer(chunk: bytes) -> int:
        read = pa.json.ReadOptions(use_threads=False, block_size=len(chunk) + 1)
        parse = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        return len(pa.json.read_json(pa.BufferReader(chunk), read_options=read, parse_options=parse))

    clean = b"\n".join(lines)
    found: list[Case] = [("pyarrow.json alone, clean", lambda: peer(clean))]
    for name, share in shares.items():
        chunk = b"\n".join(spoil(lines, share))
        values = pa.array(spoil(lines, share), pa.binary())
        body = b"\n".join(spoil(rows, share))
        found += [
            (f"JSON lines, {name}", lambda chunk=chunk: len(decode_lines(layout, chunk, "f", 0).records)),
            (f"JSON values, {name}", lambda v=values: len(decode_values(layout, v, "t", offsets, None).records)),
            (f"CSV lines, {name}", lambda body=body: len(decode_csv(layout, header, body, "f", 1).records)),
        ]
    found.append(("table, clean", lambda: len(decode_table(layout, table, "f", offsets).records)))
    amounts = pa.array(np.arange(records), mask=np.arange(records) % 100 == 0)
    nulls = table.set_column(header.index("amount_cents"), "amount_cents", amounts)
    found.append(("table, 1 % bad", lambda: len(decode_table(layout, nulls, "f", offsets).records)))
    return found


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)  # noqa: S607
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    pa.set_cpu_count(1)
    measured = cases(make_layout("tx", load_streams(STREAM, "tx")["tx"]), options.records)
    good = {name: run() for name, run in measured}
    times_s: dict[str, list[float]] = {name: [] for name, _ in measured}
    for _ in range(options.rounds):
        for name, run in measured:
            start = time.perf_counter()
            run()
            times_s[name].append(time.perf_counter() - start)
    print(f"{'':32}{'records/s':>12}{'slowest':>12}{'fastest':>12}{'good':>10}")
    table = {}
    for name, taken in times_s.items():
        rates = [options.records / seconds for seconds in taken]
        table[name] = {"records_per_s": round(statistics.median(rates)), "rates": [round(rate) for rate in rates]}
        print(f"{name:32}{statistics.median(rates):>12,.0f}{min(rates):>12,.0f}{max(rates):>12,.0f}{good[name]:>10,}")
    RESULTS.mkdir(exist_ok=True)
    about = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.platform()}",
        "versions": {"python": sys.version.split()[0], "pyarrow": pa.__version__, "numba": numba.__version__},
        "commit": commit(),
        "records": options.records,
        "rounds": options.rounds,
        "load_average": os.getloadavg(),
    }
    (RESULTS / "decode.json").write_text(json.dumps({**about, "table": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
