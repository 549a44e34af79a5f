"""Decided by people: whether a new converter converts again what is converted."""

from dataclasses import replace

from engine_operator.domain import actions as act
from engine_operator.domain.effective import Defaults, effective
from engine_operator.domain.engine import EngineSpec, ObjectStore, Reconvert, SourceSpec
from tests.support.cases import case
from tests.unit.operator.domain.world import DEFAULTS, World, engine, of_type

NEWER = "registry.example/predictor@sha256:2"


def upgraded(world: World) -> None:
    world.policy = replace(world.policy, converter_image=NEWER)
    world.jobs = {}  # Its time to live is over.


def _always(engine: EngineSpec, source: SourceSpec | None, defaults: Defaults) -> str:
    """As if the converter were part of every artifact's key."""
    return defaults.converter_image


@case("C1", breaks="engine_operator.domain.effective:_converter", naive=_always)
def test_c1_a_new_converter_converts_nothing_again() -> None:
    world = World()
    world.serves()
    upgraded(world)
    assert world.settle() == []


def test_c1_a_new_converter_converts_what_is_served_again_where_the_policy_says_so() -> None:
    world = World(spec=engine(reconvert=Reconvert.NEW_CONVERTER))
    world.serves()
    before = world.status.serving
    assert before is not None
    upgraded(world)
    started = of_type(world.settle(), act.StartConversion)
    assert [a.plan.image for a in started if isinstance(a, act.StartConversion)] == [NEWER]
    assert world.status.serving == before, "the old artifact serves until the new one is proven"
    assert before.artifact_key in world.manifests
    world.converted()
    world.settle()
    world.ready()
    world.settle()
    after = world.status.serving
    assert after is not None
    assert (after.revision, after.artifact_key != before.artifact_key) == (before.revision, True)
    assert world.settle() == [], "once for each converter"


def test_a_sources_policy_holds_where_the_engine_says_nothing() -> None:
    defaults = replace(DEFAULTS, converter_image=NEWER)
    plain = SourceSpec("main", "live", "uid", "https://serval.example", "key", ObjectStore("s3://a/b"))
    source = replace(plain, reconvert=Reconvert.NEW_CONVERTER)
    assert effective(engine(), source, defaults).options.converter == NEWER
    assert effective(engine(reconvert=Reconvert.NEVER), source, defaults).options.converter == ""
    assert effective(engine(), plain, defaults).options.converter == ""
