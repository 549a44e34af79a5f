"""The world of the chaos benchmark: engines, builds that end, three proxies' worth of trouble, and what is right.

Right is what Serval says: an engine that it has and that has a model serves exactly that revision, from an artifact
that is in the store; an engine that it does not have has no TranslationEngine.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.scale_world import settled, start_operator
from engine_operator.cluster.resources import ENGINES, Json
from engine_operator.errors import ClusterUnreachable
from tests.integration.operator.bench import Bench
from tests.support.fault_proxy import FaultProxy, before_api_server, before_url, kubeconfig_through
from tests.support.serval import Ending, EngineSpec, JobState

WAITS = {"sweep_every": "15", "deletion_grace": "50"}
"""A twelfth of the shipped ones, so that what only a sweep repairs fits into the benchmark. All other waits are the
shipped ones: a Lease of half a second's work would be lost to a busy machine, and not to what is injected here."""

PACE = 0.1
"""Seconds between two bursts of builds."""

NOT_COMPLETED = 0.1
"""Share of builds that fault or are cancelled."""


@dataclass
class Chaos:
    """One run."""

    bench: Bench
    model: Path
    api: FaultProxy
    store: FaultProxy
    kubeconfig: Path
    random: Random = field(default_factory=lambda: Random(12))
    engines: list[str] = field(default_factory=list)
    events: int = 0
    deleted: int = 0

    def add_engine(self) -> str:
        """A new engine of the account."""
        engine = self.bench.serval.add_engine(EngineSpec(name=f"team:{self.deleted}")).id
        self.engines.append(engine)
        return engine

    async def event(self, engine: str | None = None, completed: bool = False) -> str:
        """A build of an engine (of any) begins and ends, one in ten without a model; which engine it was."""
        chosen = engine or self.random.choice(self.engines)
        await asyncio.to_thread(self._build, chosen, completed)
        await asyncio.sleep(PACE)
        return chosen

    async def burst(self, events: int) -> None:
        """Builds of any engines end one after the other, as fast as Serval can."""

        def run() -> None:
            for _ in range(events):
                self._build(self.random.choice(self.engines))

        await asyncio.to_thread(run)
        await asyncio.sleep(PACE)

    def _build(self, engine: str, completed: bool = False) -> None:
        ending = Ending()
        if not completed and self.random.random() < NOT_COMPLETED:
            ending = Ending(self.random.choice((JobState.FAULTED, JobState.CANCELED)))
        model = self.model if ending.state is JobState.COMPLETED else None
        self.bench.serval.run_build(engine, model, ending)
        self.events += 1

    async def replace_engine(self, engine: str) -> None:
        """An engine is deleted, and another one made and built."""
        self.engines.remove(engine)
        self.bench.serval.delete_engine(engine)
        self.deleted += 1
        await self.event(self.add_engine(), completed=True)

    async def operator(self) -> None:
        """Start one that meets the trouble, with a store and an API behind proxies."""
        await start_operator(self.bench, None, **WAITS, kubeconfig=str(self.kubeconfig))

    async def kill_operator(self) -> None:
        """A lost node, and a new pod elsewhere."""
        await self.bench.operators[-1].kill()
        await self.operator()

    async def wrong(self) -> list[str]:
        """What is not as Serval says, in words."""
        found = {one["spec"]["source"]["engineId"]: one for one in await self._engines()}
        wanted = {
            one.id: one.model_revision
            for one in list(self.bench.serval.backend.world.engines.values())
            if one.model_revision
        }
        wrong = [f"{engine} is gone in Serval" for engine in found if engine not in wanted]
        for engine, revision in wanted.items():
            if engine not in found:
                wrong.append(f"{engine} has no TranslationEngine")
            elif not settled(found[engine], revision):
                status = found[engine].get("status") or {}
                wrong.append(f"{engine} wants {revision}: {status.get('serving')} {status.get('target')}")
        return wrong

    async def without_artifact(self) -> list[str]:
        """Engines whose serving artifact is not in the store."""
        present = set(await asyncio.to_thread(self.bench.manifests))
        serving = {
            str(one["metadata"]["name"]): str(one["status"]["serving"]["artifactKey"])
            for one in await self._engines()
        }
        return [name for name, key in serving.items() if key not in present]

    async def _engines(self) -> list[Json]:
        """All TranslationEngines. On a machine that has other work an API server may be slow to answer us, too."""
        for _ in range(9):
            try:
                return await self.bench.all(ENGINES)
            except ClusterUnreachable as error:
                print(f"    {error}", flush=True)
        return await self.bench.all(ENGINES)

    def converted_twice(self) -> dict[str, int]:
        """Artifacts whose conversion ended well more than once."""
        counts = Counter(self.bench.simulator.converter.written)
        return {key: count for key, count in counts.items() if count > 1}


@asynccontextmanager
async def chaos_of(bench: Bench, engines: int) -> AsyncIterator[Chaos]:
    """An account of engines that all serve their first build; operator and proxies end with it."""
    with before_api_server(bench.plane, bench.folder) as api, before_url(bench.store.endpoint) as store:
        kubeconfig = kubeconfig_through(api, bench.plane, bench.folder)
        chaos = Chaos(bench, bench.archive(), api, store, kubeconfig)
        await bench.make_source(
            artifactStore={**bench.artifact_store(), "endpoint": store.url},
            serving={"scaleDownDelay": "6s", "window": "6s"},
        )
        for _ in range(engines):
            await chaos.event(chaos.add_engine(), completed=True)
        try:
            await chaos.operator()
            yield chaos
        finally:
            for operator in bench.operators:
                await operator.kill()
