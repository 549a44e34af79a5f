"""Text to tokens and back, in the order of the folder, whatever the stored post-processor says."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from nllb_predictor import errors
from nllb_predictor.convert.manifest import TokenOrder
from nllb_predictor.text.normalise import normalise_punctuation
from nllb_predictor.text.tokenise import FEW, Tokenizer
from tests.support.cases import case
from tests.support.checkpoints import CODES, Recipe, make_checkpoint
from tests.support.predictor import ROOT

TINY = ROOT / "tests" / "data" / "tiny-nllb"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "checkpoint")


def test_the_source_code_comes_first_and_the_end_last(folder: Path) -> None:
    tokens = Tokenizer.from_folder(folder).encode(["the earth", ""], "fra_Latn")
    assert [each[0] for each in tokens] == ["fra_Latn", "fra_Latn"]
    assert [each[-1] for each in tokens] == ["</s>", "</s>"]
    assert tokens[1] == ["fra_Latn", "</s>"]


@case(
    "p26",
    breaks="nllb_predictor.text.tokenise:Tokenizer._placed",
    naive=lambda self, pieces, source: [source, *pieces, "</s>"],
)
def test_p26_the_old_order_is_honoured_where_the_folder_says_so(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(make_checkpoint(tmp_path / "old", replace(Recipe(), legacy=True)))
    new = Tokenizer.from_folder(make_checkpoint(tmp_path / "new"))
    assert tokenizer.order is TokenOrder.CODE_LAST
    pieces = new.encode(["the earth"], "eng_Latn")[0][1:-1]
    assert tokenizer.encode(["the earth"], "eng_Latn") == [[*pieces, "</s>", "eng_Latn"]]


def test_a_post_processor_in_target_mode_changes_nothing(folder: Path) -> None:
    """Training leaves the target's code in the template; a call that used it would translate from the target."""
    plain = Tokenizer.from_folder(folder).encode(["the earth"], "eng_Latn")
    path = folder / "tokenizer.json"
    backend = tokenizers.Tokenizer.from_file(str(path))
    ids = {token: backend.token_to_id(token) for token in ("spa_Latn", "</s>")}
    backend.post_processor = tokenizers.processors.TemplateProcessing(
        single="spa_Latn $A </s>", special_tokens=list(ids.items())
    )
    backend.enable_truncation(4)
    backend.enable_padding()
    backend.save(str(path))
    long = "the earth " * 50
    assert Tokenizer.from_folder(folder).encode(["the earth"], "eng_Latn") == plain
    encoded = Tokenizer.from_folder(folder).encode([long, "a"], "eng_Latn")
    assert len(encoded[0]) > 100
    assert len(encoded[1]) < 10


def test_an_unknown_code_is_refused_and_not_made_unknown(folder: Path) -> None:
    with pytest.raises(errors.LanguageNotInModel, match="fra_Latin"):
        Tokenizer.from_folder(folder).encode(["the"], "fra_Latin")


def test_codes_are_the_special_tokens_without_a_role(folder: Path) -> None:
    assert Tokenizer.from_folder(folder).language_codes == CODES


def test_the_pair_comes_from_the_configuration(folder: Path, tmp_path: Path) -> None:
    assert Tokenizer.from_folder(folder).default_pair == ("eng_Latn", "spa_Latn")
    (folder / "tokenizer_config.json").unlink()
    assert Tokenizer.from_folder(folder).default_pair == (None, None)


def test_text_survives_the_round_trip_without_special_tokens(folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(folder)
    text = "the river rose and the bridge held"
    tokens = tokenizer.encode([text], "eng_Latn")[0]
    assert tokenizer.decode([*tokens, "<pad>", "<unk>", "madeupword0"]) == text
    assert tokenizer.decode_batch([tokens, ["spa_Latn", "</s>"], []]) == [text, "", ""]


def test_ids_and_tokens_answer_none_for_what_is_not_there(folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(folder)
    assert tokenizer.ids(["</s>", "madeupword0"]) == [2, None]
    assert tokenizer.tokens([2, tokenizer.size]) == ["</s>", None]


def test_a_role_may_be_an_object_as_older_files_write_it(folder: Path) -> None:
    path = folder / "tokenizer_config.json"
    document = json.loads(path.read_bytes())
    document["eos_token"] = {"content": "</s>", "lstrip": False, "__type": "AddedToken"}
    path.write_text(json.dumps(document))
    assert Tokenizer.from_folder(folder).role("eos_token") == "</s>"


@pytest.mark.parametrize("content", ["", "{}", "<html>", '{"model": {"type": "BPE"}}'])
def test_what_is_no_tokenizer_is_named(folder: Path, content: str) -> None:
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(errors.BrokenConfig, match=r"tokenizer\.json"):
        Tokenizer.from_folder(folder)


def test_a_folder_without_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.MissingFile, match=r"tokenizer\.json"):
        Tokenizer.from_folder(tmp_path)


@case("p13", breaks="nllb_predictor.text.normalise:normalise_punctuation", naive=lambda text: text)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("“Come,” he said, ‘now.’", "\"Come,\" he said, 'now.'"),
        ("«Venid» — dijo…", '"Venid" - dijo...'),
        ("a  ( b )  c", "a (b) c"),
        (" l’eau ", "l'eau"),
        ("", ""),
    ],
)
def test_p13_punctuation_is_normalised_as_in_training(text: str, expected: str) -> None:
    """Expected by the Moses rules that machine.py's sacremoses applies; the package itself says the same."""
    from sacremoses import MosesPunctNormalizer

    assert normalise_punctuation(text) == expected
    assert MosesPunctNormalizer().normalize(text) == expected


