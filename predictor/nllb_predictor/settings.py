"""All settings of `nllb-predictor serve`: one record, each field with its meaning, unit, default and reason.

A value comes from the flag, else from the environment twin `SERVAL_LIVE_<NAME>`, else from the default. Every
`SERVAL_LIVE_…` variable that nothing reads is refused, since a misspelt limit would silently not hold. Store
credentials are no settings: boto3 reads `AWS_…` itself, so they can be neither passed as flags nor printed.
"""

import argparse
import dataclasses
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from nllb_predictor.errors import UsageError

PREFIX = "SERVAL_LIVE_"

SOURCE_STORE = tuple(
    f"SERVAL_LIVE_SOURCE_{name}"
    for name in (
        "S3_ENDPOINT",
        "S3_REGION",
        "S3_CA_FILE",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
    )
)
"""Variables of `convert` alone: another store, or other credentials, for its source."""

READ_ELSEWHERE = frozenset(
    {
        "SERVAL_LIVE_BACKEND",
        "SERVAL_LIVE_CACHE",
        "SERVAL_LIVE_IMAGE",
        "SERVAL_LIVE_SOURCE_URL",
        "SERVAL_LIVE_STATE",
        "SERVAL_LIVE_TIME_FACTOR",
        *SOURCE_STORE,
    }
)
"""Variables of the same prefix that `convert`, devcluster and the project's tests read; a shell that has them set
must be able to serve."""

SERVICE_LINK = re.compile(
    r"_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$"
)
"""Kubernetes puts these into pods for every Service of the namespace, and ours may be called serval-live-something."""

DEFAULT_MOUNT = Path("/mnt/models")
"""Where KServe's own model cache mounts a model."""

MIB = 1024 * 1024


def setting(
    default: Any, meaning: str, *, unit: str = "", why: str = "", choices: tuple[str, ...] = ()
) -> Any:
    """A dataclass field that also carries its documentation: help texts and the docs page are made from it."""
    return dataclasses.field(
        default=default, metadata={"meaning": meaning, "unit": unit, "why": why, "choices": choices}
    )


