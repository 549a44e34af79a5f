"""Asks a predictor's pod how long the phases of its start took.

Straight at the pod's address, past Knative's proxy: a call through it would count as traffic and keep the pod awake.
Where a mesh or a policy forbids that, nothing is told and nothing is missed: the pod's own conditions stay.
"""

import json
import logging
from collections.abc import Mapping

import httpx

from engine_operator.domain.wakes import phases_of

log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds. The model is ready when it is asked; one that does not answer at once is out of reach."""


class PhaseReader:
    """Asks for one process of ours."""

    def __init__(self, port: int, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._port = port
        self._transport = transport

    async def ask(self, address: str, model: str) -> Mapping[str, float]:
        """Seconds by phase; empty if the pod can't be asked."""
        host = f"[{address}]" if ":" in address else address
        url = f"http://{host}:{self._port}/v2/models/{model}"
        try:
            async with httpx.AsyncClient(
                timeout=PATIENCE, transport=self._transport, trust_env=False
            ) as http:
                answer = await http.get(url)
                answer.raise_for_status()
                return phases_of(json.loads(answer.json()["properties"]["phases"]))
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            log.debug("%s does not tell its phases: %s %s", url, type(error).__name__, error)
            return {}
