"""`nllb-predictor fetch`: a base model from a model hub into a folder that `convert` reads.

The hub's library knows names, revisions and credentials; files are read with its own transfer, going on at the byte
where an earlier run stopped, and each is checked against the digest that the hub lists (SHA-256 of large files, git's
blob id of small ones). Only what a conversion reads is fetched, so no pickle ever arrives. The folder appears whole.
"""

import argparse
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nllb_predictor.convert.names import CHECKPOINT_FILES
from nllb_predictor.disk import disk_errors, require_space
from nllb_predictor.errors import (
    ChecksumMismatch,
    DestinationInUse,
    HubRefused,
    HubUnreachable,
    ModelNotFound,
    UsageError,
)
from nllb_predictor.progress import ConsoleProgress, NoProgress, Progress, Step
from nllb_predictor.store.transfer import file_sha256

DESCRIPTION = """\
Fetch a base model from a model hub. NAME is as on the hub, such as facebook/nllb-200-distilled-600M; a URL names hub
and model at once. NLLB-200 weights are CC-BY-NC 4.0: not for commercial use.

  nllb-predictor fetch facebook/nllb-200-distilled-600M ./nllb-600m
  nllb-predictor fetch https://hub.example/facebook/nllb-200-distilled-600M ./nllb-600m
  nllb-predictor convert ./nllb-600m ./model

The same command again goes on where a broken one stopped. Another hub: --endpoint or HF_ENDPOINT; gated models:
HF_TOKEN.
"""

DEFAULT_ENDPOINT = "https://huggingface.co"


