"""What deleted models of persons leave in their store: found by the process that saw them, and only when it is time."""

from datetime import UTC, datetime, timedelta
from typing import cast

import httpx

from engine_operator.cluster.resources import Json
from engine_operator.context import StoreState
from engine_operator.domain.actions import Action, CollectArtifacts
from engine_operator.domain.engine import ObjectStore
from engine_operator.domain.keys import ArtifactKey, ConversionOptions, EngineId, model_engine_id
from engine_operator.domain.observed import StoredArtifact, StoredAttempt
from engine_operator.executor import Executor, Outcome
from engine_operator.loops.orphans import Orphans
from engine_operator.loops.sources import Sources
from engine_operator.store.artifacts import ArtifactStore
from tests.support.cases import case
from tests.support.fake_cluster import FakeCluster

URI = "s3://people/base"
MODEL = model_engine_id("base", URI)
KEY = ArtifactKey.of(MODEL, 1, ConversionOptions())
REVISIONS = "/apis/serving.knative.dev/v1/namespaces/ns/revisions"
ENGINES = "/apis/serval-live.dev/v1alpha1/namespaces/ns/translationengines"
PLACE = ObjectStore("s3://artifacts/live")


class Folder:
    """The `_models` folder of one store, and what is collected from it."""

    def __init__(self) -> None:
        self.artifacts = {KEY: datetime.now(UTC) - timedelta(hours=2)}
        self.lists = 0

    async def engines(self) -> tuple[EngineId, ...]:
        self.lists += 1
        return tuple({key.engine_id for key in self.artifacts})

    async def stored(self, engine: EngineId) -> tuple[StoredArtifact, ...]:
        return tuple(
            StoredArtifact(key, True, (StoredAttempt("a1", at),), "a1")
            for key, at in self.artifacts.items()
            if key.engine_id == engine
        )

    async def run(self, actions: list[Action]) -> Outcome:
        for action in actions:
            assert isinstance(action, CollectArtifacts)
            self.artifacts = {k: at for k, at in self.artifacts.items() if f"{k}/" not in action.folders}
        return Outcome(len(actions))


class Known:
    """The sources, of which only persons' models matter here."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder

    def model_stores(self, namespace: str) -> list[tuple[ObjectStore, StoreState]]:
        store = cast(ArtifactStore, self.folder)
        return [(PLACE, StoreState(PLACE, "uid-ns-_models", store, None, alone=True))]

    def model_executor(self, namespace: str, place: ObjectStore) -> Executor:
        return cast(Executor, self.folder)


class Setting:
    """A model that was served, and the time."""

    def __init__(self) -> None:
        self.folder, self.cluster, self.now = Folder(), FakeCluster(), 0.0
        self.cluster.put(f"{ENGINES}/base", ENGINE)
        self.cluster.interfere = self._empty
        sources = cast(Sources, Known(self.folder))
        grace = timedelta(minutes=10)
        self.orphans = Orphans(self.cluster.client(), sources, grace, 3600.0, lambda: self.now)

    def _empty(self, request: httpx.Request) -> httpx.Response | None:
        """A kind without objects has an empty list; the small API knows only objects."""
        path = request.url.path
        known = any(one == path or one.startswith(f"{path}/") for one in self.cluster.objects)
        return None if known else httpx.Response(200, json={"items": [], "metadata": {}})

    async def sweep(self, *alive: EngineId) -> None:
        self.now += 180
        await self.orphans.collect_models("ns", alive)

    def delete(self) -> None:
        del self.cluster.objects[f"{ENGINES}/base"]


ENGINE: Json = {
    "metadata": {"name": "base", "namespace": "ns", "uid": "u"},
    "spec": {"model": {"uri": URI, "artifactStore": {"uri": PLACE.uri}}},
}
REVISION: Json = {
    "metadata": {"name": "base-predictor-00001", "labels": {"serval-live.dev/engine": "base"}},
    "spec": {
        "containers": [
            {
                "name": "kserve-container",
                "env": [{"name": "SERVAL_LIVE_MODEL_URI", "value": f"{PLACE.uri}/uid-ns-_models/{KEY}/"}],
            }
        ]
    },
}


async def never(self: Orphans, namespace: str, alive: object) -> None:
    """Only folders of sources are looked into."""


@case("E4", breaks="engine_operator.loops.orphans:Orphans.collect_models", naive=never)
async def test_e4_artifacts_of_a_deleted_model_go_once_nothing_names_them() -> None:
    setting = Setting()
    await setting.sweep(MODEL)
    setting.cluster.put(f"{REVISIONS}/base-predictor-00001", REVISION)
    setting.delete()
    await setting.sweep()
    assert KEY in setting.folder.artifacts, "its revision may still wake"
    del setting.cluster.objects[f"{REVISIONS}/base-predictor-00001"]
    await setting.sweep()
    assert setting.folder.artifacts == {}


async def test_a_model_that_lives_keeps_its_artifacts_and_costs_one_list_an_hour() -> None:
    setting = Setting()
    for _ in range(20):
        await setting.sweep(MODEL)
    assert KEY in setting.folder.artifacts
    assert setting.folder.lists == 1


async def test_young_artifacts_wait_for_their_time() -> None:
    setting = Setting()
    setting.folder.artifacts = {KEY: datetime.now(UTC)}
    await setting.sweep(MODEL)
    setting.delete()
    await setting.sweep()
    assert KEY in setting.folder.artifacts, "deleted and applied again, it finds its model"
    setting.folder.artifacts = {KEY: datetime.now(UTC) - timedelta(minutes=11)}
    await setting.sweep()
    assert setting.folder.artifacts == {}
