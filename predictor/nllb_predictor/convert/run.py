"""One conversion from beginning to end. Nothing is visible at the destination before everything is proven.

Order: fetch, read and check the small files, write the model, prove it, describe it in a manifest, publish. A folder
appears by one rename; in S3 the files go to the attempt's own folder and the manifest follows last.
"""

import datetime
import os
import re
import secrets
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from nllb_predictor.convert import manifest_json
from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.manifest import (
    MANIFEST_LIMIT,
    MANIFEST_NAME,
    Converter,
    FileEntry,
    Identity,
    Manifest,
    ModelFacts,
    Options,
    SelfTest,
    Sha256,
    TokenizerFacts,
    artifact_key,
)
from nllb_predictor.convert.names import SENTENCEPIECE_FILE, SERVED_FILES, TOKENIZER_FILE
from nllb_predictor.convert.selftest import Subject, self_test
from nllb_predictor.convert.source import Fetched, SourceReader
from nllb_predictor.convert.trimmed import Original, Trimmed, TrimRequest, trim, write_dropped
from nllb_predictor.convert.vocabulary import SpecialFacts, Vocabulary, read_vocabulary, special_facts
from nllb_predictor.convert.weights import build_spec, save_spec, set_tokens, spec_bytes
from nllb_predictor.disk import disk_errors, require_space, scratch_folder, sync_path, whole_folder
from nllb_predictor.errors import (
    ChecksumMismatch,
    EmptyArchive,
    ManifestInvalid,
    ObjectMissing,
    StoreRefused,
    UsageError,
)
from nllb_predictor.progress import NoProgress, Progress
from nllb_predictor.store.objects import ObjectStore, S3Objects, S3Uri
from nllb_predictor.store.settings import StoreSettings
from nllb_predictor.store.transfer import file_sha256
from nllb_predictor.text.tokenise import TokenizerConfig
from nllb_predictor.version import package_version


@dataclass(frozen=True)
class Request:
    """What to convert, to what, and where it goes."""

    source: str
    destination: str
    options: Options = field(default_factory=Options)
    identity: Identity = field(default_factory=Identity)
    """`attempt` "." means the destination itself for a folder, and a new name in S3."""
    languages: tuple[str | None, str | None] = (None, None)
    """Source and target; they go before what the files say."""
    base: str | None = None
    """Checkpoint to convert if the source is an empty archive."""
    trim: TrimRequest | None = None
    """Which tokens to keep; None for all."""
    replace: bool = False
    """Whether an existing destination folder may be replaced."""


@dataclass(frozen=True)
class Surroundings:
    """Everything outside that a conversion touches; tests pass their own."""

    work_dir: Path
    settings: StoreSettings = field(default_factory=StoreSettings)
    source_settings: StoreSettings | None = None
    """The store of the source, where it is another one or has keys of its own."""
    progress: Progress = field(default_factory=NoProgress)
    objects: ObjectStore | None = None
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)
    image: str | None = None


@dataclass(frozen=True)
class Converted:
    """Where the model is."""

    uri: str
    manifest: Manifest
    manifest_sha256: Sha256


def convert(request: Request, around: Surroundings) -> Converted:
    """Run one conversion. Raises ConversionError's and StoreError's family and UsageError."""
    request = replace(request, identity=_identity(request, around.image))
    with scratch_folder(around.work_dir, "nllb-convert") as work:
        if request.destination.startswith("s3://"):
            built = work / "model"
            built.mkdir()
            manifest, stored = _build(request, around, work, built)
            manifest, stored = _publish(S3Uri.parse(request.destination), built, manifest, around)
        else:
            target = Path(request.destination.removeprefix("file://"))
            with whole_folder(target.absolute(), replace=request.replace) as built:
                manifest, stored = _build(request, around, work, built)
                (built / MANIFEST_NAME).write_bytes(stored)
    return Converted(request.destination, manifest, manifest_json.digest(stored))


