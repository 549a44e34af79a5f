"""Proxies before the servers of the tests: how each is reached, and with whose certificate."""

import ssl
from pathlib import Path
from urllib.parse import urlsplit

from devcluster.certificates import write_kubeconfig
from devcluster.control_plane import ControlPlane
from tests.support.fault_proxy.proxy import LOOPBACK, FaultProxy, Upstream

ADMINISTRATORS = "system:masters"


def before_url(url: str) -> FaultProxy:
    """Before a plain HTTP server."""
    parts = urlsplit(url)
    assert parts.port is not None, "servers of tests say their port"
    return FaultProxy(Upstream(parts.port, parts.hostname or LOOPBACK))


def before_api_server(plane: ControlPlane, folder: Path) -> FaultProxy:
    """Before the Kubernetes API, with a certificate of the cluster's own authority.

    TLS ends here, so the API server sees an administrator's certificate whoever calls; what a caller sends to prove
    itself is for the test's faults to judge.
    """
    authority = plane.files.authority()
    server, admin = (
        authority.server("fault-proxy", [LOOPBACK]),
        authority.client("fault-proxy", [ADMINISTRATORS]),
    )
    server.write(folder, "proxy-server")
    admin.write(folder, "proxy-client")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "proxy-server.crt", folder / "proxy-server.key")
    calling = ssl.create_default_context(cafile=str(plane.files.pki / "ca.crt"))
    calling.load_cert_chain(folder / "proxy-client.crt", folder / "proxy-client.key")
    port = urlsplit(plane.endpoints.server).port
    assert port is not None, "an API server listens on a port of its own"
    return FaultProxy(Upstream(port, tls=calling), tls=serving)


def kubeconfig_through(proxy: FaultProxy, plane: ControlPlane, folder: Path) -> Path:
    """A kubeconfig that leads through the proxy."""
    authority = plane.files.authority()
    client = authority.client("through-the-proxy", [ADMINISTRATORS])
    return write_kubeconfig(folder / "proxy.kubeconfig", proxy.url, authority, client)
