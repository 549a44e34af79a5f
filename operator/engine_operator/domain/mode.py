"""How KServe runs engines: with Knative, or as plain Deployments (its Standard mode). Chosen once, for all engines.

Standard mode has no activator: nothing holds a call while a pod starts, and nobody wakes an engine that has no pod
unless KEDA is told what to look at. Whatever is asked for and cannot be had that way is refused with a sentence, and
nothing is started; this module is the one place that knows what that is.
"""

from dataclasses import dataclass
from enum import StrEnum

from engine_operator.domain.engine import Effective, RolloutStart, Strategy


class DeploymentMode(StrEnum):
    """KServe's words."""

    KNATIVE = "Knative"
    STANDARD = "Standard"


class Autoscaler(StrEnum):
    """Who counts the pods in Standard mode."""

    HPA = "hpa"
    KEDA = "keda"


LEGACY = {"Serverless": DeploymentMode.KNATIVE, "RawDeployment": DeploymentMode.STANDARD}
"""Older words of KServe's, which its status still may carry."""


@dataclass(frozen=True)
class ServingMode:
    """How the engines of this operator run."""

    mode: DeploymentMode = DeploymentMode.KNATIVE
    autoscaler: Autoscaler = Autoscaler.HPA
    """Standard mode only."""
    prometheus: str = ""
    """Address of the Prometheus that KEDA asks; empty: KEDA goes by CPU, which cannot wake an engine."""
    query: str = ""
    """What KEDA asks it: calls that an engine has, or would have; `{namespace}` and `{engine}` are filled in."""

    @property
    def standard(self) -> bool:
        """Whether engines are plain Deployments."""
        return self.mode is DeploymentMode.STANDARD

    @property
    def wakes(self) -> bool:
        """Whether somebody starts a pod of an engine that has none."""
        if not self.standard:
            return True
        return self.autoscaler is Autoscaler.KEDA and bool(self.prometheus and self.query)

    def query_for(self, namespace: str, engine: str) -> str:
        """The query about one engine. Braces are PromQL's own, so that only the two names are replaced."""
        return self.query.replace("{namespace}", namespace).replace("{engine}", engine)


def mode_of(words: str) -> DeploymentMode | None:
    """The mode that a status or an annotation names; None where it names none that we know."""
    if words in LEGACY:
        return LEGACY[words]
    return DeploymentMode(words) if words in set(DeploymentMode) else None


def unsupported(chosen: ServingMode, wish: Effective, made_as: DeploymentMode | None) -> str | None:
    """Why an engine cannot be served as it is asked for; None if it can.

    `made_as`: the mode of its InferenceService, if there is one.
    """
    if made_as is not None and made_as is not chosen.mode:
        return (
            f"its InferenceService was made in mode {made_as}, engines are to run in mode {chosen.mode}, and KServe "
            "lets nobody change that: delete the InferenceService, and it is made again (calls fail meanwhile)"
        )
    if not chosen.standard:
        return None
    if wish.serving.min_replicas == 0 and not chosen.wakes:
        if chosen.autoscaler is Autoscaler.HPA:
            why = "an HPA never goes below one pod"
        else:
            why = "KEDA wakes an engine only by a Prometheus query (keda_prometheus, keda_query)"
        return f"serving.minReplicas is 0, and in Standard mode {why}: set it to 1 or more"
    if wish.rollout.strategy is not Strategy.BLUE_GREEN:
        return (
            f"rollout.strategy {wish.rollout.strategy} needs Knative's activator, which holds calls while the GPU "
            "changes hands; in Standard mode there is only BlueGreen"
        )
    if wish.rollout.start is not RolloutStart.ON_BUILD:
        return "rollout.start OnFirstCall needs Knative's activator; in Standard mode there is only OnBuild"
    if wish.serving.min_replicas == 0 and wish.warm_windows:
        return "warm windows hold a Knative Revision; in Standard mode set serving.minReplicas to 1 or more"
    return None
