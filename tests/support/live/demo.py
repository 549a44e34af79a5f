"""The main job, told while it happens: a finished Serval build becomes a live translation, and costs nothing at rest.

Run by `make demo` inside the cluster's network. Every line printed is something that was just seen, never something
that is expected; a step that does not happen ends the demo with everything that tells why.
"""

import asyncio
import sys
import time

from tests.support.live.caller import Caller, Calls
from tests.support.live.calls import connect
from tests.support.live.models import TINY, archive, noisy_copy, references, sentences
from tests.support.live.world import NAMESPACE, World
from tests.support.serval import EngineSpec

STARTED = time.monotonic()
BEAM_SIZE = 4


def say(text: str) -> None:
    """One line with the seconds since the demo began."""
    print(f"[{time.monotonic() - STARTED:6.1f} s] {text}", flush=True)


class Story:
    """The steps, in order, on one engine."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.verses = sentences(12)
        self.engine = world.serval.add_engine(EngineSpec(name="demo", source="en", target="es"))
        self.name = f"e{self.engine.id}"
        say(f"Serval (stand-in) at {world.serval.url} has one engine, {self.engine.id}, never built")

    def finish_first_build(self) -> None:
        """Event, conversion, InferenceService ready."""
        finished = time.monotonic()
        self.world.serval.run_build(self.engine.id, archive(TINY, self.world.scratch / "r1.tar.gz"))
        say("a build finishes: the model is in Serval's bucket, modelRevision is 1")
        self.follow_until_serving(1)
        say(f"revision 1 serves, {time.monotonic() - finished:.1f} s after the build finished")

    def follow_until_serving(self, revision: int) -> None:
        """Print each phase of the target as it changes."""
        seen = ""

        def serving() -> bool:
            nonlocal seen
            status = (self.world.engine(self.name) or {}).get("status", {})
            target = status.get("target", {})
            now = f"target revision {target.get('revision')}: {target.get('phase')}" if target else ""
            if now and now != seen:
                say(f"  {now}")
                seen = now
            return self.world.serving_revision(self.name) == revision

        self.world.wait(f"revision {revision} serving", serving, name=self.name)

    async def translate(self, what: str) -> float:
        """One verse over v2; returns the seconds it took."""
        started = time.monotonic()
        async with connect(self.world.endpoint(self.name), patience=120) as connection:
            answer = await connection.translate(self.verses[0])
        seconds = time.monotonic() - started
        say(f"{what}: {seconds:.2f} s, by revision {answer.revision}")
        say(f"    {self.verses[0]}\n{'':>14}{answer.translation}")
        return seconds

    def sleep_until_zero(self) -> None:
        """Nobody calls; the last pod goes."""
        started = time.monotonic()
        say("nobody calls …")
        self.world.wait("scale to zero", lambda: not self.world.pods(self.name), timeout=240, name=self.name)
        say(f"no pod is left after {time.monotonic() - started:.0f} s; the engine stays Available: "
            f"{self.world.available(self.name).get('reason')}")  # fmt: skip

    async def roll_out_under_calls(self) -> Calls:
        """A second build while a client keeps calling."""
        scratch = self.world.scratch
        other = noisy_copy(scratch / "second", seed=2)
        expected = {
            1: references(TINY, scratch, self.verses, BEAM_SIZE),
            2: references(other, scratch, self.verses, BEAM_SIZE),
        }
        caller = Caller(self.world.endpoint(self.name), self.verses, expected)
        caller.start()
        say("a client calls 24 times a second over 8 connections; a second build finishes")
        model = await asyncio.to_thread(archive, other, scratch / "r2.tar.gz")
        await asyncio.to_thread(self.world.serval.run_build, self.engine.id, model)
        await asyncio.to_thread(self.follow_until_serving, 2)
        await caller.until_all_saw(2)
        calls = await caller.stop()
        say(f"revision 2 serves; {calls.total} calls, failed: {len(calls.failures)}, longest "
            f"{calls.longest:.2f} s, answers by revision {calls.by_revision}")  # fmt: skip
        if calls.names.repeated:
            say(f"  the cluster's DNS was too busy {calls.names.repeated} times of {calls.names.looked_up}")
        return calls

    def delete(self) -> None:
        """The engine goes in Serval; nothing of it stays."""
        self.world.serval.delete_engine(self.engine.id)
        say("the engine is deleted in Serval")
        self.world.wait(
            "nothing left", lambda: not self.world.leftovers(self.name), timeout=300, name=self.name
        )
        say("nothing is left: no object in the cluster, no file in the artifact store")


async def tell() -> int:
    """The story from beginning to end; returns the number of failed calls."""
    with World() as world:
        story = Story(world)
        story.finish_first_build()
        await story.translate("a verse over v2")
        story.sleep_until_zero()
        await story.translate("the next call wakes it")
        calls = await story.roll_out_under_calls()
        for failure in calls.failures[:5]:
            say(f"  failed: {failure}")
        story.delete()
    return len(calls.failures)


HOW_TO_GO_ON = f"""
The cluster is still up; the installation in namespace {NAMESPACE} was removed again. To keep playing:
  .venv/bin/devcluster exec -- bash      a shell inside its network, with kubectl set up; in it:
      python -m tests.support.live.play      install again, and leave an engine to try things on
      kubectl explain translationengine.spec what an engine can be told
  .venv/bin/devcluster status            what runs, and where its logs are
  make cluster-down                      take everything away again
"""


def main() -> int:
    """Tell the story; exit code 1 where a call failed."""
    failed = asyncio.run(tell())
    print(HOW_TO_GO_ON)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
