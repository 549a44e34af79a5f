"""Serving a raw checkpoint: convert it into the cache first, once.

For a person with a checkpoint and no store; a cluster serves converted artifacts only. The folder in the cache is
named by what the source is at this moment, so that a second start reuses it and a changed source is converted anew.
The conversion itself, its checks and its atomic rename are those of `nllb-predictor convert`.
"""

import hashlib
import logging
from pathlib import Path

from nllb_predictor.errors import DestinationInUse, ObjectMissing
from nllb_predictor.settings import ServeSettings

log = logging.getLogger(__name__)

ARCHIVES = (".tar.gz", ".tgz")


def is_raw(uri: str) -> bool:
    """Whether there is a checkpoint and no converted model: an archive, or a folder with weights as safetensors."""
    if uri.endswith(ARCHIVES):
        return True
    if uri.startswith("s3://"):
        return False
    folder = Path(uri.removeprefix("file://"))
    converted = (folder / "manifest.json").is_file() or (folder / "model.bin").is_file()
    return not converted and any(folder.glob("*.safetensors"))


def cache_name(uri: str, quantization: str) -> str:
    """Name of the folder in the cache: by content of a local source as far as sizes and times tell it."""
    digest = hashlib.sha256(f"{uri}\n{quantization}\n".encode())
    path = Path(uri.removeprefix("file://"))
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.is_file() else []
    for file in files:
        facts = file.stat()
        digest.update(f"{file.name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return f"converted-{digest.hexdigest()[:16]}"


def converted(settings: ServeSettings) -> str:
    """The folder with the converted model. Raises ConversionError's and StoreError's families."""
    from nllb_predictor.convert.manifest import Identity, Options, Quantization
    from nllb_predictor.convert.run import Request, Surroundings, convert
    from nllb_predictor.store.settings import StoreSettings

    kinds = {kind.value for kind in Quantization}
    wanted = settings.compute_type if settings.compute_type in kinds else Quantization.INT8.value
    cache = Path(settings.cache_dir)
    folder = cache / cache_name(settings.model_uri, wanted)
    if (folder / "manifest.json").is_file():
        log.info("checkpoint was converted before: folder=%s", folder)
        return str(folder)
    if (
        not settings.model_uri.startswith("s3://")
        and not Path(settings.model_uri.removeprefix("file://")).exists()
    ):
        raise ObjectMissing(f"{settings.model_uri} does not exist.")
    log.info("converting checkpoint: folder=%s quantization=%s", folder, wanted)
    cache.mkdir(parents=True, exist_ok=True)
    identity = (
        Identity(settings.engine_id or None, settings.model_revision or None)
        if settings.engine_id
        else Identity()
    )
    store = StoreSettings(settings.s3_endpoint or None, settings.s3_region, settings.s3_ca_file or None)
    try:
        convert(
            Request(settings.model_uri, str(folder), Options(Quantization(wanted)), identity),
            Surroundings(cache, store),
        )
    except DestinationInUse:
        # Another process on the same cache may have been quicker.
        if not (folder / "manifest.json").is_file():
            raise
    return str(folder)