def _identity(request: Request, image: str | None) -> Identity:
    """The identity with its key and attempt filled in. Raises UsageError for halves that do not fit together."""
    identity, to_s3 = request.identity, request.destination.startswith("s3://")
    if (identity.engine_id is None) != (identity.model_revision is None):
        raise UsageError("--engine-id and --revision belong together.")
    key = identity.artifact_key
    if identity.engine_id is not None and identity.model_revision is not None:
        work = (identity.engine_id, identity.model_revision, request.options)
        expected = artifact_key(*work)
        if key not in (None, expected, artifact_key(*work, image)):
            raise UsageError(
                f"--artifact-key {key} does not belong to the other arguments; they give {expected}."
            )
        key = key or expected
    if to_s3 and key is not None and not request.destination.rstrip("/").endswith(f"/{key}"):
        raise UsageError(f"The destination {request.destination} does not end with the artifact key {key}.")
    attempt = identity.attempt
    if to_s3 and attempt == ".":
        attempt = f"a-{secrets.token_hex(4)}"
    if not to_s3 and attempt != ".":
        raise UsageError("--attempt names a folder in S3; a plain folder has none.")
    if not re.fullmatch(r"\.|[A-Za-z0-9][A-Za-z0-9._-]{0,62}", attempt):
        raise UsageError(f"--attempt {attempt!r} is no plain name.")
    return replace(identity, artifact_key=key, attempt=attempt)


def _build(request: Request, around: Surroundings, work: Path, built: Path) -> tuple[Manifest, bytes]:
    """Fetch, convert and prove in `built`; the manifest as a record and as bytes."""
    fetched = _fetch(request, around, work)
    # Hashing and writing to disk release the GIL, so beside the self-test they cost nothing but the second core.
    with ThreadPoolExecutor(1, thread_name_prefix="digest") as pool:
        source = pool.submit(fetched.with_digest)
        try:
            folder = _with_tokenizer(fetched.folder, work)
            trimmed = _trimmed(request, around, folder, work)
            subject = _write_model(request, around, trimmed or folder, built)
            entries = pool.submit(_file_entries, built)
            proven = self_test(subject, around.progress)
            if trimmed is not None:
                proven = replace(proven, checks=(*proven.checks, trimmed.check(built)))
            fetched, files = source.result(), entries.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    manifest = _manifest(request, around, _Result(fetched, subject, proven, files))
    if trimmed is not None:
        manifest = replace(manifest, vocabulary_trim=trimmed.record)
    return manifest, manifest_json.dump(manifest)


@dataclass(frozen=True)
class _Result:
    """What the manifest describes."""

    fetched: Fetched
    subject: Subject
    proven: SelfTest
    files: tuple[FileEntry, ...]


def _file_entries(folder: Path) -> tuple[FileEntry, ...]:
    """Size and digest of each file, which is on the disk afterwards."""
    entries = []
    for path in sorted(folder.iterdir()):
        entries.append(FileEntry(path.name, path.stat().st_size, Sha256(file_sha256(path))))
        sync_path(path)
    return tuple(entries)


def _fetch(request: Request, around: Surroundings, work: Path) -> Fetched:
    reader = SourceReader(around.source_settings or around.settings, around.progress, around.objects)
    unpacked, base = work / "checkpoint", work / "base"
    unpacked.mkdir()
    try:
        return reader.fetch(request.source, unpacked)
    except EmptyArchive:
        if request.base is None:
            raise
        if not all(request.languages):
            raise UsageError(
                "An empty archive says no languages; give --source-language and --target-language."
            ) from None
    base.mkdir()
    return reader.fetch(request.base, base)


def _with_tokenizer(folder: Path, work: Path) -> Path:
    """The checkpoint's folder; where it has only the SentencePiece model, one that has `tokenizer.json` too."""
    if (folder / TOKENIZER_FILE).is_file() or not (folder / SENTENCEPIECE_FILE).is_file():
        return folder
    from nllb_predictor.text.sentencepiece_folder import write_tokenizer_json

    whole = work / "whole"
    whole.mkdir()
    for path in folder.iterdir():
        (whole / path.name).symlink_to(path.resolve())
    write_tokenizer_json(whole, whole / TOKENIZER_FILE)
    return whole


