"""What ``crossline doctor`` finds about the Redis servers of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.basics.errors import CrosslineError
from crossline.cli.doctor.machine import CheckResult
from crossline.settings.config import PipelineConfig
from crossline.settings.redis import RedisSettings

_WHERE = "is it running, are `host`, `port` and `tls` right?"


def redis_findings(pipeline: PipelineConfig, environment: Mapping[str, str]) -> list[CheckResult]:
    """Whether each server accepts our log-in, and keeps values for their whole lifetime."""
    return [_finding(sink, environment) for sink in pipeline.sinks if isinstance(sink, RedisSettings)]


def _finding(settings: RedisSettings, environment: Mapping[str, str]) -> CheckResult:
    name = f"redis {settings.host}:{settings.port}"
    try:
        import redis

        from crossline.io.redis.sink import client_of
    except ModuleNotFoundError as error:
        return CheckResult(name, "missing", f"{error.name} is not installed", "pip install 'crossline[redis]'")
    try:
        with client_of(settings, environment) as client:
            client.ping()
            try:
                info = client.info()
            except redis.ResponseError as error:
                return CheckResult(
                    name, "warning", f"answers; it shows this user nothing more: {error}", "let it run INFO"
                )
    except CrosslineError as error:
        found, _, advice = str(error).partition("; ")
        return CheckResult(name, "missing", found, advice or _WHERE)
    except (redis.AuthenticationError, redis.ResponseError) as error:
        return CheckResult(name, "missing", f"does not let us in: {error}", "see username and password")
    except (redis.RedisError, OSError) as error:
        return CheckResult(name, "missing", f"no answer: {error}", _WHERE)
    return _server(name, info)


def _server(name: str, info: Mapping[str, Any]) -> CheckResult:
    found = f"answers; version {info.get('valkey_version') or info.get('redis_version')}"
    if info.get("cluster_enabled"):
        return CheckResult(
            name, "missing", f"{found}; a cluster, which divides keys", "name a server that holds all keys"
        )
    if info.get("role") == "slave":
        return CheckResult(name, "missing", f"{found}; a replica, which takes nothing", "name the primary")
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if info.get("maxmemory") and policy != "noeviction":
        found += f"; maxmemory-policy is {policy}: where it is full, it forgets who is blocked"
        return CheckResult(
            name, "warning", found, "set maxmemory-policy to noeviction: a full server then holds the batch"
        )
    return CheckResult(name, "ok", found)
