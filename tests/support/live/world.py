"""The whole installation on the real cluster, as a person would make it: chart, stand-in for Serval, store, source.

Everything made here is named and removed by `close`; a second run finds nothing of the first.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3.session
from botocore.config import Config

from tests.support.live.calls import Endpoint
from tests.support.live.kubectl import Kubectl, Object, condition
from tests.support.serval import Bucket, ServalStandIn, Settings
from tests.support.waiting import eventually_sync

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = "serval-live"
NODE_ADDRESS = "10.244.0.1"
"""The node inside the cluster's network namespace: where pods reach processes that run beside them."""
S3_ENDPOINT = "http://s3.s3.svc.cluster.local:9000"
MODELS, ARTIFACTS = "serval-models", "serval-live-artifacts"
SOURCE = "serval"
PREDICTORS = "serving.kserve.io/inferenceservice"
IMPATIENT = {
    "SERVAL_LIVE_OPERATOR_SWEEP_EVERY": "10",
    "SERVAL_LIVE_OPERATOR_DELETION_GRACE": "5",
    "SERVAL_LIVE_OPERATOR_COLLECT_EVERY": "10",
    "SERVAL_LIVE_OPERATOR_MANIFEST_TRUST": "10",
}
"""Waits of minutes as seconds; what is measured (rollouts, wakes) depends on none of them."""


@dataclass(frozen=True)
class Options:
    """What a test, the demo or a benchmark wants differently."""

    quantization: str = "float32"
    scale_down_delay: str = "10s"
    window: str = "6s"
    operator_env: dict[str, str] = field(default_factory=lambda: dict(IMPATIENT))
    say: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)


