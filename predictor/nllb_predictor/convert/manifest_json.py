"""The manifest's JSON form, field by field.

Written by hand and not generated: the document is a wire format, so its names must not follow a rename in the code.
Unknown properties are ignored, since a newer converter may add some; missing or wrong ones are refused by name.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

from nllb_predictor.convert import manifest as m
from nllb_predictor.errors import ManifestInvalid

T = TypeVar("T")

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_ATTEMPT = re.compile(r"(\.|[A-Za-z0-9][A-Za-z0-9._-]{0,62})\Z")
_KEY = re.compile(r"[A-Za-z0-9._-]+/r[0-9]+/[a-z0-9]+-[0-9a-f]{8}\Z")
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z", re.ASCII)


class Reader:
    """A JSON object with the path that leads to it, for messages such as `manifest.tokenizer.rows is missing`."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise ManifestInvalid(f"{path} is not an object.")
        self._value: dict[str, Any] = value
        self._path = path

    def _take(self, name: str, kinds: tuple[type, ...], what: str) -> Any:
        if name not in self._value:
            raise ManifestInvalid(f"{self._path}.{name} is missing.")
        value = self._value[name]
        # bool is an int in Python, but never in a manifest.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.wrong(name, what)
        return value

    def wrong(self, name: str, what: str) -> ManifestInvalid:
        shown = repr(self._value.get(name))[:80]
        return ManifestInvalid(f"{self._path}.{name} must be {what}, not {shown}.")

    def text(self, name: str, pattern: re.Pattern[str] | None = None, *, empty: bool = False) -> str:
        value: str = self._take(name, (str,), "a string")
        if not (value or empty) or (pattern is not None and not pattern.match(value)):
            raise self.wrong(
                name, "a string of the documented form" if pattern else "a string that is not empty"
            )
        return value

    def text_or_null(self, name: str, pattern: re.Pattern[str] | None = None) -> str | None:
        return None if self._null(name) else self.text(name, pattern)

    def integer(self, name: str, minimum: int = 0) -> int:
        value: int = self._take(name, (int,), f"an integer of at least {minimum}")
        if value < minimum:
            raise self.wrong(name, f"an integer of at least {minimum}")
        return value

    def integer_or_null(self, name: str) -> int | None:
        return None if self._null(name) else self.integer(name)

    def number(self, name: str) -> float:
        return float(self._take(name, (int, float), "a number"))

    def truth_or_text(self, name: str) -> bool | str:
        value: bool | str = self._take(name, (bool, str), "true, false or a digest")
        if value == "":
            raise self.wrong(name, "true, false or a digest")
        return value

    def truth(self, name: str) -> bool:
        value: bool = self._take(name, (bool,), "true or false")
        return value

    def choice(self, name: str, kind: Callable[[str], T]) -> T:
        value = self.text(name)
        try:
            return kind(value)
        except ValueError:
            raise self.wrong(name, "one of the documented words") from None

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def object(self, name: str) -> "Reader":
        return Reader(self._take(name, (dict,), "an object"), f"{self._path}.{name}")

    def objects(self, name: str) -> list["Reader"]:
        return [Reader(item, f"{self._path}.{name}[{i}]") for i, item in enumerate(self.items(name))]

    def items(self, name: str) -> list[Any]:
        value: list[Any] = self._take(name, (list,), "a list")
        return value

    def _null(self, name: str) -> bool:
        if name not in self._value:
            raise ManifestInvalid(f"{self._path}.{name} is missing.")
        return self._value[name] is None


