"""The custom resources as people write them, read into the domain's records."""

from datetime import timedelta
from typing import Any

import pytest

from engine_operator.cluster.crs import duration, engine_spec, source_spec
from engine_operator.domain.capacity import Gpu, Quota, WarmBudget
from engine_operator.domain.desired import Desired, effective_summary
from engine_operator.domain.effective import effective
from engine_operator.domain.engine import (
    EnvVar,
    Exposure,
    ModelSpec,
    ObjectStore,
    Profile,
    Reconvert,
    RolloutStart,
    SourceRef,
    StoreAccess,
    Strategy,
)
from engine_operator.domain.keys import Quantization
from engine_operator.domain.windows import WarmWindow
from engine_operator.errors import UsageError
from tests.support.cases import case
from tests.unit.operator.domain.world import DEFAULTS

STORE = {"uri": "s3://bucket/artifacts", "secretRef": {"name": "store"}}


def engine(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A TranslationEngine."""
    return {
        "metadata": {"name": "e1", "namespace": "ns", "uid": "u", "generation": 4, **metadata},
        "spec": spec,
    }


def test_a_discovered_engine_says_nothing_but_its_source() -> None:
    labels = {"serval-live.dev/discovered": "true"}
    spec = engine_spec(engine({"source": {"servalSource": "ruth", "engineId": "66c4"}}, labels=labels))
    assert isinstance(spec.origin, SourceRef)
    assert (spec.origin.serval_source, spec.origin.engine_id) == ("ruth", "66c4")
    assert spec.operator_made
    assert spec.generation == 4
    assert vars(spec.serving) == dict.fromkeys(vars(spec.serving))
    assert (spec.paused, spec.suspended, spec.pinned) == (False, False, None)


def test_windows_and_policy_are_read_and_silence_leaves_them_to_the_source() -> None:
    source = {"servalSource": "ruth", "engineId": "66c4"}
    silent = engine_spec(engine({"source": source}))
    assert (silent.warm_windows, silent.reconvert) == (None, None)
    assert engine_spec(engine({"source": source, "warmWindows": []})).warm_windows == ()
    windows = [
        {"start": "0 6 * * *", "end": "0 20 * * *"},
        {"start": "0 9 * * 6", "end": "0 12 * * 6", "timeZone": "Asia/Jayapura", "replicas": 2},
    ]
    spec = engine_spec(
        engine({"source": source, "warmWindows": windows, "policy": {"reconvert": "NewConverter"}})
    )
    assert spec.warm_windows == (
        WarmWindow("0 6 * * *", "0 20 * * *", "UTC", 1),
        WarmWindow("0 9 * * 6", "0 12 * * 6", "Asia/Jayapura", 2),
    )
    assert spec.reconvert is Reconvert.NEW_CONVERTER


def test_capacity_is_read_and_silence_bounds_nothing() -> None:
    body = {"servalSource": "ruth", "engineId": "66c4"}
    silent = engine_spec(engine({"source": body}))
    assert (silent.priority, silent.keep_warm, silent.serving.gpu) == (0, False, None)
    serving = {"gpu": {"count": 2}, "runtimeClassName": "nvidia", "priorityClassName": "live"}
    spec = engine_spec(engine({"source": body, "priority": -3, "keepWarm": True, "serving": serving}))
    assert (spec.priority, spec.keep_warm) == (-3, True)
    assert spec.serving.gpu == Gpu("nvidia.com/gpu", 2)
    assert (spec.serving.runtime_class_name, spec.serving.priority_class_name) == ("nvidia", "live")
    unbounded = source_spec(engine(SOURCE))
    assert (unbounded.quota, unbounded.warm_budget) == (Quota(), None)
    quota, budget = {"awakeEngines": 9, "gpus": 2}, {"engines": 4, "minResidency": "90s"}
    source = source_spec(engine({**SOURCE, "quota": quota, "warmBudget": budget}))
    assert source.quota == Quota(awake_engines=9, gpus=2)
    assert source.warm_budget == WarmBudget(4, timedelta(seconds=90))
    assert source_spec(engine({**SOURCE, "warmBudget": {"engines": 0}})).warm_budget == WarmBudget(0)


MIN_SCALE = "autoscaling.knative.dev/min-scale"
SOURCE = {"url": "https://s.example", "credentialsSecretRef": {"name": "k"}, "artifactStore": STORE}


@case("D12", breaks="engine_operator.cluster.crs:_min_scale")
def test_d12_a_least_scale_in_an_annotation_is_read_as_min_replicas_and_told() -> None:
    plain = engine({"source": {"servalSource": "ruth", "engineId": "66c4"}})
    annotated = {**plain, "metadata": {**plain["metadata"], "annotations": {MIN_SCALE: "2"}}}
    source = source_spec({**engine(SOURCE, annotations={MIN_SCALE: "1"})})
    for item, around, expected, where in (
        (annotated, None, 2, "TranslationEngine"),
        (plain, source, 1, "ServalSource"),
        (annotated, source, 2, "TranslationEngine"),
    ):
        spec = engine_spec(item)
        found = effective(spec, around, DEFAULTS)
        assert found.serving.min_replicas == expected
        shown = effective_summary(Desired(spec, found, ObjectStore("s3://a/b"), "i"), {})
        assert shown["replicas"].startswith(f"{expected}..")
        assert where in shown["warning"]
        assert "minReplicas" in shown["warning"]


def test_d12_what_is_said_in_the_right_place_goes_before_an_annotation_and_needs_no_warning() -> None:
    spec = engine_spec(
        engine(
            {"source": {"servalSource": "r", "engineId": "66c4"}, "serving": {"minReplicas": 0}},
            annotations={MIN_SCALE: "2"},
        )
    )
    found = effective(spec, None, DEFAULTS)
    assert (found.serving.min_replicas, found.min_scale) == (0, None)
    assert "warning" not in effective_summary(Desired(spec, found, ObjectStore("s3://a/b"), "i"), {})


def test_everything_that_a_person_may_write_is_read() -> None:
    body = {
        "model": {"uri": "s3://b/m.tar.gz", "revision": 7, "artifactStore": STORE},
        "languages": {"source": "eng_Latn", "target": "spa_Latn"},
        "quantization": "float16",
        "serving": {
            "profile": "gpu",
            "exposure": "External",
            "minReplicas": 0,
            "scaleDownDelay": "1h30m",
            "window": "10s",
            "resources": {"requests": {"cpu": 2}},
            "nodeSelector": {"pool": "gpu"},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "tolerationSeconds": 5}],
            "imagePullSecrets": [{"name": "registry"}],
            "env": [{"name": "A", "value": "b"}],
        },
        "rollout": {"strategy": "Auto", "start": "OnFirstCall"},
        "paused": True,
        "pinned": 3,
    }
    spec = engine_spec(engine(body, annotations={"serval-live.dev/retry": "again"}))
    assert isinstance(spec.origin, ModelSpec)
    assert spec.origin.revision == 7
    assert spec.origin.artifact_store.secret == "store"
    serving = spec.serving
    assert (serving.profile, serving.exposure, serving.min_replicas) == (Profile.GPU, Exposure.EXTERNAL, 0)
    assert (serving.scale_down_delay, serving.window) == (timedelta(minutes=90), timedelta(seconds=10))
    assert serving.resources is not None
    assert dict(serving.resources.requests) == {"cpu": "2"}
    assert serving.env == (EnvVar("A", "b"),)
    assert serving.image_pull_secrets == ("registry",)
    assert serving.tolerations is not None
    assert serving.tolerations[0].toleration_seconds == 5
    assert (spec.rollout.strategy, spec.rollout.start) == (Strategy.AUTO, RolloutStart.ON_FIRST_CALL)
    assert (spec.quantization, spec.pinned, spec.retry_token) == (Quantization.FLOAT16, 3, "again")
    assert spec.paused


def source(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A ServalSource."""
    plain = {"url": "https://serval", "credentialsSecretRef": {"name": "key"}, "artifactStore": STORE}
    return {
        "metadata": {"name": "ruth", "namespace": "ns", "uid": "u", **metadata},
        "spec": {**plain, **spec},
    }


def test_a_source_follows_nmt_engines_by_presigned_urls_unless_told_otherwise() -> None:
    spec = source_spec(source({}))
    assert spec.selector.types == ("nmt",)
    assert spec.model_store.access is StoreAccess.PRESIGNED_URL
    assert spec.model_store.store is None
    assert spec.artifact_store.for_readers == "store"
    assert spec.allow_mass_deletion is None


def test_a_source_with_a_bucket_and_a_selector() -> None:
    bucket = {"access": "Bucket", "uri": "s3://silnlp/production", "secretRef": {"name": "aws"}}
    reader = {**STORE, "readerSecretRef": {"name": "reader"}, "caConfigMapRef": {"name": "ca"}}
    spec = source_spec(
        source({"modelStore": bucket, "artifactStore": reader, "engineSelector": {"names": ["team:*"]}})
    )
    assert spec.model_store.store is not None
    assert (spec.model_store.store.uri, spec.model_store.store.secret) == ("s3://silnlp/production", "aws")
    assert (spec.artifact_store.for_readers, spec.artifact_store.ca_config_map) == ("reader", "ca")
    assert spec.selector.names == ("team:*",)


@pytest.mark.parametrize(("text", "count"), [("6", 6), ("six", None), ("-1", None), ("", None)])
def test_an_annotation_that_is_no_number_releases_nothing(text: str, count: int | None) -> None:
    annotations = {"serval-live.dev/allow-mass-deletion": text}
    assert source_spec(source({}, annotations=annotations)).allow_mass_deletion == count


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("1h30m", 5400), ("1h1s", 3601), (None, None)]
)
def test_durations(text: str | None, seconds: int | None) -> None:
    found = duration("x", text)
    assert (found.total_seconds() if found else None) == seconds


@pytest.mark.parametrize("text", ["", "10", "1.5h", "m", "-3s", "10m5"])
def test_what_is_no_duration_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(UsageError, match=r"serving\.window"):
        duration("serving.window", text)


def test_an_engine_of_neither_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="source or model"):
        engine_spec(engine({}))
