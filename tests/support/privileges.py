"""What the operator's Roles grant, against what the API server's audit log says it asked for.

A verb that nobody uses is a door left open; a verb that is refused is work left undone. Both come out of two sources
that know nothing of each other: the Roles as they stand in the cluster, and the log. Refuses to guess: a request counts
as refused where the log says `forbid`, whatever code it ended with.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]
DECISION = "authorization.k8s.io/decision"


@dataclass(frozen=True, order=True)
class Permission:
    """One verb on one kind. An empty namespace is the whole cluster, an empty name is every object."""

    resource: str
    """As in a Role, with its subresource: `translationengines/status`."""
    verb: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def covers(self, used: "Permission") -> bool:
        """Whether this grant is what let a request through."""
        return (
            (self.resource, self.verb, self.group) == (used.resource, used.verb, used.group)
            and self.namespace in ("", used.namespace)
            and self.name in ("", used.name)
        )

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" {self.name}" if self.name else "")


@dataclass(frozen=True)
class Use:
    """What one account asked for."""

    used: frozenset[Permission]
    refused: tuple[str, ...]
    """`verb URI` of each request that its Roles did not allow."""


def granted(roles: Iterable[Mapping[str, Any]]) -> frozenset[Permission]:
    """Every single permission of these Roles and ClusterRoles. Raises ValueError at a wildcard, which has no single."""
    found = set()
    for role in roles:
        namespace = role["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
        for rule in role.get("rules") or []:
            if "*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]):
                raise ValueError(f"{role['kind']} {role['metadata']['name']} grants a wildcard")
            found |= {
                Permission(resource, verb, group, namespace, name)
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
                for name in rule.get("resourceNames") or [""]
            }
    return frozenset(found)


def use_of(user: str, entries: Iterable[Json]) -> Use:
    """What a user did and was refused, by entries of an audit log. Paths without an object (`/apis`) need no Role."""
    used: set[Permission] = set()
    refused = []
    for entry in entries:
        if entry["user"].get("username") != user:
            continue
        if entry.get("annotations", {}).get(DECISION) == "forbid":
            refused.append(f"{entry['verb']} {entry['requestURI']}")
        elif "objectRef" in entry:
            used |= set(_needed(entry))
    return Use(frozenset(used), tuple(refused))


def unused(grants: Iterable[Permission], use: Use) -> list[Permission]:
    """Grants that no request needed."""
    return sorted(grant for grant in grants if not any(grant.covers(one) for one in use.used))


def entries_of(log: Path, user: str, since: datetime) -> Iterator[Json]:
    """A user's entries, oldest first, the files that were rotated away included.

    Requests before `since`, the making of the account, are those of another account of the same name.
    """
    name = user.encode()
    for file in [*sorted(log.parent.glob(f"{log.stem}-*{log.suffix}")), log]:
        with file.open("rb") as lines:
            for line in lines:
                # Nearly every line is of a controller: look before parsing. A last line may still be in the writing.
                if name in line and line.endswith(b"\n"):
                    entry: Json = json.loads(line)
                    if datetime.fromisoformat(entry["requestReceivedTimestamp"]) >= since:
                        yield entry


def _needed(entry: Json) -> Iterator[Permission]:
    """What a request needed: an apply that made its object is logged as a patch, and needed `create` as well."""
    target = entry["objectRef"]
    resource = target["resource"] + (f"/{target['subresource']}" if target.get("subresource") else "")
    verbs = [entry["verb"]]
    if entry["verb"] == "patch" and entry["responseStatus"].get("code") == 201:
        verbs.append("create")
    for verb in verbs:
        yield Permission(
            resource, verb, target.get("apiGroup", ""), target.get("namespace", ""), target.get("name", "")
        )


KSERVE, KNATIVE, EVENTS = "serving.kserve.io", "serving.knative.dev", "events.k8s.io"
ON_THE_BENCH: Mapping[Permission, str] = {
    Permission(
        "inferenceservices", "update", KSERVE
    ): "somebody's plain write of a field of ours is taken back",
    Permission("revisions", "patch", KNATIVE): "a warm window holds a Revision; windows open by the minute",
    Permission("revisions", "delete", KNATIVE): "a swap's revision waits for the GPU of the one before",
    Permission("events", "list", EVENTS): "a pod waits for a node; the real cluster may always have one",
    Permission("events", "get", EVENTS): "the same Event again: a status was lost with what had been told",
    Permission("events", "patch", EVENTS): "the same Event again is counted up",
    Permission(
        "configmaps", "get"
    ): "a store behind an authority of its own; the one in the cluster speaks HTTP",
}
"""Permissions that days on the real cluster need not see, and what needs them: `test_least_privilege` of
the bench makes each happen. Everything else that is granted has to be used by the tests on the real cluster."""


def on_the_bench(grant: Permission) -> bool:
    """Whether a grant is one of the table's: in a namespace of engines, for every name."""
    return any(
        (one.resource, one.verb, one.group, one.name) == (grant.resource, grant.verb, grant.group, grant.name)
        for one in ON_THE_BENCH
    )
