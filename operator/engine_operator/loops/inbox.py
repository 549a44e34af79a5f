"""What somebody touched: keys, never events. A key that comes a hundred times is looked at once.

Handlers of the watch only put keys here, so they cannot disagree with the sweep about what an event means.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class EngineKey:
    """A TranslationEngine, or something that carries its label."""

    namespace: str
    name: str


Mark = tuple[str, str]
"""Uid and resourceVersion of an object: what an event saw."""


@dataclass(frozen=True)
class SourceKey:
    """A ServalSource."""

    namespace: str
    name: str


class Inbox:
    """Two sets of touched keys. One loop takes from each; anybody may put."""

    def __init__(self) -> None:
        self._engines: set[EngineKey] = set()
        self._sources: set[SourceKey] = set()
        self.ignores: Callable[[EngineKey, Mark], bool] = lambda _, __: False
        """Whether an event brings nothing new, or comes before anything could be made of it."""
        self._engines_touched = asyncio.Event()
        self._sources_touched = asyncio.Event()

    def touch_engine(self, key: EngineKey, mark: Mark | None = None) -> None:
        """Somebody saw a change at an engine, its InferenceService or one of its Jobs."""
        if mark is not None and self.ignores(key, mark):
            return
        self._engines.add(key)
        self._engines_touched.set()

    def touch_source(self, key: SourceKey) -> None:
        """Somebody saw a change at a ServalSource."""
        self._sources.add(key)
        self._sources_touched.set()

    def nudge(self) -> None:
        """Wake whoever waits for engines, without touching one: times have changed."""
        self._engines_touched.set()

    async def wait_engines(self, at_most: float | None) -> set[EngineKey]:
        """Touched engines, at once if there are any, else after `at_most` seconds the empty set."""
        await _wait(self._engines_touched, at_most)
        taken, self._engines = self._engines, set()
        self._engines_touched.clear()
        return taken

    async def wait_sources(self, at_most: float | None) -> set[SourceKey]:
        """The same for sources."""
        await _wait(self._sources_touched, at_most)
        taken, self._sources = self._sources, set()
        self._sources_touched.clear()
        return taken


async def _wait(event: asyncio.Event, at_most: float | None) -> None:
    try:
        async with asyncio.timeout(at_most):
            await event.wait()
    except TimeoutError:
        return
