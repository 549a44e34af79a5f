"""Tags to NLLB codes: the whole table of known tags, and the languages end point."""

from urllib.parse import quote

import httpx
import pytest

from tests.support.serval import language_data
from tests.support.serval.languages import InvalidTag, Support, resolve
from tests.unit.serval_standin.conftest import API

NATIVE = """
    es:spa_Latn hne:hne_Deva ks-Arab:kas_Arab srp_Cyrl:srp_Cyrl zh:zho_Hans zh-Hant:zho_Hant zh-TW:zho_Hant
    cmn:zho_Hans cmn-Hant:zho_Hant ms:zsm_Latn arb:arb_Arab pes:pes_Arab eng:eng_Latn eng-Latn:eng_Latn
    kor:kor_Hang kor_Kore:kor_Hang en:eng_Latn nb:nob_Latn tl:tgl_Latn he:heb_Hebr id:ind_Latn hi:hin_Deva
    pa:pan_Guru sat:sat_Olck taq-Tfng:taq_Tfng en-US:eng_Latn en_US:eng_Latn ENG:eng_Latn
    zh_TW:zho_Hans zh-CN:zho_Hans zh-Hans-CN:zho_Hans yue:yue_Hant ar:arb_Arab ara:arb_Arab sw:swh_Latn
    swa:swh_Latn ne:npi_Deva lv:lvs_Latn et:est_Latn als:als_Latn azj:azj_Latn khk:khk_Cyrl ory:ory_Orya
    pbt:pbt_Arab uzn:uzn_Latn kmr-Latn:kmr_Latn ckb:ckb_Arab tpi:tpi_Latn quy:quy_Latn 'en':eng_Latn
"""
ONLY_SCRIPT = """
    xyz-Latn:xyz_Latn no:nor_Latn fil:fil_Latn iw:iw_Hebr in:in_Latn crh:crh_Cyrl x-kal:kal_Latn sr-Latn:srp_Latn
    fa:fas_Arab pa-PK:pan_Arab sq:sqi_Latn az:aze_Latn mn:mon_Cyrl or:ori_Orya ps:pus_Arab uz:uzb_Latn
    ku:kur_Latn qu:que_Latn qaa-Latn-x-kal:_Latn
"""
UNSUPPORTED = """
    unknown:unknown xyz:xyz lif-Limb:lif_Limb mni-Mtei:mni_Mtei 123:123 EN:EN sr-latn:srp_latn kmr:kmr
    ca-valencia:cat_vale en-Latin:eng_Lati qaa-x-kal:qaa-x-kal
"""
TABLE = [
    (*row.split(":"), support)
    for rows, support in (
        (NATIVE, Support.LANGUAGE_AND_SCRIPT),
        (ONLY_SCRIPT, Support.ONLY_SCRIPT),
        (UNSUPPORTED, Support.NONE),
    )
    for row in rows.split()
]


@pytest.mark.parametrize(("tag", "code", "support"), TABLE)
def test_tag_becomes_the_documented_code(tag: str, code: str, support: Support) -> None:
    resolved = resolve(tag)
    assert (resolved.code, resolved.support) == (code, support)


@pytest.mark.parametrize("text", ["Invalid Language", "", "é!"])
def test_text_that_can_be_no_tag_is_refused(text: str) -> None:
    with pytest.raises(InvalidTag):
        resolve(text)


def test_the_lists_have_the_documented_sizes() -> None:
    assert len(language_data.FLORES_CODES) == 204
    assert len(language_data.SCRIPTS) == 29
    assert sum(len(subtag) == 2 for subtag in language_data.ISO3_OF_SUBTAG) == 184 + len({"iw", "in"})
    assert {"sat_Olck", "arb_Latn", "min_Arab"} <= language_data.FLORES_CODES
    assert "sat_Beng" not in language_data.FLORES_CODES


@pytest.mark.parametrize(
    ("kind", "tag", "native", "code"),
    [
        ("nmt", "es", True, "spa_Latn"),
        ("nmt", "kmr", False, "kmr"),
        ("nmt", "ENG", True, "eng_Latn"),
        ("smt-transfer", "whatever", True, "whatever"),
        ("echo", "es", True, "es_echo"),
    ],
)
async def test_languages_end_point(
    ruth: httpx.AsyncClient, kind: str, tag: str, native: bool, code: str
) -> None:
    answer = await ruth.get(f"{API}/engine-types/{kind}/languages/{tag}")
    assert answer.json() == {"engineType": kind, "isNative": native, "internalCode": code}


async def test_languages_end_point_refuses(ruth: httpx.AsyncClient) -> None:
    invalid = quote("Invalid Language")
    assert (await ruth.get(f"{API}/engine-types/nmt/languages/{invalid}")).status_code == 400
    assert (await ruth.get(f"{API}/engine-types/unknown/languages/es")).status_code == 404
