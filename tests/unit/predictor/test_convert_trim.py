"""A trimmed vocabulary: what stays, what goes, and that whatever is kept computes as before."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import models, pre_tokenizers

from nllb_predictor.convert import manifest_json
from nllb_predictor.convert.ct2file import ModelFile
from nllb_predictor.convert.manifest import Options, Quantization, artifact_key
from nllb_predictor.convert.rest import Rest, fit_rest
from nllb_predictor.convert.run import Converted, Request, convert
from nllb_predictor.convert.trim import Need, choose, is_character, trimmed_tokenizer, unseen_share, ways_to
from nllb_predictor.convert.trimmed import TrimRequest
from nllb_predictor.convert.vocabulary import read_vocabulary
from nllb_predictor.errors import LanguageNotInModel, SelfTestFailed, UsageError
from nllb_predictor.text.tokenise import Tokenizer
from serval_live_contract import schema
from tests.support.checkpoints import Recipe, make_checkpoint
from tests.support.conversion import convert_to, surroundings

DATA = Path(__file__).parents[2] / "data"


def heldout() -> list[dict[str, Any]]:
    lines = (DATA / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def trimmed(source: Path, target: Path, request: TrimRequest, quantization: str = "float32") -> Converted:
    options = Options(Quantization(quantization), request.digest8())
    return convert(
        Request(str(source), str(target), options, trim=request), surroundings(target.parent / "work")
    )


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Half of the held-out verses, English and Spanish."""
    folder = tmp_path_factory.mktemp("texts")
    half = heldout()[::2]
    for name in ("eng", "spa"):
        (folder / name).write_text("".join(verse[name] + "\n" for verse in half), encoding="utf-8")
    return folder / "eng", folder / "spa"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, texts: tuple[Path, Path]) -> Path:
    folder = tmp_path_factory.mktemp("trimmed") / "model"
    trimmed(DATA / "tiny-nllb", folder, TrimRequest(texts))
    return folder


def names(model: Path) -> list[str]:
    """Tokens by row, without the rows that stand for dropped ones."""
    found: list[str] = json.loads((model / "shared_vocabulary.json").read_bytes())
    return [name for name in found if not name.startswith("madeupword")]


def test_texts_whose_tokens_are_kept_are_translated_as_transformers_does(model: Path) -> None:
    """The references come from transformers on the whole model; the other half of the verses was never counted."""
    kept = set(names(model))
    whole = read_vocabulary(DATA / "tiny-nllb").tokens
    lines = (DATA / "references/greedy.jsonl").read_text(encoding="utf-8").splitlines()
    references = [json.loads(line) for line in lines]
    usable = [
        each
        for each in references
        if kept.issuperset(whole[i] for i in (*each["input_ids"], *each["output_ids"]))
    ]
    assert len(usable) > 50
    assert len(kept) < 0.7 * len(whole)
    tokenizer = Tokenizer.from_folder(model)
    results = ctranslate2.Translator(str(model), compute_type="float32").translate_batch(
        [tokenizer.encode([each["source"]], each["source_language"])[0] for each in usable],
        target_prefix=[[each["target_language"]] for each in usable],
        beam_size=1,
        max_batch_size=32,
    )
    assert [tokenizer.decode(result.hypotheses[0]) for result in results] == [each["text"] for each in usable]


