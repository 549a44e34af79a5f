"""A TCP proxy on loopback that breaks downloads and speaks TLS: the fault proxy, as downloads need it.

It passes bytes on unread. `break_next` breaks connections once so many bytes of the answer have passed.
"""

import ssl
from pathlib import Path

from tests.support.fault_proxy import Fault, FaultProxy, Kind, Match, Upstream


class Proxy(FaultProxy):
    """Stands before a server on loopback; use as a context manager."""

    def __init__(self, upstream_port: int, tls: tuple[Path, Path] | None = None) -> None:
        context = None
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
        super().__init__(Upstream(upstream_port), context, http=False)
        self._cuts: list[Fault] = []

    @property
    def broken(self) -> int:
        """Connections that were broken so far."""
        return sum(len(cut.hits) for cut in self._cuts)

    def break_next(self, cuts: int, after: int) -> None:
        """Break the next `cuts` connections whose answers reach `after` bytes."""
        self.mend()
        self._cuts.append(self.add(Fault(Kind.CLOSE, Match(times=cuts), after_bytes=max(1, after))))
