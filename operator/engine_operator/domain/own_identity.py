"""Which stores may be opened with the operator's own cloud identity.

A store that names a Secret is opened with what its owner may do. One that names none would be opened with what the
operator may do (a role of its ServiceAccount, or of its node), and whoever may write a ServalSource or a
TranslationEngine could read, write and collect wherever that reaches. So only what the operator's own settings list for
a namespace is opened that way, and nothing by default.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from engine_operator.errors import UsageError

SCHEME = "s3://"


@dataclass(frozen=True)
class IdentityGrant:
    """One folder, with all below it, for the resources of one namespace."""

    namespace: str
    folder: tuple[str, ...]
    """Bucket, and names of folders."""

    def covers(self, namespace: str, uri: str) -> bool:
        """Whether a store lies in this folder. Odd parts (`..`, an empty name) lie nowhere."""
        parts = _parts(uri)
        return namespace == self.namespace and parts is not None and parts[: len(self.folder)] == self.folder


def grants_of(entries: Iterable[str]) -> tuple[IdentityGrant, ...]:
    """From `namespace=s3://bucket/folder`. Raises UsageError that repeats what can't be read."""
    found: list[IdentityGrant] = []
    for entry in entries:
        namespace, _, uri = entry.partition("=")
        parts = _parts(uri.strip())
        if not namespace.strip() or parts is None:
            raise UsageError(
                f"own_identity_stores: {entry!r} is not of the form namespace=s3://bucket/folder"
            )
        found.append(IdentityGrant(namespace.strip(), parts))
    return tuple(found)


def may_use_own_identity(grants: Iterable[IdentityGrant], namespace: str, uri: str) -> bool:
    """Whether a store of a namespace may be opened without a Secret."""
    return any(grant.covers(namespace, uri) for grant in grants)


def _parts(uri: str) -> tuple[str, ...] | None:
    if not uri.startswith(SCHEME):
        return None
    parts = tuple(uri.removeprefix(SCHEME).rstrip("/").split("/"))
    return None if any(part in ("", ".", "..") for part in parts) else parts
