"""A model of another shape that answers exactly like its small parent.

Why it exists: speed depends on the shape and on where sentences end. A random model of the 600M shape never ends a
sentence; this one has the shape (12+12 layers, width 1024, 256,206 rows) and ends its sentences as the trained parent
does.

How the output is preserved (w, W the two widths, m = W / w):
- A wide feature vector is the small one repeated m times. Layer norms see the same mean and variance, so their weights
  are repeated. A matrix is repeated both ways and divided by the number of input copies.
- Heads: a wide head holds one small head r times, so its products are r times too large, and its softmax scale is
  1/sqrt(r) of the small one: the query is multiplied by 1/sqrt(r).
- Embeddings are multiplied by sqrt(W) instead of sqrt(w) by the architecture, so the rows shrink by the quotient. The
  same rows are the output projection; the decoder's last layer norm makes up for it.
- Positions are sines of other frequencies at another width. The repeated table is stored as
  `model.{encoder,decoder}.embed_positions.weights`, as fairseq's descendants once did, offset of two rows included.
  CTranslate2 keeps the table in its model anyway. transformers ignores these tensors: this model is for CTranslate2.
- More layers: the others are identities, copies whose last projections (`out_proj`, `fc2`) are zero. Small layer i
  becomes layer i * (L / l), so the layer used for alignment (floor(2 L / 3)) is the same one.
- Rows that the small vocabulary lacks must never win, without a bias in the architecture: in the last layer norm one
  feature of the last two copies is turned into the constants +b and -b. Trained rows carry equal values there, which
  cancel; dummy rows carry -k and +k and nothing else, so that their logit is always -2 k b.

What it refuses to do: need torch, or hold the wide model in memory as a whole.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tinymodel.checkpoint import (
    WEIGHTS,
    Array,
    Deferred,
    config,
    generation_config,
    read_tensors,
    write_safetensors,
)
from tinymodel.errors import BadCheckpoint
from tinymodel.settings import Languages, Shape
from tinymodel.vocabulary import MASK, added_token, write_json, write_tokenizer

NLLB_600M = Shape(width=1024, layers=12, heads=16, ffn=4096, tokens=256_204, spare_rows=2, max_positions=1024)

# Logit of a dummy row: -2 * LARGE * CONSTANT. The constant lies within the range of the other features, since int8
# inference scales a vector by its largest value; float16 holds all three numbers.
CONSTANT = 1.0
LARGE = 5000.0
# Positions that the architecture skips at the start of its table (padding index + 1).
POSITION_OFFSET = 2


@dataclass(frozen=True, slots=True)
class Parent:
    """A checkpoint folder, read."""

    shape: Shape
    languages: Languages
    tokenizer: dict[str, Any]
    tensors: dict[str, Array]

    @classmethod
    def read(cls, folder: Path) -> "Parent":
        """Raises BadCheckpoint where a file is missing."""
        try:
            settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
            names = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise BadCheckpoint(f"{folder} is no checkpoint: {error.filename} is missing") from error
        tokens = len(tokenizer["model"]["vocab"])
        shape = Shape(
            width=settings["d_model"],
            layers=settings["encoder_layers"],
            heads=settings["encoder_attention_heads"],
            ffn=settings["encoder_ffn_dim"],
            tokens=tokens,
            spare_rows=settings["vocab_size"] - tokens,
            max_positions=settings["max_position_embeddings"],
        )
        return cls(shape, Languages(names["src_lang"], names["tgt_lang"]), tokenizer, read_tensors(folder))


class Plan:
    """How features, heads and rows of one shape map to those of another. Raises BadCheckpoint if they don't fit."""

    def __init__(self, small: Shape, wide: Shape) -> None:
        self.small, self.wide = small, wide
        for name in ("width", "layers", "ffn"):
            if getattr(wide, name) % getattr(small, name):
                raise BadCheckpoint(f"{name}: {getattr(wide, name)} is no multiple of {getattr(small, name)}")
        self.copies = wide.width // small.width
        head, wide_head = small.width // small.heads, wide.width // wide.heads
        if self.copies < 3 or wide_head % head or wide.heads % small.heads:
            raise BadCheckpoint("a model can be widened three times or more, by whole heads")
        self.copies_in_head = wide_head // head
        place = np.arange(wide.width)
        #: small feature that each feature of the concatenated wide heads stands for
        self.head_features = (place // wide_head % small.heads) * head + place % head
        self.stride = wide.layers // small.layers

    def query_factor(self) -> float:
        return float(self.copies_in_head**-0.5)

    def embedding_factor(self) -> float:
        return float((self.small.width / self.wide.width) ** 0.5)


def token_ids(parent: Parent, wide: Shape) -> Array:
    """For each row of the parent its row in the wide model: pieces stay, codes and mask move behind the dummies."""
    vocabulary = parent.tokenizer["model"]["vocab"]
    special = sorted(vocabulary[token] for token in (*_codes(parent.tokenizer), MASK))
    rows = np.arange(parent.shape.tokens + parent.shape.spare_rows)
    shift = wide.tokens - parent.shape.tokens
    rows[special] += shift
    rows[parent.shape.tokens :] += shift
    return rows


def widen(small_folder: Path, out: Path, wide: Shape = NLLB_600M) -> None:
    """Write the wide checkpoint folder (float32). Raises BadCheckpoint."""
    parent = Parent.read(small_folder)
    plan = Plan(parent.shape, wide)
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = wide_tokenizer(parent.tokenizer, wide)
    write_tokenizer(out, tokenizer, parent.languages, wide.max_positions)
    rows = wide.tokens + wide.spare_rows
    write_json(out / "config.json", config(wide, rows, "serval-live/tiny-nllb-widened"))
    forced = tokenizer["model"]["vocab"][parent.languages.target]
    write_json(out / "generation_config.json", generation_config(forced))
    write_safetensors(out / WEIGHTS, sorted(_tensors(parent, plan), key=lambda item: item[0]))


def wide_tokenizer(small: dict[str, Any], wide: Shape) -> dict[str, Any]:
    """The parent's tokenizer with as many dummy pieces as are missing, between the pieces and the codes.

    The dummies are strings of private-use characters with the merges that build them, so that loading the file costs
    what a tokenizer of that size costs; no text contains them.
    """
    tree: dict[str, Any] = json.loads(json.dumps(small))
    model = tree["model"]
    codes = _codes(small)
    pieces = {token: index for token, index in model["vocab"].items() if token not in {*codes, MASK}}
    merges = list(model["merges"])
    for token in _dummies(wide.tokens - len(model["vocab"])):
        pieces[token] = len(pieces)
        if len(token) > 1:
            merges.append([token[:-1], token[-1]])
    for token in (*codes, MASK):
        pieces[token] = len(pieces)
    model["vocab"], model["merges"] = pieces, merges
    tree["added_tokens"] = [
        added_token(entry["content"], pieces[entry["content"]]) for entry in small["added_tokens"]
    ]
    return tree


def _codes(tokenizer: dict[str, Any]) -> list[str]:
    plain = {"<s>", "<pad>", "</s>", "<unk>", MASK}
    return [entry["content"] for entry in tokenizer["added_tokens"] if entry["content"] not in plain]


def _dummies(count: int) -> Iterator[str]:
    letters = [chr(0xE000 + i) for i in range(64)]
    layer = [""]
    while True:
        layer = [prefix + letter for prefix in layer for letter in letters]
        for token in layer:
            if count == 0:
                return
            yield token
            count -= 1


def _tensors(parent: Parent, plan: Plan) -> Iterator[tuple[str, Deferred]]:
    yield "model.shared.weight", _embedding(parent, plan)
    for side in ("encoder", "decoder"):
        yield f"model.{side}.embed_positions.weights", _positions(plan)
        last = f"model.{side}.layer_norm"
        for kind in ("weight", "bias"):
            values = parent.tensors[f"{last}.{kind}"]
            make = _last_norm if side == "decoder" else _repeated
            yield f"{last}.{kind}", Deferred((plan.wide.width,), partial(make, values, kind, plan))
        for layer in range(plan.wide.layers):
            source, identity = divmod(layer, plan.stride)
            prefix = f"model.{side}.layers.{source}."
            for name, values in parent.tensors.items():
                if name.startswith(prefix):
                    rest = name.removeprefix(prefix)
                    yield (
                        f"model.{side}.layers.{layer}.{rest}",
                        _layer_tensor(rest, values, plan, identity > 0),
                    )


def _layer_tensor(name: str, values: Array, plan: Plan, identity: bool) -> Deferred:
    module = name.split(".")[-2]
    wide, small = plan.wide, plan.small
    features = np.tile(np.arange(small.width), plan.copies)
    hidden = np.tile(np.arange(small.ffn), wide.ffn // small.ffn)
    outputs, inputs = {
        "q_proj": (plan.head_features, features),
        "k_proj": (plan.head_features, features),
        "v_proj": (plan.head_features, features),
        "out_proj": (features, plan.head_features),
        "fc1": (hidden, features),
        "fc2": (features, hidden),
    }.get(module, (features, features))
    factor = plan.query_factor() if module == "q_proj" else 1.0
    if identity and module in ("out_proj", "fc2"):
        factor = 0.0
    if values.ndim == 1:
        return Deferred((len(outputs),), lambda: values[outputs] * np.float32(factor))
    divisor = len(inputs) / values.shape[1]
    return Deferred(
        (len(outputs), len(inputs)), lambda: values[np.ix_(outputs, inputs)] * np.float32(factor / divisor)
    )


def _repeated(values: Array, kind: str, plan: Plan) -> Array:
    return np.tile(values, plan.copies)


def _last_norm(values: Array, kind: str, plan: Plan) -> Array:
    """The decoder's last norm: undoes the factors of the output projection and makes the constants of dummy rows."""
    wide = np.tile(values, plan.copies) / np.float32(plan.copies * plan.embedding_factor())
    feature = np.arange(plan.copies) * plan.small.width
    wide[feature] *= plan.copies / (plan.copies - 2)
    wide[feature[-2:]] = (CONSTANT, -CONSTANT) if kind == "bias" else (0.0, 0.0)
    return wide


def _embedding(parent: Parent, plan: Plan) -> Deferred:
    small, wide = parent.tensors["model.shared.weight"], plan.wide
    shape = (wide.tokens + wide.spare_rows, wide.width)
    make: Callable[[], Array] = partial(_fill_embedding, small, token_ids(parent, wide), shape, plan)
    return Deferred(shape, make)


def _fill_embedding(small: Array, ids: Array, shape: tuple[int, int], plan: Plan) -> Array:
    rows = np.zeros(shape, dtype=np.float32)
    rows[:, shape[1] - 2 * plan.small.width] = -LARGE
    rows[:, shape[1] - plan.small.width] = LARGE
    rows[ids] = np.tile(small, plan.copies) * np.float32(plan.embedding_factor())
    return rows


def _positions(plan: Plan) -> Deferred:
    count = plan.wide.max_positions + POSITION_OFFSET
    return Deferred(
        (count, plan.wide.width), lambda: np.tile(sinusoidal_positions(count, plan.small.width), plan.copies)
    )


def sinusoidal_positions(count: int, width: int, padding_index: int = 1) -> Array:
    """The position table of M2M100 (sines, then cosines; the padding row is zero), float32."""
    half = width // 2
    frequencies = np.exp(np.arange(half, dtype=np.float32) * np.float32(-np.log(10000.0) / (half - 1)))
    angles = np.arange(count, dtype=np.float32)[:, None] * frequencies[None, :]
    table: Array = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    table[padding_index] = 0.0
    return table
