"""Looks names up for callers, and keeps what the name server fails at apart from what the service fails at.

On a busy machine the cluster's DNS may take longer than the C library waits. A person's program asks again then, and
so does this; every look-up that had to be repeated is counted and told. Nothing else is ever repeated: a call that was
sent and not answered has failed.
"""

import asyncio
import socket
import time
from dataclasses import dataclass

PAUSE = 0.2
"""Seconds before a look-up is repeated."""


class NotResolved(RuntimeError):
    """No address within the caller's patience."""


@dataclass
class Names:
    """The look-ups of one caller."""

    looked_up: int = 0
    repeated: int = 0
    """Look-ups that the name server did not answer in time, and that were made again."""

    async def address(self, host: str, patience: float) -> str:
        """An address of this host. Raises NotResolved where there is no such name, or no answer within `patience`."""
        until = time.monotonic() + patience
        self.looked_up += 1
        while True:
            try:
                found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except socket.gaierror as error:
                if error.errno != socket.EAI_AGAIN or time.monotonic() >= until:
                    raise NotResolved(f"look-up of {host}: {error}") from error
                self.repeated += 1
                await asyncio.sleep(PAUSE)
            else:
                return str(found[0][4][0])