def _trimmed(request: Request, around: Surroundings, folder: Path, work: Path) -> Trimmed | None:
    """The checkpoint with fewer tokens, where that was asked for."""
    if request.trim is None:
        return None
    vocabulary = read_vocabulary(folder)
    original = Original(folder, vocabulary, special_facts(folder, vocabulary, request.languages))
    return trim(original, request.trim, work / "trimmed", around.progress)


def _write_model(request: Request, around: Surroundings, source: Path | Trimmed, built: Path) -> Subject:
    quantization = request.options.quantization
    folder = source if isinstance(source, Path) else source.folder
    checkpoint = Checkpoint(source) if isinstance(source, Path) else source.checkpoint
    vocabulary = read_vocabulary(folder)
    names = vocabulary.for_rows(checkpoint.rows)
    facts = special_facts(folder, vocabulary, request.languages)
    spec = build_spec(checkpoint, quantization, names)
    set_tokens(spec, _role_tokens(folder, vocabulary, facts))
    size = spec_bytes(spec)
    require_space(built, size, "The converted model")
    with disk_errors(built):
        with around.progress.step(f"convert to {quantization}", size) as step:
            save_spec(spec, built, step)
        for name in SERVED_FILES:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, built / name)
        if isinstance(source, Trimmed):
            write_dropped(built, source.choice)
    return Subject(checkpoint, vocabulary, facts, quantization, built)


def _role_tokens(folder: Path, vocabulary: Vocabulary, facts: SpecialFacts) -> dict[str, str]:
    roles = TokenizerConfig.from_folder(folder).roles
    wanted = {key: roles[key] for key in ("bos_token", "eos_token", "unk_token")}
    return {**wanted, "decoder_start_token": vocabulary.tokens[facts.special.decoder_start]}


def _manifest(request: Request, around: Surroundings, result: _Result) -> Manifest:
    subject = result.subject
    network = subject.checkpoint.network
    config = TokenizerConfig.from_folder(subject.folder)
    return Manifest(
        identity=request.identity,
        options=request.options,
        source=result.fetched.source,
        languages=subject.facts.languages,
        tokenizer=TokenizerFacts(
            TOKENIZER_FILE,
            config.order,
            subject.vocabulary.size,
            subject.checkpoint.rows,
            subject.facts.special,
        ),
        model=ModelFacts(
            "m2m_100", network.encoder_layers, network.decoder_layers, network.width, network.decoder_heads
        ),
        files=result.files,
        converter=Converter(package_version(), around.image),
        self_test=result.proven,
        created=around.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def _publish(uri: S3Uri, built: Path, manifest: Manifest, around: Surroundings) -> tuple[Manifest, bytes]:
    """Upload the files, see that they are there in full, then the manifest that makes them a model.

    A repeat of the same attempt keeps the manifest that is there if it says the same at another time: whoever has
    pinned its digest goes on.
    """
    store = around.objects or S3Objects(around.settings)
    attempt = uri.below(manifest.identity.attempt)
    with around.progress.step("upload", sum(entry.bytes for entry in manifest.files)) as step:
        for entry in manifest.files:
            store.upload(attempt.below(entry.path), built / entry.path, step.advance)
            seen = store.head(attempt.below(entry.path)).bytes
            if seen != entry.bytes:
                raise ChecksumMismatch(
                    f"{attempt.below(entry.path)} has {seen} bytes, {entry.bytes} were uploaded."
                )
    earlier = _stored_manifest(store, uri.below(MANIFEST_NAME))
    if earlier is not None and replace(earlier[0], created=manifest.created) == manifest:
        return earlier
    stored = manifest_json.dump(manifest)
    store.put(uri.below(MANIFEST_NAME), stored)
    return manifest, stored


def _stored_manifest(store: ObjectStore, uri: S3Uri) -> tuple[Manifest, bytes] | None:
    try:
        stored = store.get(uri, MANIFEST_LIMIT)
        return manifest_json.parse(stored), stored
    except (ObjectMissing, ManifestInvalid, StoreRefused):
        # A writer without the right to read, or without the right to list, is refused here.
        return None


def default_work_dir() -> Path:
    """Where archives are unpacked: the cache folder, else the system's temporary folder."""
    return Path(os.environ.get("SERVAL_LIVE_CACHE_DIR") or os.environ.get("TMPDIR") or "/tmp")
