"""A plain numpy forward pass of M2M100 on a checkpoint's own tensors: the second opinion of the self-test.

Written from the architecture and not from CTranslate2's layout, so that a mix-up in one does not show in the other.
It is slow and simple: no batching beyond joining the rows of all sentences, no cache, weights read a few thousand
rows at a time. It refuses nothing; whoever compares decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from nllb_predictor.convert.tensors import Floats, Rows, chunks, take

Ids = npt.NDArray[np.int64]

_EPSILON = 1e-5
"""Of M2M100's layer norms; not configurable there."""


class Parameters(Protocol):
    """Where the numbers come from, by HuggingFace's names without `model.`."""

    heads: dict[str, int]
    """Attention heads of `encoder` and `decoder`."""
    embedding_scale: float

    def weight(self, *names: str) -> Rows:
        """Weights that CTranslate2 stores as one matrix, stacked in this order."""

    def vector(self, name: str) -> Floats:
        """A bias or a norm's values."""

    def positions(self, side: str) -> Floats:
        """Position table [positions, width]."""

    @property
    def embedding(self) -> Rows: ...

    @property
    def projection(self) -> Rows: ...

    def logit_bias(self) -> Floats | None: ...


@dataclass(frozen=True)
class Depth:
    """Which layers to run; all of them, or a few to prove them alone."""

    encoder: tuple[int, ...]
    decoder: tuple[int, ...]


@dataclass(frozen=True)
class Sentence:
    """Encoder input and forced decoder input, as ids."""

    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True)
class Output:
    """Per sentence: logits [target length, vocabulary] and, by decoder layer, the cross attention averaged over heads
    [target length, source length]."""

    logits: list[Floats]
    attention: list[list[Floats]]


@dataclass(frozen=True)
class Path:
    """Decoder input so far, and the sum of the log-probabilities of what was chosen."""

    target: tuple[int, ...]
    score: float


@dataclass(frozen=True)
class Ending:
    """When a greedy output ends."""

    eos: int
    limit: int
    """Length of the target, start token included."""

    def not_reached(self, path: Path) -> bool:
        # The start token is `</s>` too, so it ends nothing.
        return len(path.target) < self.limit and (len(path.target) < 2 or path.target[-1] != self.eos)


def forward(
    parameters: Parameters, depth: Depth, sentences: Sequence[Sentence], rows: Ids | None = None
) -> Output:
    """Teacher-forced logits of each sentence.

    With `rows`, ids count within that choice of the vocabulary: embeddings and logits are of those rows only.
    """
    run = _Run(parameters, rows)
    sources = [np.asarray(s.source, np.int64) for s in sentences]
    targets = [np.asarray(s.target, np.int64) for s in sentences]
    memory = run.encode(sources, depth.encoder)
    return run.decode(targets, memory, [len(s) for s in sources], depth.decoder)


def greedy(parameters: Parameters, depth: Depth, sentences: Sequence[Sentence], ending: Ending) -> list[Path]:
    """Greedy continuation of each sentence's target until `</s>` or the limit. The encoder runs once; the decoder
    runs anew for each step, since reading the weights costs the same with and without a cache."""
    run = _Run(parameters, None)
    sources = [np.asarray(s.source, np.int64) for s in sentences]
    memory = _split(run.encode(sources, depth.encoder), [len(s) for s in sources])
    paths = [Path(tuple(s.target), 0.0) for s in sentences]
    while going := [i for i, path in enumerate(paths) if ending.not_reached(path)]:
        targets = [np.asarray(paths[i].target, np.int64) for i in going]
        parts = [memory[i] for i in going]
        output = run.decode(targets, np.concatenate(parts), [len(part) for part in parts], depth.decoder)
        for i, logits in zip(going, output.logits, strict=True):
            chances = log_softmax(logits[-1])
            best = int(chances.argmax())
            paths[i] = Path((*paths[i].target, best), paths[i].score + float(chances[best]))
    return paths


