"""Rollouts on the real cluster under constant calls: what we add to conversion and load, and what callers notice.

Runs inside the cluster's network (`python -m benchmarks rollout` goes there by itself).
"""

import asyncio

from benchmarks.report import Report, median_figure
from benchmarks.rollout_world import Bench, Plan, Rolled, call_figures, inside_or, keep, roll_out
from tests.support.live.world import World

ROLLOUTS = 20
GRPC_ROLLOUTS = 4


def run() -> Report:
    """Bring the cluster up, go inside its network, and measure."""
    return inside_or(lambda: asyncio.run(_measure()), __name__)


async def _measure() -> Report:
    with World() as world:
        bench = await asyncio.to_thread(Bench.of, world)
        rest = await roll_out(bench, Plan("bench-rest", ROLLOUTS))
        grpc = await roll_out(bench, Plan("bench-grpc", GRPC_ROLLOUTS, protocol="grpc"))
    return _report(rest, grpc)


def _report(rest: Rolled, grpc: Rolled) -> Report:
    own = [one.own for one in rest.times]
    figures = [
        median_figure("own share of build finished to first answer", own, "s", "<=", 5.0),
        median_figure("build finished to first answer", [one.total for one in rest.times], "s"),
    ]
    for title, rolled in (("REST", rest), ("gRPC", grpc)):
        figures += call_figures(title, len(rolled.times), [rolled.calls])
    method = (
        "Real cluster, tiny trained model, float32, BlueGreen, 8 connections (half new for each call), 24 calls a "
        "second, every answer compared with CTranslate2's. Own share = build finished to first answer of the new "
        "revision, less the Job's start to completion and the pod's scheduling to ready (whole seconds)."
    )
    return Report("rollout", method, tuple(figures))


if __name__ == "__main__":
    keep(run())
