"""From settings to a proven model: fetch, check identity, open, warm up, translate the probes.

Runs on a thread of its own from the first moment, beside the import of the server. Any failure ends the process with
its reason: a model that is not the one that was asked for, or does not translate as recorded, is never served.

What only waits for the disk or the processor's hash unit overlaps with what holds Python's lock. Weights are hashed
while the engine reads them, and nothing translates, not even a probe, before their digest is the manifest's.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from nllb_predictor.convert.names import GENERATION_FILE
from nllb_predictor.engine.hardware import batch_segments
from nllb_predictor.errors import ModelUnloadable, PredictorError, UsageError, WrongArtifact
from nllb_predictor.jsonfiles import read_json_object
from nllb_predictor.server.lifecycle import Lifecycle, PhaseName, State
from nllb_predictor.server.statistics import Statistics
from nllb_predictor.settings import ServeSettings, redacted

if TYPE_CHECKING:
    from nllb_predictor.engine.domain import EngineInfo
    from nllb_predictor.engine.model import TranslationEngine
    from nllb_predictor.engine.scheduler import BatchReport, Scheduler
    from nllb_predictor.pipeline.service import TranslationService
    from nllb_predictor.store.models import LocalModel
    from nllb_predictor.text.tokenise import Tokenizer

log = logging.getLogger(__name__)

PORTS_FIRST_SECONDS = 3.0
"""Longest wait of the tokenizer for the server; where Python is slower than that, the two share its lock."""


@dataclass(frozen=True)
class Loaded:
    """A model that may be served, and what there is to tell about it."""

    model: "LocalModel"
    info: "EngineInfo"
    tokenizer: "Tokenizer"
    scheduler: "Scheduler"
    service: "TranslationService"
    engine: "TranslationEngine"
    settings: ServeSettings

    @property
    def version(self) -> str:
        """Serval's model revision; 0 for a model that belongs to no engine."""
        manifest = self.model.manifest
        return str((manifest.identity.model_revision if manifest else None) or self.settings.model_revision)

    def properties(self) -> dict[str, str]:
        """Facts for metadata, all text; empty where unknown."""
        manifest, languages = self.model.manifest, self.service.languages
        facts = {
            "engineId": (manifest.identity.engine_id if manifest else None) or self.settings.engine_id,
            "modelRevision": self.version,
            "manifestSha256": self.model.manifest_sha256,
            "artifactKey": manifest.identity.artifact_key if manifest else None,
            "modelUri": redacted(self.settings.model_uri),
            "sourceLanguage": languages.source,
            "targetLanguage": languages.target,
            "allowAnyPair": str(languages.any_pair).lower(),
            "tokenizerOrder": self.tokenizer.order.value,
            "quantization": manifest.options.quantization.value if manifest else None,
            "requestedComputeType": self.info.requested_compute_type,
            "computeType": self.info.compute_type,
            "device": self.info.device,
            "gpus": ",".join(map(str, self.info.gpus)),
            "isa": self.info.isa,
            "interThreads": self.info.inter_threads,
            "intraThreads": self.info.intra_threads,
            "maxInputTokens": max_input_tokens(self.settings, self.info),
            "maxOutputTokens": self.settings.max_output_tokens,
            "checkpointMaxLength": checkpoint_max_length(self.model.folder),
            "maxBatchSegments": batch_segments(self.settings.max_batch_segments, self.info.device),
            "maxBatchTokens": self.settings.max_batch_tokens,
            "maxQueueSegments": self.settings.max_queue_segments,
            "maxMessageBytes": self.settings.max_message_bytes,
            "beamSize": self.settings.beam_size,
        }
        return {name: "" if value is None else str(value) for name, value in facts.items()}


def max_input_tokens(settings: ServeSettings, info: "EngineInfo") -> int:
    """Tokens that a segment may have: what is allowed, and what the model has positions for."""
    return min(settings.max_input_tokens, info.max_positions)


@cache
def checkpoint_max_length(folder: Path) -> int | None:
    """The length limit that the model's own files name, if any. It is told, not obeyed: a missing one means 20 to the
    library that wrote the files, and a fine-tuned one is that of its training texts."""
    path = folder / GENERATION_FILE
    limit = read_json_object(path).get("max_length") if path.exists() else None
    return limit if isinstance(limit, int) else None


class LoadingThread:
    """Loads once, and tells `on_end` when the lifecycle says ready or failed."""

    def __init__(self, settings: ServeSettings, lifecycle: Lifecycle) -> None:
        self._settings = settings
        self._lifecycle = lifecycle
        self._on_end: Callable[[], object] = lambda: None
        self._ended = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="loading", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def when_ended(self, callback: Callable[[], object]) -> None:
        """Call back, on the loading thread, or at once if it has ended already."""
        with self._lock:
            self._on_end = callback
            ended = self._ended
        if ended:
            callback()

    def _run(self) -> None:
        try:
            self._lifecycle.succeed(load(self._settings, self._lifecycle))
        except PredictorError as error:
            self._lifecycle.fail(error)
        except Exception as error:
            log.exception("unforeseen error while loading")
            self._lifecycle.fail(ModelUnloadable(f"Loading failed with {type(error).__name__}: {error}"))
        with self._lock:
            self._ended = True
            callback = self._on_end
        callback()


