"""What happens to the InferenceService, step by step, and when each step is over.

A step is over when what it waits for is seen and nothing has changed for a while. The scenario knows neither
cluster nor simulator: a `Stage` does what they do differently.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from engine_operator.cluster.client import ClusterClient, ObjectRef
from engine_operator.cluster.resources import INFERENCE_SERVICES, PODS, REVISIONS
from tests.support.calibration.recording import Change, Step
from tests.support.calibration.service import NAME, Place, Wish, service
from tests.support.calibration.watching import GONE, Watch
from tests.support.waiting import eventually

Seen = Mapping[str, str]
"""Observable -> its present value."""
HOLD = "autoscaling.knative.dev/min-scale"
STEP_PATIENCE = 150.0


class Stage(ABC):
    """A namespace with real or simulated controllers."""

    def __init__(self, cluster: ClusterClient, watch: Watch, place: Place, quiet: float) -> None:
        self.cluster = cluster
        self.watch = watch
        self.place = place
        self.quiet = quiet
        """Seconds without a change after which a step is over."""
        self._calls: list[asyncio.Task[str]] = []
        self._busy: asyncio.Task[None] | None = None

    @abstractmethod
    async def ask(self, tag: str = "") -> str:
        """One call to the service, or to the host of a tag; the number of the revision that answered."""

    @abstractmethod
    async def give_nodes(self, some: bool) -> None:
        """Whether new pods find a node."""

    @abstractmethod
    async def always_schedulable(self, promised: bool) -> None:
        """Knative's `pod-is-always-schedulable`."""

    async def apply(self, wish: Wish) -> None:
        """Server-side apply, as the operator does it."""
        await self.cluster.apply(INFERENCE_SERVICES, service(wish, self.place))

    async def hold(self, revision: int, pods: str | None) -> None:
        """What a warm window does: a least scale on the Revision; None takes it back."""
        ref = ObjectRef(REVISIONS, self.place.namespace, f"{NAME}-predictor-{revision:05d}")
        await self.cluster.merge(ref, {"metadata": {"annotations": {HOLD: pods}}})

    async def pods(self) -> int:
        """Pods that are not gone."""
        return len([one async for one in self.cluster.list(PODS, self.place.namespace)])

    async def crashed(self) -> bool:
        """Whether a container of a pod has ended and waits to be started again."""
        pods = [one async for one in self.cluster.list(PODS, self.place.namespace)]
        told = [status for pod in pods for status in pod["status"].get("containerStatuses") or []]
        return any("terminated" in status.get("lastState", {}) for status in told)

    async def be_busy(self) -> None:
        """Call twice a second from now on."""

        async def call() -> None:
            while True:
                await self.ask()
                await asyncio.sleep(0.5)

        self._busy = asyncio.create_task(call())

    async def rest(self) -> None:
        """No more calls. Raises what a call failed with."""
        busy, self._busy = self._busy, None
        if busy is not None:
            busy.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await busy

    async def call(self) -> None:
        """A caller who waits; `called` says who answered."""
        self._calls.append(asyncio.create_task(self.ask()))

    async def called(self) -> str:
        """The answer that the last caller got."""
        return await self._calls[-1]

    async def leave(self) -> None:
        """The callers who wait give up: as long as one is held, its Revision keeps its pod."""
        for task in self._calls:
            task.cancel()

    async def delete(self) -> None:
        """Delete the InferenceService; its owner references do the rest."""
        await self.rest()
        await self.cluster.delete(ObjectRef(INFERENCE_SERVICES, self.place.namespace, NAME))

    async def close(self) -> None:
        """End what still runs."""
        tasks = [*self._calls, *([self._busy] if self._busy else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


Act = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Part:
    """One step: what is done, and what is then waited for.

    It waits for each sleep that a later step ends: otherwise it would be chance whether a Revision slept at all.
    """

    name: str
    acts: tuple[Act, ...]
    until: Callable[[Seen], bool]
    hosts: tuple[str, ...] = ("",)
    """Who is asked at the end."""
    called: bool = False
    """Whether the caller who waits is answered in this step."""
    pods: int | None = None
    """How many there must be at the end."""
    crashed: bool = False
    """Whether a container must have ended and been started again."""


async def run(stage: Stage, tell: Callable[[Step], None] = lambda _: None) -> tuple[Step, ...]:
    """The whole scenario; what was seen in each step, also told as soon as the step is over."""
    steps = []
    try:
        for part in SCENARIO:
            steps.append(await _step(stage, part))
            tell(steps[-1])
    finally:
        await stage.close()
    return tuple(steps)


async def _step(stage: Stage, part: Part) -> Step:
    for act in part.acts:
        await act(stage)

    async def over() -> bool:
        pods = part.pods is None or await stage.pods() == part.pods
        crashed = not part.crashed or await stage.crashed()
        return pods and crashed and part.until(stage.watch.now)

    def seen() -> str:
        return f"{part.name}: {stage.watch.now}"

    await eventually(over, timeout=STEP_PATIENCE, interval=0.1, describe=seen)
    answers = [Change(host, await stage.ask(host)) for host in part.hosts]
    if part.called:
        answers.append(Change("the caller who waited", await stage.called()))
    await stage.watch.quiet(stage.quiet)
    return Step(part.name, stage.watch.take(), tuple(answers))


def _apply(wish: Wish) -> Act:
    return lambda stage: stage.apply(wish)


def _nodes(some: bool) -> Act:
    return lambda stage: stage.give_nodes(some)


def _promise(promised: bool) -> Act:
    return lambda stage: stage.always_schedulable(promised)


def _hold(revision: int, pods: str | None) -> Act:
    return lambda stage: stage.hold(revision, pods)


def _shares(*wanted: str) -> Callable[[Seen], bool]:
    """Which revisions have traffic."""

    def check(seen: Seen) -> bool:
        entries = seen.get("service/traffic", "").split(", ")
        return [_without_marks(one) for one in entries if ": 0%" not in one] == list(wanted)

    return check


def _without_marks(entry: str) -> str:
    return " ".join(entry.split(" ")[:2])


def _failed(seen: Seen) -> bool:
    """KServe says that the newest one did not load."""
    told = seen.get("service/lastFailure", "").startswith(f"ModelLoadFailed {FAILS}")
    return told and seen.get("service/Ready", "").startswith("False")


def _serves(revision: int) -> Callable[[Seen], bool]:
    """The InferenceService is ready and gives this revision all traffic."""

    def check(seen: Seen) -> bool:
        ready = seen.get("service/Ready") == "True"
        newest = seen.get("service/latestCreatedRevision") == seen.get("service/latestReadyRevision")
        return ready and newest and _shares(f"{revision}: 100%")(seen)

    return check


def _is(observable: str, value: str) -> Callable[[Seen], bool]:
    return lambda seen: seen.get(observable, "").startswith(value)


def _both(*checks: Callable[[Seen], bool]) -> Callable[[Seen], bool]:
    return lambda seen: all(check(seen) for check in checks)


FAILS = 3
SLOW = 12.0
SLEEPS = "False NoTraffic"
TAGGED = Wish(5, load=SLOW, tagged=True)
SCENARIO: tuple[Part, ...] = (
    Part("created", (_promise(False), _apply(Wish(1))), _serves(1)),
    Part("rolled", (Stage.be_busy, _apply(Wish(2))), _serves(2)),
    Part("fails at load while the old one serves", (_apply(Wish(3, exit_code=FAILS)),), _failed),
    Part(
        "the next one is good",
        (_apply(Wish(4)),),
        _both(_serves(4), _is("revision 2/Active", SLEEPS)),
    ),
    Part(
        "no canary without a newer one rolls back",
        (_apply(Wish(4, canary=0)),),
        _both(_shares("2: 100%"), _is("revision 4/Active", SLEEPS)),
    ),
    Part("forward again", (_apply(Wish(4)),), _serves(4)),
    Part(
        "a tagged one loads without traffic",
        (_apply(replace(TAGGED, canary=0)),),
        _is("service/latestCreatedRevision", "5"),
        ("", "latest"),
    ),
    Part("it has loaded", (), _is("service/latestReadyRevision", "5"), ("", "latest")),
    Part("it is promoted", (_apply(TAGGED),), _serves(5), ("", "latest")),
    Part("no tag any more", (_apply(Wish(6)),), _serves(6)),
    Part("sleeps", (Stage.rest,), _is("revision 6/Active", SLEEPS), (), pods=0),
    Part("wakes", (Stage.call,), _is("revision 6/Active", "True"), (), called=True),
    Part("sleeps again", (), _is("revision 6/Active", SLEEPS), (), pods=0),
    Part("no node for the wake", (_nodes(False), Stage.call), _is("service/Ready", "False"), ()),
    Part(
        "a node comes",
        (_nodes(True), Stage.be_busy),
        _both(_serves(6), _is("revision 6/Active", "True")),
        called=True,
    ),
    Part("no node for a new one", (_nodes(False), _apply(Wish(7))), _is("service/Ready", "False")),
    Part("a node for the new one", (_nodes(True),), _serves(7)),
    Part("sleeps before the promise", (Stage.rest,), _is("revision 7/Active", SLEEPS), (), pods=0),
    Part(
        "no node, but pods count as schedulable",
        (_promise(True), _nodes(False), Stage.call),
        _is("revision 7/Active", "Unknown"),
        (),
        pods=1,
    ),
    Part("the promised node comes", (_nodes(True),), _is("revision 7/Active", "True"), (), True),
    Part("swapped", (Stage.be_busy, _apply(Wish(8, initial_scale=0))), _serves(8)),
    Part(
        "swapped to one that will not load",
        (Stage.rest, _apply(Wish(9, exit_code=FAILS, initial_scale=0))),
        _shares("9: 100%"),
        (),
    ),
    Part("it does not load", (Stage.call,), _shares("9: 100%"), (), crashed=True),
    Part("swapped back", (Stage.leave, _apply(Wish(8, initial_scale=0)), Stage.be_busy), _serves(10)),
    Part("sleeps before it is held", (Stage.rest,), _is("revision 10/Active", SLEEPS), (), pods=0),
    Part("held without a call", (_hold(10, "1"),), _is("revision 10/Active", "True"), (), pods=1),
    Part("held no more", (_hold(10, None),), _is("revision 10/Active", SLEEPS), (), pods=0),
    Part("deleted", (Stage.delete,), _is("service/object", GONE), (), pods=0),
)
