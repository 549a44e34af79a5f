"""`nllb-predictor doctor`: what `serve` with the same settings would meet, looked at one by one, and what to do.

Nothing is changed and nothing is loaded: a look at the settings, the store, the model's small files, the device, the
memory, the ports and the folders. Each look stands alone, so that one trouble does not hide the next.
"""

import argparse
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nllb_predictor import settings as settings_module
from nllb_predictor.commands import machine
from nllb_predictor.convert import manifest_json
from nllb_predictor.convert.manifest import MANIFEST_LIMIT, MANIFEST_NAME, Manifest
from nllb_predictor.errors import PredictorError
from nllb_predictor.settings import ServeSettings
from nllb_predictor.store.models import MODEL_FILE, open_folder
from nllb_predictor.store.objects import ObjectStore, S3Objects, S3Uri
from nllb_predictor.store.settings import StoreSettings


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    TROUBLE = "TROUBLE"


@dataclass(frozen=True)
class Finding:
    """What one look saw. `remedy` says what to do."""

    name: str
    level: Level
    message: str
    remedy: str = ""

    def line(self) -> str:
        text = f"{self.level.value:<8} {self.name:<10} {self.message}"
        return f"{text}\n{'':<20}→ {self.remedy}" if self.remedy else text


Look = Callable[[], list[Finding]]


def run(arguments: argparse.Namespace) -> int:
    """Look at everything and print it; 1 where something stands in the way."""
    flags = {name: value for name, value in vars(arguments).items() if name != "run"}
    if flags.get("model"):
        flags.setdefault("model_uri", flags["model"])
    findings = list(examine(flags))
    for finding in findings:
        print(finding.line())
    troubles = sum(finding.level is Level.TROUBLE for finding in findings)
    print(f"{troubles} in the way" if troubles else "nothing stands in the way")
    return 1 if troubles else 0


def examine(
    flags: Mapping[str, Any], environment: Mapping[str, str] | None = None, objects: ObjectStore | None = None
) -> Iterator[Finding]:
    """Every finding in order. Settings that cannot be read end it: nothing else would mean anything."""
    try:
        settings = settings_module.from_sources(flags, environment)
    except PredictorError as error:
        yield trouble("settings", error)
        return
    yield Finding("settings", Level.OK, f"model name {settings.name}, device {settings.device}")
    looks: tuple[tuple[str, Look], ...] = (
        ("ca", lambda: [look_at_ca(settings.s3_ca_file)]),
        ("model", lambda: look_at_model(settings, objects)),
        ("device", lambda: machine_findings(machine.devices(settings))),
        ("ports", lambda: machine_findings(machine.ports(settings))),
        ("folders", lambda: machine_findings(machine.folders(settings))),
    )
    for name, look in looks:
        try:
            yield from (finding for finding in look() if finding.message)
        except PredictorError as error:
            yield trouble(name, error)


def trouble(name: str, error: PredictorError) -> Finding:
    """An error as a finding."""
    return Finding(
        name, Level.TROUBLE, f"{error.reason}: {error.message}", error.hint or REMEDIES.get(error.reason, "")
    )


REMEDIES = {
    "StoreUnreachable": "Check --s3-endpoint, the network and NetworkPolicies: nothing answered there.",
    "StoreUntrusted": "Give the store's CA as a PEM file with --s3-ca-file.",
    "StoreRefused": "Check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and what the keys may read.",
    "ObjectMissing": "Check --model-uri: it names the folder that holds manifest.json, by its exact key.",
    "ChecksumMismatch": "The artifact is not the one that was pinned, or is damaged: convert again.",
    "ManifestInvalid": "Convert again with this version.",
}
"""What to do, where the error itself does not say."""


def machine_findings(facts: list[machine.Fact]) -> list[Finding]:
    """Facts about the machine in this command's words."""
    levels = {
        machine.Grade.GOOD: Level.OK,
        machine.Grade.DOUBTFUL: Level.WARNING,
        machine.Grade.BAD: Level.TROUBLE,
    }
    return [Finding(fact.name, levels[fact.grade], fact.message, fact.remedy) for fact in facts]


def look_at_ca(path: str) -> Finding:
    """The CA file, if one is set."""
    if not path:
        return Finding("ca", Level.OK, "")
    try:
        context = ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        words = error.strerror or str(error)
        return Finding(
            "ca", Level.TROUBLE, f"{path}: {words}", "It must be a PEM file with the CA's certificate."
        )
    return Finding("ca", Level.OK, f"{path}: {len(context.get_ca_certs())} certificates")