def log_softmax(logits: Floats) -> Floats:
    """Log-probabilities along the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


class _Run:
    def __init__(self, parameters: Parameters, rows: Ids | None) -> None:
        self._p = parameters
        self._rows = rows

    def encode(self, sources: list[Ids], layers: tuple[int, ...]) -> Floats:
        lengths = [len(s) for s in sources]
        state = self._embed("encoder", sources)
        for number in layers:
            prefix = f"encoder.layers.{number}"
            state = state + self._self_attention("encoder", prefix, state, lengths, causal=False)
            state = state + self._feed_forward(prefix, state)
        return self._norm(state, "encoder.layer_norm")

    def decode(
        self, targets: list[Ids], memory: Floats, sources: list[int], layers: tuple[int, ...]
    ) -> Output:
        lengths = [len(t) for t in targets]
        state = self._embed("decoder", targets)
        seen: list[list[Floats]] = [[] for _ in targets]
        for number in layers:
            prefix = f"decoder.layers.{number}"
            state = state + self._self_attention("decoder", prefix, state, lengths, causal=True)
            added, shares = self._cross_attention(prefix, state, memory, lengths, sources)
            for kept, share in zip(seen, shares, strict=True):
                kept.append(share)
            state = state + added
            state = state + self._feed_forward(prefix, state)
        state = self._norm(state, "decoder.layer_norm")
        return Output(_split(self._logits(state), lengths), seen)

    def _embed(self, side: str, sentences: list[Ids]) -> Floats:
        ids = np.concatenate(sentences)
        vectors = take(self._p.embedding, ids if self._rows is None else self._rows[ids])
        table = self._p.positions(side)
        places = np.concatenate([table[: len(ids)] for ids in sentences])
        result: Floats = vectors * np.float32(self._p.embedding_scale) + places
        return result

    def _logits(self, state: Floats) -> Floats:
        bias = self._p.logit_bias()
        if self._rows is None:
            logits = _times(state, self._p.projection)
        else:
            logits = state @ take(self._p.projection, self._rows).T
            bias = None if bias is None else bias[self._rows]
        return logits if bias is None else logits + bias

    def _self_attention(
        self, side: str, prefix: str, state: Floats, lengths: list[int], *, causal: bool
    ) -> Floats:
        block = f"{prefix}.self_attn"
        state = self._norm(state, f"{block}_layer_norm")
        q, k, v = np.split(self._linear(state, block, "q_proj", "k_proj", "v_proj"), 3, axis=1)
        mixed, _ = _attend(self._p.heads[side], (q, k, v), lengths, lengths, causal=causal)
        return self._linear(mixed, block, "out_proj")

    def _cross_attention(
        self, prefix: str, state: Floats, memory: Floats, lengths: list[int], sources: list[int]
    ) -> tuple[Floats, list[Floats]]:
        block = f"{prefix}.encoder_attn"
        q = self._linear(self._norm(state, f"{block}_layer_norm"), block, "q_proj")
        k, v = np.split(self._linear(memory, block, "k_proj", "v_proj"), 2, axis=1)
        mixed, shares = _attend(self._p.heads["decoder"], (q, k, v), lengths, sources, causal=False)
        return self._linear(mixed, block, "out_proj"), shares

    def _feed_forward(self, prefix: str, state: Floats) -> Floats:
        state = self._norm(state, f"{prefix}.final_layer_norm")
        return self._linear(np.maximum(self._linear(state, prefix, "fc1"), 0), prefix, "fc2")

    def _linear(self, state: Floats, prefix: str, *names: str) -> Floats:
        product = _times(state, self._p.weight(*(f"{prefix}.{name}.weight" for name in names)))
        result: Floats = product + np.concatenate([self._p.vector(f"{prefix}.{name}.bias") for name in names])
        return result

    def _norm(self, state: Floats, name: str) -> Floats:
        mean = state.mean(axis=1, keepdims=True)
        variance = ((state - mean) ** 2).mean(axis=1, keepdims=True)
        scaled = (state - mean) / np.sqrt(variance + np.float32(_EPSILON))
        result: Floats = scaled * self._p.vector(f"{name}.weight") + self._p.vector(f"{name}.bias")
        return result


def _attend(
    heads: int, parts: tuple[Floats, Floats, Floats], lengths: list[int], sources: list[int], *, causal: bool
) -> tuple[Floats, list[Floats]]:
    """Scaled dot-product attention of each sentence alone; also the shares averaged over heads."""
    queries, keys, values = parts
    mixed, shares = [], []
    for q, k, v in zip(_split(queries, lengths), _split(keys, sources), _split(values, sources), strict=True):
        q, k, v = (part.reshape(len(part), heads, -1).transpose(1, 0, 2) for part in (q, k, v))
        scores = q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(q.shape[-1]))
        if causal:
            future = np.triu(np.ones(scores.shape[1:], bool), 1)
            scores = np.where(future, np.float32(-np.inf), scores)
        share = np.exp(log_softmax(scores))
        mixed.append((share @ v).transpose(1, 0, 2).reshape(q.shape[1], -1))
        shares.append(share.mean(axis=0))
    return np.concatenate(mixed), shares


def _times(state: Floats, matrix: Rows) -> Floats:
    """state @ matrix.T, a few thousand rows of the matrix at a time."""
    product = np.empty((len(state), matrix.shape[0]), np.float32)
    for start, rows in chunks(matrix):
        product[:, start : start + len(rows)] = state @ rows.T
    return product


def _split(joined: Floats, lengths: list[int]) -> list[Floats]:
    return np.split(joined, np.cumsum(lengths)[:-1])
