"""The settings of Kafka sources and sinks. Passwords are named, never written."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from crossline.basics.texts.problems import Finding, shown
from crossline.basics.texts.validation import refusal, refusals
from crossline.settings.fields import Settings
from crossline.settings.registry import RegistrySettings
from crossline.settings.secrets import A_SECRET, Password
from crossline.settings.sinks_base import SinkSettings

# Client options that hold a secret have one of these in their name; pipeline.yaml is read by many, and committed.
_SECRETS = ("password", "secret", "jaas.config", "ssl.key.pem", "ssl.keystore.key", "oauthbearer.config")


def is_secret(name: str) -> bool:
    """Whether a key of this name holds a secret itself, and not the name of a place for one."""
    return any(secret in name.lower() for secret in _SECRETS) and not name.endswith(("_env", "_file"))


def _check_options(value: Any) -> Any:
    if not isinstance(value, dict):
        raise refusal("a mapping of option names to values")
    findings = [
        Finding((name,), A_SECRET, "no secrets in this file", "use security: {password_env: NAME}")
        if is_secret(name)
        else Finding((name,), shown(each), "text, a number, true or false")
        for name, each in value.items()
        if is_secret(name) or not isinstance(each, str | int | float)
    ]
    if findings:
        raise refusals(findings)
    return value


ClientOptions = Annotated[dict[str, Any], BeforeValidator(_check_options)]


class KafkaSecurity(Password):
    """How to connect to a broker that asks who is there."""

    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        default="plaintext", description="Protocol of the connection."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="SASL mechanism; needed with a sasl_ protocol."
    )
    username: str | None = Field(default=None, description="SASL user name.")
    ca_file: str | None = Field(default=None, description="File with the certificates to trust, in PEM form.")

    def findings(self) -> list[Finding]:
        """A password from two places, or SASL without what it needs."""
        found = super().findings()
        if self.protocol.startswith("sasl_"):
            missing = [name for name in ("mechanism", "username") if getattr(self, name) is None]
            if not (self.password_env or self.password_file):
                missing.append("password_env or password_file")
            if missing:
                found.append(Finding(("protocol",), f"{self.protocol} without {', '.join(missing)}", "all of them"))
        return found


class _Kafka(Settings):
    brokers: str = Field(min_length=1, description="Bootstrap servers, `host:port` separated by commas.")
    topic: str = Field(min_length=1, description="Topic.")
    security: KafkaSecurity = Field(
        default_factory=KafkaSecurity, description="How to connect; by default, without asking."
    )
    options: ClientOptions = Field(default={}, description="Further options of the Kafka client, by its own names.")


class KafkaSourceSettings(_Kafka):
    """Records from a topic, one record a message."""

    kind: Literal["kafka"] = Field(description="Which kind of source this is.")
    starting: Literal["earliest", "latest"] = Field(
        default="earliest", description="Where the first start begins; later starts go on from the checkpoint."
    )
    max_records_per_batch: int | None = Field(
        default=None, ge=1, description="Most records of one batch; by default `engine.max_batch_records`."
    )
    registry: RegistrySettings | None = Field(
        default=None,
        description="Where the schemas of Avro records are asked for; a stream of `format: avro` needs it.",
    )
    key: str | None = Field(
        default=None,
        min_length=1,
        description="Field that records are keyed by which the decision API puts into the topic: the one that the "
        "topic's other producers key by, and rules group by. Without it the API puts none there.",
    )


class KafkaSinkSettings(_Kafka, SinkSettings):
    """Alerts to a topic, keyed by entity, written once (idempotent producer, all replicas)."""

    PLACE: ClassVar = ("brokers", "topic")
    NEEDS: ClassVar = "crossline[kafka]"

    kind: Literal["kafka"] = Field(description="Which kind of sink this is.")
    topics: list[Annotated[str, Field(min_length=1)]] = Field(
        default=[],
        description="Further topics, which rules may name as `sink_topic`; a rule that names another one is refused.",
    )
    dead_letter_topic: str | None = Field(
        default=None, min_length=1, description="Topic for dead letters; by default, none."
    )
    late_topic: str | None = Field(default=None, min_length=1, description="Topic for late records; by default, none.")
    corrections_topic: str | None = Field(
        default=None,
        min_length=1,
        description="Topic for corrections of alerts; by default, that of the alert which they correct.",
    )
    transactions: bool = Field(
        default=True,
        description="Whether batches are sent in transactions, for consumers that read committed records. Without: see "
        "docs/sinks.md.",
    )
