from collections.abc import Callable
from pathlib import Path

import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.texts.problems import RefusedError
from crossline.rules.policy.policy import Deciding
from crossline.settings.config import EngineSettings, PipelineDefaults, deciding_of, in_folder, load_pipeline
from crossline.settings.kafka import KafkaSecurity
from crossline.settings.sinks import rule_topics

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/golden/config"
CASES = sorted(GOLDEN.glob("*.yaml"))

SHORT = """\
schema_version: 1
name: payments
streams: streams/payments.yaml
sources:
  payments: {kind: files, path: in/*.jsonl}
rules: {kind: directory, path: rules/}
sinks:
  - {kind: sqlite, path: out/crossline.db}
"""


def reader(folder: Path) -> Callable[[str], str]:
    return lambda name: (folder / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_every_mistake_is_reported_at_once(case: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        load_pipeline(case.read_text(encoding="utf-8"), case.name, reader(GOLDEN))
    assert str(caught.value) + "\n" == case.with_suffix(".txt").read_text(encoding="utf-8")


def test_no_secret_stands_in_a_report() -> None:
    assert "hunter2" in (GOLDEN / "secrets.yaml").read_text(encoding="utf-8")
    assert "hunter2" not in (GOLDEN / "secrets.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("s3://user:hunter2@bucket/p", "found a secret; expected no credentials in a URI"),
        ("s3://bucket/p?endpoint=http://user:hunter2@host", "found a secret; expected no credentials in a URI"),
        ("gs://bucket/p", "found a URI of scheme gs; expected a folder, s3://BUCKET/PREFIX"),
    ],
)
def test_a_checkpoint_that_leads_nowhere_is_refused_and_its_secret_is_not_shown(uri: str, found: str) -> None:
    with pytest.raises(RefusedError) as caught:
        load_pipeline(f"{SHORT}engine: {{checkpoint: '{uri}'}}\n", "pipeline.yaml", reader(GOLDEN))
    assert "engine.checkpoint\n" in str(caught.value)
    assert found in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_checkpoint_on_a_store_is_the_same_in_any_folder() -> None:
    text = f"{SHORT}engine: {{checkpoint: 's3a://bucket/p?region=eu-central-1'}}\n"
    pipeline = in_folder(load_pipeline(text, "pipeline.yaml", reader(GOLDEN)), "/somewhere")
    assert pipeline.engine.checkpoint == "s3a://bucket/p?region=eu-central-1"


@pytest.mark.parametrize("name", ["tx", "cards"])
def test_examples_are_read(name: str) -> None:
    folder = ROOT / "examples" / name
    pipeline = load_pipeline((folder / "pipeline.yaml").read_text(encoding="utf-8"), "pipeline.yaml", reader(folder))
    assert list(pipeline.sources) == ["payments"]
    assert pipeline.streams["payments"].id == "transaction_id"


def test_what_is_left_out_has_the_documented_default() -> None:
    pipeline = load_pipeline(SHORT, "pipeline.yaml", reader(GOLDEN))
    assert pipeline.lists is None
    assert pipeline.defaults == PipelineDefaults(time_mode="event_time", watermark_delay="45s", allowed_lateness="2m")
    assert pipeline.engine == EngineSettings(trigger="200ms", shards="auto", checkpoint="out/checkpoint")
    assert (pipeline.engine.trigger, pipeline.defaults.allowed_lateness) == (200, 120_000)


def test_a_generator_keeps_only_what_was_given() -> None:
    text = SHORT.replace("{kind: files, path: in/*.jsonl}", "{kind: generator, workload: tx, seed: 3, records: 9}")
    source = load_pipeline(text, "pipeline.yaml", reader(GOLDEN)).sources["payments"]
    assert source.kind == "generator"
    assert (source.records, source.parameters()) == (9, {"seed": 3})


def test_relative_paths_start_at_the_folder_of_the_pipeline() -> None:
    text = (
        SHORT.replace("in/*.jsonl", "/data/*.jsonl") + "  - {kind: jsonl, path: out/a.jsonl, dead_letters: d.jsonl}\n"
    )
    pipeline = in_folder(load_pipeline(text, "pipeline.yaml", reader(GOLDEN)), "/home/me/payments")
    assert pipeline.sources["payments"].path == "/data/*.jsonl"
    assert pipeline.rules.path == "/home/me/payments/rules/"
    assert [sink.path for sink in pipeline.sinks] == [
        "/home/me/payments/out/crossline.db",
        "/home/me/payments/out/a.jsonl",
    ]
    assert pipeline.sinks[1].dead_letters == "/home/me/payments/d.jsonl"
    assert pipeline.engine.checkpoint == "/home/me/payments/out/checkpoint"


def test_paths_of_decisions_move_too() -> None:
    text = (
        SHORT.replace(".db}", ".db}\n  - {kind: jsonl, path: a, decisions: d.jsonl}") + "policy: policies/good.yaml\n"
    )
    pipeline = in_folder(load_pipeline(text, "pipeline.yaml", reader(GOLDEN)), "conf")
    assert pipeline.sinks[1].decisions == "conf/d.jsonl"
    assert pipeline.policy is not None
    assert deciding_of(pipeline) == Deciding(pipeline.policy, pipeline="payments")
    text += "decisions: {emit: all, path: out/decided}\n"
    pipeline = in_folder(load_pipeline(text, "pipeline.yaml", reader(GOLDEN)), "conf")
    assert pipeline.policy is not None
    assert deciding_of(pipeline) == Deciding(pipeline.policy, True, None, "conf/out/decided", "payments")
    assert deciding_of(load_pipeline(SHORT, "pipeline.yaml", reader(GOLDEN))) is None


def test_paths_of_passwords_move_too() -> None:
    security = "{protocol: sasl_ssl, mechanism: PLAIN, username: me, password_file: secret}"
    source = f"{{kind: kafka, brokers: b, topic: t, security: {security}}}"
    text = SHORT.replace("{kind: files, path: in/*.jsonl}", source)
    pipeline = in_folder(load_pipeline(text, "pipeline.yaml", reader(GOLDEN)), "conf")
    assert pipeline.sources["payments"].security.password_file == "conf/secret"


def test_paths_of_addresses_of_revisions_move_too() -> None:
    text = SHORT + (
        "policy: policies/good.yaml\nserve:\n  revisions:\n"
        "    - {url: https://pay.example/x, password_file: key, ca_file: ca.pem}\n"
        "    - {url: https://pay.example/y, password_env: KEY}\n"
    )
    pipeline = in_folder(load_pipeline(text, "pipeline.yaml", reader(GOLDEN)), "conf")
    assert pipeline.serve is not None
    found = [(each.url, each.password_file, each.ca_file) for each in pipeline.serve.revisions]
    assert found == [("https://pay.example/x", "conf/key", "conf/ca.pem"), ("https://pay.example/y", None, None)]


def refuse(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def test_a_password_comes_from_the_environment_or_a_file() -> None:
    from_environment = KafkaSecurity(password_env="KAFKA_PASSWORD")
    assert from_environment.password({"KAFKA_PASSWORD": "x"}, refuse) == "x"
    assert KafkaSecurity(password_file="f").password({}, lambda _: "y\n") == "y"
    assert KafkaSecurity().password({}, refuse) is None
    with pytest.raises(PermanentError, match="KAFKA_PASSWORD, which password_env names, is not set: export it first"):
        from_environment.password({}, refuse)
    with pytest.raises(PermanentError, match="password_file f cannot be read: No such file or directory"):
        KafkaSecurity(password_file="f").password({}, refuse)


def test_rules_may_name_the_topics_that_every_kafka_sink_has() -> None:
    def topics(*sinks: str) -> frozenset[str] | None:
        text = SHORT.replace(
            "streams/payments.yaml", "{payments: {id: i, event_time: {field: t}, fields: {i: string, t: integer}}}"
        )
        head, _, _ = text.partition("sinks:")
        return rule_topics(load_pipeline(f"{head}sinks: [{', '.join(sinks)}]\n", "p.yaml", str).sinks)

    one = '{kind: kafka, brokers: "a:1", topic: alerts, topics: [cards, web]}'
    other = '{kind: kafka, brokers: "b:1", topic: audit, topics: [alerts, web], dead_letter_topic: dead}'
    assert topics("{kind: console}") is None
    assert topics("{kind: console}", one) == {"alerts", "cards", "web"}
    assert topics(one, other) == {"alerts", "web"}


def test_a_topic_has_one_sink() -> None:
    """Two would have one name for their transactions, and each end those of the other."""
    head, _, _ = SHORT.partition("sinks:")
    sinks = ("a:1,b:1", "alerts"), ("b:1, a:1", "alerts"), ("c:1", "alerts"), ("a:1,b:1", "others")
    lines = [f'  - {{kind: kafka, brokers: "{brokers}", topic: {topic}}}' for brokers, topic in sinks]
    with pytest.raises(RefusedError) as caught:
        load_pipeline(f"{head}sinks:\n" + "\n".join(lines) + "\n", "p.yaml", reader(GOLDEN))
    texts = [(each.path, each.found, each.expected) for each in caught.value.problems]
    assert texts == [("sinks[1].topic", "topic alerts again", "one sink for it, which is sinks[0]")]


def test_a_path_with_a_nul_is_reported() -> None:
    text = SHORT.replace("path: in/*.jsonl", 'path: "in\\0"').replace("path: out/crossline.db", 'path: "\\0"')
    with pytest.raises(RefusedError) as caught:
        load_pipeline(text, "p.yaml", reader(GOLDEN))
    lines = [(each.line, each.path) for each in caught.value.problems if each.expected == "a path without a NUL"]
    assert lines == [(5, "sources.payments.path"), (8, "sinks[0].path")]
