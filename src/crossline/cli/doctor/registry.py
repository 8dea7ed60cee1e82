"""What ``crossline doctor`` finds about the schema registries of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from crossline.basics.errors import CrosslineError
from crossline.cli.doctor.machine import CheckResult
from crossline.io.registry.client import UnknownSchemaError
from crossline.io.registry.schema_store import SchemaStore
from crossline.settings.config import PipelineConfig
from crossline.settings.kafka import KafkaSourceSettings

# No registry assigns this id: the answer that it is unknown shows that a registry answers.
_UNUSED_ID = 2**31 - 1


def registry_findings(pipeline: PipelineConfig, environment: Mapping[str, str]) -> list[CheckResult]:
    """Whether each registry answers as one, and lets this pipeline ask."""
    findings = {}
    for stream, source in pipeline.sources.items():
        if isinstance(source, KafkaSourceSettings) and source.registry is not None:
            name = f"registry {source.registry.url}"
            findings[name] = CheckResult(name, "ok", f"answers; stream {stream} is read by its schemas")
            try:
                SchemaStore.of(source.registry, "", environment).hurried().address.schema(_UNUSED_ID)
            except UnknownSchemaError:
                pass
            except CrosslineError as error:
                advice = f"is it running, is `registry` of source {stream} right?"
                findings[name] = CheckResult(name, "missing", str(error), advice)
    return list(findings.values())
