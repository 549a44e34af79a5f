"""The same network stored in different ways is the same model; what differs in a checkpoint shows in the model."""

import json
from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np
import pytest

from nllb_predictor.convert.checkpoint import sinusoids
from nllb_predictor.convert.manifest import LanguageOrigin, Quantization, TokenOrder
from nllb_predictor.text.tokenise import Tokenizer
from tests.support.cases import case
from tests.support.checkpoints import (
    CODES,
    Recipe,
    make_checkpoint,
    make_tokenizer,
    pack_archive,
    weights,
    write_safetensors,
    write_weights,
)
from tests.support.conversion import Variables, convert_to

BASE = Recipe()


def model_bytes(tmp_path: Path, name: str, recipe: Recipe) -> bytes:
    """model.bin of a checkpoint made by this recipe, in float32."""
    checkpoint = make_checkpoint(tmp_path / f"{name}-checkpoint", recipe)
    convert_to(checkpoint, tmp_path / name)
    return (tmp_path / name / "model.bin").read_bytes()


@pytest.mark.parametrize(
    "recipe",
    [
        replace(BASE, shards=3),
        replace(BASE, copies=("model.shared.weight", "model.encoder.embed_tokens.weight", "lm_head.weight")),
        replace(BASE, copies=("lm_head.weight",)),
        replace(BASE, copies=("model.decoder.embed_tokens.weight",)),
    ],
    ids=["three shards", "three tied copies", "only the output copy", "only the decoder's copy"],
)
def test_how_weights_are_stored_makes_no_difference(tmp_path: Path, recipe: Recipe) -> None:
    assert model_bytes(tmp_path, "one", BASE) == model_bytes(tmp_path, "other", recipe)


