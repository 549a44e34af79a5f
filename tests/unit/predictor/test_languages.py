"""Tags to codes. The table is Serval's published one: its own tests, and its rule run over the public registry."""

import re

import pytest

from nllb_predictor.errors import BadRequest, LanguageNeeded, PairNotServed, UnknownLanguage
from nllb_predictor.text import languages
from nllb_predictor.text.languages import LanguagePair, Languages, near_matches, resolve
from tests.support.cases import case

LS, S, NONE = "LanguageAndScript", "OnlyScript", "None"

TABLE = [
    ("es", "spa_Latn", LS),
    ("hne", "hne_Deva", LS),
    ("ks-Arab", "kas_Arab", LS),
    ("srp_Cyrl", "srp_Cyrl", LS),
    ("zh", "zho_Hans", LS),
    ("zh-Hant", "zho_Hant", LS),
    ("zh-TW", "zho_Hant", LS),
    ("cmn", "zho_Hans", LS),
    ("cmn-Hant", "zho_Hant", LS),
    ("ms", "zsm_Latn", LS),
    ("arb", "arb_Arab", LS),
    ("pes", "pes_Arab", LS),
    ("eng", "eng_Latn", LS),
    ("eng-Latn", "eng_Latn", LS),
    ("kor", "kor_Hang", LS),
    ("kor_Kore", "kor_Hang", LS),
    ("unknown", "unknown", NONE),
    ("en", "eng_Latn", LS),
    ("xyz-Latn", "xyz_Latn", S),
    ("xyz", "xyz", NONE),
    ("lif-Limb", "lif_Limb", NONE),
    ("nb", "nob_Latn", LS),
    ("no", "nor_Latn", S),
    ("tl", "tgl_Latn", LS),
    ("fil", "fil_Latn", S),
    ("he", "heb_Hebr", LS),
    ("iw", "iw_Hebr", S),
    ("id", "ind_Latn", LS),
    ("in", "in_Latn", S),
    ("hi", "hin_Deva", LS),
    ("pa", "pan_Guru", LS),
    ("pa-PK", "pan_Arab", S),
    ("sat", "sat_Olck", LS),
    ("taq-Tfng", "taq_Tfng", LS),
    ("crh", "crh_Cyrl", S),
    ("mni-Mtei", "mni_Mtei", NONE),
    ("x-kal", "kal_Latn", S),
    ("123", "123", NONE),
    ("en-US", "eng_Latn", LS),
    ("en_US", "eng_Latn", LS),
    ("ENG", "eng_Latn", LS),
    ("EN", "EN", NONE),
    ("sr-Latn", "srp_Latn", S),
    ("sr-latn", "srp_latn", NONE),
    ("zh_TW", "zho_Hans", LS),
    ("zh-CN", "zho_Hans", LS),
    ("zh-Hans-CN", "zho_Hans", LS),
    ("yue", "yue_Hant", LS),
    ("ar", "arb_Arab", LS),
    ("ara", "arb_Arab", LS),
    ("fa", "fas_Arab", S),
    ("sw", "swh_Latn", LS),
    ("swa", "swh_Latn", LS),
    ("ne", "npi_Deva", LS),
    ("lv", "lvs_Latn", LS),
    ("et", "est_Latn", LS),
    ("sq", "sqi_Latn", S),
    ("als", "als_Latn", LS),
    ("az", "aze_Latn", S),
    ("azj", "azj_Latn", LS),
    ("mn", "mon_Cyrl", S),
    ("khk", "khk_Cyrl", LS),
    ("or", "ori_Orya", S),
    ("ory", "ory_Orya", LS),
    ("ps", "pus_Arab", S),
    ("pbt", "pbt_Arab", LS),
    ("uz", "uzb_Latn", S),
    ("uzn", "uzn_Latn", LS),
    ("ku", "kur_Latn", S),
    ("kmr", "kmr", NONE),
    ("kmr-Latn", "kmr_Latn", LS),
    ("ckb", "ckb_Arab", LS),
    ("tpi", "tpi_Latn", LS),
    ("quy", "quy_Latn", LS),
    ("qu", "que_Latn", S),
    ("ca-valencia", "cat_vale", NONE),
    ("en-Latin", "eng_Lati", NONE),
    ("qaa-x-kal", "qaa-x-kal", NONE),
    ("qaa-Latn-x-kal", "_Latn", S),
    ("'en'", "eng_Latn", LS),
]

ENGINE = Languages(frozenset({"eng_Latn", "spa_Latn", "zho_Hans", "zho_Hant", "srp_Cyrl", "kmr_Latn"}))


