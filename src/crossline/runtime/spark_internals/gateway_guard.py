"""Java's port for Python opens to processes of this account alone, where the system reports the owner of a connection.

py4j makes a thread of each connection before it asks for its token, and never closes a silent one: a client that
connects often enough takes the machine's threads. Linux reports the owner of each connection; where it does not
(another system, another place of the processes' table), the token is what guards.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JNetworkError

_NAME = "CrosslineDoor"
# Linux has a line for each end of a connection; theirs has their address first. Addresses are words of the machine;
# those of IPv4 are the last word of one of IPv6. A missing line is that of a closed connection.
_JAVA = """
import java.io.BufferedReader;
import java.io.FileReader;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

public class CrosslineDoor extends ServerSocket {
    private final ServerSocket door;
    private final String uid;

    public CrosslineDoor(ServerSocket door, String uid) throws IOException {
        this.door = door;
        this.uid = uid;
    }

    public Socket accept() throws IOException {
        while (true) {
            Socket met = this.door.accept();
            if (this.isOurs(met)) return met;
            met.close();
        }
    }

    private static String written(InetAddress address, int port) {
        byte[] raw = address.getAddress();
        int word = ByteBuffer.wrap(raw, raw.length - 4, 4).order(ByteOrder.nativeOrder()).getInt();
        return String.format("%08X:%04X", new Object[] {new Integer(word), new Integer(port)});
    }

    private boolean isOurs(Socket met) {
        String theirs = written(met.getInetAddress(), met.getPort());
        String here = written(met.getLocalAddress(), met.getLocalPort());
        String[] tables = new String[] {"/proc/net/tcp", "/proc/net/tcp6"};
        for (int i = 0; i < tables.length; i++) {
            try {
                BufferedReader table = new BufferedReader(new FileReader(tables[i]));
                try {
                    for (String line = table.readLine(); line != null; line = table.readLine()) {
                        String[] fields = line.trim().split(" +");
                        if (fields.length > 7 && fields[1].endsWith(theirs) && fields[2].endsWith(here)) {
                            return fields[7].equals(this.uid);
                        }
                    }
                } finally {
                    table.close();
                }
            } catch (IOException unknown) {
            }
        }
        return true;
    }

    public void close() throws IOException { if (this.door != null) this.door.close(); }

    public boolean isClosed() { return this.door == null || this.door.isClosed(); }

    public int getLocalPort() { return this.door.getLocalPort(); }

    public InetAddress getInetAddress() { return this.door.getInetAddress(); }

    public SocketAddress getLocalSocketAddress() { return this.door.getLocalSocketAddress(); }
}
"""


def guard(gateway: Any) -> None:
    """Have the Java at the other end of ``gateway`` take in connections of this account alone, a moment from now.

    In a thread of its own: Java compiles meanwhile, for a tenth of a second that a start would wait.
    """
    threading.Thread(target=_guard, args=(gateway,), name="door", daemon=True).start()


def _guard(gateway: Any) -> None:
    with suppress(Py4JNetworkError, OSError):  # the session has ended before
        _close_to_others(gateway)


def _close_to_others(gateway: Any) -> None:
    server = JavaObject("GATEWAY_SERVER", gateway._gateway_client)  # noqa: SLF001 - py4j has no other word for it
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_JAVA)
    made = compiler.getClassLoader().loadClass(_NAME).getDeclaredConstructors()[0]
    field = gateway.jvm.java.lang.Class.forName("py4j.GatewayServer").getDeclaredField("sSocket")
    field.setAccessible(True)
    given = gateway.new_array(gateway.jvm.Object, 2)
    given[0], given[1] = field.get(server), str(os.geteuid())
    field.set(server, made.newInstance(given))
    # Java waits at the bare port for one more.
    parameters = gateway.gateway_parameters
    socket.create_connection((parameters.address, parameters.port)).close()
