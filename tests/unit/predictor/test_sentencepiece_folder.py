"""Folders that have only the SentencePiece model, and tokenizer files as versions of transformers write them.

The second source is SentencePiece itself: NLLB's documented ids are its own, moved by one, behind `<s>`, `<pad>`,
`</s>`.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sentencepiece

from nllb_predictor.convert.names import SENTENCEPIECE_FILE
from nllb_predictor.convert.run import Request, convert
from nllb_predictor.errors import BrokenConfig, MissingFile, PredictorError, VocabularyMismatch
from nllb_predictor.text.languages import nllb_codes
from nllb_predictor.text.sentencepiece_folder import added_tokens, sentencepiece_tokenizer
from nllb_predictor.text.tokenise import Tokenizer, TokenizerConfig
from tests.support.cases import case
from tests.support.checkpoints import Recipe, make_checkpoint, weights, write_weights
from tests.support.conversion import surroundings

DATA = Path(__file__).parents[2] / "data"
OFFSET = 1


def sentences() -> list[str]:
    lines = (DATA / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)[name] for line in lines for name in ("eng", "spa")]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def model_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sentencepiece")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()),
        model_prefix=str(folder / "model"),
        model_type=request.param,
        vocab_size=400,
        character_coverage=1.0,
        minloglevel=2,
    )
    return folder / "model.model"


def folder_of(model_file: Path, target: Path, config: dict[str, Any] | None = None) -> Path:
    target.mkdir()
    shutil.copyfile(model_file, target / SENTENCEPIECE_FILE)
    (target / "tokenizer_config.json").write_text(json.dumps(config or {}))
    return target


def expected_ids(model_file: Path, text: str) -> list[int]:
    own = sentencepiece.SentencePieceProcessor(model_file=str(model_file))
    return [number + OFFSET if number else 3 for number in own.encode(text)]


@case(
    "p28", breaks="nllb_predictor.text.tokenise:Tokenizer._placed", naive=lambda self, pieces, source: pieces
)
def test_p28_a_folder_with_only_the_sentencepiece_model_has_full_sequences_with_nllbs_ids(
    model_file: Path, tmp_path: Path
) -> None:
    tokenizer = Tokenizer.from_folder(folder_of(model_file, tmp_path / "folder"))
    count = sentencepiece.SentencePieceProcessor(model_file=str(model_file)).get_piece_size()
    assert tokenizer.language_codes == nllb_codes()
    code = count + OFFSET + nllb_codes().index("eng_Latn")
    texts = sentences()[:200]
    # Punctuation is normalised before SentencePiece sees it, here as in the expectation.
    encoded = tokenizer.encode(texts, "eng_Latn", normalised=True)
    for text, tokens in zip(texts, encoded, strict=True):
        assert tokenizer.ids(tokens) == [code, *expected_ids(model_file, text), 2]
    assert tokenizer.ids(["<mask>"]) == [count + OFFSET + len(nllb_codes())]
    assert tokenizer.decode(encoded[0][1:-1]) == texts[0]


@case("p28", breaks="nllb_predictor.text.sentencepiece_folder:_prove", naive=lambda backend, path: None)
def test_p28_a_tokenizer_that_does_not_cut_as_sentencepiece_does_is_refused_at_load(
    tmp_path: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids that are shifted by one are the classic mistake; here the first piece is lost."""
    from nllb_predictor.text import sentencepiece_folder

    honest = sentencepiece_folder.read_pieces

    def shifted(path: Path) -> sentencepiece_folder.Pieces:
        read = honest(path)
        pieces = (*read.pieces[:3], *read.pieces[4:], read.pieces[3])
        return sentencepiece_folder.Pieces(pieces, read.kind, read.charsmap)

    monkeypatch.setattr(sentencepiece_folder, "read_pieces", shifted)
    with pytest.raises(VocabularyMismatch, match="otherwise than"):
        sentencepiece_tokenizer(folder_of(model_file, tmp_path / "folder"))


def test_ids_that_the_files_give_are_kept(model_file: Path, tmp_path: Path) -> None:
    count = sentencepiece.SentencePieceProcessor(model_file=str(model_file)).get_piece_size() + OFFSET
    decoder = {
        str(count): {"content": "eng_Latn", "special": True},
        str(count + 1): {"content": "xyz_Latn", "special": True},
        str(count + 2): {"content": "<mask>", "special": True},
        str(count + 3): {"content": "ŋ", "special": False},
    }
    folder = folder_of(model_file, tmp_path / "one", {"added_tokens_decoder": decoder})
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.language_codes == ("eng_Latn", "xyz_Latn")
    assert tokenizer.ids(["xyz_Latn", "ŋ"]) == [count + 1, count + 3]
    named = folder_of(model_file, tmp_path / "two")
    (named / "added_tokens.json").write_text(json.dumps({"xyz_Latn": count, "<mask>": count + 1}))
    assert Tokenizer.from_folder(named).language_codes == ("xyz_Latn",)


