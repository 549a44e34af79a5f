"""The InferenceService of one engine.

One inline container, and deliberately nothing of KServe's own model machinery: a ServingRuntime would roll every
engine when it changes, `model` without a storage URI adds a multi-model agent, and a `storageUri` (or an environment
variable called STORAGE_URI) brings KServe's initializer. The predictor downloads and checks its model itself.

Everything in the object is constant for one model revision and attempt, annotations included: KServe copies them into
the revision template, where any change makes a new revision and restarts a pod. Bookkeeping lives in the
TranslationEngine's status.
"""

from engine_operator.cluster.builders import common
from engine_operator.cluster.builders.common import Json, mount, variable
from engine_operator.domain import wire
from engine_operator.domain.actions import ServiceTemplate
from engine_operator.domain.budget import predictor_resources
from engine_operator.domain.engine import Exposure, Protocol
from engine_operator.domain.mode import Autoscaler

API_VERSION = "serving.kserve.io/v1beta1"
COMPONENT = "predictor"

REST_PORT = 8080
GRPC_PORT = 8081
CPU_TARGET = 80
"""Per cent of the CPUs that a pod asks for: another pod is started above it."""


def inference_service(template: ServiceTemplate) -> Json:
    """The complete desired object, for server-side apply."""
    engine, serving = template.engine, template.serving
    labels = common.labels(engine, COMPONENT)
    if serving.exposure is Exposure.CLUSTER_LOCAL:
        group = "knative.dev" if template.mode is None else "kserve.io"
        labels[f"networking.{group}/visibility"] = "cluster-local"
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {
            "name": engine.name,
            "namespace": engine.namespace,
            "labels": labels,
            "annotations": _annotations(template),
            "ownerReferences": common.owned_by_engine(engine),
        },
        "spec": {"predictor": _predictor(template)},
    }


def _annotations(template: ServiceTemplate) -> Json:
    """Knative's settings that KServe has no field for, or the mode without Knative."""
    serving, mode = template.serving, template.mode
    if mode is not None:
        return {
            wire.ANNOTATION_DEPLOYMENT_MODE: mode.mode.value,
            wire.ANNOTATION_AUTOSCALER: mode.autoscaler.value,
        }
    return {
        "serving.knative.dev/progress-deadline": f"{template.progress_deadline_seconds}s",
        "autoscaling.knative.dev/scale-to-zero-pod-retention-period": _seconds(
            serving.scale_down_delay.total_seconds()
        ),
        "autoscaling.knative.dev/window": _seconds(serving.window.total_seconds()),
        wire.ANNOTATION_INITIAL_SCALE: str(template.initial_scale),
    }


def _seconds(value: float) -> str:
    return f"{int(value)}s"


def _predictor(template: ServiceTemplate) -> Json:
    serving = template.serving
    predictor: Json = {
        "minReplicas": serving.min_replicas,
        "maxReplicas": serving.max_replicas,
        **_scaling(template),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [_container(template)],
        "volumes": _volumes(template),
    }
    if template.service_account:
        predictor["serviceAccountName"] = template.service_account
    if serving.node_selector:
        predictor["nodeSelector"] = dict(serving.node_selector)
    if serving.tolerations:
        predictor["tolerations"] = [common.toleration(t) for t in serving.tolerations]
    if serving.runtime_class_name:
        predictor["runtimeClassName"] = serving.runtime_class_name
    if serving.priority_class_name:
        predictor["priorityClassName"] = serving.priority_class_name
    if serving.image_pull_secrets:
        predictor["imagePullSecrets"] = [{"name": name} for name in serving.image_pull_secrets]
    return predictor


def _scaling(template: ServiceTemplate) -> Json:
    """What the autoscaler goes by: Knative counts calls, an HPA the use of CPUs, KEDA what it is told to ask."""
    serving, mode = template.serving, template.mode
    if mode is None:
        return {
            "scaleMetric": "concurrency",
            "scaleTarget": serving.concurrency,
            "containerConcurrency": 0,
            "timeout": template.response_start_seconds,
        }
    if mode.autoscaler is Autoscaler.HPA:
        return {"scaleMetric": "cpu", "scaleTarget": CPU_TARGET}
    if not (mode.prometheus and mode.query):
        target = {"type": "Utilization", "averageUtilization": CPU_TARGET}
        return {
            "autoScaling": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}
        }
    metric = {
        "backend": "prometheus",
        "serverAddress": mode.prometheus,
        "query": mode.query_for(template.engine.namespace, template.engine.name),
    }
    external = {"metric": metric, "target": {"type": "Value", "value": str(serving.concurrency)}}
    return {"autoScaling": {"metrics": [{"type": "External", "external": external}]}}