def test_beam_search_is_that_of_the_whole_model_where_only_untrained_tokens_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped tokens had some probability, and near ties in a beam are decided by less: the references come from
    transformers on the whole model."""
    lines = (DATA / "references/beam4-early.jsonl").read_text(encoding="utf-8").splitlines()
    references = [json.loads(line) for line in lines]
    text = "".join(f"{each['source']}\n{each['text']}\n" for each in references)
    (tmp_path / "text").write_text(text, encoding="utf-8")
    # As if the texts had used every piece, as the training text did, which is not in the repository.
    pieces = Counter(token for token in read_vocabulary(DATA / "tiny-nllb").tokens)
    monkeypatch.setattr("nllb_predictor.convert.trimmed._counted", lambda *arguments: (406, pieces))
    done = trimmed(DATA / "tiny-nllb", tmp_path / "model", TrimRequest((tmp_path / "text",)))
    assert done.manifest.vocabulary_trim is not None
    assert done.manifest.vocabulary_trim.dropped == 200
    assert done.manifest.vocabulary_trim.rest_rows == 64
    tokenizer = Tokenizer.from_folder(tmp_path / "model")
    results = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32").translate_batch(
        [tokenizer.encode([each["source"]], each["source_language"])[0] for each in references],
        target_prefix=[[each["target_language"]] for each in references],
        beam_size=4,
        max_batch_size=32,
    )
    texts = [tokenizer.decode(result.hypotheses[0]) for result in results]
    assert texts == [each["text"] for each in references]


def test_the_rest_of_a_vocabulary_keeps_every_log_probability() -> None:
    from nllb_predictor.convert.checkpoint import Checkpoint
    from nllb_predictor.convert.forward import Sentence

    checkpoint = Checkpoint(DATA / "tiny-nllb")
    lines = (DATA / "references/greedy.jsonl").read_text(encoding="utf-8").splitlines()
    sentences = [
        Sentence(tuple(each["input_ids"]), (2, *each["output_ids"][:-1]))
        for each in (json.loads(line) for line in lines[::6])
    ]
    trained = {"eng_Latn", "spa_Latn"}
    tokens = read_vocabulary(DATA / "tiny-nllb").tokens
    codes = np.array(
        [i for i, token in enumerate(tokens) if token.endswith("_Latn") and token not in trained]
    )
    rest = fit_rest(checkpoint, codes, sentences)
    assert 1e-4 < rest.share < 0.1
    assert rest.error < 1e-5
    assert rest.rows == 64
    assert fit_rest(checkpoint, codes[:0], sentences).rows == 0


def test_nothing_stands_for_tokens_that_the_model_would_choose() -> None:
    """A row that can win would be a hole in the output."""
    from nllb_predictor.convert.checkpoint import Checkpoint
    from nllb_predictor.convert.forward import Sentence

    checkpoint = Checkpoint(DATA / "tiny-nllb")
    lines = (DATA / "references/greedy.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines[:12]]
    sentences = [Sentence(tuple(each["input_ids"]), (2, *each["output_ids"][:-1])) for each in records]
    used = np.unique([i for each in records for i in each["output_ids"][1:]])
    assert fit_rest(checkpoint, used, sentences).rows == 0


def test_every_kept_row_is_the_one_of_its_token(model: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    convert_to(DATA / "tiny-nllb", whole)
    rows = {name: row for row, name in enumerate(names(whole))}
    before = ModelFile(whole / "model.bin").stored("decoder/embeddings/weight").data
    after = ModelFile(model / "model.bin").stored("decoder/embeddings/weight").data
    kept = names(model)
    np.testing.assert_array_equal(after[: len(kept)], before[[rows[name] for name in kept]])


def test_only_the_pairs_codes_stay_and_ids_with_a_role_follow_them(model: Path) -> None:
    manifest = manifest_json.parse((model / "manifest.json").read_bytes())
    assert manifest.languages.all == ("eng_Latn", "spa_Latn")
    special = manifest.tokenizer.special
    found = names(model)
    assert [found[i] for i in (special.bos, special.pad, special.eos, special.unk)] == [
        "<s>",
        "<pad>",
        "</s>",
        "<unk>",
    ]
    assert special.forced_bos is not None
    assert found[special.forced_bos] == "spa_Latn"
    generation = json.loads((model / "generation_config.json").read_bytes())
    assert generation["forced_bos_token_id"] == special.forced_bos


def test_the_manifest_lists_what_is_gone_and_keeps_the_schema(model: Path, texts: tuple[Path, Path]) -> None:
    import jsonschema

    document = json.loads((model / "manifest.json").read_bytes())
    jsonschema.Draft202012Validator(schema("manifest")).validate(document)
    record = document["vocabularyTrim"]
    dropped = json.loads((model / "dropped-tokens.json").read_bytes())
    whole = read_vocabulary(DATA / "tiny-nllb").tokens
    assert {*dropped, *names(model)} == set(whole)
    assert (record["kept"], record["dropped"]) == (len(names(model)), len(dropped))
    assert record["segments"] == 2 * len(heldout()[::2])
    assert "dropped-tokens.json" in {file["path"] for file in document["files"]}
    assert "vocabulary-trim" in {check["name"] for check in document["selfTest"]["checks"]}
    parsed = manifest_json.parse((model / "manifest.json").read_bytes())
    assert json.loads(manifest_json.dump(parsed)) == document


def test_other_texts_or_floors_are_another_artifact(texts: tuple[Path, Path]) -> None:
    requests = [TrimRequest(texts), TrimRequest(texts[:1]), TrimRequest(texts, minimum_count=2)]
    keys = {artifact_key("66c4", 3, Options(vocabulary_trim=each.digest8())) for each in requests}
    assert len(keys) == 3
    assert artifact_key("66c4", 3, Options()) not in keys
    assert TrimRequest(texts[::-1]).digest8() == TrimRequest(texts).digest8()


@pytest.mark.parametrize(
    ("token", "codes", "kept"),
    [
        ("é", {"spa_Latn"}, True),
        ("▁é", {"spa_Latn"}, True),
        ("▁", {"spa_Latn"}, True),
        ("7", {"rus_Cyrl"}, True),
        ("¿", {"rus_Cyrl"}, True),
        ("\u0301", {"rus_Cyrl"}, True),
        ("ж", {"rus_Cyrl"}, True),
        ("ж", {"spa_Latn"}, False),
        ("語", {"jpn_Jpan"}, True),
        ("ひ", {"jpn_Jpan"}, True),
        ("語", {"zho_Hans"}, True),
        ("한", {"kor_Hang"}, True),
        ("語", {"eng_Latn", "spa_Latn"}, False),
        ("de", {"spa_Latn"}, False),
        ("x", {"xyz_Zzyz"}, False),
    ],
)
def test_single_characters_of_the_pairs_scripts_are_kept(token: str, codes: set[str], kept: bool) -> None:
    assert is_character(token, codes) is kept


def test_the_pieces_on_the_way_to_a_kept_piece_are_those_that_merging_makes() -> None:
    merges = [("e", "r"), ("t", "h"), ("th", "er"), ("t", "he"), ("h", "e")]
    assert ways_to(["ther"], merges) == {"t", "h", "e", "r", "er", "th", "ther"}
    assert ways_to(["no"], merges) == {"n", "o"}


def test_a_tokenizer_that_lost_the_ways_is_refused(
    texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nllb_predictor.convert.trim.ways_to", lambda tokens, merges: set())
    with pytest.raises(SelfTestFailed, match="cuts a text otherwise"):
        trimmed(DATA / "tiny-nllb", tmp_path / "model", TrimRequest(texts))
    assert not (tmp_path / "model").exists()


def test_rows_in_a_wrong_place_are_refused(
    texts: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nllb_predictor.convert.trimmed import TrimmedCheckpoint

    honest = TrimmedCheckpoint.__init__

    def shifted(self: TrimmedCheckpoint, folder: Path, ids: tuple[int, ...], rest: Rest) -> None:
        honest(self, folder, (*ids[:200], *ids[201:], ids[200]), rest)

    monkeypatch.setattr(TrimmedCheckpoint, "__init__", shifted)
    with pytest.raises(SelfTestFailed, match="is not the checkpoint's"):
        trimmed(DATA / "tiny-nllb", tmp_path / "model", TrimRequest(texts))


@pytest.mark.parametrize("quantization", ["int8", "int16", "float16", "bfloat16"])
def test_every_quantization_passes_its_checks_and_a_logit_bias_follows_its_rows(
    tmp_path: Path, quantization: str
) -> None:
    source = make_checkpoint(tmp_path / "source", Recipe(logit_bias=True, tied=False))
    (tmp_path / "text").write_text("the river rose\nla tierra estaba vacía\n", encoding="utf-8")
    done = trimmed(source, tmp_path / "model", TrimRequest((tmp_path / "text",)), quantization)
    assert done.manifest.vocabulary_trim is not None
    assert done.manifest.vocabulary_trim.dropped > 20


def test_a_language_that_is_asked_for_stays_and_an_unknown_one_is_refused(tmp_path: Path) -> None:
    source = make_checkpoint(tmp_path / "source")
    (tmp_path / "text").write_text("the river rose\n", encoding="utf-8")
    texts = (tmp_path / "text",)
    done = trimmed(source, tmp_path / "model", TrimRequest(texts, languages=("fra_Latn",)))
    assert done.manifest.languages.all == ("eng_Latn", "spa_Latn", "fra_Latn")
    with pytest.raises(LanguageNotInModel, match="kat_Geor"):
        trimmed(source, tmp_path / "other", TrimRequest(texts, languages=("kat_Geor",)))


def test_a_model_without_a_pair_and_a_text_without_lines_are_refused(tmp_path: Path) -> None:
    base = make_checkpoint(tmp_path / "base", Recipe(pair=("eng_Latn", None), forced=False))
    (tmp_path / "text").write_text("the river rose\n", encoding="utf-8")
    (tmp_path / "empty").write_text("\n \n", encoding="utf-8")
    with pytest.raises(UsageError, match="for one pair"):
        trimmed(base, tmp_path / "model", TrimRequest((tmp_path / "text",)))
    with pytest.raises(UsageError, match="there is no text"):
        trimmed(make_checkpoint(tmp_path / "tuned"), tmp_path / "model", TrimRequest((tmp_path / "empty",)))


def test_rare_tokens_go_under_a_floor() -> None:
    document = json.loads((DATA / "tiny-nllb" / "tokenizer.json").read_bytes())
    vocabulary = read_vocabulary(DATA / "tiny-nllb")
    counts = {"▁the": 5, "▁and": 1}
    need = Need(frozenset({"</s>", "<unk>"}), frozenset({"eng_Latn"}), counts, minimum_count=2)
    choice = choose(document, vocabulary, need)
    assert "▁the" in choice.tokens
    assert "▁and" in choice.dropped
    assert set(choice.tokens).isdisjoint(choice.dropped)


def test_a_unigram_tokenizer_cuts_as_before_with_fewer_pieces() -> None:
    pieces = [("<unk>", 0.0), ("▁", -4.0), *((c, -5.0) for c in "abcdefgh"), ("▁ab", -3.0), ("cde", -3.5)]
    backend = Backend(models.Unigram([*pieces, ("fgh", -3.2), ("▁abc", -9.0)], unk_id=0, byte_fallback=False))
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.add_special_tokens(["</s>", "eng_Latn", "spa_Latn"])
    document = json.loads(backend.to_str())
    before = [(token, i) for token, i in sorted(backend.get_vocab().items(), key=lambda pair: pair[1])]
    from nllb_predictor.convert.vocabulary import Vocabulary

    vocabulary = Vocabulary(tuple(token for token, _ in before), {})
    counts = Counter(backend.encode("abcde ab").tokens)
    choice = choose(document, vocabulary, Need(frozenset({"</s>", "<unk>"}), frozenset({"eng_Latn"}), counts))
    assert {"fgh", "▁abc", "spa_Latn"} <= set(choice.dropped)
    after = Backend.from_str(json.dumps(trimmed_tokenizer(document, choice)))
    for text in ("abcde ab", "ab", "hgab", "cdex"):
        old = backend.encode(text, add_special_tokens=False).tokens
        assert after.encode(text, add_special_tokens=False).tokens == old
    assert [after.token_to_id(token) for token in choice.tokens] == list(range(len(choice.tokens)))


def test_the_expected_share_of_unseen_pieces_is_that_of_pieces_seen_once() -> None:
    assert unseen_share(Counter({"a": 8, "b": 1, "c": 1})) == pytest.approx(0.2)
    assert unseen_share(Counter()) == 1.0