def parse(data: bytes) -> m.Manifest:
    """Read a stored manifest. Raises ManifestInvalid, naming the first field that is wrong."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise ManifestInvalid(f"The manifest is not JSON ({error}).") from error
    return _manifest(document)


def dump(manifest: m.Manifest) -> bytes:
    """The document as it is stored: `digest` is of exactly these bytes."""
    return (json.dumps(to_document(manifest), ensure_ascii=False, indent=1) + "\n").encode()


def digest(stored: bytes) -> m.Sha256:
    """SHA-256 of a stored manifest: what environment and status call `manifestSha256`."""
    return m.Sha256(hashlib.sha256(stored).hexdigest())


def _manifest(document: object) -> m.Manifest:
    root = Reader(document, "manifest")
    if (schema := root.text("schema")) != m.SCHEMA:
        raise ManifestInvalid(f"The manifest's schema is {schema}; this version reads {m.SCHEMA}.")
    if (form := root.text("format")) != m.FORMAT:
        raise ManifestInvalid(f"The artifact's format is {form}; this version serves {m.FORMAT}.")
    options, source, converter = root.object("options"), root.object("source"), root.object("converter")
    return m.Manifest(
        identity=m.Identity(
            root.text_or_null("engineId"),
            root.integer_or_null("modelRevision"),
            root.text_or_null("artifactKey", _KEY),
            root.text("attempt", _ATTEMPT),
        ),
        options=m.Options(
            options.choice("quantization", m.Quantization), options.truth_or_text("vocabularyTrim")
        ),
        source=m.Source(
            source.text("uri"),
            source.text_or_null("etag"),
            m.Sha256(source.text("sha256", _SHA256)),
            source.integer("bytes"),
        ),
        languages=_languages(root.object("languages")),
        tokenizer=_tokenizer(root.object("tokenizer")),
        model=_model(root.object("model")),
        files=_files(root),
        converter=m.Converter(converter.text("version"), converter.text_or_null("image")),
        self_test=_self_test(root.object("selfTest")),
        created=root.text("created", _CREATED),
        vocabulary_trim=_trim(root.object("vocabularyTrim")) if root.has("vocabularyTrim") else None,
    )


def _languages(reader: Reader) -> m.Languages:
    codes = reader.items("all")
    if (
        not codes
        or not all(isinstance(code, str) and code for code in codes)
        or len(set(codes)) != len(codes)
    ):
        raise reader.wrong("all", "a list of different language codes")
    pair = reader.text_or_null("source"), reader.text_or_null("target")
    return m.Languages(*pair, tuple(codes), reader.choice("from", m.LanguageOrigin))


def _tokenizer(reader: Reader) -> m.TokenizerFacts:
    special = reader.object("special")
    ids = m.SpecialIds(
        bos=special.integer("bos"),
        pad=special.integer("pad"),
        eos=special.integer("eos"),
        unk=special.integer("unk"),
        decoder_start=special.integer("decoderStart"),
        forced_bos=special.integer_or_null("forcedBos"),
    )
    tokens, rows = reader.integer("tokens", 1), reader.integer("rows", 1)
    if rows < tokens:
        raise reader.wrong("rows", f"at least tokens ({tokens})")
    return m.TokenizerFacts(reader.text("file"), reader.choice("order", m.TokenOrder), tokens, rows, ids)


def _trim(reader: Reader) -> m.VocabularyTrim:
    texts = reader.items("texts")
    if not all(isinstance(text, str) and _SHA256.match(text) for text in texts):
        raise reader.wrong("texts", "a list of SHA-256 digests")
    return m.VocabularyTrim(
        kept=reader.integer("kept", 1),
        dropped=reader.integer("dropped"),
        minimum_count=reader.integer("minimumCount", 1),
        segments=reader.integer("segments", 1),
        unseen_share=reader.number("unseenShare"),
        texts=tuple(m.Sha256(text) for text in texts),
        kept_sha256=m.Sha256(reader.text("keptSha256", _SHA256)),
        dropped_file=reader.text("droppedFile", m.PLAIN_NAME),
        rest_rows=reader.integer("restRows"),
    )


def _model(reader: Reader) -> m.ModelFacts:
    if (architecture := reader.text("architecture")) != "m2m_100":
        raise reader.wrong("architecture", "m2m_100")
    sizes = (reader.integer(name, 1) for name in ("encoderLayers", "decoderLayers", "width", "heads"))
    return m.ModelFacts(architecture, *sizes)


def _files(root: Reader) -> tuple[m.FileEntry, ...]:
    entries = tuple(
        m.FileEntry(
            item.text("path", m.PLAIN_NAME), item.integer("bytes"), m.Sha256(item.text("sha256", _SHA256))
        )
        for item in root.objects("files")
    )
    if not entries or len({entry.path for entry in entries}) != len(entries):
        raise root.wrong("files", "a list of different files")
    return entries


def _self_test(reader: Reader) -> m.SelfTest:
    if not reader.truth("passed"):
        raise ManifestInvalid("The manifest's self-test did not pass.")
    checks = tuple(m.Check(c.text("name"), c.text("detail", empty=True)) for c in reader.objects("checks"))
    return m.SelfTest(checks, tuple(_probe(probe) for probe in reader.objects("probes")))


def _probe(reader: Reader) -> m.Probe:
    ids = reader.items("tokens")
    if len(ids) < 2 or not all(type(i) is int and i >= 0 for i in ids):
        raise reader.wrong("tokens", "a list of at least two token ids")
    score = reader.number("score")
    if score > 0:
        raise reader.wrong("score", "a log-probability")
    return m.Probe(reader.text("text"), reader.text("source"), reader.text("target"), tuple(ids), score)


def to_document(manifest: m.Manifest) -> dict[str, Any]:
    """The JSON document of a manifest; key order is the reading order of the documentation."""
    identity, source, converter = manifest.identity, manifest.source, manifest.converter
    return {
        "schema": m.SCHEMA,
        "artifactKey": identity.artifact_key,
        "attempt": identity.attempt,
        "engineId": identity.engine_id,
        "modelRevision": identity.model_revision,
        "format": m.FORMAT,
        "options": manifest.options.to_json(),
        "source": {"uri": source.uri, "etag": source.etag, "sha256": source.sha256, "bytes": source.bytes},
        "languages": {
            "source": manifest.languages.source,
            "target": manifest.languages.target,
            "all": list(manifest.languages.all),
            "from": manifest.languages.origin.value,
        },
        "tokenizer": _tokenizer_document(manifest),
        **_trim_document(manifest.vocabulary_trim),
        "model": _model_document(manifest),
        "files": [{"path": f.path, "bytes": f.bytes, "sha256": f.sha256} for f in manifest.files],
        "converter": {"version": converter.version, "image": converter.image},
        "selfTest": _self_test_document(manifest),
        "created": manifest.created,
    }


def _tokenizer_document(manifest: m.Manifest) -> dict[str, Any]:
    facts, special = manifest.tokenizer, manifest.tokenizer.special
    return {
        "file": facts.file,
        "order": facts.order.value,
        "tokens": facts.tokens,
        "rows": facts.rows,
        "special": {
            "bos": special.bos,
            "pad": special.pad,
            "eos": special.eos,
            "unk": special.unk,
            "decoderStart": special.decoder_start,
            "forcedBos": special.forced_bos,
        },
    }


def _trim_document(trim: m.VocabularyTrim | None) -> dict[str, Any]:
    if trim is None:
        return {}
    record = {
        "kept": trim.kept,
        "dropped": trim.dropped,
        "minimumCount": trim.minimum_count,
        "segments": trim.segments,
        "unseenShare": trim.unseen_share,
        "texts": list(trim.texts),
        "keptSha256": trim.kept_sha256,
        "droppedFile": trim.dropped_file,
        "restRows": trim.rest_rows,
    }
    return {"vocabularyTrim": record}


def _model_document(manifest: m.Manifest) -> dict[str, Any]:
    model = manifest.model
    return {
        "architecture": model.architecture,
        "encoderLayers": model.encoder_layers,
        "decoderLayers": model.decoder_layers,
        "width": model.width,
        "heads": model.heads,
    }


def _self_test_document(manifest: m.Manifest) -> dict[str, Any]:
    probes = [
        {"text": p.text, "source": p.source, "target": p.target, "tokens": list(p.tokens), "score": p.score}
        for p in manifest.self_test.probes
    ]
    checks = [{"name": c.name, "detail": c.detail} for c in manifest.self_test.checks]
    return {"passed": True, "checks": checks, "probes": probes}
