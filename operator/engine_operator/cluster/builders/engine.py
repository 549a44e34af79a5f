"""The TranslationEngine of a discovered engine: its source, and nothing that a person might want to decide."""

from engine_operator.cluster.builders.common import Json
from engine_operator.domain import wire
from engine_operator.domain.actions import ApplyEngine


def translation_engine(action: ApplyEngine) -> Json:
    """The complete object as far as the operator applies it; every other field of the spec belongs to people."""
    return {
        "apiVersion": wire.API_VERSION,
        "kind": "TranslationEngine",
        "metadata": {
            "name": action.name,
            "namespace": action.namespace,
            "labels": {
                wire.LABEL_DISCOVERED: "true",
                wire.LABEL_SOURCE: action.serval_source,
                wire.LABEL_MANAGED_BY: wire.MANAGED_BY,
            },
            "ownerReferences": [
                {
                    "apiVersion": wire.API_VERSION,
                    "kind": "ServalSource",
                    "name": action.serval_source,
                    "uid": action.source_uid,
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": {"source": {"servalSource": action.serval_source, "engineId": str(action.engine_id)}},
    }