def test_an_archive_gives_the_model_of_its_folder(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    (checkpoint / "training_args.bin").write_bytes(b"\x80\x02cos\nsystem\n.")
    convert_to(checkpoint, tmp_path / "from-folder")
    convert_to(pack_archive(tmp_path / "e1_3.tar.gz", checkpoint), tmp_path / "from-archive")
    folder, archive = tmp_path / "from-folder", tmp_path / "from-archive"
    assert (folder / "model.bin").read_bytes() == (archive / "model.bin").read_bytes()
    assert not (archive / "training_args.bin").exists()


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_weights_are_read_without_torch(tmp_path: Path, dtype: str) -> None:
    """The model equals that of a float32 checkpoint which holds the same rounded numbers."""
    checkpoint = make_checkpoint(tmp_path / "half", replace(BASE, dtype=dtype))
    rows = make_tokenizer(CODES).get_vocab_size() + BASE.extra_rows
    rounded = {}
    for name, tensor in weights(BASE, rows).items():
        if dtype == "F16":
            rounded[name] = tensor.astype(np.float16).astype(np.float32)
        else:
            bits = np.ascontiguousarray(tensor).view(np.uint32) & np.uint32(0xFFFF0000)
            rounded[name] = bits.view(np.float32)
    whole = make_checkpoint(tmp_path / "whole")
    write_weights(whole, rounded)
    convert_to(checkpoint, tmp_path / "from-half")
    convert_to(whole, tmp_path / "from-whole")
    assert (tmp_path / "from-half/model.bin").read_bytes() == (tmp_path / "from-whole/model.bin").read_bytes()


def test_every_embedding_row_has_a_name_and_the_extra_ones_translate_to_nothing(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", replace(BASE, extra_rows=5))
    done = convert_to(checkpoint, tmp_path / "model")
    names = json.loads((tmp_path / "model/shared_vocabulary.json").read_bytes())
    facts = done.manifest.tokenizer
    assert len(names) == len(set(names)) == facts.rows == facts.tokens + 5
    assert Tokenizer.from_folder(tmp_path / "model").decode([*names[facts.tokens :], "▁the"]) == "the"


@case(
    "p33",
    breaks="nllb_predictor.convert.vocabulary:_without_holes",
    naive=lambda by_id: tuple(sorted(by_id.values())),
)
def test_p33_new_codes_and_letters_keep_the_old_ids_and_translate(tmp_path: Path) -> None:
    old = make_tokenizer(CODES)
    codes = (*CODES, "xyz_Latn", "kmr")
    recipe = replace(BASE, codes=CODES, pair=("eng_Latn", "xyz_Latn"), extra_rows=8)
    checkpoint = make_checkpoint(tmp_path / "checkpoint", replace(recipe, forced=False))
    add_letters_and_codes(checkpoint, ("ŋ", "ɓ", "ʘ"), ("xyz_Latn", "kmr"))
    done = convert_to(checkpoint, tmp_path / "model")
    names = json.loads((tmp_path / "model/shared_vocabulary.json").read_bytes())
    assert [names[i] for i in range(old.get_vocab_size())] == [
        old.id_to_token(i) for i in range(old.get_vocab_size())
    ]
    assert names[old.get_vocab_size() :][:5] == ["ŋ", "ɓ", "ʘ", "xyz_Latn", "kmr"]
    assert set(done.manifest.languages.all) == set(codes)
    translator = ctranslate2.Translator(str(tmp_path / "model"))
    tokens = Tokenizer.from_folder(tmp_path / "model").encode(["the ŋ"], "kmr")
    result = translator.translate_batch(tokens, target_prefix=[["xyz_Latn"]], max_decoding_length=4)[0]
    assert tokens[0][0] == "kmr"
    assert "ŋ" in "".join(tokens[0])
    assert result.hypotheses[0][0] == "xyz_Latn"


def add_letters_and_codes(checkpoint: Path, letters: tuple[str, ...], codes: tuple[str, ...]) -> None:
    """What Serval's training does to a tokenizer: letters into the BPE vocabulary, codes as special tokens."""
    path = checkpoint / "tokenizer.json"
    document = json.loads(path.read_bytes())
    added = document["added_tokens"]
    at = max(token["id"] for token in added) + 1
    vocabulary = document["model"]["vocab"]
    for token in added:
        vocabulary[token["content"]] = token["id"]
    for letter in letters:
        vocabulary[letter] = at
        at += 1
    for code in codes:
        added.append({**added[-1], "id": at, "content": code})
        at += 1
    path.write_text(json.dumps(document, ensure_ascii=False))


def test_the_old_token_order_is_read_from_the_folder(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", replace(BASE, legacy=True))
    done = convert_to(checkpoint, tmp_path / "model")
    assert done.manifest.tokenizer.order is TokenOrder.CODE_LAST
    assert Tokenizer.from_folder(tmp_path / "model").encode(["earth"], "eng_Latn")[0][-2:] == [
        "</s>",
        "eng_Latn",
    ]


def test_a_logit_bias_goes_into_the_projection(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", replace(BASE, logit_bias=True))
    convert_to(checkpoint, tmp_path / "model")
    rows = make_tokenizer(CODES).get_vocab_size() + BASE.extra_rows
    expected = weights(replace(BASE, logit_bias=True), rows)["final_logits_bias"][0]
    np.testing.assert_array_equal(Variables(tmp_path / "model")["decoder/projection/bias"], expected)


def test_an_output_projection_of_its_own_is_kept_apart(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", replace(BASE, tied=False))
    convert_to(checkpoint, tmp_path / "model")
    stored = Variables(tmp_path / "model")
    assert not np.array_equal(stored["decoder/projection/weight"], stored["decoder/embeddings/weight"])
    np.testing.assert_array_equal(stored["encoder/embeddings_0/weight"], stored["decoder/embeddings/weight"])


def test_a_stored_position_table_is_used_without_its_two_unused_rows(tmp_path: Path) -> None:
    recipe = replace(BASE, stored_positions=True)
    convert_to(make_checkpoint(tmp_path / "checkpoint", recipe), tmp_path / "model")
    rows = make_tokenizer(CODES).get_vocab_size() + BASE.extra_rows
    stored, tensors = Variables(tmp_path / "model"), weights(recipe, rows)
    for side in ("encoder", "decoder"):
        expected = tensors[f"model.{side}.embed_positions.weights"][2:]
        np.testing.assert_array_equal(stored[f"{side}/position_encodings/encodings"], expected)


@pytest.mark.parametrize("width", [32, 1024])
def test_computed_positions_are_sinusoids_that_begin_at_two(width: int) -> None:
    """Against the formula in double precision; float32 loses up to 1e-4 at position 1,000, in training too."""
    half = width // 2
    angles = np.arange(2, 1026)[:, None] * np.exp(-np.log(10000.0) * np.arange(half) / (half - 1))[None, :]
    expected = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    np.testing.assert_allclose(sinusoids(1024, width), expected, atol=2e-4)
    np.testing.assert_allclose(sinusoids(16, width), expected[:16], atol=3e-6)


@pytest.mark.parametrize(
    "recipe",
    [
        replace(BASE, encoder_layers=2, decoder_layers=4),
        replace(BASE, encoder_layers=4, decoder_layers=1),
        replace(BASE, config={"decoder_attention_heads": 8}),
        replace(BASE, config={"scale_embedding": False}),
    ],
    ids=["deeper decoder", "deeper encoder", "other heads in the decoder", "unscaled embeddings"],
)
def test_other_shapes_pass_the_self_test(tmp_path: Path, recipe: Recipe) -> None:
    done = convert_to(make_checkpoint(tmp_path / "checkpoint", recipe), tmp_path / "model")
    assert [check.name for check in done.manifest.self_test.checks] == ["token-ids", "layers", "whole-model"]


@pytest.mark.parametrize("layers", [1, 3, 4, 12])
def test_alignments_come_from_two_thirds_up_averaged_over_heads(tmp_path: Path, layers: int) -> None:
    checkpoint = make_checkpoint(
        tmp_path / "checkpoint", replace(BASE, decoder_layers=layers, encoder_layers=1)
    )
    convert_to(checkpoint, tmp_path / "model")
    stored = Variables(tmp_path / "model")
    assert stored["decoder/alignment_layer"] == {1: 0, 3: 2, 4: 2, 12: 8}[layers]
    assert stored["decoder/alignment_heads"] == 0


@pytest.mark.parametrize("quantization", list(Quantization))
def test_every_quantization_passes_the_self_test_and_says_so(
    tmp_path: Path, quantization: Quantization
) -> None:
    done = convert_to(make_checkpoint(tmp_path / "checkpoint"), tmp_path / "model", quantization)
    assert done.manifest.options.quantization is quantization
    translator = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32")
    tokens = Tokenizer.from_folder(tmp_path / "model").encode(["the earth"], "eng_Latn")
    assert translator.translate_batch(tokens, target_prefix=[["spa_Latn"]], max_decoding_length=4)[
        0
    ].hypotheses


def test_a_base_model_has_all_languages_and_no_pair(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint", replace(BASE, pair=("eng_Latn", None)))
    languages = convert_to(checkpoint, tmp_path / "model").manifest.languages
    assert (languages.source, languages.target, languages.origin) == (None, None, LanguageOrigin.NONE)
    assert languages.all == CODES


def test_the_target_is_found_in_the_generation_settings_where_the_tokenizer_names_none(
    tmp_path: Path,
) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    path = checkpoint / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "tgt_lang": None}))
    languages = convert_to(checkpoint, tmp_path / "model").manifest.languages
    assert (languages.target, languages.origin) == ("spa_Latn", LanguageOrigin.GENERATION_CONFIG)


def test_unused_weights_of_other_names_do_no_harm(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    rows = make_tokenizer(CODES).get_vocab_size() + BASE.extra_rows
    extra = {"model.encoder.version": np.zeros(1, np.float32)}
    write_safetensors(checkpoint / "model.safetensors", {**weights(BASE, rows), **extra})
    assert convert_to(checkpoint, tmp_path / "model").manifest.self_test.probes
