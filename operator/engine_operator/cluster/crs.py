"""Our two custom resources, between the API's JSON and the domain's records.

The API server has checked them against the CRDs' closed schemas, so this module reads and does not judge. What a
person wrote that still can't be (a duration of another form) becomes a UsageError that names the field.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, TypeVar

from engine_operator.cluster.resources import JsonView
from engine_operator.domain import wire
from engine_operator.domain.capacity import Gpu, Quota, WarmBudget
from engine_operator.domain.engine import (
    EngineSelector,
    EngineSpec,
    EnvVar,
    Exposure,
    Languages,
    MinScaleAnnotation,
    ModelSpec,
    ModelStoreSpec,
    ObjectStore,
    Profile,
    Protocol,
    Reconvert,
    Resources,
    RolloutSpec,
    RolloutStart,
    ServingSpec,
    SourceRef,
    SourceSpec,
    StoreAccess,
    Strategy,
    Toleration,
)
from engine_operator.domain.keys import EngineId, Quantization
from engine_operator.domain.windows import WarmWindow
from engine_operator.errors import UsageError

E = TypeVar("E", bound=Enum)

_DURATION = re.compile(r"^(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$")


def engine_spec(item: JsonView) -> EngineSpec:
    """A TranslationEngine as written."""
    metadata, spec = item["metadata"], item.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    languages, rollout = spec.get("languages") or {}, spec.get("rollout") or {}
    return EngineSpec(
        name=str(metadata["name"]),
        namespace=str(metadata["namespace"]),
        uid=str(metadata["uid"]),
        origin=_origin(spec),
        languages=Languages(languages.get("source"), languages.get("target")),
        quantization=_choice(Quantization, spec.get("quantization")),
        serving=serving_spec(spec.get("serving") or {}),
        rollout=RolloutSpec(
            _choice(Strategy, rollout.get("strategy")) or Strategy.BLUE_GREEN,
            _choice(RolloutStart, rollout.get("start")) or RolloutStart.ON_BUILD,
        ),
        reconvert=_reconvert(spec),
        warm_windows=_warm_windows(spec.get("warmWindows")),
        min_scale=_min_scale("TranslationEngine", annotations),
        priority=int(spec.get("priority") or 0),
        keep_warm=bool(spec.get("keepWarm")),
        paused=bool(spec.get("paused")),
        suspended=bool(spec.get("suspended")),
        pinned=_integer(spec.get("pinned")),
        generation=int(metadata.get("generation") or 0),
        operator_made=labels.get(wire.LABEL_DISCOVERED) == "true",
        retry_token=annotations.get(wire.ANNOTATION_RETRY),
    )


def source_spec(item: JsonView) -> SourceSpec:
    """A ServalSource as written."""
    metadata, spec = item["metadata"], item["spec"]
    annotations = metadata.get("annotations") or {}
    return SourceSpec(
        name=str(metadata["name"]),
        namespace=str(metadata["namespace"]),
        uid=str(metadata["uid"]),
        url=str(spec["url"]),
        credentials_secret=_name(spec.get("credentialsSecretRef")) or "",
        artifact_store=object_store(spec["artifactStore"]),
        token_url=spec.get("tokenUrl"),
        audience=spec.get("audience"),
        model_store=_model_store(spec.get("modelStore") or {}),
        installation=spec.get("installation"),
        selector=_selector(spec.get("engineSelector") or {}),
        serving=serving_spec(spec.get("serving") or {}),
        quantization=_choice(Quantization, spec.get("quantization")),
        reconvert=_reconvert(spec),
        warm_windows=_warm_windows(spec.get("warmWindows")),
        min_scale=_min_scale("ServalSource", annotations),
        quota=_quota(spec.get("quota") or {}),
        warm_budget=_warm_budget(spec.get("warmBudget")),
        generation=int(metadata.get("generation") or 0),
        allow_mass_deletion=_count(annotations.get(wire.ANNOTATION_ALLOW_MASS_DELETION)),
    )


def serving_spec(body: JsonView) -> ServingSpec:
    """`spec.serving` of either kind; absent stays None."""
    resources, tolerations = body.get("resources"), body.get("tolerations")
    pull_secrets, env = body.get("imagePullSecrets"), body.get("env")
    return ServingSpec(
        profile=_choice(Profile, body.get("profile")),
        protocol=_choice(Protocol, body.get("protocol")),
        exposure=_choice(Exposure, body.get("exposure")),
        min_replicas=_integer(body.get("minReplicas")),
        max_replicas=_integer(body.get("maxReplicas")),
        concurrency=_integer(body.get("concurrency")),
        scale_down_delay=duration("serving.scaleDownDelay", body.get("scaleDownDelay")),
        window=duration("serving.window", body.get("window")),
        resources=None
        if resources is None
        else Resources(_texts(resources.get("requests")), _texts(resources.get("limits"))),
        node_selector=None if body.get("nodeSelector") is None else _texts(body["nodeSelector"]),
        tolerations=None if tolerations is None else tuple(_toleration(one) for one in tolerations),
        runtime_image=body.get("runtimeImage"),
        image_pull_secrets=None
        if pull_secrets is None
        else tuple(one if isinstance(one, str) else str(one["name"]) for one in pull_secrets),
        env=None
        if env is None
        else tuple(EnvVar(str(one["name"]), str(one.get("value", ""))) for one in env),
        gpu=_gpu(body.get("gpu")),
        runtime_class_name=body.get("runtimeClassName"),
        priority_class_name=body.get("priorityClassName"),
    )


def object_store(body: JsonView) -> ObjectStore:
    """A place in an S3 store."""
    return ObjectStore(
        uri=str(body["uri"]),
        endpoint=body.get("endpoint"),
        region=body.get("region"),
        secret=_name(body.get("secretRef")),
        reader_secret=_name(body.get("readerSecretRef")),
        ca_config_map=_name(body.get("caConfigMapRef")),
    )


def duration(field: str, text: Any) -> timedelta | None:
    """`1h30m`, `10m`, `90s`; None stays None. Raises UsageError."""
    if text is None:
        return None
    found = _DURATION.match(str(text))
    if found is None or not any(found.groups()):
        raise UsageError(f"{field}: {text!r} is no duration such as 90s, 10m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def _origin(spec: JsonView) -> SourceRef | ModelSpec:
    source = spec.get("source")
    if source is not None:
        return SourceRef(str(source["servalSource"]), EngineId(str(source["engineId"])))
    model = spec.get("model")
    if model is None:
        raise UsageError("spec needs either source or model")
    return ModelSpec(
        object_store(model), object_store(model["artifactStore"]), int(model.get("revision") or 1)
    )


def _model_store(body: JsonView) -> ModelStoreSpec:
    access = _choice(StoreAccess, body.get("access")) or StoreAccess.PRESIGNED_URL
    return ModelStoreSpec(access, object_store(body) if access is StoreAccess.BUCKET else None)


def _selector(body: JsonView) -> EngineSelector:
    types = tuple(body.get("types") or EngineSelector().types)
    return EngineSelector(
        types=types,
        names=tuple(body.get("names") or ()),
        source_languages=tuple(body.get("sourceLanguages") or ()),
        target_languages=tuple(body.get("targetLanguages") or ()),
    )


def _reconvert(spec: JsonView) -> Reconvert | None:
    return _choice(Reconvert, (spec.get("policy") or {}).get("reconvert"))


def _gpu(body: JsonView | None) -> Gpu | None:
    if body is None:
        return None
    return Gpu(str(body.get("resource") or Gpu().resource), int(body.get("count") or Gpu().count))


def _quota(body: JsonView) -> Quota:
    return Quota(
        awake_engines=_integer(body.get("awakeEngines")),
        pods=_integer(body.get("pods")),
        gpus=_integer(body.get("gpus")),
    )


def _warm_budget(body: JsonView | None) -> WarmBudget | None:
    if body is None:
        return None
    residency = duration("warmBudget.minResidency", body.get("minResidency"))
    plain = WarmBudget(int(body["engines"]))
    return plain if residency is None else WarmBudget(plain.engines, residency)


def _min_scale(kind: str, annotations: JsonView) -> MinScaleAnnotation | None:
    replicas = _count(annotations.get(wire.ANNOTATION_MIN_SCALE))
    return None if replicas is None else MinScaleAnnotation(kind, replicas)


def _warm_windows(body: Any) -> tuple[WarmWindow, ...] | None:
    if body is None:
        return None
    return tuple(
        WarmWindow(
            start=str(one["start"]),
            end=str(one["end"]),
            time_zone=str(one.get("timeZone") or "UTC"),
            replicas=int(one.get("replicas") or 1),
        )
        for one in body
    )


def _toleration(body: JsonView) -> Toleration:
    return Toleration(
        key=body.get("key"),
        operator=body.get("operator"),
        value=body.get("value"),
        effect=body.get("effect"),
        toleration_seconds=_integer(body.get("tolerationSeconds")),
    )


def _choice(kind: type[E], text: Any) -> E | None:
    try:
        return None if text is None else kind(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is none of {', '.join(str(one.value) for one in kind)}") from error


def _name(reference: Any) -> str | None:
    return str(reference["name"]) if reference and reference.get("name") else None


def _integer(value: Any) -> int | None:
    return None if value is None else int(value)


def _count(text: Any) -> int | None:
    """An annotation is text that anybody may write; what is no number allows nothing."""
    return int(text) if text is not None and str(text).isdecimal() else None


def _texts(body: Mapping[str, Any] | None) -> dict[str, str]:
    return {str(key): str(value) for key, value in (body or {}).items()}
