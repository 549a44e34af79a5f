"""An installation to play with: chart, Serval stand-in, one engine that serves; until Enter or an interrupt.

Run inside the cluster's network: `.venv/bin/devcluster exec -- python -m tests.support.live.play`.
"""

import contextlib
import signal

from tests.support.live.models import TINY, archive
from tests.support.live.world import NAMESPACE, Options, World
from tests.support.serval import EngineSpec


def main() -> None:
    """Install, serve one engine, say how to call it, and wait."""
    with World(Options(scale_down_delay="10m")) as world:
        engine = world.serval.add_engine(EngineSpec(name="play", source="en", target="es"))
        name = f"e{engine.id}"
        world.serval.run_build(engine.id, archive(TINY, world.scratch / "model.tar.gz"))
        world.wait("revision 1 serving", lambda: world.serving_revision(name) == 1, name=name)
        endpoint = world.endpoint(name)
        control = f"python -m tests.support.serval --help; every verb takes --url {world.serval.url}"
        print(f"""
Engine {name} serves. In another shell of `.venv/bin/devcluster exec -- bash`:
  curl {endpoint.url}/v1/models/{endpoint.model}:predict -d '{{"instances": [{{"text": "Naomi went away."}}]}}'
  kubectl -n {NAMESPACE} get translationengines,inferenceservices,pods
  kubectl -n {NAMESPACE} exec deploy/serval-live -- engine-operator plan
Serval (stand-in) is at {world.serval.url}; drive it with
  {control}
Ctrl-C removes the installation.
""")
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
