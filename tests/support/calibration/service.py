"""The InferenceService of the scenario: as the operator builds it, around a program that loads or fails as told."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from engine_operator.cluster.builders.inferenceservice import inference_service
from engine_operator.domain.actions import EngineRef, ServiceTemplate
from engine_operator.domain.engine import (
    EffectiveServing,
    Exposure,
    ObjectStore,
    Profile,
    Protocol,
    Resources,
)
from engine_operator.domain.keys import ArtifactKey, ConversionOptions, EngineId

Json = dict[str, Any]
NAME = "calibration"
ENGINE = EngineId("66c4a1f09d3e5b7a8c0f1e21")
LOAD, ENDING = "CALIBRATION_LOAD_SECONDS", "CALIBRATION_EXIT_CODE"
FAILURE = {"reason": "ChecksumMismatch", "message": "as the scenario wishes"}
"""What the program's termination line says."""
WINDOW = 6
"""Seconds; Knative's least."""

PROGRAM = f"""
import http.server, os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
time.sleep(float(os.environ["{LOAD}"]))
if int(os.environ["{ENDING}"]):
    with open("/dev/termination-log", "w") as line:
        line.write({json.dumps(json.dumps(FAILURE))})
    sys.exit(int(os.environ["{ENDING}"]))
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        said = os.environ["K_REVISION"].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
    def log_message(self, *words): pass
http.server.ThreadingHTTPServer(("", 8080), Handler).serve_forever()
"""


@dataclass(frozen=True)
class Place:
    """Where the service runs, and what its container needs there."""

    namespace: str
    image: str
    model_uri: str
    """On the real cluster nobody reads it; the simulator wants an artifact there."""
    manifest_sha256: str


@dataclass(frozen=True)
class Wish:
    """What the scenario asks for."""

    revision: int
    exit_code: int = 0
    """Other than 0: it ends so, after its load."""
    load: float = 0.0
    """Seconds from a started container to the answer or the end."""
    initial_scale: int = 1
    canary: int | None = None
    """`canaryTrafficPercent`."""
    tagged: bool = False
    """KServe gives the newest revision a host of its own."""


def service(wish: Wish, place: Place) -> Json:
    """The object to apply."""
    body = inference_service(_template(wish, place))
    del body["metadata"]["ownerReferences"]  # There is no TranslationEngine, and the collector would notice.
    if wish.tagged:
        body["metadata"]["annotations"]["serving.kserve.io/enable-tag-routing"] = "true"
    predictor = body["spec"]["predictor"]
    if wish.canary is not None:
        predictor["canaryTrafficPercent"] = wish.canary
    container = predictor["containers"][0]
    container |= {"command": ["python", "-c", PROGRAM]}
    del container["args"]
    container["env"] += [
        {"name": LOAD, "value": str(wish.load)},
        {"name": ENDING, "value": str(wish.exit_code)},
    ]
    return body


def _template(wish: Wish, place: Place) -> ServiceTemplate:
    serving = EffectiveServing(
        profile=Profile.CPU,
        protocol=Protocol.REST,
        exposure=Exposure.CLUSTER_LOCAL,
        min_replicas=0,
        max_replicas=1,
        concurrency=8,
        scale_down_delay=timedelta(0),
        window=timedelta(seconds=WINDOW),
        resources=Resources(requests={"cpu": "10m", "memory": "32Mi"}, limits={"memory": "256Mi"}),
        device="cpu",
        compute_type="default",
        runtime_image=place.image,
    )
    return ServiceTemplate(
        engine=EngineRef(NAME, place.namespace, "none"),
        engine_id=ENGINE,
        model_revision=wish.revision,
        key=ArtifactKey.of(ENGINE, wish.revision, ConversionOptions()),
        manifest_sha256=place.manifest_sha256,
        attempt=1,
        model_uri=place.model_uri,
        store=ObjectStore("s3://nowhere"),
        serving=serving,
        initial_scale=wish.initial_scale,
        progress_deadline_seconds=60,
        response_start_seconds=300,
    )
