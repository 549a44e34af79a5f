"""A checkpoint in the other forms that a Serval bucket can hold, good and bad.

Why it exists: sharding, precision, added tokens, spare rows and broken archives must be met by the converter in tests
before it meets them in production. Every variant is made from a real checkpoint, so a good one can be translated with
and compared with the same references.

What it refuses to do: make anything that is dangerous to read. The pickles hold a dictionary of numbers.
"""

import gzip
import io
import json
import pickle
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tinymodel.checkpoint import INDEX, WEIGHTS, Array, Stored, read_tensors, write_safetensors
from tinymodel.settings import Languages
from tinymodel.vocabulary import added_token, special_tokens_map, tokenizer_config, with_template, write_json

SHARED = "model.shared.weight"
# What machine.py leaves beside the model; nothing may read the first.
TRAINING_ARGUMENTS = "training_args.bin"
STATISTICS = ("trainer_state.json", "train_results.json", "all_results.json")

#: Codes and characters of the kind `new-codes`. The codes take over the rows of the languages that they replace.
NEW_CODES = Languages("qaa_Latn", "qab_Latn")
NEW_CHARACTERS = ("ŋ", "ɓ", "Ꞌ")


def copy_checkpoint(source: Path, out: Path) -> None:
    """The same files in another folder."""
    out.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        shutil.copyfile(file, out / file.name)


def write_weights(
    folder: Path, tensors: Mapping[str, Array], dtype: str = "float32", shards: int = 1
) -> None:
    """Write the weights in one file or in shards with an index, as transformers names them."""
    items = [(name, Stored.of(values, dtype)) for name, values in tensors.items()]
    if shards == 1:
        write_safetensors(folder / WEIGHTS, items)
        return
    names = [f"model-{i + 1:05d}-of-{shards:05d}.safetensors" for i in range(shards)]
    weight_map: dict[str, str] = {}
    for place, file in enumerate(names):
        part = items[place::shards]
        write_safetensors(folder / file, part)
        weight_map |= {name: file for name, _ in part}
    total = sum(len(stored.data) for _, stored in items)
    write_json(
        folder / INDEX, {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    )


def as_precision(source: Path, out: Path, dtype: str) -> None:
    """The checkpoint in `dtype`, config included."""
    copy_checkpoint(source, out)
    write_weights(out, read_tensors(source), dtype)
    edit_json(out / "config.json", torch_dtype=dtype)


def as_shards(source: Path, out: Path, shards: int = 2) -> None:
    """The checkpoint in several files with an index."""
    copy_checkpoint(source, out)
    (out / WEIGHTS).unlink()
    write_weights(out, read_tensors(source), shards=shards)


def with_extra_rows(source: Path, out: Path, extra: int = 14) -> None:
    """More embedding rows than the tokenizer has tokens; the new rows are copies of the last spare row."""
    copy_checkpoint(source, out)
    tensors = read_tensors(source)
    shared = tensors[SHARED]
    tensors[SHARED] = np.concatenate([shared, np.repeat(shared[-1:], extra, axis=0)])
    write_weights(out, tensors)
    edit_json(out / "config.json", vocab_size=len(tensors[SHARED]))


def with_new_codes(
    source: Path, out: Path, codes: Languages = NEW_CODES, characters: Sequence[str] = NEW_CHARACTERS
) -> None:
    """Tokens added the way machine.py adds them: characters into the vocabulary, then the codes as special tokens.

    Rows grow to exactly the number of tokens if the spare ones do not do. The new codes get the rows of the old ones,
    so the model translates as before under other names.
    """
    copy_checkpoint(source, out)
    tree = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    old = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))
    vocabulary = tree["model"]["vocab"]
    replaced = [vocabulary[old["src_lang"]], vocabulary[old["tgt_lang"]]]
    tokens = len(vocabulary)
    for character in sorted(characters):
        vocabulary[character] = len(vocabulary)
    first_code = len(vocabulary)
    new = dict.fromkeys((codes.source, codes.target))
    tree["added_tokens"] += [added_token(code, first_code + place) for place, code in enumerate(new)]
    _write_tokenizer_with_codes(
        out, tree, codes, dict(zip(new, range(first_code, first_code + 2), strict=False))
    )

    tensors = read_tensors(source)
    shared = tensors[SHARED]
    rows = np.concatenate([shared[:tokens], shared[[3] * len(characters)], shared[replaced[: len(new)]]])
    tensors[SHARED] = np.concatenate([rows, shared[len(rows) :]])
    write_weights(out, tensors)
    edit_json(out / "config.json", vocab_size=len(tensors[SHARED]))
    edit_json(out / "generation_config.json", forced_bos_token_id=first_code + len(new) - 1)


def _write_tokenizer_with_codes(
    out: Path, tree: dict[str, Any], codes: Languages, ids: Mapping[str, int]
) -> None:
    settings = tokenizer_config(tree, codes, 1024)
    write_json(out / "added_tokens.json", dict(ids))
    write_json(out / "tokenizer_config.json", settings)
    write_json(out / "special_tokens_map.json", special_tokens_map(settings))
    template = {"model": {"vocab": tree["model"]["vocab"] | ids}}
    tree["post_processor"] = with_template(template, codes.target)["post_processor"]
    write_json(out / "tokenizer.json", tree)


