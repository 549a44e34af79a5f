"""One encoder and one decoder layer of a written model file as a model of its own, in memory and in float32.

A layer alone is a sound Transformer: embeddings, one layer on each side, norms, projection. Running it shows that
the layer's numbers stand where CTranslate2 looks for them, at a cost of one layer's memory. The vocabulary shrinks to
a few hundred rows, for the same reason.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ctranslate2
import numpy as np

from nllb_predictor.convert.ct2file import Array, ModelFile, serialise
from nllb_predictor.convert.forward import Depth, Ids, Sentence
from nllb_predictor.convert.manifest import SpecialIds

_ROWS = 512
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(.+)")
_BY_ROW = ("encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight")
_PACKED = ("int8", "int16", "float16", "bfloat16")


@dataclass(frozen=True)
class SliceVocabulary:
    """A choice of rows. Ids within it are positions in `rows`."""

    rows: Ids
    special: dict[str, str]
    """Role to name, for the engine's configuration."""

    @staticmethod
    def around(sentences: Sequence[Sentence], special: SpecialIds, count: int) -> "SliceVocabulary":
        """Every row that the sentences use, the special ones, and others spread over the whole table."""
        used = {i for sentence in sentences for i in (*sentence.source, *sentence.target)}
        roles = {"bos_token": special.bos, "eos_token": special.eos, "unk_token": special.unk}
        roles["decoder_start_token"] = special.decoder_start
        used.update(roles.values())
        used.update(np.linspace(0, count - 1, min(_ROWS, count)).astype(int).tolist())
        rows = np.asarray(sorted(used), np.int64)
        return SliceVocabulary(
            rows, {role: _name(int(np.searchsorted(rows, i))) for role, i in roles.items()}
        )

    @property
    def names(self) -> list[str]:
        """A name for each row; the real tokens do not matter here."""
        return [_name(i) for i in range(len(self.rows))]

    def local(self, sentence: Sentence) -> Sentence:
        """The sentence with ids within this choice."""
        return Sentence(self._positions(sentence.source), self._positions(sentence.target))

    def _positions(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(i) for i in np.searchsorted(self.rows, ids))


def _name(position: int) -> str:
    return f"t{position}"


def slice_bytes(file: ModelFile, depth: Depth) -> int:
    """Size of these layers in float32."""
    return sum(
        4 * stub.data.size
        for name, stub in file.variables.items()
        if _LAYER.fullmatch(name) and _place(name, depth)
    )


def open_slice(file: ModelFile, depth: Depth, vocabulary: SliceVocabulary, threads: int) -> Any:
    """A `ctranslate2.Translator` of the layers in `depth`, one of each side."""
    variables: dict[str, Array] = {}
    for name in (*file.variables, *file.aliases):
        place = _place(name, depth)
        if place is not None and not name.endswith("_scale"):
            variables[place] = _value(file, name, vocabulary.rows)
    # The layer that alignments are read from does not exist here.
    variables["decoder/alignment_layer"] = np.asarray(0, np.int16)
    config = {**vocabulary.special, "add_source_bos": False, "add_source_eos": False}
    files = {
        "model.bin": serialise(file.spec_name, file.revision, variables, {}),
        "config.json": json.dumps(config).encode(),
        "shared_vocabulary.json": json.dumps(vocabulary.names).encode(),
    }
    return ctranslate2.Translator(
        "a layer alone", device="cpu", compute_type="float32", intra_threads=threads, files=files
    )


def _place(name: str, depth: Depth) -> str | None:
    """Name of a variable in the small model; None for one of another layer."""
    layer = _LAYER.fullmatch(name)
    if layer is None:
        return name
    wanted = depth.encoder[0] if layer[1] == "encoder" else depth.decoder[0]
    return f"{layer[1]}/layer_0/{layer[3]}" if int(layer[2]) == wanted else None


def _value(file: ModelFile, name: str, rows: Ids) -> Array:
    stub = file.stored(name)
    if name in _BY_ROW:
        return np.concatenate([file.floats(name, i, i + 1) for i in rows.tolist()])
    if name == "decoder/projection/bias":
        return file.floats(name)[rows]
    if stub.dtype in _PACKED and stub.data.ndim:
        return file.floats(name)
    return stub.data
