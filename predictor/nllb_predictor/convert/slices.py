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

from nllb_predictor.convert.ct2file import ModelFile, Stub, serialise
from nllb_predictor.convert.forward import Depth, Ids, Sentence
from nllb_predictor.convert.manifest import SpecialIds

_ROWS = 512
_LAYER = re.compile(r"(encoder|decoder)/layer_(\d+)/(.+)")
_BY_ROW = ("encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight")


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


def open_slice(file: ModelFile, depth: Depth, vocabulary: SliceVocabulary) -> Any:
    """A `ctranslate2.Translator` of the layers in `depth`, one of each side, computing in float32.

    Variables go in as they are stored: unpacking them with their scales is CTranslate2's part of what is tested.
    """
    variables: dict[str, Stub] = {}
    for name in file.variables:
        place = _place(name, depth)
        if place is not None:
            variables[place] = _stub(file, name, vocabulary.rows)
    # The layer that alignments are read from does not exist here.
    variables["decoder/alignment_layer"] = Stub("int16", np.asarray(0, np.int16))
    config = {**vocabulary.special, "add_source_bos": False, "add_source_eos": False}
    files = {
        "model.bin": serialise(file.spec_name, file.revision, variables, file.aliases),
        "config.json": json.dumps(config).encode(),
        "shared_vocabulary.json": json.dumps(vocabulary.names).encode(),
    }
    # One thread: a layer is so little work that waiting for each other would cost more than it.
    return ctranslate2.Translator(
        "a layer alone", device="cpu", compute_type="float32", intra_threads=1, files=files
    )


def _place(name: str, depth: Depth) -> str | None:
    """Name of a variable in the small model; None for one of another layer."""
    layer = _LAYER.fullmatch(name)
    if layer is None:
        return name
    wanted = depth.encoder[0] if layer[1] == "encoder" else depth.decoder[0]
    return f"{layer[1]}/layer_0/{layer[3]}" if int(layer[2]) == wanted else None


def _stub(file: ModelFile, name: str, rows: Ids) -> Stub:
    stub = file.stored(name)
    if stub.data.ndim and name.removesuffix("_scale") in (*_BY_ROW, "decoder/projection/bias"):
        return Stub(stub.dtype, stub.data[rows])
    return stub