@dataclass(frozen=True)
class ServeSettings:
    """What one serving process is told. Empty text means "not set"."""

    model_uri: str = setting(
        "",
        "Model to serve: s3://bucket/…/<artifactKey>/ with manifest.json below it, a folder, or a raw checkpoint"
        " (folder or .tar.gz), which is converted into the cache first.",
        why=f"Without it {DEFAULT_MOUNT} is taken if it is mounted.",
    )
    model_name: str = setting(
        "", "v2 model name; in a cluster the InferenceService's.", why="Default: the engine id, else 'nllb'."
    )
    engine_id: str = setting(
        "", "Serval engine id that must be found in the manifest; also an alias of the name."
    )
    model_revision: int = setting(
        0, "Model revision that must be found in the manifest; 0 checks nothing.", why="Serval counts from 1."
    )
    manifest_sha256: str = setting("", "SHA-256 of the manifest's bytes, in hex; empty checks nothing.")
    attempt: str = setting(
        "",
        "Has no meaning to the process.",
        why="Changing it makes a new revision that tries the same again.",
    )

    host: str = setting("0.0.0.0", "Address that both protocols listen on.")
    rest_port: int = setting(8080, "REST port (v1, v2, health, metrics); 0 takes a free one.")
    grpc_port: int = setting(8081, "gRPC port; 0 takes a free one.")
    max_message_bytes: int = setting(
        16 * MIB,
        "Largest request and answer, equal for both protocols.",
        unit="bytes",
        why="gRPC's own 4 MiB refuse a book in one call; without a limit one caller can exhaust the memory.",
    )

    body_timeout_s: float = setting(
        30.0,
        "How long the head of a REST call may take to arrive, and then its body.",
        unit="seconds",
        why="The largest one takes as long at 4.5 Mbit/s; a sender that stalls would hold its connection for ever.",
    )

    cache_dir: str = setting(
        "/tmp/serval-live-cache",
        "Downloads and conversions.",
        why="An emptyDir in a cluster; the rest may be read-only.",
    )
    device: str = setting(
        "auto", "Where to compute; auto takes a GPU if there is one.", choices=("auto", "cpu", "cuda")
    )
    device_index: str = setting(
        "",
        "GPUs that each get a copy of the model and share the work, such as 0,1; empty takes all that are visible.",
        why="A container sees only the GPUs that its pod asked for.",
    )
    compute_type: str = setting(
        "default",
        "CTranslate2 compute type; default keeps the model's own.",
        why="What the device cannot do is replaced by the nearest that it can; metadata tells the effective one.",
    )
    cpu_isa: str = setting(
        "auto",
        "Code path on x86 processors; auto forces AVX-512 on AMD with VNNI, default leaves it to CTranslate2.",
        why="CTranslate2 itself stops at AVX2 on AMD.",
        choices=("auto", "default", "generic", "avx", "avx2", "avx512"),
    )
    inter_threads: int = setting(
        0, "Batches computed at the same time, on each GPU; 0 chooses from the cgroup's cores."
    )
    intra_threads: int = setting(0, "Threads of one batch on a CPU; 0 chooses from the cgroup's cores.")

    allow_any_pair: bool = setting(
        False, "Answer untrained language pairs too.", why="A fine-tuned engine is poor at every other pair."
    )
    beam_size: int = setting(4, "Beams where a request names none.", unit="beams")
    max_beam_size: int = setting(
        8, "Most beams that a request may ask for.", unit="beams", why="Memory and time grow with it."
    )
    max_input_tokens: int = setting(
        1024,
        "Longest segment, language code and end mark included.",
        unit="tokens",
        why="NLLB was trained with 1,024 positions; longer text is refused, never cut.",
    )
    max_output_tokens: int = setting(
        512,
        "Longest translation; the model's own generation settings are not obeyed.",
        unit="tokens",
        why="Checkpoints carry 20 or 200 for training's sake and would cut; a loop must still end.",
    )
    max_batch_segments: int = setting(
        0,
        "Most segments in one batch; 0 takes 64 on a GPU and 32 on a CPU.",
        unit="segments",
        why="Twice as many on a CPU are a twentieth more per second, and each answer takes twice as long.",
    )
    max_batch_tokens: int = setting(
        8192,
        "Tokens of one batch: what is read, and for each beam what will likely be written.",
        unit="tokens",
        why="Memory grows with it, about 0.1 MB per token on a CPU for the 600M shape; a longer segment runs alone.",
    )
    max_queue_segments: int = setting(
        1024,
        "Segments that may wait; more are refused with 429 at once.",
        unit="segments",
        why="A queue longer than a caller's patience only produces answers that nobody waits for.",
    )
    timeout_ms: int = setting(
        30_000,
        "Deadline of a request that names none.",
        unit="milliseconds",
        why="Serval's edge cuts at 58 s.",
    )
    max_timeout_ms: int = setting(
        300_000,
        "Longest deadline that a request may ask for.",
        unit="milliseconds",
        why="A bulk call of a chapter takes minutes on a CPU.",
    )

    lame_duck_s: float = setting(
        3.0,
        "After SIGTERM: how long new requests are still answered.",
        unit="seconds",
        why="Endpoint lists take a moment to forget a pod; refusing in that moment would fail calls.",
    )
    grace_period_s: float = setting(
        30.0,
        "After SIGTERM: how long running requests may take, both protocols together.",
        unit="seconds",
        why="Equal to the longest default deadline and to Kubernetes' default grace.",
    )

    s3_endpoint: str = setting("", "S3 endpoint; empty takes AWS's own.")
    s3_region: str = setting("us-east-1", "S3 region.")
    s3_ca_file: str = setting("", "PEM file with the CA of the S3 endpoint.")
    termination_log: str = setting(
        "/dev/termination-log",
        "File for one JSON line before an exit by failure.",
        why="KServe copies it into status.",
    )
    log_level: str = setting("info", "Log level.", choices=("debug", "info", "warning", "error"))
    log_format: str = setting("text", "Form of log lines on stderr.", choices=("text", "json"))
    log_text: bool = setting(
        False,
        "Log texts and translations too.",
        why="They belong to the callers; for a person's own tests only.",
    )
    trace_endpoint: str = setting(
        "",
        "Where OpenTelemetry traces are sent to by OTLP over HTTP, such as http://collector:4318/v1/traces.",
        why="Empty: none, and nothing of it is imported. Needs the extra serval-live[tracing].",
    )
    trace_ratio: float = setting(
        1.0,
        "Share of calls that are traced where the caller's own trace does not decide.",
        unit="of 1",
        why="Each call is six spans or more.",
    )

    @property
    def gpus(self) -> tuple[int, ...]:
        """Numbers of the wanted GPUs; empty for all."""
        return tuple(map(int, filter(None, self.device_index.split(","))))

    @property
    def name(self) -> str:
        """The v2 model name that is served."""
        return self.model_name or self.engine_id or "nllb"

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            choices = field.metadata["choices"]
            if choices and value not in choices:
                raise UsageError(f"{flag(field.name)} must be one of {', '.join(choices)}, not '{value}'.")
            if isinstance(value, int | float) and value < 0:
                raise UsageError(f"{flag(field.name)} must not be negative, but is {value}.")
        for name in (
            "beam_size",
            "max_beam_size",
            "max_input_tokens",
            "max_output_tokens",
            "max_batch_tokens",
            "max_queue_segments",
            "timeout_ms",
            "max_message_bytes",
            "body_timeout_s",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"{flag(name)} must be at least 1.")
        if self.beam_size > self.max_beam_size:
            raise UsageError(f"--beam-size {self.beam_size} is above --max-beam-size {self.max_beam_size}.")
        if not re.fullmatch(r"(\d{1,3}(,\d{1,3})*)?", self.device_index):
            raise UsageError(f"--device-index must be numbers such as 0,1, not '{self.device_index}'.")
        if len(set(self.gpus)) < len(self.gpus):
            raise UsageError(f"--device-index names a GPU twice: {self.device_index}.")
        if self.trace_ratio > 1:
            raise UsageError(f"--trace-ratio must be at most 1, but is {self.trace_ratio}.")
        if self.trace_endpoint and not self.trace_endpoint.startswith(("http://", "https://")):
            raise UsageError("--trace-endpoint must begin with http:// or https://.")
        if self.lame_duck_s > self.grace_period_s:
            raise UsageError("--lame-duck-s must fit into --grace-period-s.")

    def printable(self) -> dict[str, Any]:
        """Every value for the start-up log, without what must not be read there."""
        values = dataclasses.asdict(self)
        for name in ("model_uri", "s3_endpoint", "trace_endpoint"):
            values[name] = redacted(values[name])
        return values


