"""What `transformers` says: the outputs that every other implementation is measured against.

Why it exists: ids, texts and scores of held-out verses by the library that trained and wrote the model, in float32,
kept as test data. Needs torch and transformers, so it runs in the training environment only.

What it refuses to do: use our own code for anything that is a reference. Texts are normalised by sacremoses, encoded
and decoded by the model's own tokenizer class, searched by `generate`; scores are recomputed by one forward pass over
the chosen ids, whatever the search says, and both must agree.

One file a search setting, one JSON object a line:
{"id", "source_language", "target_language", "source", "normalised", "input_ids", "output_ids", "text", "score"}
`output_ids` start with the target language and end with `</s>`; `score` is the mean natural-log probability over
exactly these ids.
"""

import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from tinymodel.corpus import Pair, read_pairs
from tinymodel.errors import BadCheckpoint
from tinymodel.normalise import punctuation_normaliser
from tinymodel.quality import chrf
from tinymodel.settings import Languages, Places
from tinymodel.vocabulary import write_json

BATCH = 25
PAD, EOS = 1, 2
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Search:
    """One setting of `generate`."""

    name: str
    beams: int
    early_stopping: bool
    why: str


SEARCHES = (
    Search("greedy", 1, False, "the plain reference"),
    Search("beam4-early", 4, True, "the same search as CTranslate2's beam 4"),
    Search("beam4-machine", 4, False, "beam 4 with machine.py's early stopping"),
    Search("beam2-machine", 2, False, "machine.py in production: beam 2, early stopping off"),
    Search("beam2-early", 2, True, "the same search as CTranslate2's beam 2"),
)


@dataclass(frozen=True, slots=True)
class Segment:
    """One held-out verse in one direction."""

    id: str
    source_language: str
    target_language: str
    source: str
    wanted: str


def segments(pairs: Sequence[Pair], languages: Languages) -> list[Segment]:
    """Every verse in both directions, English to Spanish first."""
    there = [
        Segment(f"{p.book} {p.chapter}:{p.verse}", languages.source, languages.target, p.eng, p.spa)
        for p in pairs
    ]
    back = [Segment(s.id, s.target_language, s.source_language, s.wanted, s.source) for s in there]
    return there + back


class Reference:
    """A checkpoint opened with transformers."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._model: Any = AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._model.config.use_cache = self._model.generation_config.use_cache = True
        if self._model.lm_head.weight.data_ptr() != self._model.model.shared.weight.data_ptr():
            raise BadCheckpoint(f"{folder}: transformers did not tie the output to the embedding")

    def translate(self, batch: Sequence[Segment], search: Search) -> Iterator[dict[str, Any]]:
        """One record a segment; all segments of a batch go in one direction."""
        first = batch[0]
        tokenizer: Any = AutoTokenizer.from_pretrained(
            self._folder, src_lang=first.source_language, tgt_lang=first.target_language
        )
        normalised = [punctuation_normaliser()(s.source) for s in batch]
        inputs = tokenizer(normalised, return_tensors="pt", padding=True)
        with torch.inference_mode():
            out = self._model.generate(
                **inputs,
                num_beams=search.beams,
                early_stopping=search.early_stopping,
                do_sample=False,
                forced_bos_token_id=tokenizer.convert_tokens_to_ids(first.target_language),
                return_dict_in_generate=True,
                output_scores=True,
            )
        for place, (segment, text) in enumerate(zip(batch, normalised, strict=True)):
            ids = _without_padding(out.sequences[place].tolist())
            given = inputs["input_ids"][place][inputs["attention_mask"][place].bool()].tolist()
            score = self._score(given, ids)
            if search.beams > 1 and abs(score - float(out.sequences_scores[place])) > TOLERANCE:
                raise BadCheckpoint(
                    f"{segment.id}: {score} by forward pass, {out.sequences_scores[place]} by search"
                )
            yield {
                "id": segment.id,
                "source_language": segment.source_language,
                "target_language": segment.target_language,
                "source": segment.source,
                "normalised": text,
                "input_ids": given,
                "output_ids": ids,
                "text": tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False),
                "score": round(score, 6),
            }

    def _score(self, source: Sequence[int], output: Sequence[int]) -> float:
        """Mean log probability of `output`, the forced language token counted with probability one."""
        decoder = torch.tensor([[EOS, *output[:-1]]])
        with torch.inference_mode():
            logits = self._model(input_ids=torch.tensor([list(source)]), decoder_input_ids=decoder).logits[0]
        log_probabilities = torch.log_softmax(logits, dim=-1)[range(len(output)), list(output)]
        return float(log_probabilities[1:].sum() / len(output))


def _without_padding(sequence: list[int]) -> list[int]:
    """What was generated: without the start token, up to and with `</s>`."""
    generated = sequence[1:]
    return generated[: generated.index(EOS) + 1] if EOS in generated else [i for i in generated if i != PAD]


def record(places: Places, languages: Languages) -> dict[str, Any]:
    """Write all reference files and their meta file; returns the meta data."""
    reference = Reference(places.checkpoint)
    work = segments(read_pairs(places.held_out), languages)
    places.references.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[dict[str, Any]]] = {}
    for search in SEARCHES:
        records: list[dict[str, Any]] = []
        for direction in dict.fromkeys(s.source_language for s in work):
            some = [s for s in work if s.source_language == direction]
            for start in range(0, len(some), BATCH):
                records += reference.translate(some[start : start + BATCH], search)
                print(f"{search.name}: {len(records)}/{len(work)}", flush=True)
        found[search.name] = records
        lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        (places.references / f"{search.name}.jsonl").write_text(lines, encoding="utf-8")
    meta = _meta(found, work)
    write_json(places.references / "meta.json", meta)
    return meta


def _meta(found: dict[str, list[dict[str, Any]]], work: Sequence[Segment]) -> dict[str, Any]:
    quality = {}
    for name, records in found.items():
        quality[name] = {
            f"{source}-{target}": round(chrf(*_sides(records, work, source)), 2)
            for source, target in dict.fromkeys((s.source_language, s.target_language) for s in work)
        }
    packages = ("transformers", "torch", "tokenizers", "sacremoses", "sacrebleu")
    return {
        "made_by": {name: version(name) for name in packages} | {"python": platform.python_version()},
        "precision": "float32",
        "segments": len(work),
        "searches": {
            s.name: {"beams": s.beams, "early_stopping": s.early_stopping, "why": s.why} for s in SEARCHES
        },
        "chrf": quality,
        "texts_that_differ": {
            f"beam{beams}": _differing(found[f"beam{beams}-early"], found[f"beam{beams}-machine"])
            for beams in (4, 2)
        },
    }


def _sides(
    records: Sequence[dict[str, Any]], work: Sequence[Segment], source: str
) -> tuple[list[str], list[str]]:
    both = [(r["text"], s.wanted) for r, s in zip(records, work, strict=True) if s.source_language == source]
    return [text for text, _ in both], [wanted for _, wanted in both]


def _differing(left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]) -> dict[str, Any]:
    count = sum(a["text"] != b["text"] for a, b in zip(left, right, strict=True))
    return {"count": count, "of": len(left), "share": round(count / len(left), 4)}
