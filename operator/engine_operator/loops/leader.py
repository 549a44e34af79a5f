"""Holding the Lease, and running the work only while it is held.

Loss of the Lease cancels the work at once and then tries again; the end of the process gives the Lease back, so that
a successor starts within one look instead of a whole lease time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from engine_operator.cluster.lease import Lease
from engine_operator.errors import ClusterError, LeaseLost

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class Leader:
    """Runs `work` whenever this process leads. One `run` per process."""

    def __init__(self, lease: Lease, work: Work, changed: Callable[[bool], None]) -> None:
        self._lease = lease
        self._work = work
        self._changed = changed

    async def run(self) -> None:
        """Until cancelled. Errors of the work end it; errors of the API are waited out."""
        try:
            while True:
                await self._acquire()
                await self._lead()
        finally:
            await self._release()

    async def _acquire(self) -> None:
        waiting_told = False
        while not await self._attempt():
            if not waiting_told:
                log.info("another process leads; waiting for the Lease")
                waiting_told = True
            await asyncio.sleep(self._lease.timing.look_every)

    async def _lead(self) -> None:
        log.info("leading")
        self._changed(True)
        work = asyncio.ensure_future(self._work())
        keeper = asyncio.ensure_future(self._keep())
        try:
            await asyncio.wait({work, keeper}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._changed(False)
            for task in (work, keeper):
                task.cancel()
            await asyncio.gather(work, keeper, return_exceptions=True)
        if not work.cancelled() and (error := work.exception()) is not None:
            _raise_unless_lost(error)
        log.warning("the Lease is lost; work stopped")

    async def _keep(self) -> None:
        """Renew until the renewal deadline has passed without success."""
        while self._lease.held:
            renewed = await self._attempt()
            timing = self._lease.timing
            await asyncio.sleep(timing.renew_every if renewed else timing.look_every)

    async def _attempt(self) -> bool:
        try:
            return await self._lease.attempt()
        except ClusterError as error:
            log.warning("the Lease can't be reached: %s", error)
            return False

    async def _release(self) -> None:
        try:
            await asyncio.shield(self._lease.release())
        except ClusterError as error:
            log.warning("the Lease could not be given back: %s", error)


def _raise_unless_lost(error: BaseException) -> None:
    """Work that found the Lease lost ended as it should; any other end is a defect."""
    if isinstance(error, BaseExceptionGroup):
        error = error.split(LeaseLost)[1]  # type: ignore[assignment]
    if error is not None and not isinstance(error, LeaseLost):
        raise error