def test_p13_every_text_is_normalised_unless_the_caller_did_it(folder: Path) -> None:
    tokenizer = Tokenizer.from_folder(folder)
    curly, straight = "the earth : void", "the earth: void"
    assert tokenizer.encode([curly], "eng_Latn") == tokenizer.encode([straight], "eng_Latn")
    assert tokenizer.encode([curly], "eng_Latn", normalised=True) != tokenizer.encode([straight], "eng_Latn")


PROSE = st.text(
    st.one_of(st.sampled_from("the ear.,'’“…½ﬁ\u0301中👩\u200d\u00a0\t"), st.characters(codec="utf-8")),
    max_size=30,
)
"""Without surrogates: no call can hold one (`SegmentInvalid`), and the library takes none."""


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    """The tiny model's, which normalises by NFKC as NLLB's does."""
    return Tokenizer.from_folder(TINY)


@given(PROSE)
def test_tokens_stand_in_order_and_over_every_visible_character(trained: Tokenizer, text: str) -> None:
    found = trained.encode_with_spans([text], "eng_Latn")[0]
    assert list(found.tokens) == trained.encode([text], "eng_Latn", normalised=True)[0]
    assert (found.spans[0], found.spans[-1]) == (None, None)
    spans = [span for span in found.spans if span is not None]
    assert len(spans) == len(found.tokens) - 2
    assert all(0 <= span.start <= span.end <= len(text) for span in spans)
    assert all(one.start <= other.start for one, other in itertools.pairwise(spans))
    covered = {place for span in spans for place in range(span.start, span.end)}
    missing = {each for place, each in enumerate(text) if place not in covered and not each.isspace()}
    # NFKC makes nothing, or white space, of some marks; a letter or digit always stays.
    assert not any(each.isalnum() for each in missing)


def test_each_token_stands_where_its_characters_are(trained: Tokenizer) -> None:
    text = "the ﬁne earth…"
    found = trained.encode_with_spans([text], "eng_Latn")[0]
    shown = [span.of(text) for span in found.spans if span is not None]
    assert "".join(dict.fromkeys(shown)).replace("…", "") == "theﬁneearth"
    assert shown[-1] == "…"


def test_a_text_that_spells_a_special_token_is_text(trained: Tokenizer) -> None:
    found = trained.encode(["the </s> spa_Latn <unk> earth"], "eng_Latn")[0]
    assert found.count("</s>") == 1
    assert "spa_Latn" not in found
    assert trained.pieces(["</s>"])[0] != ["</s>"]


def test_places_follow_the_order_of_the_folder(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_folder(make_checkpoint(tmp_path / "old", replace(Recipe(), legacy=True)))
    found = tokenizer.encode_with_spans(["the earth"], "eng_Latn")[0]
    assert found.tokens[-2:] == ("</s>", "eng_Latn")
    assert found.spans[-2:] == (None, None)
    assert found.spans[0] is not None


@given(st.lists(st.integers(0, 4500), max_size=20))
def test_written_tokens_make_up_the_text_that_the_library_decodes(trained: Tokenizer, ids: list[int]) -> None:
    tokens = [token for token in trained.tokens(ids) if token is not None]
    found = trained.decode_with_spans([tokens])[0]
    assert found.text == trained.decode(tokens)
    assert len(found.spans) == len(tokens)
    assert "".join(span.of(found.text) for span in found.spans) == "".join(found.text.split())


def test_a_decoder_that_joins_in_its_own_way_is_followed(folder: Path, tmp_path: Path) -> None:
    """One that strips what begins a text and glues a hyphen: what a token adds is its place."""
    backend = tokenizers.Tokenizer.from_file(str(TINY / "tokenizer.json"))
    backend.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer = Tokenizer(backend, Tokenizer.from_folder(TINY)._config)
    tokens = ["spa_Latn", "▁En", "▁el", "▁princip", "io"]
    found = tokenizer.decode_with_spans([tokens])[0]
    assert [span.of(found.text) for span in found.spans] == ["", "En", "el", "princip", "io"]


@given(PROSE)
def test_pieces_with_the_same_beginning_are_found(trained: Tokenizer, text: str) -> None:
    found = trained.lexicon.beginning_with(text[:2])
    assert all(piece.startswith(text[:2]) for piece in found)
    everything = trained.lexicon.beginning_with("")
    assert len(found) == sum(piece.startswith(text[:2]) for piece in everything)
    assert "spa_Latn" not in trained.lexicon
    assert "▁En" in trained.lexicon


@pytest.mark.parametrize("count", [1, FEW, FEW + 1])
def test_few_texts_do_not_queue_behind_the_batches_of_others(
    trained: Tokenizer, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    real, sizes = trained._backend, []

    class Recorded:
        def encode_batch(self, texts: list[str], add_special_tokens: bool) -> list[tokenizers.Encoding]:
            sizes.append(len(texts))
            return list(real.encode_batch(texts, add_special_tokens=add_special_tokens))

    monkeypatch.setattr(trained, "_backend", Recorded())
    texts = [f"Light {number}." for number in range(count)]
    assert trained.pieces(texts) == [
        each.tokens for each in real.encode_batch(texts, add_special_tokens=False)
    ]
    assert sizes == ([count] if count > FEW else [1] * count)
