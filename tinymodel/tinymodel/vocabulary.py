"""Trains the tokenizer and writes its files as they lie in a Serval archive.

Why it exists: NLLB's fast tokenizer is a BPE over text with "▁" for spaces, four special tokens at the front, language
codes and `<mask>` behind the pieces, and a template that puts the source code first and `</s>` last. The files follow
the layout that transformers 4.47 writes, which is what machine.py uses.

What it refuses to do: write a sentencepiece model. Serval's own is stale, nothing may read it.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tinymodel.flores import FLORES_CODES
from tinymodel.settings import Languages, Shape

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"


def train_tokenizer(texts: Iterable[str], shape: Shape) -> dict[str, Any]:
    """A tokenizer.json as a tree, with exactly `shape.tokens` tokens. `texts` are normalised already."""
    from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    pieces = shape.tokens - len(FLORES_CODES) - 1
    trainer = BpeTrainer(vocab_size=pieces, special_tokens=list(SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tree: dict[str, Any] = json.loads(tokenizer.to_str())
    return with_language_codes(tree, FLORES_CODES)


def with_language_codes(tree: dict[str, Any], codes: Sequence[str]) -> dict[str, Any]:
    """Append language codes and `<mask>` behind the pieces, both to the vocabulary and to the added tokens."""
    vocabulary = tree["model"]["vocab"]
    for code in (*codes, MASK):
        vocabulary[code] = len(vocabulary)
    tree["added_tokens"] = [added_token(token, vocabulary[token]) for token in (*SPECIAL, *codes, MASK)]
    return tree


def added_token(token: str, index: int) -> dict[str, Any]:
    """One entry of `added_tokens` in tokenizer.json."""
    mask = token == MASK
    return {
        "id": index,
        "content": token,
        "single_word": False,
        "lstrip": mask,
        "rstrip": False,
        "normalized": mask,
        "special": True,
    }


def with_template(tree: dict[str, Any], code: str) -> dict[str, Any]:
    """Set the post-processor to `code pieces </s>`."""
    vocabulary = tree["model"]["vocab"]

    def special(token: str) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": 0}}

    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    tree["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [special(code), first, special("</s>")],
        "pair": [special(code), first, second, special("</s>")],
        "special_tokens": {
            token: {"id": token, "ids": [vocabulary[token]], "tokens": [token]} for token in ("</s>", code)
        },
    }
    return tree


def tokenizer_config(tree: dict[str, Any], languages: Languages, positions: int) -> dict[str, Any]:
    """tokenizer_config.json as transformers 4.47 writes it for a fine-tuned NLLB model."""
    added = sorted(tree["added_tokens"], key=lambda entry: int(entry["id"]))
    decoder = {str(entry["id"]): {key: entry[key] for key in entry if key != "id"} for entry in added}
    named = {*SPECIAL, MASK}
    return {
        "added_tokens_decoder": decoder,
        "additional_special_tokens": [entry["content"] for entry in added if entry["content"] not in named],
        "bos_token": "<s>",
        "clean_up_tokenization_spaces": True,
        "cls_token": "<s>",
        "eos_token": "</s>",
        "legacy_behaviour": False,
        "mask_token": MASK,
        "model_max_length": positions,
        "pad_token": "<pad>",
        "sep_token": "</s>",
        "sp_model_kwargs": {},
        "src_lang": languages.source,
        "tgt_lang": languages.target,
        "tokenizer_class": "NllbTokenizer",
        "unk_token": "<unk>",
    }


def special_tokens_map(config: dict[str, Any]) -> dict[str, Any]:
    """special_tokens_map.json to a tokenizer_config."""
    plain = ("bos_token", "cls_token", "eos_token", "pad_token", "sep_token", "unk_token")
    mask = {"content": MASK, "lstrip": True, "normalized": True, "rstrip": False, "single_word": False}
    return {
        "additional_special_tokens": config["additional_special_tokens"],
        **{name: config[name] for name in plain},
        "mask_token": mask,
    }


def write_tokenizer(folder: Path, tree: dict[str, Any], languages: Languages, positions: int) -> None:
    """tokenizer.json, tokenizer_config.json and special_tokens_map.json."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tokenizer_config(tree, languages, positions)
    write_json(folder / "tokenizer.json", with_template(tree, languages.source))
    write_json(folder / "tokenizer_config.json", config)
    write_json(folder / "special_tokens_map.json", special_tokens_map(config))


def write_json(path: Path, tree: Any) -> None:
    """Indented, not escaped, with a final line end."""
    path.write_text(json.dumps(tree, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