class World:
    """One installation. Use as a context manager."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.kubectl = Kubectl(NAMESPACE)
        self.s3 = self._store()
        self.serval = ServalStandIn(Settings(host=NODE_ADDRESS), self._bucket())
        self.scratch = Path(tempfile.mkdtemp(prefix="serval-live-"))
        self._ours = False

    def __enter__(self) -> "World":
        try:
            self.install()
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Making it

    def install(self) -> None:
        """The chart, with the images that this tree builds, where only restricted pods may run."""
        self._refuse_a_taken_place()
        values = self._write_values()
        self.options.say("installing the chart")
        metadata = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self._helm(
            "upgrade", "--install", "serval-live", str(ROOT / "charts" / "serval-live"),
            "--values", str(values), "--wait", "--timeout", "180s",
        )  # fmt: skip

    def connect(self) -> None:
        """Buckets, a Serval account with its key, and the ServalSource that follows it."""
        for bucket in (MODELS, ARTIFACTS):
            self.s3.create_bucket(Bucket=bucket)
        self.serval.up()
        access, secret = self._credentials()
        self.kubectl.apply(
            _secret("serval-account", {"api-key": self.serval.add_key()}),
            _secret("artifact-store", {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}),
            self.source(),
        )

    def source(self, **spec: Any) -> Object:
        """The ServalSource, with what a test adds to its spec."""
        store = {"uri": f"s3://{ARTIFACTS}/live", "endpoint": S3_ENDPOINT, "region": "us-east-1"}
        return {
            "apiVersion": "serval-live.dev/v1alpha1",
            "kind": "ServalSource",
            "metadata": {"name": SOURCE, "namespace": NAMESPACE},
            "spec": {
                "url": self.serval.url,
                "credentialsSecretRef": {"name": "serval-account"},
                "artifactStore": {**store, "secretRef": {"name": "artifact-store"}},
                "quantization": self.options.quantization,
                "serving": {
                    "scaleDownDelay": self.options.scale_down_delay,
                    "window": self.options.window,
                },
                **spec,
            },
        }

    def close(self) -> None:
        """Take everything away again, the store's content included."""
        if not self._ours:
            return
        self.options.say("removing the installation")
        self.kubectl.delete("servalsource", SOURCE)
        self.kubectl.delete_all("translationengines", timeout="90s")
        # Predictor pods may take their time to end; a namespace that is deleted around them waits for minutes.
        self.wait("the end of the predictor pods", lambda: not self.kubectl.list("pods", PREDICTORS), 150)
        self._helm("uninstall", "serval-live", "--ignore-not-found", "--wait", "--timeout", "90s")
        self.kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=100s")
        self.serval.down()
        for bucket in (MODELS, ARTIFACTS):
            self._remove_bucket(bucket)
        shutil.rmtree(self.scratch)

    # Looking at it

    def engine(self, name: str) -> Object | None:
        """A TranslationEngine."""
        return self.kubectl.get("translationengine", name)

    def serving_revision(self, name: str) -> int | None:
        """The Serval revision that the engine's status says is serving."""
        status = (self.engine(name) or {}).get("status", {})
        revision = status.get("serving", {}).get("revision")
        return int(revision) if revision is not None else None

    def available(self, name: str) -> Object:
        """The engine's Available condition."""
        return condition(self.engine(name), "Available")

    def pods(self, name: str) -> list[Object]:
        """Predictor pods of an engine that have not ended."""
        pods = self.kubectl.list("pods", f"serving.kserve.io/inferenceservice={name}")
        return [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]

    def artifacts(self) -> list[str]:
        """Every key in the artifact store."""
        answer = self.s3.list_objects_v2(Bucket=ARTIFACTS)
        return [item["Key"] for item in answer.get("Contents", [])]

    def leftovers(self, name: str) -> list[str]:
        """What is still there of an engine, in the cluster and in the store."""
        kinds = (
            "translationengines,inferenceservices,services.serving.knative.dev,revisions,jobs,pods,secrets"
        )
        objects = self.kubectl.list(kinds)
        named = [f"{o['kind']}/{o['metadata']['name']}" for o in objects if name in o["metadata"]["name"]]
        return named + [key for key in self.artifacts() if name.removeprefix("e") in key]

    def endpoint(self, name: str) -> Endpoint:
        """Where the engine's status says that it answers."""
        serving = (self.engine(name) or {})["status"]["serving"]
        return Endpoint(serving["url"], serving["modelName"], serving["protocol"])

    def wait(self, what: str, check: Callable[[], Any], timeout: float = 180.0, name: str = "") -> Any:
        """Poll until the check is true and return its value; AssertionError tells everything about the engine."""

        def described() -> str:
            return f"{what}\n{self.kubectl.describe_engine(name)}"

        return eventually_sync(check, timeout=timeout, describe=described, interval=0.25)

    # Inside

    def _refuse_a_taken_place(self) -> None:
        """An installation that somebody uses is never touched; one that is just being removed is waited for."""

        def free() -> bool:
            found = self.kubectl.get("namespace", NAMESPACE)
            if found and found["status"]["phase"] == "Active":
                raise RuntimeError(f"namespace {NAMESPACE} exists already: remove that installation first")
            return found is None

        self.wait(f"the end of an earlier namespace {NAMESPACE}", free)
        self._ours = True

    def _helm(self, *arguments: str) -> None:
        helm = [sys.executable, "-m", "devcluster", "tool", "helm", "--namespace", NAMESPACE, *arguments]
        result = subprocess.run(helm, capture_output=True, text=True, check=False, cwd=ROOT)
        if result.returncode:
            events = self.kubectl.describe_engine("")
            raise RuntimeError(
                f"helm {arguments[0]} failed: {result.stderr.strip()}\n{result.stdout}\n{events}"
            )

    def _write_values(self) -> Path:
        path = self.scratch / "values.json"
        values = {
            "image": _image("operator"),
            "predictor": {"image": _image("predictor")},
            "extraEnv": self.options.operator_env,
        }
        path.write_text(json.dumps(values))
        return path

    def _credentials(self) -> tuple[str, str]:
        secret = Kubectl("s3").get("secret", "s3-credentials")
        if secret is None:
            raise RuntimeError("this cluster has no S3 server: no Secret s3/s3-credentials")
        data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
        return data["AWS_ACCESS_KEY_ID"], data["AWS_SECRET_ACCESS_KEY"]

    def _store(self) -> Any:
        access, secret = self._credentials()
        return boto3.session.Session().client(
            "s3",
            endpoint_url=S3_ENDPOINT,
            region_name="us-east-1",
            aws_access_key_id=access,
            aws_secret_access_key=secret,
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )

    def _bucket(self) -> Bucket:
        access, secret = self._credentials()
        return Bucket(MODELS, S3_ENDPOINT, folder="production", access_key=access, secret_key=secret)

    def _remove_bucket(self, bucket: str) -> None:
        try:
            while items := self.s3.list_objects_v2(Bucket=bucket).get("Contents"):
                self.s3.delete_objects(
                    Bucket=bucket, Delete={"Objects": [{"Key": item["Key"]} for item in items]}
                )
            self.s3.delete_bucket(Bucket=bucket)
        except self.s3.exceptions.NoSuchBucket:
            pass


def _secret(name: str, values: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": values,
    }


def _image(target: str) -> dict[str, str]:
    """Repository and tag of an image that `scripts/images --load` put into the cluster."""
    name = (ROOT / "build" / "images" / target).read_text().strip()
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag}
