"""The artifacts of one installation: manifests, listings and deletions below `<artifactStore>/<installation>/`.

Refuses to delete anything that is not an artifact folder of a named engine in this installation.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from engine_operator.domain.keys import ArtifactKey, EngineId
from engine_operator.domain.observed import (
    ABSENT_MANIFEST,
    Known,
    ManifestFact,
    StoredArtifact,
    StoredAttempt,
)
from engine_operator.errors import StoreError
from engine_operator.store.address import S3, is_missing
from engine_operator.store.manifest import Manifest, read_manifest

MANIFEST = "manifest.json"
_LARGEST_MANIFEST = 4_000_000
"""Bytes. A manifest of 200 languages and some files has about 10 kB."""


@dataclass(frozen=True)
class StoredObject:
    """One key of a listing."""

    key: str
    modified: datetime


class ArtifactStore:
    """One installation's folder of one store."""

    def __init__(self, s3: S3, installation: str) -> None:
        self._s3 = s3
        self.installation = installation
        self._root = f"{s3.address.folder}{installation}/"

    async def manifest(self, key: ArtifactKey) -> Manifest | None:
        """The manifest of one artifact; None if there is none. Raises ManifestInvalid, StoreError."""
        content = await self.read(f"{key}/{MANIFEST}")
        return None if content is None else read_manifest(key, content)

    async def fact(self, key: ArtifactKey) -> ManifestFact:
        """The manifest as the decisions see it."""
        found = await self.manifest(key)
        if found is None:
            return ABSENT_MANIFEST
        return ManifestFact(Known.PRESENT, found.sha256, found.attempt, found.model_bytes, found.source_bytes)

    async def stored(self, engine_id: EngineId) -> tuple[StoredArtifact, ...]:
        """Everything that lies in an engine's folder, by artifact key. Objects that are no artifacts are left out."""
        objects = await self._s3.call(lambda client: list(self._objects(client, f"{engine_id}/")))
        grouped: dict[ArtifactKey, list[StoredObject]] = {}
        for one in objects:
            key = ArtifactKey.parse("/".join(one.key.split("/")[:3]))
            if key is not None:
                grouped.setdefault(key, []).append(one)
        return tuple(await asyncio.gather(*(self._artifact(key, grouped[key]) for key in sorted(grouped))))

    async def engines(self) -> tuple[EngineId, ...]:
        """Ids of all engines that have something here."""

        def operation(client: Any) -> list[str]:
            pages = client.get_paginator("list_objects_v2").paginate(
                Bucket=self._s3.address.bucket, Prefix=self._root, Delimiter="/"
            )
            return [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes") or []]

        prefixes = await self._s3.call(operation)
        return tuple(EngineId(prefix.removeprefix(self._root).strip("/")) for prefix in prefixes)

    async def collect(self, engine_id: EngineId, folder: str) -> int:
        """Delete one folder of an engine, manifest first, so that nobody trusts a half. Returns the objects deleted."""
        parts = folder.strip("/").split("/")
        key = ArtifactKey.parse("/".join(parts[:3]))
        if key is None or key.engine_id != engine_id or len(parts) > 4 or ".." in parts:
            raise StoreError(f"{folder!r} is no artifact folder of engine {engine_id}: not deleted")

        def operation(client: Any) -> int:
            found = sorted(
                self._objects(client, "/".join(parts) + "/"), key=lambda one: not _is_manifest(one)
            )
            for one in found:
                client.delete_object(Bucket=self._s3.address.bucket, Key=self._root + one.key)
            return len(found)

        return await self._s3.call(operation)

    async def read(self, name: str) -> bytes | None:
        """The bytes of a small object below the installation, or None."""

        def operation(client: Any) -> bytes:
            answer = client.get_object(Bucket=self._s3.address.bucket, Key=self._root + name)
            content: bytes = answer["Body"].read(_LARGEST_MANIFEST)
            return content

        try:
            return await self._s3.call(operation)
        except StoreError as error:
            if is_missing(error):
                return None
            raise

    async def write(self, name: str, content: bytes) -> None:
        """Store a small JSON object below the installation."""
        await self._s3.call(
            lambda client: client.put_object(
                Bucket=self._s3.address.bucket,
                Key=self._root + name,
                Body=content,
                ContentType="application/json",
            )
        )

    async def _artifact(self, key: ArtifactKey, objects: list[StoredObject]) -> StoredArtifact:
        newest: dict[str, datetime] = {}
        for one in objects:
            parts = one.key.split("/")
            if len(parts) > 4:
                newest[parts[3]] = max(one.modified, newest.get(parts[3], one.modified))
        has_manifest = any(_is_manifest(one) for one in objects)
        return StoredArtifact(
            key=key,
            has_manifest=has_manifest,
            attempts=tuple(StoredAttempt(name, when) for name, when in sorted(newest.items())),
            manifest_attempt=await self._named_attempt(key) if has_manifest else None,
        )

    async def _named_attempt(self, key: ArtifactKey) -> str | None:
        try:
            found = await self.manifest(key)
        except StoreError:
            return None  # "Not read" keeps every attempt of this key, which is the safe side.
        return found.attempt if found else None

    def _objects(self, client: Any, prefix: str) -> Iterator[StoredObject]:
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=self._s3.address.bucket, Prefix=self._root + prefix
        )
        for page in pages:
            for entry in page.get("Contents") or []:
                yield StoredObject(entry["Key"].removeprefix(self._root), entry["LastModified"])


def _is_manifest(one: StoredObject) -> bool:
    return one.key.count("/") == 3 and one.key.endswith(f"/{MANIFEST}")
