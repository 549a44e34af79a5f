"""A proxy on loopback that does to connections what balancers, firewalls and tired servers do.

It stands before the Kubernetes API (TLS of the test's own authority), before Serval's stand-in, before an S3 server, or
before anything that speaks TCP, and is switched while it runs. It refuses to invent traffic: bytes pass as they came,
late or not at all, and an answer of its own is given only where a fault says so.

Reading order: `rules` (what can go wrong), `http` (request heads), `connection`, `proxy`, `before`.
"""

from tests.support.fault_proxy.before import before_api_server, before_url, kubeconfig_through
from tests.support.fault_proxy.http import Request
from tests.support.fault_proxy.proxy import FaultProxy, Upstream
from tests.support.fault_proxy.rules import HTML_502, Answer, Fault, Kind, Match

__all__ = [
    "HTML_502",
    "Answer",
    "Fault",
    "FaultProxy",
    "Kind",
    "Match",
    "Request",
    "Upstream",
    "before_api_server",
    "before_url",
    "kubeconfig_through",
]
"""What tests use."""