def test_tokens_without_ids_are_refused_and_never_guessed(model_file: Path, tmp_path: Path) -> None:
    listed = folder_of(model_file, tmp_path / "one", {"additional_special_tokens": ["eng_Latn", "xyz_Latn"]})
    with pytest.raises(VocabularyMismatch, match="without their ids"):
        sentencepiece_tokenizer(listed)
    gaps = folder_of(model_file, tmp_path / "two", {"added_tokens_decoder": {"900": {"content": "eng_Latn"}}})
    with pytest.raises(VocabularyMismatch, match="gaps"):
        sentencepiece_tokenizer(gaps)
    assert added_tokens(folder_of(model_file, tmp_path / "three"), 401)[0].id == 401


def test_a_file_that_is_no_model_and_a_missing_one_are_told(tmp_path: Path, model_file: Path) -> None:
    folder = folder_of(model_file, tmp_path / "folder")
    (folder / SENTENCEPIECE_FILE).write_bytes(b"\x0a\xff\xff")
    with pytest.raises(BrokenConfig, match="no SentencePiece model"):
        sentencepiece_tokenizer(folder)
    (folder / SENTENCEPIECE_FILE).unlink()
    with pytest.raises(MissingFile, match=r"neither tokenizer\.json nor"):
        Tokenizer.from_folder(folder)


def test_such_a_checkpoint_converts_and_its_model_has_a_tokenizer_json(
    model_file: Path, tmp_path: Path
) -> None:
    recipe = Recipe()
    source = make_checkpoint(tmp_path / "source", recipe)
    (source / "tokenizer.json").unlink()
    config = {"src_lang": "eng_Latn", "tgt_lang": "spa_Latn"}
    folder_of(model_file, tmp_path / "only", config)
    for path in (tmp_path / "only").iterdir():
        shutil.copyfile(path, source / path.name)
    (source / "special_tokens_map.json").unlink()
    (source / "generation_config.json").write_text('{"decoder_start_token_id": 2}')
    size = Tokenizer.from_folder(source).size
    write_weights(source, weights(recipe, size + recipe.extra_rows))
    before = sorted(path.name for path in source.iterdir())
    convert(Request(str(source), str(tmp_path / "model")), surroundings(tmp_path / "work"))
    assert sorted(path.name for path in source.iterdir()) == before
    served = Tokenizer.from_folder(tmp_path / "model")
    assert (tmp_path / "model" / "tokenizer.json").is_file()
    text = sentences()[0]
    assert served.ids(served.encode([text], "spa_Latn", normalised=True)[0])[1:-1] == expected_ids(
        model_file, text
    )


VARIANTS: dict[str, Any] = {
    "4.x": lambda config, codes: (
        config | {"additional_special_tokens": codes, "tokenizer_class": "NllbTokenizer"}
    ),
    "4.x, roles as objects": lambda config, codes: (
        config
        | {"eos_token": {"__type": "AddedToken", "content": "</s>"}, "additional_special_tokens": codes}
    ),
    "5.x": lambda config, codes: (
        config
        | {
            "extra_special_tokens": codes,
            "backend": "tokenizers",
            "is_local": True,
            "tokenizer_class": "NllbTokenizer",
        }
    ),
    "5.x, without the list": lambda config, codes: config | {"tokenizer_class": "TokenizersBackend"},
}
"""The differences between what transformers 4 and 5 write into `tokenizer_config.json`."""


@pytest.mark.parametrize("variant", VARIANTS)
@case(
    "p32",
    breaks="nllb_predictor.text.tokenise:_token_text",
    naive=lambda value: value["content"] if value else None,
)
def test_p32_files_of_both_versions_of_transformers_give_the_same_ids(variant: str, tmp_path: Path) -> None:
    """The committed files were written by 5.x; the references hold the ids that transformers itself gave."""
    same_ids(VARIANTS[variant], tmp_path)


def test_files_without_any_roles_give_the_same_ids_too(tmp_path: Path) -> None:
    kept = ("src_lang", "tgt_lang", "legacy_behaviour")
    same_ids(lambda config, codes: {key: config[key] for key in kept if key in config}, tmp_path)


def same_ids(change: Any, tmp_path: Path) -> None:
    """The tiny model's tokenizer with a changed configuration gives the ids of the references."""
    stored = json.loads((DATA / "tiny-nllb" / "tokenizer_config.json").read_bytes())
    stored.pop("extra_special_tokens", None)
    stored.pop("additional_special_tokens", None)
    codes = list(Tokenizer.from_folder(DATA / "tiny-nllb").language_codes)
    shutil.copyfile(DATA / "tiny-nllb" / "tokenizer.json", tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(change(stored, codes)))
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert tokenizer.language_codes == tuple(codes)
    lines = (DATA / "references/greedy.jsonl").read_text(encoding="utf-8").splitlines()[:40]
    for reference in (json.loads(line) for line in lines):
        (tokens,) = tokenizer.encode([reference["source"]], reference["source_language"])
        assert tokenizer.ids(tokens) == reference["input_ids"]


@pytest.mark.parametrize("value", [True, False])
def test_p32_the_order_of_the_code_comes_from_legacy_behaviour_in_both(value: bool, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"legacy_behaviour": value}))
    assert (TokenizerConfig.from_folder(tmp_path).order.value == "code-last") is value


def test_a_tokenizer_of_a_kind_that_the_library_does_not_know_is_refused_at_start(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"version": "9.0", "model": {"type": "Future"}}')
    with pytest.raises(PredictorError, match="is not a tokenizer"):
        Tokenizer.from_folder(tmp_path)
