"""The InferenceService as applied."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from engine_operator.cluster.builders.inferenceservice import inference_service
from engine_operator.domain.actions import ApplyInferenceService, EngineRef, ServiceTemplate
from engine_operator.domain.effective import effective
from engine_operator.domain.engine import (
    EnvVar,
    Exposure,
    ObjectStore,
    Profile,
    Protocol,
    ServingSpec,
    Toleration,
)
from engine_operator.domain.keys import ArtifactKey, ConversionOptions, EngineId
from engine_operator.domain.mode import Autoscaler, DeploymentMode, ServingMode
from tests.support.cases import case
from tests.unit.operator.domain.world import DEFAULTS, ENGINE_ID, NAME, World, engine

KEY = ArtifactKey.of(EngineId(ENGINE_ID), 3, ConversionOptions())


def template(serving: ServingSpec | None = None, **changes: object) -> ServiceTemplate:
    chosen = effective(engine(serving=serving or ServingSpec()), None, DEFAULTS).serving
    full = ServiceTemplate(
        engine=EngineRef(NAME, "live", "uid-1"),
        engine_id=ENGINE_ID,
        model_revision=3,
        key=KEY,
        manifest_sha256="a" * 64,
        attempt=1,
        model_uri=f"s3://artifacts/live/inst/{KEY}/",
        store=ObjectStore("s3://artifacts/live", "http://s3:7070", "eu-1", "writer", "reader", "store-ca"),
        serving=chosen,
        initial_scale=1,
        progress_deadline_seconds=900,
        response_start_seconds=600,
    )
    return replace(full, **changes)  # type: ignore[arg-type]


def container(found: dict[str, Any]) -> dict[str, Any]:
    containers: list[dict[str, Any]] = found["spec"]["predictor"]["containers"]
    assert len(containers) == 1
    return containers[0]


def environment(found: dict[str, Any]) -> dict[str, Any]:
    return {e["name"]: e.get("value", e.get("valueFrom")) for e in container(found)["env"]}


def test_one_inline_container_and_nothing_of_kserves_model_machinery() -> None:
    found = inference_service(template())
    predictor = found["spec"]["predictor"]
    assert container(found)["name"] == "kserve-container"
    assert not {"model", "storageUris", "canaryTrafficPercent"} & set(predictor)
    assert "STORAGE_URI" not in environment(found)
    assert (predictor["minReplicas"], predictor["containerConcurrency"], predictor["scaleMetric"]) == (
        0,
        0,
        "concurrency",
    )


def test_environment_names_what_must_be_found() -> None:
    found = environment(inference_service(template()))
    assert found["SERVAL_LIVE_MODEL_URI"].endswith(f"/{KEY}/")
    assert found["SERVAL_LIVE_MODEL_REVISION"] == "3"
    assert found["SERVAL_LIVE_MANIFEST_SHA256"] == "a" * 64
    assert found["SERVAL_LIVE_MODEL_NAME"] == NAME
    assert found["SERVAL_LIVE_ENGINE_ID"] == ENGINE_ID


def test_predictor_reads_with_the_readers_secret_and_never_sees_servals_key() -> None:
    found = inference_service(template())
    secrets = {v["secretKeyRef"]["name"] for v in environment(found).values() if isinstance(v, dict)}
    assert secrets == {"reader"}
    assert environment(found)["SERVAL_LIVE_S3_CA_FILE"] == "/etc/serval-live/ca/ca.crt"


@pytest.mark.parametrize(
    ("protocol", "port"),
    [
        (Protocol.REST, {"containerPort": 8080, "protocol": "TCP"}),
        (Protocol.GRPC, {"name": "h2c", "containerPort": 8081, "protocol": "TCP"}),
    ],
)
def test_port_and_its_name_follow_the_protocol(protocol: Protocol, port: dict[str, Any]) -> None:
    found = container(inference_service(template(ServingSpec(protocol=protocol))))
    assert found["ports"] == [port]
    assert found["livenessProbe"]["timeoutSeconds"] == 5
    probed = found["readinessProbe"]
    assert next(iter(probed.values()))["port"] == port["containerPort"]


def test_engines_are_cluster_local_unless_somebody_decides_otherwise() -> None:
    label = "networking.knative.dev/visibility"
    assert inference_service(template())["metadata"]["labels"][label] == "cluster-local"
    opened = inference_service(template(ServingSpec(exposure=Exposure.EXTERNAL)))
    assert label not in opened["metadata"]["labels"]


def test_container_is_restricted_with_two_writable_places() -> None:
    found = container(inference_service(template()))
    context = found["securityContext"]
    assert context["readOnlyRootFilesystem"] is True
    assert context["runAsNonRoot"] is True
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert "runAsUser" not in context
    writable = {m["mountPath"] for m in found["volumeMounts"] if not m.get("readOnly")}
    assert writable == {"/var/cache/serval-live", "/tmp"}


def test_gpu_profile_asks_for_one_gpu_and_computes_on_it() -> None:
    wish = ServingSpec(profile=Profile.GPU, node_selector={"pool": "gpu"}, image_pull_secrets=("mirror",))
    found = inference_service(template(wish))
    assert container(found)["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert environment(found)["SERVAL_LIVE_DEVICE"] == "cuda"
    assert environment(found)["SERVAL_LIVE_COMPUTE_TYPE"] == "int8_float16"
    predictor = found["spec"]["predictor"]
    assert predictor["nodeSelector"] == {"pool": "gpu"}
    assert predictor["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    ]
    assert predictor["imagePullSecrets"] == [{"name": "mirror"}]


@pytest.mark.parametrize(("account", "named"), [("", None), ("workload", "workload")])
def test_predictor_runs_under_the_named_account_and_gets_no_token(account: str, named: str | None) -> None:
    predictor = inference_service(template(service_account=account))["spec"]["predictor"]
    assert predictor.get("serviceAccountName") == named
    assert predictor["automountServiceAccountToken"] is False


def test_cpu_profile_needs_no_gpu() -> None:
    found = inference_service(template())
    assert "nvidia.com/gpu" not in container(found)["resources"]["limits"]
    assert "tolerations" not in found["spec"]["predictor"]


def test_waits_are_written_as_knative_reads_them() -> None:
    wish = ServingSpec(scale_down_delay=timedelta(minutes=10), window=timedelta(seconds=10))
    found = inference_service(template(wish))
    assert found["metadata"]["annotations"] == {
        "serving.knative.dev/progress-deadline": "900s",
        "autoscaling.knative.dev/scale-to-zero-pod-retention-period": "600s",
        "autoscaling.knative.dev/window": "10s",
        "autoscaling.knative.dev/initial-scale": "1",
    }
    assert found["spec"]["predictor"]["timeout"] == 600


def test_peoples_variables_never_replace_ours() -> None:
    wish = ServingSpec(
        env=(EnvVar("SERVAL_LIVE_MODEL_REVISION", "9"), EnvVar("SERVAL_LIVE_INTRA_THREADS", "2"))
    )
    found = inference_service(template(wish))
    assert environment(found)["SERVAL_LIVE_MODEL_REVISION"] == "3"
    assert environment(found)["SERVAL_LIVE_INTRA_THREADS"] == "2"
    names = [e["name"] for e in container(found)["env"]]
    assert len(names) == len(set(names))


def test_a_person_may_choose_the_compute_type_of_a_profile() -> None:
    wish = ServingSpec(profile=Profile.GPU, env=(EnvVar("SERVAL_LIVE_COMPUTE_TYPE", "float16"),))
    found = inference_service(template(wish))
    assert environment(found)["SERVAL_LIVE_COMPUTE_TYPE"] == "float16"
    names = [e["name"] for e in container(found)["env"]]
    assert names.count("SERVAL_LIVE_COMPUTE_TYPE") == 1


def test_a_retry_changes_one_environment_value() -> None:
    first, second = inference_service(template()), inference_service(template(attempt=2))
    assert container(first)["env"] != container(second)["env"]
    changed = {k for k, v in environment(second).items() if environment(first)[k] != v}
    assert changed == {"SERVAL_LIVE_ATTEMPT"}
    container(second)["env"] = container(first)["env"]
    assert first == second


def _with_bookkeeping(template: ServiceTemplate) -> dict[str, str]:
    """The naive version: remembers the attempt where it seems handy."""
    return {"serval-live.dev/last-attempt": str(template.attempt)}


@case("A9", breaks="engine_operator.cluster.builders.inferenceservice:_annotations", naive=_with_bookkeeping)
def test_a9_annotations_are_knatives_own_and_the_same_for_every_attempt() -> None:
    """Whatever stands in an annotation flows into the revision template and restarts a pod when it changes."""
    world = World()
    world.publish(3)
    for _ in range(4):
        world.settle()
        world.crashed()
        world.settle()
        world.passes(hours=1)
    applied = [a.template for a in world.done if isinstance(a, ApplyInferenceService)]
    seen = [inference_service(template)["metadata"]["annotations"] for template in applied]
    assert len(seen) >= 4
    assert all(annotations == seen[0] for annotations in seen)
    assert all(name.partition("/")[0].endswith("knative.dev") for name in seen[0])


def test_toleration_keeps_only_what_somebody_set() -> None:
    wish = ServingSpec(
        tolerations=(Toleration(key="a", value="b", effect="NoExecute", toleration_seconds=0),)
    )
    found = inference_service(template(wish))["spec"]["predictor"]["tolerations"]
    assert found == [{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0}]


def test_service_goes_with_its_resource() -> None:
    owner = inference_service(template())["metadata"]["ownerReferences"]
    assert [(o["kind"], o["uid"], o["controller"]) for o in owner] == [("TranslationEngine", "uid-1", True)]


STANDARD = ServingMode(DeploymentMode.STANDARD)
BY_CALLS = replace(
    STANDARD, autoscaler=Autoscaler.KEDA, prometheus="http://p:9090", query='calls{engine="{engine}"}'
)


@pytest.mark.parametrize("protocol", list(Protocol))
def test_standard_mode_serves_both_ports_and_knows_nothing_of_knative(protocol: Protocol) -> None:
    found = inference_service(template(ServingSpec(protocol=protocol, min_replicas=1), mode=STANDARD))
    assert found["metadata"]["annotations"] == {
        "serving.kserve.io/deploymentMode": "Standard",
        "serving.kserve.io/autoscalerClass": "hpa",
    }
    assert "knative" not in json.dumps(found)
    assert found["metadata"]["labels"]["networking.kserve.io/visibility"] == "cluster-local"
    ports = [(one["name"], one["containerPort"]) for one in container(found)["ports"]]
    both = [("http1", 8080), ("h2c", 8081)]
    assert ports == (both if protocol is Protocol.REST else both[::-1]), "the first is the Service's port 80"
    assert container(found)["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
    assert found["spec"]["predictor"]["scaleMetric"] == "cpu"


def test_keda_is_told_what_to_ask_and_gets_no_metric_that_kserve_refuses() -> None:
    asked = inference_service(template(mode=BY_CALLS))["spec"]["predictor"]
    assert "scaleMetric" not in asked, "KServe refuses it beside KEDA"
    (metric,) = asked["autoScaling"]["metrics"]
    assert metric["external"]["metric"]["query"] == f'calls{{engine="{NAME}"}}'
    assert metric["external"]["target"] == {"type": "Value", "value": "8"}
    by_cpu = inference_service(template(mode=replace(BY_CALLS, query="")))["spec"]["predictor"]
    (metric,) = by_cpu["autoScaling"]["metrics"]
    assert metric["resource"]["name"] == "cpu"


def test_exposed_engines_of_standard_mode_have_no_label_against_it() -> None:
    found = inference_service(template(ServingSpec(exposure=Exposure.EXTERNAL), mode=STANDARD))
    assert "visibility" not in json.dumps(found["metadata"]["labels"])