@pytest.mark.parametrize(("tag", "code", "support"), TABLE, ids=[row[0] for row in TABLE])
def test_every_published_example_resolves_as_serval_resolves_it(tag: str, code: str, support: str) -> None:
    assert (resolve(tag).code, resolve(tag).support.value) == (code, support)


@pytest.mark.parametrize("text", ["Invalid Language", "", "é", "a b"])
def test_a_text_that_is_no_tag_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a language tag"):
        resolve(text)


def test_the_tables_have_the_published_sizes() -> None:
    assert len(languages.nllb_codes()) == 202
    assert len(languages.native_codes()) == 204
    assert len(languages.native_scripts()) == 29
    assert all(re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", code) for code in languages.nllb_codes())


def test_a_code_of_the_engine_is_taken_as_it_is() -> None:
    own = Languages(frozenset({"kmr", "xyz"}), source="xyz", target="kmr")
    assert own.pair("xyz", "kmr") == LanguagePair("xyz", "kmr")


def _same_text(self: Languages, tag: str | None, default: str | None, field: str) -> str:
    return tag or default or ""


@case("p30", breaks="nllb_predictor.text.languages:Languages._code", naive=_same_text)
@pytest.mark.parametrize(
    ("tag", "code"),
    [("es", "spa_Latn"), ("zh-TW", "zho_Hant"), ("zh-Hant-HK", "zho_Hant"), ("en-GB", "eng_Latn")],
)
def test_p30_ietf_tags_mean_the_engines_codes(tag: str, code: str) -> None:
    assert ENGINE.pair("eng_Latn", tag).target == code


@case("p30", breaks="nllb_predictor.text.languages:Languages._code", naive=_same_text)
@pytest.mark.parametrize("tag", ["sr-Latn", "kmr-Arab", "pt-BR", "yue"])
def test_p30_an_unknown_pair_of_language_and_script_gets_no_default_script(tag: str) -> None:
    with pytest.raises(UnknownLanguage) as refused:
        ENGINE.pair("eng_Latn", tag)
    assert refused.value.field == "target_language"
    assert tag in refused.value.message


@case("p29", breaks="nllb_predictor.text.languages:Languages._code", naive=_same_text)
@pytest.mark.parametrize("misspelt", ["spa_Latin", "SPA_LATN", "spa-latn", "spanish"])
def test_p29_a_misspelt_code_is_refused_with_near_matches(misspelt: str) -> None:
    with pytest.raises(UnknownLanguage) as refused:
        ENGINE.pair("eng_Latn", misspelt)
    assert "spa_Latn" in refused.value.hint
    assert misspelt in refused.value.message


def test_an_empty_tag_is_unknown_and_not_the_default() -> None:
    with pytest.raises(UnknownLanguage):
        Languages(ENGINE.codes, "eng_Latn", "spa_Latn").pair("", None)


def test_near_matches_are_at_most_three_and_known() -> None:
    codes = languages.native_codes()
    for text in ("fra_Latin", "FRA_LATN", "fr", "", "zzz_Zzzz", "arb-Latn"):
        near = near_matches(text, codes)
        assert len(near) <= 3
        assert set(near) <= codes


def test_a_trained_engine_answers_its_own_pair_only() -> None:
    engine = Languages(ENGINE.codes, "eng_Latn", "spa_Latn")
    assert engine.pair(None, None) == engine.pair("en", "es") == LanguagePair("eng_Latn", "spa_Latn")
    with pytest.raises(PairNotServed) as refused:
        engine.pair("es", "en")
    assert "eng_Latn to spa_Latn" in refused.value.message
    assert "spa_Latn to eng_Latn" in refused.value.message


def test_any_pair_is_answered_where_the_owner_allows_it_or_the_model_has_no_pair() -> None:
    allowed = Languages(ENGINE.codes, "eng_Latn", "spa_Latn", any_pair=True)
    assert allowed.pair("es", "zh-TW") == LanguagePair("spa_Latn", "zho_Hant")
    assert ENGINE.pair("es", "zh-TW") == LanguagePair("spa_Latn", "zho_Hant")


@case("p27", breaks="nllb_predictor.text.languages:Languages._code", naive=_same_text)
def test_p27_a_model_without_a_target_of_its_own_needs_one() -> None:
    with pytest.raises(LanguageNeeded) as refused:
        ENGINE.pair("en", None)
    assert refused.value.field == "target_language"


def test_a_very_long_tag_reaches_no_message() -> None:
    with pytest.raises(BadRequest) as refused:
        ENGINE.pair("x" * 5000, "es")
    assert len(str(refused.value)) < 200
