"""KServe's Standard mode: what it cannot do is refused with a sentence, and what it can goes the usual way."""

from dataclasses import replace

import pytest

from engine_operator.domain import actions as act
from engine_operator.domain import reasons
from engine_operator.domain.effective import effective
from engine_operator.domain.engine import RolloutSpec, RolloutStart, ServingSpec, Strategy
from engine_operator.domain.mode import Autoscaler, DeploymentMode, ServingMode, mode_of, unsupported
from engine_operator.domain.observed import KnativeSettings
from engine_operator.domain.windows import WarmWindow
from tests.unit.operator.domain.world import DEFAULTS, World, engine, of_type

KNATIVE = ServingMode()
HPA = ServingMode(DeploymentMode.STANDARD)
KEDA = replace(HPA, autoscaler=Autoscaler.KEDA)
WAKING = replace(KEDA, prometheus="http://prometheus:9090", query='sum(calls{ns="{namespace}",e="{engine}"})')
ONE = ServingSpec(min_replicas=1)
WINDOW = WarmWindow("0 6 * * *", "0 20 * * *")


@pytest.mark.parametrize(
    ("mode", "changes", "refused"),
    [
        (KNATIVE, {}, None),
        (KNATIVE, {"rollout": RolloutSpec(Strategy.AUTO, RolloutStart.ON_FIRST_CALL)}, None),
        (HPA, {}, "an HPA never goes below one pod"),
        (HPA, {"serving": ONE}, None),
        (KEDA, {}, "only by a Prometheus query"),
        (KEDA, {"serving": ONE}, None),
        (replace(WAKING, query=""), {}, "only by a Prometheus query"),
        (WAKING, {}, None),
        (WAKING, {"warm_windows": (WINDOW,)}, "warm windows"),
        (HPA, {"serving": ONE, "warm_windows": (WINDOW,)}, None),
        (HPA, {"serving": ONE, "rollout": RolloutSpec(Strategy.AUTO)}, "there is only BlueGreen"),
        (HPA, {"serving": ONE, "rollout": RolloutSpec(Strategy.RECREATE)}, "there is only BlueGreen"),
        (
            HPA,
            {"serving": ONE, "rollout": RolloutSpec(start=RolloutStart.ON_FIRST_CALL)},
            "there is only OnBuild",
        ),
    ],
)
def test_what_a_mode_cannot_do_is_refused(
    mode: ServingMode, changes: dict[str, object], refused: str | None
) -> None:
    told = unsupported(mode, effective(engine(**changes), None, DEFAULTS), None)
    assert (told is None) if refused is None else (told is not None and refused in told)


@pytest.mark.parametrize(
    ("made_as", "mode", "fits"),
    [
        (None, HPA, True),
        (DeploymentMode.STANDARD, HPA, True),
        (DeploymentMode.KNATIVE, HPA, False),
        (DeploymentMode.STANDARD, KNATIVE, False),
    ],
)
def test_a_service_of_the_other_mode_is_never_touched(
    made_as: DeploymentMode | None, mode: ServingMode, fits: bool
) -> None:
    told = unsupported(mode, effective(engine(serving=ONE), None, DEFAULTS), made_as)
    assert fits if told is None else (not fits and "delete the InferenceService" in told)


def test_kserves_older_words_are_understood() -> None:
    assert mode_of("RawDeployment") is mode_of("Standard") is DeploymentMode.STANDARD
    assert mode_of("Serverless") is mode_of("Knative") is DeploymentMode.KNATIVE
    assert (mode_of(""), mode_of("ModelMesh")) == (None, None)


def test_a_query_keeps_its_own_braces() -> None:
    assert WAKING.query_for("live", "e1") == 'sum(calls{ns="live",e="e1"})'


def standard(**changes: object) -> World:
    world = World(spec=engine(**changes))
    world.policy = replace(world.policy, mode=HPA)
    world.knative = KnativeSettings(allow_zero_initial_scale=False)
    return world


def test_an_engine_that_is_refused_is_converted_told_and_goes_on_when_it_is_asked_otherwise() -> None:
    world = standard()
    world.settle()
    world.converted()
    world.settle()
    assert world.service is None
    assert world.said("Progressing") == ("False", reasons.MODE_UNSUPPORTED)
    assert world.said("Degraded") == ("True", reasons.MODE_UNSUPPORTED)
    assert "set it to 1 or more" in world.condition("Degraded").message
    assert world.settle() == []
    world.spec = replace(world.spec, serving=ONE)
    world.settle()
    world.ready()
    world.settle()
    assert (world.serving(), world.said("Degraded")[0]) == (3, "False")


def test_what_serves_in_the_other_mode_serves_on_untouched() -> None:
    world = standard(serving=ONE)
    world.policy = replace(world.policy, mode=KNATIVE)
    world.serves(3)
    assert world.service is not None
    world.service = replace(world.service, mode=DeploymentMode.KNATIVE)
    world.policy = replace(world.policy, mode=HPA)
    before = world.writes
    world.wanted = 4
    world.settle()
    world.converted()
    world.settle()
    assert (world.writes, world.serving()) == (before, 3)
    assert world.said("Available")[0] == "True"
    assert world.said("Progressing") == ("False", reasons.MODE_UNSUPPORTED)
    world.service_is_removed()
    world.settle()
    world.ready()
    world.settle()
    assert world.serving() == 4, "deleted by a person, it is made again in the new mode"


def test_nothing_of_standard_mode_is_held_and_every_rollout_starts_a_pod() -> None:
    world = standard(serving=ServingSpec(min_replicas=1, max_replicas=3), keep_warm=True)
    world.serves(3)
    world.wanted = 4
    world.settle()
    world.converted()
    world.settle()
    world.ready()
    world.settle()
    assert world.serving() == 4
    assert of_type(world.done, act.HoldRevision) == []
    scales = [a.template.initial_scale for a in world.done if isinstance(a, act.ApplyInferenceService)]
    assert set(scales) == {1}