def with_pickle_only(source: Path, out: Path) -> None:
    """Weights only as `pytorch_model.bin`, which must be refused unread."""
    copy_checkpoint(source, out)
    (out / WEIGHTS).unlink()
    (out / "pytorch_model.bin").write_bytes(pickle.dumps({"weights": 0}))


def with_other_architecture(source: Path, out: Path) -> None:
    """The config of another model family."""
    copy_checkpoint(source, out)
    edit_json(out / "config.json", model_type="marian", architectures=["MarianMTModel"])


def with_too_few_rows(source: Path, out: Path, missing: int = 10) -> None:
    """Fewer embedding rows than tokens."""
    copy_checkpoint(source, out)
    tensors = read_tensors(source)
    tokens = len(json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"])
    tensors[SHARED] = tensors[SHARED][: tokens - missing]
    write_weights(out, tensors)
    edit_json(out / "config.json", vocab_size=tokens - missing)


def with_missing_shard(source: Path, out: Path) -> None:
    """A sharded checkpoint that lost its second file."""
    as_shards(source, out)
    (out / "model-00002-of-00002.safetensors").unlink()


def with_cut_weights(source: Path, out: Path) -> None:
    """Weights that end in the middle."""
    copy_checkpoint(source, out)
    whole = (source / WEIGHTS).read_bytes()
    (out / WEIGHTS).write_bytes(whole[: len(whole) // 2])


def without(name: str) -> Callable[[Path, Path], None]:
    """The checkpoint without one of its files."""

    def make(source: Path, out: Path) -> None:
        copy_checkpoint(source, out)
        (out / name).unlink()

    return make


def with_legacy_layout(source: Path, out: Path) -> None:
    """`legacy_behaviour`: pieces, `</s>`, then the source code."""
    copy_checkpoint(source, out)
    edit_json(out / "tokenizer_config.json", legacy_behaviour=True)


def with_target_template(source: Path, out: Path) -> None:
    """A tokenizer saved in target mode: its template carries the target code."""
    copy_checkpoint(source, out)
    tree = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))
    target = json.loads((source / "tokenizer_config.json").read_text(encoding="utf-8"))["tgt_lang"]
    write_json(out / "tokenizer.json", with_template(tree, target))


#: Every kind of folder, good ones first.
FOLDERS: dict[str, Callable[[Path, Path], None]] = {
    "trained": copy_checkpoint,
    "sharded": as_shards,
    "fp16": lambda source, out: as_precision(source, out, "float16"),
    "bf16": lambda source, out: as_precision(source, out, "bfloat16"),
    "new-codes": with_new_codes,
    "extra-rows": with_extra_rows,
    "target-template": with_target_template,
    "legacy": with_legacy_layout,
    "pickle-only": with_pickle_only,
    "other-architecture": with_other_architecture,
    "too-few-rows": with_too_few_rows,
    "missing-shard": with_missing_shard,
    "cut-weights": with_cut_weights,
    "no-tokenizer": without("tokenizer.json"),
    "no-config": without("config.json"),
}
#: Kinds that exist only as an archive.
ARCHIVES_ONLY = ("empty", "unsafe-path", "unsafe-link", "cut-archive", "not-gzip")
KINDS = (*FOLDERS, *ARCHIVES_ONLY)


def make_folder(kind: str, source: Path, out: Path) -> None:
    """Write the checkpoint `source` as one of FOLDERS."""
    FOLDERS[kind](source, out)


def make_archive(kind: str, source: Path, out: Path, level: int = 1) -> None:
    """Write the checkpoint `source` as the `.tar.gz` that Serval stores: files at the root, gzip, no folders."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if kind == "not-gzip":
        out.write_bytes(b"this is no archive\n" * 100)
        return
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if kind != "empty":
            make_folder(kind if kind in FOLDERS else "trained", source, folder)
            _add_statistics(folder)
        with (
            gzip.GzipFile(out, "wb", compresslevel=level, mtime=0) as stream,
            tarfile.open(fileobj=stream, mode="w|") as tar,
        ):
            for file in sorted(folder.iterdir()):
                tar.add(file, arcname=file.name, filter=_plain)
            _add_unsafe(tar, kind)
    if kind == "cut-archive":
        out.write_bytes(out.read_bytes()[: out.stat().st_size // 2])


def _add_statistics(folder: Path) -> None:
    (folder / TRAINING_ARGUMENTS).write_bytes(pickle.dumps({"learning_rate": 2e-4}))
    for name in STATISTICS:
        write_json(folder / name, {"epoch": 1.0})


def _add_unsafe(tar: tarfile.TarFile, kind: str) -> None:
    member = tarfile.TarInfo("../outside.txt" if kind == "unsafe-path" else "link.json")
    if kind == "unsafe-path":
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    elif kind == "unsafe-link":
        member.type = tarfile.SYMTYPE
        member.linkname = "/etc/hostname"
        tar.addfile(member)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Nothing of this machine in the archive: no owner, no time."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def edit_json(path: Path, **changes: Any) -> None:
    """Set keys of a JSON object in a file."""
    tree = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, tree | changes)