def _container(template: ServiceTemplate) -> Json:
    serving = template.serving
    mounts = [mount("cache", common.CACHE_DIR), mount("tmp", "/tmp")]
    if template.store.ca_config_map:
        mounts.append(mount("store-ca", common.CA_DIR, read_only=True))
    return {
        "name": wire.CONTAINER,
        "image": serving.runtime_image,
        "args": ["serve"],
        "ports": _ports(template),
        "env": _environment(template),
        "resources": common.resources(predictor_resources(serving.resources, template.model_bytes)),
        "securityContext": common.restricted(),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
        **_probes(Protocol.REST if template.mode else serving.protocol),
    }


def _ports(template: ServiceTemplate) -> list[Json]:
    """In Standard mode both; the first is the one that the Service has on port 80."""
    if template.mode is None:
        return [_port(template.serving.protocol)]
    rest = {"name": "http1", "containerPort": REST_PORT, "protocol": "TCP"}
    both = [rest, _port(Protocol.GRPC)]
    return both if template.serving.protocol is Protocol.REST else both[::-1]


def _port(protocol: Protocol) -> Json:
    """Knative routes to one port, and its name decides how: `h2c` for gRPC, no name for HTTP/1.1 and HTTP/2 alike."""
    if protocol is Protocol.GRPC:
        return {"name": "h2c", "containerPort": GRPC_PORT, "protocol": "TCP"}
    return {"containerPort": REST_PORT, "protocol": "TCP"}


def _probes(protocol: Protocol) -> Json:
    """Probes without a port take the serving port: the only one that Knative's proxy can probe.

    Readiness has no timing of its own: Knative's proxy then asks every 50 ms and goes on for ten seconds before it
    gives up, which finds a ready model soonest and survives a short stall. Liveness waits five seconds: while a large
    tokenizer loads, the interpreter answers nothing for about one.
    """
    if protocol is Protocol.GRPC:
        ready: Json = {"grpc": {"port": GRPC_PORT}}
        live: Json = {"tcpSocket": {"port": GRPC_PORT}}
    else:
        ready = {"httpGet": {"path": "/v2/health/ready", "port": REST_PORT}}
        live = {"httpGet": {"path": "/v2/health/live", "port": REST_PORT}}
    return {
        "readinessProbe": ready,
        "livenessProbe": {**live, "timeoutSeconds": 5, "periodSeconds": 10, "failureThreshold": 6},
    }


def _environment(template: ServiceTemplate) -> list[Json]:
    """What the predictor must find, how it computes, and how it reaches the store; people's own variables last."""
    serving = template.serving
    environment = [
        variable(wire.ENV_MODEL_URI, template.model_uri),
        variable(wire.ENV_MODEL_NAME, template.engine.name),
        variable(wire.ENV_ENGINE_ID, template.engine_id),
        variable(wire.ENV_MODEL_REVISION, template.model_revision),
        variable(wire.ENV_MANIFEST_SHA256, template.manifest_sha256),
        variable(wire.ENV_ATTEMPT, template.attempt),
        variable("SERVAL_LIVE_CACHE_DIR", common.CACHE_DIR),
        variable("SERVAL_LIVE_DEVICE", serving.device),
        variable(wire.ENV_COMPUTE_TYPE, serving.compute_type),
        *common.store_environment(template.store, template.store.for_readers),
    ]
    taken = {entry["name"] for entry in environment}
    return environment + [variable(e.name, e.value) for e in serving.env if e.name not in taken]


def _volumes(template: ServiceTemplate) -> list[Json]:
    volumes = [common.scratch_volume("cache"), common.scratch_volume("tmp", "256Mi")]
    if template.store.ca_config_map:
        volumes.append(common.authority_volume("store-ca", template.store.ca_config_map))
    return volumes
