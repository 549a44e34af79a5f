"""How long the body of a REST call may take to arrive. Neither the SDK nor uvicorn limits that.

Without a limit a caller who sends a byte a minute holds a connection and memory for ever, and holds up the end of the
process: a call whose body is not here yet is not running, so nobody counts it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nllb_predictor.errors import BodyTooSlow, ShuttingDown


class Bodies:
    """The bodies that arrive just now. Belongs to one event loop."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._arriving: set[asyncio.Timeout] = set()
        self._leaving = False

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Around the reading of one body. Raises BodyTooSlow; ShuttingDown where the process leaves meanwhile."""
        try:
            async with asyncio.timeout(self._seconds) as limit:
                self._arriving.add(limit)
                try:
                    yield
                finally:
                    self._arriving.discard(limit)
        except TimeoutError as error:
            if self._leaving:
                raise ShuttingDown(
                    "This process is shutting down.", hint="Send the call again; another one answers."
                ) from error
            raise BodyTooSlow(
                f"The body did not arrive within {self._seconds:g} s.",
                hint="Send fewer segments per call, or raise --body-timeout-s.",
            ) from error

    def leave(self, seconds: float) -> None:
        """New calls are refused from now on: no body is waited for any longer than this."""
        self._leaving = True
        self._seconds = min(self._seconds, seconds)
        end = asyncio.get_running_loop().time() + self._seconds
        for limit in self._arriving:
            limit.reschedule(min(end, limit.when() or end))