def look_at_model(settings: ServeSettings, objects: ObjectStore | None = None) -> list[Finding]:
    """The model's manifest, sizes and languages, or the small files of a raw checkpoint. Raises PredictorError."""
    from nllb_predictor.server import raw

    uri = settings.model_uri
    if not uri:
        return [
            Finding("model", Level.TROUBLE, "no model is set", "Give MODEL, or mount one at /mnt/models.")
        ]
    if raw.is_raw(uri):
        return _raw_checkpoint(uri)
    if uri.startswith("s3://"):
        manifest, digest = _in_store(settings, objects)
    else:
        local = open_folder(Path(uri.removeprefix("file://")), settings.manifest_sha256 or None)
        if local.manifest is None or local.manifest_sha256 is None:
            words = "a model of another converter, without a manifest: nothing of it can be checked"
            remedy = "Convert the checkpoint with `nllb-predictor convert`."
            return [Finding("model", Level.WARNING, words, remedy)]
        manifest, digest = local.manifest, local.manifest_sha256
    size = sum(entry.bytes for entry in manifest.files)
    weights = manifest.file(MODEL_FILE).bytes
    return [
        Finding("model", Level.OK, f"manifest {digest}, {len(manifest.files)} files, {size / 1e6:.0f} MB"),
        _identity(manifest, settings),
        _languages(manifest, settings),
        *machine_findings(machine.memory(weights)),
    ]


def _raw_checkpoint(uri: str) -> list[Finding]:
    from nllb_predictor.convert.checkpoint import Checkpoint
    from nllb_predictor.convert.vocabulary import read_vocabulary, special_facts

    words = "a raw checkpoint, converted into the cache at every first start"
    found = [Finding("model", Level.WARNING, words, "Convert it once with `nllb-predictor convert`.")]
    folder = Path(uri.removeprefix("file://"))
    if folder.is_dir():
        vocabulary = read_vocabulary(folder)
        vocabulary.for_rows(Checkpoint(folder).rows)
        facts = special_facts(folder, vocabulary, (None, None))
        found.append(Finding("languages", Level.OK, f"{len(facts.languages.all)} codes"))
    return found


def _in_store(settings: ServeSettings, objects: ObjectStore | None) -> tuple[Manifest, str]:
    """The manifest of an artifact, with every file's size as stored. Raises StoreError's family."""
    from nllb_predictor.errors import ChecksumMismatch

    uri = S3Uri.parse(settings.model_uri)
    store = objects or S3Objects(
        StoreSettings(settings.s3_endpoint or None, settings.s3_region, settings.s3_ca_file or None)
    )
    stored = store.get(uri.below(MANIFEST_NAME), MANIFEST_LIMIT)
    digest = manifest_json.digest(stored)
    if settings.manifest_sha256 not in ("", digest):
        raise ChecksumMismatch(
            f"The manifest has SHA-256 {digest}, but {settings.manifest_sha256} is wanted."
        )
    manifest = manifest_json.parse(stored)
    for entry in manifest.files:
        place = uri.below(manifest.identity.attempt).below(entry.path)
        size = store.head(place).bytes
        if size != entry.bytes:
            raise ChecksumMismatch(f"{place} has {size} bytes, the manifest says {entry.bytes}.")
    return manifest, digest


def _identity(manifest: Manifest, settings: ServeSettings) -> Finding:
    found = manifest.identity
    for name, wanted, seen in (
        ("engine id", settings.engine_id, found.engine_id),
        ("model revision", settings.model_revision, found.model_revision),
    ):
        if wanted and wanted != seen:
            message = f"the {name} {wanted} is wanted, the manifest says {seen or 'none'}"
            return Finding(
                "identity", Level.TROUBLE, message, "Check --model-uri against the engine's status."
            )
    return Finding(
        "identity", Level.OK, f"engine {found.engine_id or 'none'}, revision {found.model_revision or 'none'}"
    )


def _languages(manifest: Manifest, settings: ServeSettings) -> Finding:
    languages = manifest.languages
    if languages.source and languages.target:
        others = "any pair" if settings.allow_any_pair else "this pair only"
        return Finding("languages", Level.OK, f"{languages.source} to {languages.target}, {others}")
    message = f"{len(languages.all)} codes and no pair of its own: every call must name both languages"
    return Finding("languages", Level.OK, message)