def load(settings: ServeSettings, lifecycle: Lifecycle) -> Loaded:
    """Everything from the URI to a proven model. Raises PredictorError's family."""
    lifecycle.enter(State.DOWNLOADING)
    with lifecycle.phase(PhaseName.DOWNLOAD):
        model = fetch(settings)
        check_identity(model, settings)
    lifecycle.enter(State.LOADING)
    with lifecycle.phase(PhaseName.LOAD), checked_beside(model):
        loaded = open_model(model, settings, lifecycle)
    log.info("model opened: %s", " ".join(f"{key}={value}" for key, value in loaded.properties().items()))
    lifecycle.enter(State.WARMING)
    with lifecycle.phase(PhaseName.WARM):
        from nllb_predictor.engine import probe

        probe.warm_up(loaded.engine, loaded.tokenizer, loaded.service.languages, settings)
        if model.manifest is not None:
            probe.check(loaded.engine, loaded.tokenizer, model.manifest)
    return loaded


def fetch(settings: ServeSettings) -> "LocalModel":
    """The model in a local folder: downloaded, or converted first where the URI is a raw checkpoint."""
    from nllb_predictor.server import raw
    from nllb_predictor.store.models import ModelStore
    from nllb_predictor.store.settings import StoreSettings

    if not settings.model_uri:
        raise UsageError("There is no model to serve.", hint="Set --model-uri, or mount one at /mnt/models.")
    store = ModelStore(
        StoreSettings(
            endpoint=settings.s3_endpoint or None,
            region=settings.s3_region,
            ca_file=settings.s3_ca_file or None,
        )
    )
    uri = raw.converted(settings) if raw.is_raw(settings.model_uri) else settings.model_uri
    return store.locate(uri, settings.manifest_sha256 or None, Path(settings.cache_dir))


@contextmanager
def checked_beside(model: "LocalModel") -> Iterator[None]:
    """Compare the weights with the manifest while the block opens them; leaves after both. On two cores the import of
    the server and the engine have work for both, so the comparison gives way to them.

    Raises ChecksumMismatch, also where the block failed: damaged files fail in many ways for that one reason.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="check", initializer=_give_way) as pool:
        checking = pool.submit(model.check)
        try:
            yield
        finally:
            checking.result()


def _give_way() -> None:
    """Lower this one thread's priority within the process."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def check_identity(model: "LocalModel", settings: ServeSettings) -> None:
    """Raises WrongArtifact unless the manifest is of the wanted engine and revision."""
    identity = model.manifest.identity if model.manifest else None
    wanted = {"engine id": settings.engine_id, "model revision": settings.model_revision}
    found = {
        "engine id": identity.engine_id if identity else None,
        "model revision": identity.model_revision if identity else None,
    }
    for name, value in wanted.items():
        if value and found[name] != value:
            raise WrongArtifact(
                f"The {name} {value} is wanted, but the model's manifest says {found[name] or 'none'}."
            )


def _computed(statistics: Statistics, report: "BatchReport") -> None:
    """A batch was computed: tell everybody who counts."""
    from nllb_predictor.server import metrics

    metrics.batch(report)
    statistics.batch(report)


def open_model(model: "LocalModel", settings: ServeSettings, lifecycle: Lifecycle) -> Loaded:
    """The engine reads without Python's lock, while the server is imported and opens its ports. The tokenizer holds the
    lock for the most of a second, so it waits for the ports: a process should be live before it loads."""
    from nllb_predictor.engine.model import TranslationEngine
    from nllb_predictor.engine.scheduler import Limits, Scheduler
    from nllb_predictor.pipeline.service import TranslationService
    from nllb_predictor.text.languages import Languages
    from nllb_predictor.text.tokenise import Tokenizer

    with ThreadPoolExecutor(1, thread_name_prefix="engine") as pool:
        opening = pool.submit(TranslationEngine.load, model.folder, settings)
        lifecycle.wait_listening(PORTS_FIRST_SECONDS)
        tokenizer = Tokenizer.from_folder(model.folder)
        engine = opening.result()
    if model.manifest is not None and tokenizer.order is not model.manifest.tokenizer.order:
        raise ModelUnloadable(
            f"The tokenizer's order is {tokenizer.order.value}, the manifest's {model.manifest.tokenizer.order.value}."
        )
    source, target = (
        (model.manifest.languages.source, model.manifest.languages.target)
        if model.manifest
        else tokenizer.default_pair
    )
    languages = Languages(frozenset(tokenizer.language_codes), source, target, settings.allow_any_pair)
    limits = Limits(
        settings.max_queue_segments,
        batch_segments(settings.max_batch_segments, engine.info.device),
        engine.info.inter_threads,
        settings.max_batch_tokens,
    )
    scheduler = Scheduler(engine, limits, partial(_computed, lifecycle.statistics))
    service = TranslationService(scheduler, tokenizer, languages, max_input_tokens(settings, engine.info))
    return Loaded(model, engine.info, tokenizer, scheduler, service, engine, settings)
