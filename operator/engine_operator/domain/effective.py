"""How a source's defaults and an engine's wishes merge: in the order engine, source, profile, release."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from engine_operator.domain import wire
from engine_operator.domain.capacity import Gpu, Quota, bounded_replicas
from engine_operator.domain.engine import (
    Effective,
    EffectiveServing,
    EngineSpec,
    Exposure,
    MinScaleAnnotation,
    Profile,
    Protocol,
    Reconvert,
    Resources,
    ServingSpec,
    SourceSpec,
    Toleration,
)
from engine_operator.domain.keys import ConversionOptions, Quantization
from engine_operator.domain.windows import WarmWindow


@dataclass(frozen=True)
class ProfileDefaults:
    """What a profile decides where nobody said anything."""

    resources: Resources
    device: str
    compute_type: str
    runtime_image: str
    quantization: Quantization
    concurrency: int
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True)
class Defaults:
    """What the operator decides where neither engine nor source nor profile does."""

    profiles: Mapping[Profile, ProfileDefaults]
    converter_image: str = ""
    """This release's converter: an option of conversions where people ask for that."""
    min_replicas: int = 0
    max_replicas: int = 1
    scale_down_delay: timedelta = timedelta(minutes=10)
    """Time a pod stays after its last call: longer than any Retry-After that callers are told."""
    window: timedelta = timedelta(seconds=10)
    """Knative's stable window: short, because it delays a swap on one GPU; staying warm is `scale_down_delay`."""


def merged(engine: ServingSpec, source: ServingSpec) -> ServingSpec:
    """Overlay an engine's wishes on its source's, field by field; maps and lists replace, they never mix."""
    names = ServingSpec.__dataclass_fields__
    chosen = {n: getattr(source, n) if getattr(engine, n) is None else getattr(engine, n) for n in names}
    return ServingSpec(**chosen)


def _compute_type(wish: ServingSpec) -> str:
    """Computing is tuned by variables of the predictor; this one has a default for each profile."""
    return next((one.value for one in wish.env or () if one.name == wire.ENV_COMPUTE_TYPE), "")


def effective(engine: EngineSpec, source: SourceSpec | None, defaults: Defaults) -> Effective:
    """Decide every field of an engine."""
    wish = merged(engine.serving, source.serving if source else ServingSpec())
    profile = wish.profile or Profile.CPU
    base = defaults.profiles[profile]
    annotated = _min_scale(engine, source) if wish.min_replicas is None else None
    unsaid = annotated.replicas if annotated else defaults.min_replicas
    minimum = unsaid if wish.min_replicas is None else wish.min_replicas
    resources = with_gpu(wish.resources or base.resources, wish.gpu if profile is Profile.GPU else None)
    serving = EffectiveServing(
        profile=profile,
        protocol=wish.protocol or Protocol.REST,
        exposure=wish.exposure or Exposure.CLUSTER_LOCAL,
        min_replicas=minimum,
        max_replicas=max(minimum, wish.max_replicas or defaults.max_replicas),
        concurrency=wish.concurrency or base.concurrency,
        scale_down_delay=defaults.scale_down_delay
        if wish.scale_down_delay is None
        else wish.scale_down_delay,
        window=wish.window or defaults.window,
        resources=resources,
        device=base.device,
        compute_type=_compute_type(wish) or base.compute_type,
        runtime_image=wish.runtime_image or base.runtime_image,
        image_chosen=wish.runtime_image is not None,
        node_selector=wish.node_selector or {},
        tolerations=base.tolerations if wish.tolerations is None else wish.tolerations,
        image_pull_secrets=wish.image_pull_secrets or (),
        env=wish.env or (),
        runtime_class_name=wish.runtime_class_name or "",
        priority_class_name=wish.priority_class_name or "",
    )
    quantization = engine.quantization or (source.quantization if source else None) or base.quantization
    options = ConversionOptions(quantization, converter=_converter(engine, source, defaults))
    windows = _warm_windows(engine, source)
    chosen = wish.resources is not None
    gpu = wish.gpu or Gpu()
    return Effective(options, serving, engine.rollout, engine.languages, windows, annotated, chosen, gpu)


def with_gpu(resources: Resources, gpu: Gpu | None) -> Resources:
    """Resources with another kind or number of GPUs; None leaves them as they are."""
    if gpu is None:
        return resources
    asked = {gpu.resource: str(gpu.count)}

    def half(written: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in written.items() if name != Gpu().resource} | asked

    return Resources(half(resources.requests), half(resources.limits))


def bounded(decided: Effective, quota: Quota) -> Effective:
    """No engine alone may outgrow the quota of its source."""
    serving = decided.serving
    most = bounded_replicas(serving.max_replicas, quota, decided.gpus_per_pod)
    least = min(serving.min_replicas, most)
    return replace(decided, serving=replace(serving, min_replicas=least, max_replicas=most))


def _converter(engine: EngineSpec, source: SourceSpec | None, defaults: Defaults) -> str:
    """The converter, where it is to count among the options: then another one's artifacts are not good enough."""
    policy = engine.reconvert or (source.reconvert if source else None)
    return defaults.converter_image if policy is Reconvert.NEW_CONVERTER else ""


def _min_scale(engine: EngineSpec, source: SourceSpec | None) -> MinScaleAnnotation | None:
    return engine.min_scale or (source.min_scale if source else None)


def _warm_windows(engine: EngineSpec, source: SourceSpec | None) -> tuple[WarmWindow, ...]:
    """A list replaces, it never mixes."""
    if engine.warm_windows is not None:
        return engine.warm_windows
    return (source.warm_windows if source else None) or ()
