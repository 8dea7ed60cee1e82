"""A real Kafka broker on this machine for tests, measurements, `make services`: one node, on loopback."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    OffsetSpec,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from crossline.basics.errors import PermanentError, SourceError
from crossline.runtime.machine.jars import ensure_jars
from crossline.runtime.machine.java import find_java
from dev.services.server import Server
from dev.services.supervision import Home, free_ports

_CLUSTER = "4L6g3nShT-eMCtK--X86sw"  # any 16 bytes in base64
# On a busy machine, 6 s of processor time take a minute; a broker that fails ends, which is reported at once.
_START_S_MAX = 300.0
_ASK_S = 0.5
_ADMIN_S_MAX = 120.0
_LOG_TAIL = 15
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
num.partitions=2
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.ms=-1
broker.session.timeout.ms=9000
broker.heartbeat.interval.ms=500
"""
# A further listener, with authentication. Passwords of SCRAM are set in the running broker.
_SECURED = """\
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},SECURED://127.0.0.1:{secured}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SECURED://127.0.0.1:{secured}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.location={certificate}
listener.name.secured.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
listener.name.secured.plain.sasl.jaas.config={plain} required{users};
listener.name.secured.scram-sha-512.sasl.jaas.config={scram} required;
"""
_MODULES = "org.apache.kafka.common.security"
_SILENT = logging.getLogger("crossline.kafka_broker")
_SILENT.propagate = False
_SILENT.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Secured:
    """A listener of SASL over TLS. ``certificate``: a file of the broker's key and certificate, in PEM form.

    ``plain``: passwords by user, for the mechanism PLAIN; ``scram``: the same for SCRAM-SHA-512.
    """

    certificate: Path
    plain: Mapping[str, str] = field(default_factory=dict)
    scram: Mapping[str, str] = field(default_factory=dict)


