"""How wishes merge, and which words the reasons page has."""

from datetime import timedelta
from pathlib import Path

from engine_operator.domain import reasons
from engine_operator.domain.effective import effective, merged
from engine_operator.domain.engine import ObjectStore, Profile, ServingSpec, SourceSpec
from engine_operator.domain.keys import Quantization
from tests.unit.operator.domain.world import DEFAULTS, engine


def source(**serving: object) -> SourceSpec:
    spec = ServingSpec(**serving)  # type: ignore[arg-type]
    return SourceSpec(
        "main", "live", "uid", "https://serval.example", "key", ObjectStore("s3://a/b"), serving=spec
    )


def test_engine_goes_before_source_before_profile() -> None:
    wish = engine(serving=ServingSpec(max_replicas=4))
    got = effective(wish, source(max_replicas=2, min_replicas=1, profile=Profile.GPU), DEFAULTS).serving
    assert (got.min_replicas, got.max_replicas, got.profile) == (1, 4, Profile.GPU)
    assert (got.device, got.compute_type) == ("cuda", "int8_float16")
    assert got.resources.limits["nvidia.com/gpu"] == "1"


def test_zero_is_a_wish_and_not_the_absence_of_one() -> None:
    got = merged(ServingSpec(min_replicas=0), ServingSpec(min_replicas=2))
    assert got.min_replicas == 0


def test_lists_and_maps_replace_and_never_mix() -> None:
    got = merged(ServingSpec(node_selector={"pool": "a"}), ServingSpec(node_selector={"zone": "b"}))
    assert got.node_selector == {"pool": "a"}


def test_quantization_follows_the_profile_unless_somebody_says() -> None:
    assert effective(engine(), None, DEFAULTS).options.quantization is Quantization.INT8
    assert (
        effective(engine(), source(profile=Profile.GPU), DEFAULTS).options.quantization
        is Quantization.INT8_FLOAT16
    )
    chosen = engine(quantization=Quantization.FLOAT32)
    assert (
        effective(chosen, source(profile=Profile.GPU), DEFAULTS).options.quantization is Quantization.FLOAT32
    )


def test_defaults_let_an_idle_engine_sleep_after_ten_minutes() -> None:
    got = effective(engine(), None, DEFAULTS).serving
    assert (got.min_replicas, got.max_replicas, got.scale_down_delay) == (0, 1, timedelta(minutes=10))


def test_every_reason_is_documented_once() -> None:
    words = [entry.reason for entry in reasons.ENTRIES]
    assert len(words) == len(set(words))
    assert all(len(entry.text) > 20 for entry in reasons.ENTRIES)
    page = reasons.markdown()
    constants = {
        name: value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)
    }
    assert all(f"## {word}\n" in page for word in constants.values())


def test_page_of_reasons_is_current() -> None:
    page = Path(__file__).parents[4] / "docs" / "reasons.md"
    assert page.read_text() == reasons.markdown(), (
        "python -m engine_operator.domain.reasons > docs/reasons.md"
    )