@dataclass(frozen=True)
class HubModel:
    """Which model, on which hub."""

    name: str
    endpoint: str
    revision: str = "main"

    @staticmethod
    def parse(text: str, endpoint: str, revision: str = "main") -> "HubModel":
        """From `owner/name` or a URL that ends with it. Raises UsageError."""
        name = text
        if text.startswith(("https://", "http://")):
            parts = urlsplit(text)
            segments = [segment for segment in parts.path.split("/") if segment]
            if len(segments) > 3 and segments[2] == "tree":
                revision = "/".join(segments[3:])
            endpoint, name = f"{parts.scheme}://{parts.netloc}", "/".join(segments[:2])
        if not re.fullmatch(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+", name):
            raise UsageError(f"{text!r} names no model; expected owner/name or a URL that ends with it.")
        return HubModel(name, endpoint.rstrip("/"), revision)


@dataclass(frozen=True)
class HubFile:
    """One file as the hub lists it. `sha256` for large files, else `blob`: git's id of the content."""

    name: str
    bytes: int
    sha256: str | None
    blob: str | None


@dataclass(frozen=True)
class Listing:
    """The files to fetch, all of one commit."""

    commit: str
    files: tuple[HubFile, ...]


def fetch_model(
    model: HubModel, target: Path, token: str | None = None, progress: Progress | None = None
) -> Listing:
    """Fetch into `target`, which must not exist yet.

    Raises ModelNotFound, HubUnreachable, HubRefused, ChecksumMismatch, DestinationInUse and NoSpace.
    """
    progress = progress or NoProgress()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise DestinationInUse(f"{target} exists already.")
    with _hub_errors(model):
        listing = _listing(model, token)
    partial = target.absolute().parent / f".{target.name}.{listing.commit[:12]}.fetch"
    with disk_errors(partial):
        partial.mkdir(parents=True, exist_ok=True)
        missing = sum(file.bytes for file in listing.files) - sum(p.stat().st_size for p in partial.iterdir())
        require_space(partial, missing, "The model")
        transfer = _Transfer(model, listing.commit, token)
        for file in listing.files:
            with progress.step(f"fetch {file.name}", file.bytes) as step:
                transfer.fetch(file, partial / file.name, step)
            _verify(file, partial / file.name, model)
        if target.is_dir():
            target.rmdir()
        partial.rename(target)
    return listing


def _listing(model: HubModel, token: str | None) -> Listing:
    """What of the model a conversion reads. Raises ModelNotFound where that is not a whole checkpoint."""
    from huggingface_hub import HfApi

    api = HfApi(endpoint=model.endpoint, token=token or False)
    info = api.model_info(model.name, revision=model.revision, files_metadata=True)
    every = [sibling.rfilename for sibling in info.siblings or ()]
    files = tuple(
        HubFile(s.rfilename, s.size or 0, s.lfs.sha256 if s.lfs else None, s.blob_id)
        for s in info.siblings or ()
        if s.rfilename in CHECKPOINT_FILES
        or re.fullmatch(r"model(-[0-9]+-of-[0-9]+)?\.safetensors", s.rfilename)
    )
    names = {file.name for file in files}
    for needed in ("config.json", "tokenizer.json"):
        if needed not in names:
            raise ModelNotFound(f"{model.name} at {model.endpoint} has no {needed}.")
    if not any(name.endswith(".safetensors") for name in names):
        pickled = [name for name in every if name.endswith(".bin")]
        raise ModelNotFound(
            f"{model.name} at {model.endpoint} has no safetensors weights"
            + (", only pickled ones." if pickled else "."),
            hint="Another revision may have them: --hub-revision.",
        )
    if info.sha is None:
        raise ModelNotFound(
            f"{model.endpoint} does not say which commit {model.revision} of {model.name} is."
        )
    return Listing(info.sha, files)


@dataclass(frozen=True)
class _Transfer:
    """Reads files of one commit."""

    model: HubModel
    commit: str
    token: str | None

    def fetch(self, file: HubFile, path: Path, step: Step) -> None:
        """Fetch what is missing of one file."""
        from huggingface_hub import hf_hub_url
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils._headers import build_hf_headers

        have = path.stat().st_size if path.exists() else 0
        if have > file.bytes:
            path.unlink()
            have = 0
        step.advance(have)
        if have == file.bytes and path.exists():
            return
        url = hf_hub_url(self.model.name, file.name, revision=self.commit, endpoint=self.model.endpoint)
        headers = build_hf_headers(token=self.token or False)
        with _hub_errors(self.model), path.open("ab") as target:
            http_get(
                url,
                target,
                resume_size=have,
                headers=headers,
                expected_size=file.bytes,
                tqdm_class=_bar(step),
            )


def _verify(file: HubFile, path: Path, model: HubModel) -> None:
    """Raises ChecksumMismatch and removes the file: resuming damaged bytes would never end well."""
    found = file_sha256(path) if file.sha256 else _git_blob_id(path)
    if found != (file.sha256 or file.blob):
        path.unlink()
        raise ChecksumMismatch(
            f"{file.name} of {model.name} has the digest {found}, the hub lists {file.sha256 or file.blob}."
        )


def _git_blob_id(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _bar(step: Step) -> type:
    """What the hub's transfer takes for a tqdm class: it only hands on the counts."""

    class Bar:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs

        def update(self, count: float | None = 1) -> None:
            step.advance(int(count or 0))

        def __enter__(self) -> "Bar":
            return self

        def __exit__(self, *args: object) -> None:
            return None

    return Bar


@contextmanager
def _hub_errors(model: HubModel) -> Iterator[None]:
    """Turns the hub library's errors into the package's own."""
    from huggingface_hub import errors as hub

    where = f"{model.name} at {model.endpoint}"
    try:
        yield
    except (hub.GatedRepoError, hub.LocalTokenNotFoundError) as error:
        raise HubRefused(f"{where} is gated.", hint="Accept its terms there and set HF_TOKEN.") from error
    except (hub.RepositoryNotFoundError, hub.RevisionNotFoundError, hub.EntryNotFoundError) as error:
        raise ModelNotFound(f"{where}, revision {model.revision}, does not exist or is private.") from error
    except hub.HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise HubRefused(f"{where} was refused ({status}).", hint="Check HF_TOKEN.") from error
        raise HubUnreachable(f"{where}: the hub answered {status}.") from error
    except (hub.HTTPError, ConnectionError, TimeoutError) as error:  # type: ignore[attr-defined]
        raise HubUnreachable(f"{where}: the hub did not answer or broke off ({error}).") from error
    except OSError as error:
        if "Consistency check failed" not in str(error):
            raise
        raise HubUnreachable(f"{where}: a file came incomplete.") from error


def add_fetch_command(subparsers: Any) -> None:
    """Add `fetch` to the command line's subcommands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "fetch",
        help="fetch a base model from a model hub",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="NAME|URL", help="owner/name, or the model's address")
    parser.add_argument("destination", metavar="DST", type=Path, help="folder that does not exist yet")
    parser.add_argument("--endpoint", metavar="URL", help=f"hub [HF_ENDPOINT; default {DEFAULT_ENDPOINT}]")
    parser.add_argument(
        "--hub-revision", default="main", metavar="NAME", help="branch, tag or commit (default main)"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Fetch; 0 where it went well. Raises PredictorError's family."""
    endpoint = arguments.endpoint or os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
    model = HubModel.parse(arguments.model, endpoint, arguments.hub_revision)
    listing = fetch_model(model, arguments.destination, os.environ.get("HF_TOKEN") or None, ConsoleProgress())
    size = sum(file.bytes for file in listing.files)
    print(
        f"fetched {len(listing.files)} files, {size} bytes, commit {listing.commit}, to {arguments.destination}"
    )
    return 0
