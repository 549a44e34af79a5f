"""What all engines do right now, so that only so many convert, roll out or are awake at once.

Made of looks and of the first survey; a restart makes it anew.
"""

from engine_operator.domain.capacity import Taken
from engine_operator.domain.observed import Phase
from engine_operator.domain.room import Standing
from engine_operator.loops.inbox import EngineKey, SourceKey

WAITING = frozenset({Phase.PENDING, Phase.CONVERTED})
"""Phases of engines that wait for a free place."""


class Board:
    """Phases and standings of all engines."""

    def __init__(self) -> None:
        self._phases: dict[EngineKey, Phase] = {}
        self._standings: dict[EngineKey, tuple[SourceKey | None, Standing]] = {}
        self._freed = False

    def busy(self, phase: Phase, but: EngineKey) -> int:
        """Engines in a phase, but for one."""
        return sum(found is phase and key != but for key, found in self._phases.items())

    def enters(self, engine: EngineKey, phase: Phase | None) -> None:
        """An engine is in a phase from now on; None for one that is in none, or gone."""
        if phase is None:
            self._phases.pop(engine, None)
        else:
            self._phases[engine] = phase

    def phase(self, engine: EngineKey) -> Phase | None:
        """The phase of an engine, as last seen."""
        return self._phases.get(engine)

    def waiting(self) -> list[list[EngineKey]]:
        """Engines that wait for a free place, by what they wait for: who comes first stands first."""
        queues: dict[Phase, list[EngineKey]] = {}
        for key, phase in self._phases.items():
            if phase in WAITING:
                queues.setdefault(phase, []).append(key)
        return [sorted(queue, key=self._turn) for queue in queues.values()]

    def _turn(self, engine: EngineKey) -> int:
        """Higher priorities first; among equals the order in which they were seen."""
        stands = self._standings.get(engine)
        return -stands[1].priority if stands else 0

    def stands(self, engine: EngineKey, source: SourceKey | None, standing: Standing) -> None:
        """What an engine has and waits for, from now on. `source`: whose quota it counts in."""
        old = self._standings.get(engine)
        self._standings[engine] = (source, standing)
        if old is not None:
            self._freed |= old[1].taken.pods > standing.taken.pods
            waited = old[1].waits or old[1].wants
            self._freed |= bool(waited) and not (standing.waits or standing.wants)

    def known(self, engine: EngineKey) -> bool:
        """Whether anything was said of an engine's standing."""
        return engine in self._standings

    def leaves(self, engine: EngineKey) -> None:
        """An engine is no more."""
        self._phases.pop(engine, None)
        self._freed |= self._standings.pop(engine, None) is not None

    def taken(self, source: SourceKey | None, but: EngineKey, priority: int) -> Taken:
        """What the engines of a source have, but for one; of those above its priority also what they wait for."""
        found = nothing = Taken()
        if source is not None:
            for key, (of, one) in self._standings.items():
                mine = one.wants if one.wants and one.priority > priority else one.taken
                if mine != nothing and of == source and key != but:  # Most sleep.
                    found += mine
        return found

    def ahead(self, phase: Phase, priority: int) -> int:
        """Engines of a higher priority that wait for a place of this phase."""
        return sum(one.waits is phase and one.priority > priority for _, one in self._standings.values())

    def take_freed(self) -> bool:
        """Whether room or a turn became free since the last call."""
        freed, self._freed = self._freed, False
        return freed