def redacted(uri: str) -> str:
    """The URI without user, password and query, any of which may carry a secret."""
    parts = urlsplit(uri)
    if not parts.scheme or not (parts.query or "@" in parts.netloc):
        return uri
    host = parts.netloc.rpartition("@")[2]
    hidden = "…@" if "@" in parts.netloc else ""
    return urlunsplit((parts.scheme, hidden + host, parts.path, "…" if parts.query else "", ""))


def flag(name: str) -> str:
    """`max_beam_size` as it is written on a command line."""
    return "--" + name.replace("_", "-")


def variable(name: str) -> str:
    """`max_beam_size` as it is written in an environment."""
    return PREFIX + name.upper()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag per setting; what is not given stays out of the namespace, so that the environment can speak."""
    for field in dataclasses.fields(ServeSettings):
        data = field.metadata
        default = (
            f"Default: {field.default}{' ' + data['unit'] if data['unit'] else ''}."
            if field.default != ""
            else ""
        )
        words = [data["meaning"], default, data["why"], f"[{variable(field.name)}]"]
        text = " ".join(word for word in words if word).replace("%", "%%")
        options: dict[str, Any] = {"default": argparse.SUPPRESS, "help": text, "dest": field.name}
        if field.type is bool:
            parser.add_argument(flag(field.name), action=argparse.BooleanOptionalAction, **options)
        else:
            metavar = "{" + ",".join(data["choices"]) + "}" if data["choices"] else _metavar(field.type)
            parser.add_argument(flag(field.name), metavar=metavar, **options)


def _metavar(kind: Any) -> str:
    return {int: "N", float: "SECONDS"}.get(kind, "TEXT")


def from_sources(flags: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> ServeSettings:
    """Settings from given flags, then the environment, then defaults. Raises UsageError for a value of the wrong
    kind and for an unknown SERVAL_LIVE_ variable."""
    environment = os.environ if environment is None else environment
    refuse_unknown(environment)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(ServeSettings):
        if field.name in flags:
            values[field.name] = _parsed(field.type, flags[field.name], flag(field.name))
        elif (text := environment.get(variable(field.name), "")) != "":
            values[field.name] = _parsed(field.type, text, variable(field.name))
    if not values.get("model_uri") and DEFAULT_MOUNT.is_dir():
        values["model_uri"] = str(DEFAULT_MOUNT)
    return ServeSettings(**values)


def refuse_unknown(environment: Mapping[str, str]) -> None:
    """Raise UsageError for a SERVAL_LIVE_ variable that nothing reads."""
    known = {variable(field.name) for field in dataclasses.fields(ServeSettings)} | READ_ELSEWHERE
    unknown = sorted(_unknown_names(environment, known))
    if unknown:
        raise UsageError(
            f"Unknown environment variable{'s' if len(unknown) > 1 else ''}: {', '.join(unknown)}.",
            hint="`nllb-predictor serve --help` lists all.",
        )


def _unknown_names(environment: Mapping[str, str], known: set[str]) -> Iterable[str]:
    for name, value in environment.items():
        if name.startswith(PREFIX) and name not in known and not _is_service_link(name, value):
            yield name


def _is_service_link(name: str, value: str) -> bool:
    """A bare `…_PORT` is one only with an address in it; else it is a misspelt setting of ours."""
    link = SERVICE_LINK.search(name)
    return link is not None and (link[0] != "_PORT" or "://" in value)


def _parsed(kind: Any, value: Any, origin: str) -> Any:
    if isinstance(value, kind):
        return value
    text = str(value).strip()
    try:
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                text.lower()
            ]
        return kind(text)
    except (KeyError, ValueError):
        wanted = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise UsageError(f"{origin} must be {wanted}, not '{text}'.") from None
