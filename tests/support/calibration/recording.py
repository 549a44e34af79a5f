"""What was seen while the scenario ran, and what two recordings differ in.

Equal up to timing is made exact here. What is told of the InferenceService belongs to the step in which it changed. A
Revision lives at its own pace (an old one falls asleep in whichever step its time is up), so that its values are one
sequence over all steps. `CHANCE` names what is seen or not as one real controller reads before or after another has
written; two recordings of one cluster differ in it.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Change:
    """An observable took a value: `service/Ready`, `True`."""

    observable: str
    value: str


@dataclass(frozen=True)
class Step:
    """One step of the scenario: everything that changed, in the order seen, and who answered at its end."""

    name: str
    changes: tuple[Change, ...]
    answers: tuple[Change, ...] = ()
    """Host ("" or a tag) -> the revision that answered."""


@dataclass(frozen=True)
class Recording:
    """A run of the scenario."""

    versions: dict[str, str]
    """Of what was recorded: Kubernetes, Knative, KServe, Kourier."""
    steps: tuple[Step, ...]

    def write(self, path: Path) -> None:
        """Keep it as JSON, one change a line, so that a change of versions reads well as a diff."""
        path.parent.mkdir(parents=True, exist_ok=True)
        steps = ",\n".join(_written(step) for step in self.steps)
        path.write_text(f'{{"versions": {json.dumps(self.versions)},\n"steps": [\n{steps}\n]}}\n')

    @classmethod
    def read(cls, path: Path) -> "Recording":
        """A kept recording."""
        document = json.loads(path.read_text())
        steps = tuple(
            Step(one["name"], _changes(one["changes"]), _changes(one["answers"])) for one in document["steps"]
        )
        return cls(document["versions"], steps)


CHANCE = frozenset(
    {
        # A controller that waits for the next one; its word is replaced within milliseconds.
        "Unknown OutOfDate",
        "Unknown Uninitialized",
        "Unknown IngressNotConfigured",
        "Unknown PredictorRouteReady not ready",
        # An update of a controller that met another one's; it is repeated at once.
        "False ReconcileFailed",
        # Of Active: a pod that was asked for (Queued) and is there, but not ready.
        "Unknown NotReady",
        # Both are true of a Revision that did not load; which one Ready repeats depends on who wrote last.
        "False ProgressDeadlineExceeded",
    }
)
NOT_COMPARED = ("/Active", "service/model")
"""Endings of observables that are recorded and not compared: how often a Revision falls asleep is timing, and KServe
looks at pods for its model's state only when something else happens to wake it. `lastFailure` is compared."""
Key = tuple[str, str]
"""A step ("" for all of them) and an observable."""


def sequences(steps: Sequence[Step]) -> dict[Key, list[str]]:
    """The values that each observable took, in order, without those of chance and without repetitions."""
    found: dict[Key, list[str]] = {}
    present: dict[str, str] = {}
    for step in steps:
        for change in step.changes:
            name, value = change.observable, change.value
            before = present.get(name, "")
            # Between a failure that is over and True comes a moment of Unknown, which KServe sees or not.
            passing = before.startswith("False") and value.startswith("Unknown")
            # An update that was made from an older state and is repeated at once.
            lost = (before, value) == ("Unknown Deploying", "Unknown ResolvingDigests")
            if name.endswith(NOT_COMPARED) or value in CHANCE or passing or lost or before == value:
                continue
            present[name] = value
            found.setdefault(("" if name.startswith("revision ") else step.name, name), []).append(value)
    return found


def differences(real: Sequence[Step], simulated: Sequence[Step]) -> list[str]:
    """What the simulator does otherwise, one line for each observable of a step."""
    theirs, ours = sequences(real), sequences(simulated)
    found = [
        f"{step or 'all steps'}: {name}: real {theirs.get((step, name))}, simulated {ours.get((step, name))}"
        for step, name in sorted({*ours, *theirs})
        if ours.get((step, name)) != theirs.get((step, name))
    ]
    for one, other in zip(real, simulated, strict=True):
        if (one.name, one.answers) != (other.name, other.answers):
            found.append(f"answers: real {one.name} {one.answers}, simulated {other.name} {other.answers}")
    return found


def _written(step: Step) -> str:
    parts = {
        key: [list(asdict(one).values()) for one in getattr(step, key)] for key in ("changes", "answers")
    }
    changes = ",\n  ".join(json.dumps(one) for one in parts["changes"])
    answers = json.dumps(parts["answers"])
    return f' {{"name": {json.dumps(step.name)}, "answers": {answers}, "changes": [\n  {changes}]}}'


def _changes(rows: list[Any]) -> tuple[Change, ...]:
    return tuple(Change(observable, value) for observable, value in rows)
