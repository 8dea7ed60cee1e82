"""Trains the model on a training set of the lake, and writes it as a shadow version of its rule.

    python examples/card-model/from_lake.py CATALOG.db --engine polars --out candidate

The training set is a table that ``crossline figures --from-lake --labels --output-table training`` wrote. Fields of the
records stand beside it in the lake. The model is a logistic regression, which needs numpy and onnx alone; ``train.py``
trains a forest.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.compute as pc
from features import HERE, Featured, featured_rows, fields_read
from onnx import helper, numpy_helper
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from crossline.basics.models.model import Model, Scorer
from crossline.basics.values import F64

RULE, MODEL = "card_model.yaml", "card-model.onnx"
STEPS, RATE, DECAY = 400, 0.5, 1e-3
OWN = {"record_id", "event_time", "label", "label_known_at", "label_mature"}


@dataclass(frozen=True, slots=True)
class LakeTables:
    """The training set, the records, and the fields of records that the features read."""

    training: Table
    records: Table
    fields: Sequence[str]

    @staticmethod
    def of(catalog: Path, namespace: str, training: str) -> LakeTables:
        """The tables of a lake on this machine."""
        lake = SqlCatalog(
            "lake", uri=f"sqlite:///{catalog.absolute()}", warehouse=f"file://{catalog.parent.absolute()}"
        )
        try:
            mine = lake.load_table((namespace, training))
            figures = [each.name for each in mine.schema().fields if each.name not in OWN]
            return LakeTables(
                mine, lake.load_table((namespace, "records_payments")), fields_read(HERE / "rules" / RULE, figures)
            )
        finally:
            lake.close()

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the records that are read."""
        return ("_record_id", *self.fields)


def with_pyiceberg(tables: LakeTables) -> pa.Table:
    """Arrow's own join."""
    training = tables.training.scan().to_arrow()
    records = tables.records.scan("_duplicate = false", selected_fields=tables.columns).to_arrow()
    return training.join(records, "record_id", "_record_id", "inner")


def with_pandas(tables: LakeTables) -> pa.Table:
    """pandas: a label is object there, with None."""
    training = tables.training.scan().to_pandas()
    records = tables.records.scan("_duplicate = false", selected_fields=tables.columns).to_pandas()
    return pa.Table.from_pandas(training.merge(records, left_on="record_id", right_on="_record_id"))


def with_polars(tables: LakeTables) -> pa.Table:
    """Polars, lazily."""
    import polars as pl  # noqa: PLC0415 - one engine is enough

    records = pl.scan_iceberg(tables.records.metadata_location).filter(~pl.col("_duplicate")).select(tables.columns)
    training = pl.scan_iceberg(tables.training.metadata_location)
    return training.join(records, left_on="record_id", right_on="_record_id").collect().to_arrow()


def with_duckdb(tables: LakeTables) -> pa.Table:
    """DuckDB, with the extensions of the wheels duckdb-extension-avro, -httpfs and -iceberg."""
    import duckdb  # noqa: PLC0415 - as above

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("avro", "httpfs", "iceberg"):
        folder = Path(str(importlib.import_module(f"duckdb_extension_{name}").__file__)).parent
        connection.execute(f"LOAD '{next(folder.rglob(f'{name}.duckdb_extension'))}'")
    for view, table in (("training", tables.training), ("records", tables.records)):
        connection.execute(f"CREATE VIEW {view} AS FROM iceberg_scan('{table.metadata_location}')")
    columns = ", ".join(f"r.{name}" for name in tables.fields)
    joined = "training AS t JOIN records AS r ON t.record_id = r._record_id WHERE NOT r._duplicate"
    return connection.execute(f"SELECT t.*, {columns} FROM {joined}").to_arrow_table()  # noqa: S608 - our own names


ENGINES: dict[str, Callable[[LakeTables], pa.Table]] = {
    "pyiceberg": with_pyiceberg,
    "pandas": with_pandas,
    "polars": with_polars,
    "duckdb": with_duckdb,
}


def prepared(rows: pa.Table) -> pa.Table:
    """The mature rows in the order of their time. A mature row without a label is legitimate: nobody complained."""
    mature = rows.filter(rows.column("label_mature")).sort_by([("event_time", "ascending"), ("record_id", "ascending")])
    at = mature.column_names.index("label")
    return mature.set_column(at, "label", pc.fill_null(mature.column("label").cast(pa.bool_()), False))


