"""Small random M2M100 checkpoints in the shapes that Serval's archives come in, made without torch.

The numbers are random but behave: norms near one, biases near zero, so that float32 results are stable to 1e-5. Files
are written by hand (also bfloat16, which numpy's own writer cannot), so that reader and writer share no code.
"""

import json
import struct
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

Array = npt.NDArray[np.float32]

CODES = ("eng_Latn", "spa_Latn", "fra_Latn")

TEXT = (
    "In the beginning God created the heavens and the earth.",
    "And the earth was without form, and void; and darkness was upon the face of the deep.",
    "En el principio creó Dios los cielos y la tierra, y la tierra estaba desordenada y vacía.",
    "The river rose and the bridge held, and nobody slept that night until the morning came.",
)


@dataclass(frozen=True)
class Recipe:
    """What a checkpoint is like. The defaults are a fine-tuned engine as Serval stores it, only smaller."""

    width: int = 32
    heads: int = 4
    ffn: int = 64
    encoder_layers: int = 3
    decoder_layers: int = 3
    positions: int = 64
    codes: tuple[str, ...] = CODES
    extra_rows: int = 2
    """Embedding rows beyond the last token, as stock NLLB has two."""
    dtype: str = "F32"
    shards: int = 1
    copies: tuple[str, ...] = ("model.shared.weight",)
    """Names under which the tied embedding is stored."""
    tied: bool = True
    stored_positions: bool = False
    logit_bias: bool = False
    pair: tuple[str | None, str | None] = ("eng_Latn", "spa_Latn")
    forced: bool = True
    legacy: bool = False
    seed: int = 7
    config: Mapping[str, Any] = field(default_factory=dict)
    """Overrides of `config.json`."""


def make_checkpoint(folder: Path, recipe: Recipe | None = None) -> Path:
    """Write a checkpoint folder and return it."""
    recipe = recipe or Recipe()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(recipe.codes)
    tokenizer.save(str(folder / "tokenizer.json"))
    rows = tokenizer.get_vocab_size() + recipe.extra_rows
    _write_configs(folder, recipe, tokenizer, rows)
    write_weights(folder, weights(recipe, rows), recipe.dtype, recipe.shards)
    return folder


def make_tokenizer(codes: Iterable[str]) -> Tokenizer:
    """A BPE tokenizer with NLLB's layout: four special tokens first, codes and `<mask>` last, target-mode template."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    added = [AddedToken(code, special=True, normalized=False) for code in (*codes, "<mask>")]
    tokenizer.add_special_tokens(added)
    return tokenizer


def weights(recipe: Recipe, rows: int) -> dict[str, Array]:
    """Random tensors by HuggingFace's names."""
    rng = np.random.default_rng(recipe.seed)

    made: dict[str, Array] = {}
    embedding = _matrix(rng, rows, recipe.width)
    for name in recipe.copies:
        made[name] = embedding
    if not recipe.tied:
        made["lm_head.weight"] = _matrix(rng, rows, recipe.width)
    for side, layers in (("encoder", recipe.encoder_layers), ("decoder", recipe.decoder_layers)):
        for number in range(layers):
            made.update(_layer(rng, recipe, f"model.{side}.layers.{number}", side == "decoder"))
        made[f"model.{side}.layer_norm.weight"] = _vector(rng, recipe.width, 1)
        made[f"model.{side}.layer_norm.bias"] = _vector(rng, recipe.width, 0)
        if recipe.stored_positions:
            # Other numbers than the sinusoids, so that using the wrong table shows.
            made[f"model.{side}.embed_positions.weights"] = _matrix(rng, recipe.positions + 2, recipe.width)
    if recipe.logit_bias:
        made["final_logits_bias"] = rng.standard_normal((1, rows)).astype(np.float32)
    return made


def _layer(rng: np.random.Generator, recipe: Recipe, prefix: str, decoder: bool) -> dict[str, Array]:
    width, made = recipe.width, {}
    blocks = ["self_attn", "encoder_attn"] if decoder else ["self_attn"]
    for block in blocks:
        for part in ("q_proj", "k_proj", "v_proj", "out_proj"):
            made[f"{prefix}.{block}.{part}.weight"] = _matrix(rng, width, width)
            made[f"{prefix}.{block}.{part}.bias"] = _vector(rng, width, 0)
    for part, rows, columns in (("fc1", recipe.ffn, width), ("fc2", width, recipe.ffn)):
        made[f"{prefix}.{part}.weight"] = _matrix(rng, rows, columns)
        made[f"{prefix}.{part}.bias"] = _vector(rng, rows, 0)
    for norm in [f"{block}_layer_norm" for block in blocks] + ["final_layer_norm"]:
        made[f"{prefix}.{norm}.weight"] = _vector(rng, width, 1)
        made[f"{prefix}.{norm}.bias"] = _vector(rng, width, 0)
    return made


