"""The conversion Job of one attempt.

A Job is written once and never changed: its name holds the artifact, the attempt and the converter's image. It retries
nothing itself (attempts are counted in the engine's status), holds no Serval key, and gets Serval's archive by a
presigned URL from a Secret that it owns, or by read access to one bucket.
"""

from engine_operator.cluster.builders import common
from engine_operator.cluster.builders.common import Json, mount
from engine_operator.domain import wire
from engine_operator.domain.actions import ConversionPlan
from engine_operator.domain.names import source_secret_name

COMPONENT = "converter"
KEEP_SECONDS = 3600
"""A finished Job stays this long for its logs; the manifest, not the Job, says whether anything is to be done."""

_SOURCE_CA_DIR = "/etc/serval-live/source-ca"


def conversion_job(plan: ConversionPlan) -> Json:
    """The complete Job."""
    labels = common.labels(plan.engine, COMPONENT)
    annotations = {wire.ANNOTATION_ARTIFACT_KEY: str(plan.key), wire.ANNOTATION_ATTEMPT: str(plan.attempt)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": plan.job,
            "namespace": plan.engine.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": common.owned_by_engine(plan.engine),
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": plan.deadline_seconds,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": _pod(plan)},
        },
    }


def _pod(plan: ConversionPlan) -> Json:
    pod: Json = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(plan)],
        "volumes": _volumes(plan),
    }
    if plan.service_account:
        pod["serviceAccountName"] = plan.service_account
    if plan.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in plan.image_pull_secrets]
    return pod


def _container(plan: ConversionPlan) -> Json:
    mounts = [mount("cache", common.CACHE_DIR), mount("tmp", "/tmp")]
    if plan.artifact_store.ca_config_map:
        mounts.append(mount("store-ca", common.CA_DIR, read_only=True))
    if plan.source is not None and plan.source.ca_config_map:
        mounts.append(mount("source-ca", _SOURCE_CA_DIR, read_only=True))
    return {
        "name": wire.CONVERTER_CONTAINER,
        "image": plan.image,
        "args": _arguments(plan),
        "env": _environment(plan),
        "resources": common.resources(plan.resources),
        "securityContext": common.restricted(),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
    }


def _arguments(plan: ConversionPlan) -> list[str]:
    """The converter's command line; `-` keeps the presigned URL, a bearer token, out of every process list."""
    arguments = ["convert", "-" if plan.source is None else plan.source.uri, plan.destination]
    arguments += ["--quantization", plan.options.quantization.value, "--engine-id", plan.key.engine_id]
    arguments += [
        "--revision",
        str(plan.key.revision),
        "--artifact-key",
        str(plan.key),
        "--attempt",
        plan.attempt_id,
    ]
    if plan.languages.source:
        arguments += ["--source-language", plan.languages.source]
    if plan.languages.target:
        arguments += ["--target-language", plan.languages.target]
    return arguments


def _environment(plan: ConversionPlan) -> list[Json]:
    environment = [
        common.variable("SERVAL_LIVE_CACHE_DIR", common.CACHE_DIR),
        common.variable("SERVAL_LIVE_IMAGE", plan.image),
        *common.store_environment(plan.artifact_store, plan.artifact_store.secret),
    ]
    if plan.source is None:
        secret = source_secret_name(plan.job)
        environment.append(common.secret_variable(wire.ENV_SOURCE_URL, secret, wire.SOURCE_URL_KEY))
    else:
        environment += common.store_environment(plan.source, plan.source.secret, "SOURCE_", _SOURCE_CA_DIR)
    return environment


def _volumes(plan: ConversionPlan) -> list[Json]:
    """Scratch space is bounded by the container's limit for ephemeral storage, which is derived from the source."""
    volumes = [common.scratch_volume("cache"), common.scratch_volume("tmp")]
    if plan.artifact_store.ca_config_map:
        volumes.append(common.authority_volume("store-ca", plan.artifact_store.ca_config_map))
    if plan.source is not None and plan.source.ca_config_map:
        volumes.append(common.authority_volume("source-ca", plan.source.ca_config_map))
    return volumes
