"""Libraries of extras, and the error text if one is missing."""

from __future__ import annotations

# By the name that is imported.
EXTRA_OF = {
    "pyspark": "spark",
    "py4j": "spark",
    "pandas": "spark",
    "prometheus_client": "spark",
    "confluent_kafka": "kafka",
    "fastavro": "kafka",
    "psycopg": "postgres",
    "redis": "redis",
    "onnxruntime": "onnx",
    "hdfs_native": "hdfs",
    "opentelemetry": "otlp",
    **dict.fromkeys(("argon2", "cryptography", "fastapi", "httptools", "jinja2", "jwt", "python_multipart"), "serve"),
    **dict.fromkeys(("starlette", "tzdata", "uvicorn", "uvloop"), "serve"),
    "httpx": "client",
    **dict.fromkeys(("pyiceberg", "pyiceberg_core", "sqlalchemy"), "lake"),
}


def install(extra: str, package: str = "crossline") -> str:
    """What to do to have ``extra``."""
    return f"pip install '{package}[{extra}]'"


def missing(who: str, module: str | None) -> str | None:
    """The error text if ``who`` needs ``module`` and it is missing; None if it belongs to no extra."""
    top = (module or "").partition(".")[0]
    extra = EXTRA_OF.get(top)
    return None if extra is None else f"{who} needs {top}, which is not installed: {install(extra)}"