@dataclass(frozen=True, slots=True)
class Regression:
    """Of k features: the logarithm is shifted by ``mean``, divided by ``spread``, weighed, and summed."""

    mean: F64
    spread: F64
    weights: F64
    bias: float

    @staticmethod
    def fit(values: F64, fraud: F64) -> Regression:
        """Fit to n records with k features; ``fraud`` is 0 or 1. Frauds weigh as much as all others together."""
        logs = _logs(values)
        mean, spread = logs.mean(0), logs.std(0) + 1e-6
        scaled = (logs - mean) / spread
        weigh = np.where(fraud > 0, 0.5 / max(1.0, fraud.sum()), 0.5 / max(1.0, (1 - fraud).sum()))
        weights, bias = np.zeros(values.shape[1]), 0.0
        for _ in range(STEPS):
            wrong = (1 / (1 + np.exp(-(scaled @ weights + bias))) - fraud) * weigh
            weights -= RATE * (scaled.T @ wrong + DECAY * weights)
            bias -= RATE * wrong.sum()
        return Regression(mean, spread, weights, float(bias))

    def onnx(self, version: str) -> bytes:
        """The model as an ONNX file: features in, a score from 0 to 1 out. A feature without a value counts as 0."""
        k, real = len(self.weights), onnx.TensorProto.FLOAT
        constants = {
            "zero": [0.0],
            "one": [1.0],
            "mean": self.mean,
            "spread": self.spread,
            "weights": self.weights.reshape(k, 1),
            "bias": [self.bias],
        }
        nodes = [
            *(helper.make_node("IsNaN", ["x"], ["gone"]), helper.make_node("Where", ["gone", "zero", "x"], ["given"])),
            *(
                helper.make_node("Max", ["given", "zero"], ["least"]),
                helper.make_node("Add", ["least", "one"], ["more"]),
            ),
            *(helper.make_node("Log", ["more"], ["logs"]), helper.make_node("Sub", ["logs", "mean"], ["shifted"])),
            helper.make_node("Div", ["shifted", "spread"], ["scaled"]),
            helper.make_node("MatMul", ["scaled", "weights"], ["product"]),
            *(helper.make_node("Add", ["product", "bias"], ["sum"]), helper.make_node("Sigmoid", ["sum"], ["y"])),
        ]
        graph = helper.make_graph(
            nodes,
            "card-model",
            [helper.make_tensor_value_info("x", real, [None, k])],
            [helper.make_tensor_value_info("y", real, [None, 1])],
            [numpy_helper.from_array(np.asarray(each, np.float32), name) for name, each in constants.items()],
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        helper.set_model_props(made, {"version": version})
        onnx.checker.check_model(made)
        return bytes(made.SerializeToString(deterministic=True))


def _logs(values: F64) -> F64:
    found: F64 = np.log1p(np.maximum(np.nan_to_num(values), 0.0))
    return found


def trained(records: Featured, fraud: F64, version: str) -> tuple[bytes, float]:
    """A model of the first three quarters of the time, and the threshold that the last one gives."""
    first, last = records.event_ms.min(), records.event_ms.max()
    early = records.event_ms < first + (last - first) * 3 // 4
    model = Regression.fit(records.values[early], fraud[early]).onnx(version)
    later = records.part(~early)
    scores, why = Scorer(Model.of(MODEL, model), records.names).scores(later.values)
    if why:
        raise SystemExit(why)
    return model, threshold_of(scores, fraud[~early])


def threshold_of(scores: F64, fraud: F64) -> float:
    """The score, of three decimals, at or above which F1 is highest."""
    order = np.argsort(-scores, kind="stable")
    hits = np.cumsum(fraud[order])
    f1 = 2 * hits / (np.arange(1, len(order) + 1) + max(1.0, fraud.sum()))
    return int(scores[order][np.argmax(f1)] * 1000) / 1000


def main(arguments: Sequence[str] | None = None) -> None:
    """Do all of it."""
    asked = _asked(arguments)
    tables = LakeTables.of(asked.catalog, asked.namespace, asked.table)
    rows = prepared(ENGINES[asked.engine](tables))
    records = featured_rows(HERE / "rules" / RULE, rows)
    fraud = rows.column("label").cast(pa.int8()).to_numpy().astype(np.float64)
    rule = (HERE / "rules" / RULE).read_text()
    version = int(re.findall(r"(?m)^version: (\d+)$", rule)[0]) + 1
    model, threshold = trained(records, fraud, str(version))
    rule = re.sub(r"(?m)^version: .*$", f"version: {version}\nshare: 0%", rule)
    rule = re.sub(r"(?m)^threshold: .*$", f"threshold: {threshold}", rule)
    asked.out.mkdir(parents=True, exist_ok=True)
    (asked.out / RULE).write_text(rule)
    (asked.out / MODEL).write_bytes(model)
    sys.stdout.write(f"trained on {len(fraud):,} records, {int(fraud.sum()):,} of them fraud; threshold {threshold}\n")


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("catalog", type=Path, help="the lake's catalog.db")
    parser.add_argument("--table", default="training", help="the training set")
    parser.add_argument("--namespace", default="card_model", help="of the pipeline")
    parser.add_argument("--engine", choices=ENGINES, default="polars", help="what reads the tables")
    parser.add_argument("--out", type=Path, default=Path("candidate"), help="folder for the rule and its model")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