def _matrix(rng: np.random.Generator, rows: int, columns: int) -> Array:
    made: Array = rng.standard_normal((rows, columns), np.float32) / np.float32(np.sqrt(columns))
    return made


def _vector(rng: np.random.Generator, size: int, mean: float) -> Array:
    made: Array = (mean + 0.1 * rng.standard_normal(size)).astype(np.float32)
    return made


def write_weights(folder: Path, tensors: Mapping[str, Array], dtype: str = "F32", shards: int = 1) -> None:
    """Write one `model.safetensors`, or shards with their index."""
    if shards == 1:
        write_safetensors(folder / "model.safetensors", tensors, dtype)
        return
    names = list(tensors)
    index = {}
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = names[number::shards]
        write_safetensors(folder / file, {name: tensors[name] for name in part}, dtype)
        index.update(dict.fromkeys(part, file))
    document = {"metadata": {"total_size": 0}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(document))


def write_safetensors(path: Path, tensors: Mapping[str, Array], dtype: str = "F32") -> None:
    """The format: header length (u64), JSON header, bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    bodies, at = [], 0
    for name, tensor in tensors.items():
        body = encode(tensor, dtype)
        header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, at + len(body)]}
        bodies.append(body)
        at += len(body)
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + b"".join(bodies))


def encode(tensor: Array, dtype: str) -> bytes:
    """The tensor's bytes; bfloat16 by cutting, which is exact for numbers made by `as_stored`."""
    if dtype == "F32":
        return tensor.astype("<f4").tobytes()
    if dtype == "F16":
        return tensor.astype("<f2").tobytes()
    if dtype == "BF16":
        return (np.ascontiguousarray(tensor, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
    raise ValueError(dtype)


def pack_archive(archive: Path, folder: Path) -> Path:
    """A gzip tar as Serval stores it: regular files, no folder prefix."""
    with tarfile.open(archive, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            tar.add(path, path.name)
    return archive


ROLES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}


def _write_configs(folder: Path, recipe: Recipe, tokenizer: Tokenizer, rows: int) -> None:
    for name, document in (
        ("config.json", _network(recipe, rows)),
        ("generation_config.json", _generation(recipe, tokenizer)),
        ("tokenizer_config.json", _tokenizing(recipe)),
        ("special_tokens_map.json", ROLES),
    ):
        (folder / name).write_text(json.dumps(document, indent=2))


def _network(recipe: Recipe, rows: int) -> dict[str, Any]:
    return {
        "_name_or_path": "facebook/nllb-200-distilled-600M",
        "activation_function": "relu",
        "architectures": ["M2M100ForConditionalGeneration"],
        "bos_token_id": 0,
        "d_model": recipe.width,
        "decoder_attention_heads": recipe.heads,
        "decoder_ffn_dim": recipe.ffn,
        "decoder_layers": recipe.decoder_layers,
        "decoder_start_token_id": 2,
        "encoder_attention_heads": recipe.heads,
        "encoder_ffn_dim": recipe.ffn,
        "encoder_layers": recipe.encoder_layers,
        "eos_token_id": 2,
        "is_encoder_decoder": True,
        "max_position_embeddings": recipe.positions,
        "model_type": "m2m_100",
        "pad_token_id": 1,
        "scale_embedding": True,
        "tie_word_embeddings": recipe.tied,
        "use_cache": False,
        "vocab_size": rows,
        **recipe.config,
    }


def _generation(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    generation: dict[str, Any] = {
        "max_length": 200,
        "decoder_start_token_id": 2,
        "eos_token_id": 2,
        "pad_token_id": 1,
    }
    target = recipe.pair[1]
    if recipe.forced and target is not None:
        generation["forced_bos_token_id"] = tokenizer.token_to_id(target)
    return generation


def _tokenizing(recipe: Recipe) -> dict[str, Any]:
    source, target = recipe.pair
    return {
        **ROLES,
        "additional_special_tokens": list(recipe.codes),
        "legacy_behaviour": recipe.legacy,
        "model_max_length": 1024,
        "src_lang": source,
        "tgt_lang": target,
        "tokenizer_class": "NllbTokenizer",
    }
