"""What KServe writes into an InferenceService's status, from what Knative's controllers say. No I/O.

Conditions, their reasons and the order in which they change are those of recorded sequences
(`tests/support/calibration`). Left out are reasons that are seen only by chance, while one real controller waits for
the next.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.kube_simulator.api import Json

TAG_ROUTING = "serving.kserve.io/enable-tag-routing"


@dataclass(frozen=True)
class Told:
    """Status and reason of a condition."""

    status: str
    reason: str = ""

    def condition(self, kind: str) -> Json:
        """As it stands in a status."""
        return {"type": kind, "status": self.status} | ({"reason": self.reason} if self.reason else {})

    def summed_up(self, kind: str) -> "Told":
        """As the condition over all components tells the one of the predictor."""
        return Told("True") if self.status == "True" else Told(self.status, f"{kind} not ready")


TRUE, UNKNOWN = Told("True"), Told("Unknown")


@dataclass
class Memory:
    """What the controllers remember of one InferenceService."""

    looks: int = 0
    latest_ready: str = ""
    rolled_out: str = ""
    rolled_out_before: str = ""
    reached: bool = False
    """The ingress knew it once."""
    active_state: str = ""
    target_state: str = "Pending"
    transition: str = "InProgress"
    failure: Json | None = None
    """`lastFailureInfo`: it outlives its cause."""
    traffic: list[Json] = field(default_factory=list)

    def routed(self) -> set[str]:
        """Revisions that calls reach without a tag."""
        return {one["revisionName"] for one in self.traffic if one["percent"]}

    def host(self, tag: str) -> str | None:
        """The Revision behind the service's own host, or behind the host of a tag."""
        fits = [one for one in self.traffic if (one.get("tag") == tag if tag else one["percent"])]
        return fits[0]["revisionName"] if fits else None

    def route(self, service: Json, newest: str) -> None:
        """Spread the traffic as KServe asks for it, and remember what is rolled out as KServe does.

        A canary share without a newer Revision counts as a wish to go back: KServe then points the rest of the traffic
        to what was rolled out before.
        """
        if not self.latest_ready:
            return
        percent = service["spec"]["predictor"].get("canaryTrafficPercent")
        split = percent is not None and self.rolled_out
        latest: Json = {
            "revisionName": self.latest_ready,
            "latestRevision": True,
            "percent": percent if split else 100,
        }
        if (service["metadata"].get("annotations") or {}).get(TAG_ROUTING) == "true":
            latest["tag"] = "latest"
        self.traffic = [latest]
        if split and percent < 100:
            rest = {
                "revisionName": self.rolled_out,
                "latestRevision": False,
                "percent": 100 - percent,
                "tag": "prev",
            }
            self.traffic.append(rest)
        self._roll_out(latest["percent"], newest)

    def _roll_out(self, percent: int, newest: str) -> None:
        mine = sum(one["percent"] for one in self.traffic if one["revisionName"] == self.latest_ready)
        if self.rolled_out != self.latest_ready:
            if percent == 100:
                self.rolled_out_before, self.rolled_out = self.rolled_out, self.latest_ready
        elif self.latest_ready == newest and percent < 100 and mine == 100 and self.rolled_out_before:
            self.rolled_out = self.rolled_out_before

    def learn(self, pods: list[Json], ready: bool) -> None:
        """The model's state, from the pods of the newest Revision; one that has no node yet tells nothing."""
        containers = [one for pod in pods for one in pod["status"].get("containerStatuses") or []]
        if ready and pods:
            self.active_state = self.target_state = "Loaded"
            self.transition = "UpToDate"
            return
        if not containers:
            return
        state, ended = containers[0]["state"], containers[0].get("lastState", {}).get("terminated")
        if ended and state.get("waiting", {}).get("reason") == "CrashLoopBackOff":
            self.target_state, self.transition = "FailedToLoad", "BlockedByFailedLoad"
            words = {key: ended[key] for key in ("message", "exitCode") if ended.get(key)}
            self.failure = {"reason": "ModelLoadFailed", **words}
        else:
            self.target_state, self.transition = "Pending", "InProgress"

    def model_status(self) -> Json:
        """`status.modelStatus`."""
        states = {"activeModelState": self.active_state, "targetModelState": self.target_state}
        status: Json = {"transitionStatus": self.transition, "states": states}
        return status | ({"lastFailureInfo": self.failure} if self.failure else {})


def status_of(
    service: Json, memory: Memory, newest: str, ready_of: Callable[[str], Told], pods: list[Json]
) -> Json:
    """One look at an InferenceService: its new status. `pods` are those of its newest Revision."""
    memory.looks += 1
    ready = ready_of(newest)
    if ready.status == "True":
        memory.latest_ready = newest
    memory.route(service, newest)
    configuration = Told("False", "RevisionFailed") if ready.status == "False" else Told(ready.status)
    host = memory.host("")
    target = ready_of(host) if host else UNKNOWN
    route = TRUE if target.status == "True" else Told(target.status, "RevisionMissing")
    predictor = configuration if route.status == "True" else route
    memory.reached = memory.reached or route.status == "True"
    if memory.looks == 1:
        return {"conditions": _first_look(), "modelStatus": memory.model_status()}
    memory.learn(pods, predictor.status == "True" and memory.latest_ready == newest)
    conditions = [
        (TRUE if memory.reached else UNKNOWN).condition("IngressReady"),
        configuration.summed_up("PredictorConfigurationReady").condition("LatestDeploymentReady"),
        configuration.condition("PredictorConfigurationReady"),
        predictor.condition("PredictorReady"),
        route.condition("PredictorRouteReady"),
        predictor.condition("Ready"),
        route.summed_up("PredictorRouteReady").condition("RoutesReady"),
        Told("False").condition("Stopped"),
    ]
    components = {"predictor": _predictor(memory, newest)}
    status: Json = {"conditions": conditions, "components": components, "modelStatus": memory.model_status()}
    if memory.reached:
        status["url"] = f"http://{service['metadata']['name']}-predictor.{_host(service)}"
    return status


def _first_look() -> list[Json]:
    """Before Knative has said anything."""
    unknown = ("IngressReady", "PredictorReady", "Ready")
    return [
        *(UNKNOWN.condition(kind) for kind in unknown),
        UNKNOWN.summed_up("PredictorConfigurationReady").condition("LatestDeploymentReady"),
        UNKNOWN.summed_up("PredictorRouteReady").condition("RoutesReady"),
        Told("False").condition("Stopped"),
    ]


def _predictor(memory: Memory, newest: str) -> Json:
    names = {
        "latestReadyRevision": memory.latest_ready,
        "latestRolledoutRevision": memory.rolled_out,
        "previousRolledoutRevision": memory.rolled_out_before,
    }
    told: Json = {"latestCreatedRevision": newest} | {key: name for key, name in names.items() if name}
    return told | ({"traffic": memory.traffic} if memory.traffic else {})


def _host(service: Json) -> str:
    return f"{service['metadata']['namespace']}.svc.cluster.local"