class LocalBroker(Server):
    """A broker as a context manager: ready inside, gone after, its data with it unless ``folder`` names a place for it.

    ``brokers`` is the address to give to clients; ``log_file`` what the broker says. The broker dies with this process,
    also when that is killed, unless it is ``alone`` (see Home). ``kill`` and ``start`` play a crash: topics, records
    and the address stay. With a ``port`` of one's own the controller has the next one.
    ``secured``: it listens at the address of this name too, and there asks who is there.
    ``brief``: it has little to do, and its Java compiles quickly, not well: a start takes 6 s of a core, not 9.
    Raises PermanentError without Java or jars, SourceError where the broker does not come up.
    """

    log_name = "broker.log"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        port: int = 0,
        heap_mb: int = 384,
        brief: bool = False,
        alone: bool = False,
        secured: Secured | None = None,
    ) -> None:
        super().__init__(folder, alone=alone)
        self._port = port
        self._heap_mb = heap_mb
        self._brief = brief
        self._command: list[str] = []
        self._asking = secured
        self.brokers = ""
        self.secured = ""

    def __enter__(self) -> Self:
        java, jars = find_java(), ensure_jars("broker")
        self._command = [
            str(java.binary),
            f"-Xmx{self._heap_mb}m",
            "-XX:+UseSerialGC",
            *(["-XX:TieredStopAtLevel=1"] if self._brief else []),
            "-cp",
            os.pathsep.join(map(str, jars)),
        ]
        self._home = Home.open("broker", self._kept, alone=self._alone)
        try:
            self._come_up(self._begin, "already in use", fixed=bool(self._port))
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        self._choose_ports()
        self._format()
        self.start()
        self._let_in()

    def start(self) -> None:
        """Start the broker on its data and address, and wait until it answers."""
        command = [*self._command, "kafka.Kafka", str(self.folder / "server.properties")]
        self._process = self._opened.start(command, self.log_file)
        self._await_answer(self._process)

    def admin(self) -> AdminClient:
        """A client to administer the broker with."""
        return _admin(self.brokers)

    def create_topic(
        self, name: str, partitions: int = 1, *, append_time: bool = True, config: Mapping[str, str] | None = None
    ) -> str:
        """Create a topic, return its name. ``append_time``: the broker stamps records as they arrive (ingest time)."""
        stamp = "LogAppendTime" if append_time else "CreateTime"
        topic = NewTopic(name, partitions, 1, config={"message.timestamp.type": stamp, **(config or {})})
        admin = self.admin()  # the request ends with the client
        try:
            admin.create_topics([topic], operation_timeout=_ADMIN_S_MAX)[name].result(_ADMIN_S_MAX)
        except KafkaException as error:
            raise PermanentError(f"cannot create topic {name}: {error.args[0].str()}") from error
        # The controller has created it; the broker learns of it a moment later, and leads it another one later.
        deadline_s = time.monotonic() + _ADMIN_S_MAX
        while len(_led(admin, name)) < partitions or not _answers(admin, name, partitions):
            if time.monotonic() > deadline_s:
                raise SourceError(f"topic {name} was made and has no leader after {_ADMIN_S_MAX:.0f} s")
        return name

    def _choose_ports(self) -> None:
        port, controller, secured = free_ports(3)
        if self._port:
            port, controller = self._port, self._port + 1
        self.brokers = f"127.0.0.1:{port}"
        settings = _PROPERTIES.format(port=port, controller=controller, data=self.folder / "data")
        if self._asking is not None:
            self.secured = f"127.0.0.1:{secured}"
            known = {"users": "".join(f' user_{name}="{each}"' for name, each in self._asking.plain.items())}
            known |= {"plain": f"{_MODULES}.plain.PlainLoginModule", "scram": f"{_MODULES}.scram.ScramLoginModule"}
            at = {"port": port, "controller": controller, "secured": secured}
            settings += _SECURED.format(**at, **known, certificate=self._asking.certificate)  # the later line counts
        (self.folder / "server.properties").write_text(settings)

    def _let_in(self) -> None:
        """Store the passwords for SCRAM in the broker."""
        users = self._asking.scram if self._asking is not None else {}
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4_096)
        changes = [UserScramCredentialUpsertion(name, credential, each.encode()) for name, each in users.items()]
        if changes:
            admin = self.admin()  # the request ends with the client
            for done in admin.alter_user_scram_credentials(changes).values():
                done.result(_ADMIN_S_MAX)

    def _format(self) -> None:
        if (self.folder / "data" / "meta.properties").exists():
            return
        arguments = ["format", "--ignore-formatted", "-t", _CLUSTER, "-c", str(self.folder / "server.properties")]
        with self.log_file.open("ab") as log:
            done = subprocess.run(
                [*self._command, "kafka.tools.StorageTool", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                check=False,
            )
        if done.returncode != 0:
            raise SourceError(self._failure(f"the broker's storage could not be made (exit code {done.returncode})"))

    def _await_answer(self, process: subprocess.Popen[bytes]) -> None:
        client = _admin(self.brokers)
        deadline_s = time.monotonic() + _START_S_MAX
        while time.monotonic() < deadline_s:
            if process.poll() is not None:
                message = self._failure(f"the broker ended while it started (exit code {process.returncode})")
                self.kill()
                raise SourceError(message)
            with suppress(KafkaException):
                if client.list_topics(timeout=_ASK_S).brokers:
                    return
        message = self._failure(f"the broker did not answer at {self.brokers} within {_START_S_MAX:.0f} s")
        self.kill()
        raise SourceError(message)

    def _failure(self, what: str) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        return "\n".join([f"{what}; the end of its log:", *(f"  {line}" for line in lines)])


def _answers(admin: AdminClient, topic: str, partitions: int) -> bool:
    """Whether the leader says of each partition where it ends."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}
    try:
        for each in admin.list_offsets(wanted, request_timeout=_ADMIN_S_MAX).values():
            each.result(_ADMIN_S_MAX)
    except KafkaException:
        return False
    return True


def _led(admin: AdminClient, topic: str) -> list[int]:
    """The partitions of ``topic`` that a broker serves."""
    found = admin.list_topics(timeout=_ADMIN_S_MAX).topics.get(topic)
    return [number for number, partition in found.partitions.items() if partition.leader >= 0] if found else []


def _admin(brokers: str) -> AdminClient:
    # Retry soon, and suppress the client's messages about a broker that is still starting.
    backoff_ms = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200}
    return AdminClient({"bootstrap.servers": brokers, **backoff_ms}, logger=_SILENT)
