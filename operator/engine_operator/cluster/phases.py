"""Asks a predictor's pod how long the phases of its start took, and when it was last called.

Straight at the pod's address, past Knative's proxy: a call through it would count as traffic and keep the pod awake.
Where a mesh or a policy forbids that, nothing is told and nothing is missed: the pod's own conditions stay.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx

from engine_operator.domain.wakes import phases_of

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds. The model is ready when it is asked; one that does not answer at once is out of reach."""

UNTOLD = (httpx.HTTPError, ValueError, KeyError, TypeError)
"""Nobody answers, or with something else."""


class PhaseReader:
    """Asks for one process of ours."""

    def __init__(self, port: int, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._port = port
        self._transport = transport

    async def ask(self, address: str, model: str) -> Mapping[str, float]:
        """Seconds by phase; empty if the pod can't be asked."""
        try:
            told = await self._get(address, f"/v2/models/{model}")
            return phases_of(json.loads(told["properties"]["phases"]))
        except UNTOLD as error:
            log.debug("%s does not tell its phases: %s %s", address, type(error).__name__, error)
            return {}

    async def last_used(self, address: str, model: str) -> datetime | None:
        """When its last call ended; None if the pod can't be asked, or was never called."""
        try:
            told = await self._get(address, f"/v2/models/{model}/stats")
            last = max(int(one["last_inference"]) for one in told["model_stats"])
        except UNTOLD as error:
            log.debug("%s does not tell its last call: %s %s", address, type(error).__name__, error)
            return None
        return datetime.fromtimestamp(last / 1000, UTC) if last > 0 else None

    async def _get(self, address: str, path: str) -> Any:
        host = f"[{address}]" if ":" in address else address
        async with httpx.AsyncClient(timeout=PATIENCE, transport=self._transport, trust_env=False) as http:
            answer = await http.get(f"http://{host}:{self._port}{path}")
            answer.raise_for_status()
            return answer.json()
