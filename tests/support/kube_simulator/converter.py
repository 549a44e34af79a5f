"""What `nllb-predictor convert` does as far as the operator can see: read the archive, write files, then the manifest.

No model is converted. But the archive is fetched by the URL that the Secret holds and opened, so a missing or broken
one fails here as there, with the same reasons and in the same place: the termination line.
"""

import asyncio
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from typing import Any

import boto3.session
import httpx
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.support.kube_simulator.world import Ending

MODEL = b"not a model, but bytes with a digest\n"


@dataclass(frozen=True)
class Store:
    """The artifact store, as whoever runs the test sees it."""

    endpoint: str
    access_key: str
    secret_key: str
    region: str = "us-east-1"

    def client(self) -> Any:
        """A blocking S3 client."""
        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )


class Converter:
    """Runs conversions."""

    def __init__(self, store: Store) -> None:
        self._client = store.client()
        self.written: list[str] = []
        """Artifact keys whose manifest was written, in order: one that comes twice was converted twice."""

    async def convert(self, arguments: dict[str, str], url: str | None) -> Ending | None:
        """Convert `url` (or an s3 source) as the arguments say; None if that went well."""
        try:
            archive = await self._fetch(arguments["source"], url)
        except LookupError as error:
            return Ending(10, "SourceMissing", str(error))
        try:
            with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as members:
                names = members.getnames()
        except (tarfile.TarError, EOFError, OSError) as error:
            return Ending(12, "BrokenArchive", f"the archive can't be opened: {error}")
        if not names:
            return Ending(13, "EmptyArchive", "the archive has no members")
        await asyncio.to_thread(self._write, arguments, archive)
        return None

    async def _fetch(self, source: str, url: str | None) -> bytes:
        if url is not None:
            async with httpx.AsyncClient(timeout=60) as http:
                answer = await http.get(url)
            if answer.status_code != 200:
                raise LookupError(f"the source answered {answer.status_code}")
            return answer.content
        bucket, _, key = source.removeprefix("s3://").partition("/")
        try:
            return await asyncio.to_thread(self._read, bucket, key)
        except ClientError as error:
            raise LookupError(str(error)) from error

    def _read(self, bucket: str, key: str) -> bytes:
        return bytes(self._client.get_object(Bucket=bucket, Key=key)["Body"].read())

    def _write(self, arguments: dict[str, str], archive: bytes) -> None:
        bucket, _, folder = arguments["destination"].removeprefix("s3://").partition("/")
        attempt = arguments["--attempt"]
        self._client.put_object(Bucket=bucket, Key=f"{folder}{attempt}/model.bin", Body=MODEL)
        manifest = json.dumps(manifest_of(arguments, archive), indent=1).encode()
        self._client.put_object(Bucket=bucket, Key=f"{folder}manifest.json", Body=manifest)
        self.written.append(arguments["--artifact-key"])

    def loadable(self, environment: dict[str, str]) -> Ending | None:
        """What a predictor checks before it loads: the manifest that it was told, and every file in it."""
        bucket, _, folder = environment["SERVAL_LIVE_MODEL_URI"].removeprefix("s3://").partition("/")
        try:
            content = self._read(bucket, f"{folder}manifest.json")
            manifest = json.loads(content)
            for file in manifest["files"]:
                self._client.head_object(Bucket=bucket, Key=f"{folder}{manifest['attempt']}/{file['path']}")
        except ClientError as error:
            return Ending(30, "ObjectMissing", f"{folder}: {error}")
        if hashlib.sha256(content).hexdigest() != environment["SERVAL_LIVE_MANIFEST_SHA256"]:
            return Ending(31, "WrongArtifact", "another manifest than the one that was promised")
        return None


TOKENIZER = {
    "file": "tokenizer.json",
    "order": "code-first",
    "tokens": 4205,
    "rows": 4207,
    "special": {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "decoderStart": 2, "forcedBos": 4101},
}
NETWORK = {"architecture": "m2m_100", "encoderLayers": 3, "decoderLayers": 3, "width": 128, "heads": 4}
LANGUAGES = {
    "source": "eng_Latn",
    "target": "spa_Latn",
    "all": ["eng_Latn", "spa_Latn"],
    "from": "tokenizer_config.json",
}


def manifest_of(arguments: dict[str, str], archive: bytes) -> dict[str, Any]:
    """A manifest that keeps the schema."""
    return {
        "schema": "serval-live/artifact/v1",
        "artifactKey": arguments["--artifact-key"],
        "attempt": arguments["--attempt"],
        "engineId": arguments["--engine-id"],
        "modelRevision": int(arguments["--revision"]),
        "format": "ct2v1",
        "options": {"quantization": arguments["--quantization"], "vocabularyTrim": False},
        "source": {
            "uri": "https://store.example/archive.tar.gz",
            "etag": None,
            "sha256": hashlib.sha256(archive).hexdigest(),
            "bytes": len(archive),
        },
        "languages": LANGUAGES,
        "tokenizer": TOKENIZER,
        "model": NETWORK,
        "files": [{"path": "model.bin", "bytes": len(MODEL), "sha256": hashlib.sha256(MODEL).hexdigest()}],
        "converter": {"version": "0.0.0", "image": "simulated"},
        "selfTest": {"passed": True, "checks": [{"name": "token-ids", "detail": "none"}], "probes": []},
        "created": "2026-11-30T18:00:00Z",
    }
