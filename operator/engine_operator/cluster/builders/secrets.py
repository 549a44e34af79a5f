"""The Secret that hands one presigned URL to one conversion Job, and goes with it."""

from engine_operator.cluster.builders import common
from engine_operator.cluster.builders.common import Json
from engine_operator.cluster.builders.jobs import COMPONENT
from engine_operator.domain import wire
from engine_operator.domain.actions import EngineRef
from engine_operator.domain.names import source_secret_name


def source_secret(engine: EngineRef, job: str, job_uid: str, url: str) -> Json:
    """The complete Secret; owned by the Job, since the URL opens the archive for whoever has it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": source_secret_name(job),
            "namespace": engine.namespace,
            "labels": common.labels(engine, COMPONENT),
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": job,
                    "uid": job_uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "stringData": {wire.SOURCE_URL_KEY: url},
    }
