"""The only module that makes names.

Kubernetes, Knative and KServe together leave little room: an InferenceService must start with a letter (Serval's ids
start with a digit), and Knative puts `<tag>-<service>-predictor-<namespace>` into one DNS label of 63 characters when
the cluster's domain template joins name and namespace by a hyphen. This module refuses names that cannot work, with
the numbers, before anything is applied; it never shortens the name of an InferenceService, because a person would no
longer find it.
"""

import re

from engine_operator.domain.keys import ArtifactKey, EngineId, digest
from engine_operator.errors import NameTooLong

LABEL_MAX = 63
"""Characters of a DNS label (RFC 1123), which also bounds label values and Job names."""

PERSON_NAME_MAX = 30
"""Longest name of a TranslationEngine that the CRD accepts."""

TAG = "latest-"
"""Knative's tag prefix; counted even though we use no tag, so that a later split of traffic never renames an engine."""

PREDICTOR = "-predictor-"
"""What KServe and the domain template put between the service's name and its namespace."""

DISCOVERED_LENGTH = 25
"""Length of `e` + 24 hex digits."""

_JOB_NAME_MAX = 57
"""A Job's pods append a hyphen and five characters to its name."""

_DNS_LABEL = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")


def shorten(text: str, budget: int) -> str:
    """Return `text`, or a cut of it that ends in a hash of the whole, so that equal beginnings stay apart.

    `budget` must be at least 10.
    """
    if len(text) <= budget:
        return text
    return f"{text[: budget - 9].rstrip('-')}-{digest(text, length=8)}"


def discovered_name(engine_id: EngineId) -> str:
    """Name of the TranslationEngine of a discovered engine: `e<engine id>`."""
    name = f"e{engine_id.lower()}"
    if _DNS_LABEL.match(name) is None:
        raise NameTooLong(f"engine id {engine_id!r} cannot be part of a Kubernetes name")
    return name


def host_label(name: str, namespace: str) -> str:
    """The longest DNS label that Knative may build for the engine's predictor."""
    return f"{TAG}{name}{PREDICTOR}{namespace}"


def name_budget(namespace: str) -> int:
    """Characters that a TranslationEngine's name may have in this namespace."""
    return min(PERSON_NAME_MAX, LABEL_MAX - len(host_label("", namespace)))


def namespace_budget(name_length: int = DISCOVERED_LENGTH) -> int:
    """Characters that a namespace may have if names of this length must fit."""
    return LABEL_MAX - len(host_label("", "")) - name_length


def require_namespace(namespace: str) -> None:
    """Refuse, at start, a namespace in which no discovered engine could get an address."""
    if len(namespace) > namespace_budget():
        raise NameTooLong(
            f"namespace {namespace!r} has {len(namespace)} characters; discovered engines have names of "
            f"{DISCOVERED_LENGTH}, and '{host_label('<name>', '<namespace>')}' must fit into {LABEL_MAX}: "
            f"at most {namespace_budget()} characters for the namespace"
        )


def require_name(name: str, namespace: str) -> None:
    """Refuse a TranslationEngine whose predictor would get no address in this namespace."""
    if _DNS_LABEL.match(name) is None:
        raise NameTooLong(f"{name!r} is not a DNS label that starts with a letter")
    if len(name) > name_budget(namespace):
        raise NameTooLong(
            f"{name!r} has {len(name)} characters; in namespace {namespace!r} ({len(namespace)}) at most "
            f"{name_budget(namespace)} fit into '{host_label('<name>', namespace)}' of {LABEL_MAX}"
        )


def job_name(name: str, key: ArtifactKey, attempt: int, converter_image: str) -> str:
    """Name of the conversion Job of one attempt: engine, revision, and a hash of what makes it another Job.

    The converter's image is in the hash, so another image is another Job and a template is never patched.
    """
    tail = f"-r{key.revision}-{digest(str(key), str(attempt), converter_image, length=8)}"
    return shorten(name, _JOB_NAME_MAX - len(tail)) + tail


def source_secret_name(job: str) -> str:
    """Name of the Secret that hands one presigned URL to one Job."""
    return f"{job}-source"
