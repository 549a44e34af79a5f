"""Data behind the tag rules: ISO 639 pairs, the 204 codes of Serval's list, and default scripts.

The codes are those of the NLLB tokenizer less `sat_Beng`, plus `sat_Olck`, `arb_Latn` and `min_Arab`. The pairs
are ISO 639-1 to ISO 639-3. Default scripts come from a live file in Serval; here they cover the tests' tags.
"""

_PAIRS = """
    aa:aar ab:abk ae:ave af:afr ak:aka am:amh an:arg ar:ara as:asm av:ava ay:aym az:aze ba:bak be:bel
    bg:bul bi:bis bm:bam bn:ben bo:bod br:bre bs:bos ca:cat ce:che ch:cha co:cos cr:cre cs:ces cu:chu
    cv:chv cy:cym da:dan de:deu dv:div dz:dzo ee:ewe el:ell en:eng eo:epo es:spa et:est eu:eus fa:fas
    ff:ful fi:fin fj:fij fo:fao fr:fra fy:fry ga:gle gd:gla gl:glg gn:grn gu:guj gv:glv ha:hau he:heb
    hi:hin ho:hmo hr:hrv ht:hat hu:hun hy:hye hz:her ia:ina id:ind ie:ile ig:ibo ii:iii ik:ipk io:ido
    is:isl it:ita iu:iku ja:jpn jv:jav ka:kat kg:kon ki:kik kj:kua kk:kaz kl:kal km:khm kn:kan ko:kor
    kr:kau ks:kas ku:kur kv:kom kw:cor ky:kir la:lat lb:ltz lg:lug li:lim ln:lin lo:lao lt:lit lu:lub
    lv:lav mg:mlg mh:mah mi:mri mk:mkd ml:mal mn:mon mr:mar ms:msa mt:mlt my:mya na:nau nb:nob nd:nde
    ne:nep ng:ndo nl:nld nn:nno no:nor nr:nbl nv:nav ny:nya oc:oci oj:oji om:orm or:ori os:oss pa:pan
    pi:pli pl:pol ps:pus pt:por qu:que rm:roh rn:run ro:ron ru:rus rw:kin sa:san sc:srd sd:snd se:sme
    sg:sag sh:hbs si:sin sk:slk sl:slv sm:smo sn:sna so:som sq:sqi sr:srp ss:ssw st:sot su:sun sv:swe
    sw:swa ta:tam te:tel tg:tgk th:tha ti:tir tk:tuk tl:tgl tn:tsn to:ton tr:tur ts:tso tt:tat tw:twi
    ty:tah ug:uig uk:ukr ur:urd uz:uzb ve:ven vi:vie vo:vol wa:wln wo:wol xh:xho yi:yid yo:yor za:zha
    zh:zho zu:zul
"""
"""ISO 639-1 to ISO 639-3."""

_LONE = """
    ace acm acq aeb ajp als apc arb ars ary arz ast awa ayr azb azj ban bem bho bjn bug ceb cjk ckb cmn
    crh dik dyu fon fur fuv gaz hne ilo kab kac kam kbp kea khk kmb kmr knc lif lij lmo ltg lua luo lus
    lvs mag mai min mni mos npi nso nus ory pag pap pbt pes plt prs quy sat scn shn swh szl taq tpi tum
    tzm umb uzn vec war ydd yue zsm
"""
"""Registered three-letter subtags without a two-letter twin."""

_FLORES = """
    ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn als_Latn amh_Ethi apc_Arab
    arb_Arab arb_Latn ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn
    bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt bos_Latn
    bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn
    dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn fij_Latn
    fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gaz_Latn gla_Latn gle_Latn glg_Latn grn_Latn guj_Gujr
    hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn
    isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor
    kaz_Cyrl kbp_Latn kea_Latn khk_Cyrl khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kmr_Latn knc_Arab
    knc_Latn kon_Latn kor_Hang lao_Laoo lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn
    lua_Latn lug_Latn luo_Latn lus_Latn lvs_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Arab min_Latn
    mkd_Cyrl mlt_Latn mni_Beng mos_Latn mri_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn
    nus_Latn nya_Latn oci_Latn ory_Orya pag_Latn pan_Guru pap_Latn pbt_Arab pes_Arab plt_Latn pol_Latn
    por_Latn prs_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Olck scn_Latn shn_Mymr
    sin_Sinh slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn srd_Latn srp_Cyrl
    ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml taq_Latn taq_Tfng tat_Cyrl tel_Telu tgk_Cyrl
    tgl_Latn tha_Thai tir_Ethi tpi_Latn tsn_Latn tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng
    uig_Arab ukr_Cyrl umb_Latn urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr
    yor_Latn yue_Hant zho_Hans zho_Hant zsm_Latn zul_Latn
"""

_LATIN = """
    als az azj ca en es et fil id in kl ku lv lvs ms nb no pt qu quy sq sw swh tl tpi uz uzn zsm
    de fr
"""
"""Tags whose default script is Latn."""

_OTHER = """
    ar:Arab arb:Arab ckb:Arab fa:Arab fa-IR:Arab he:Hebr iw:Hebr crh:Cyrl hi:Deva hne:Deva khk:Cyrl mn:Cyrl ko:Kore
    ne:Deva npi:Deva or:Orya ory:Orya pa:Guru pa-PK:Arab pbt:Arab ps:Arab ru:Cyrl sat:Olck sr:Cyrl yue:Hant
    zh:Hans zh-CN:Hans zh-TW:Hant el:Grek am:Ethi
"""
"""Tags with another default script, a few of them with a region. Keys are case-sensitive; `kmr` has none."""

FLORES_CODES = frozenset(_FLORES.split())
SCRIPTS = frozenset(code[4:] for code in FLORES_CODES)

ISO3_OF_SUBTAG: dict[str, str] = {
    **dict(pair.split(":") for pair in _PAIRS.split()),
    **{subtag: subtag for subtag in _LONE.split()},
    **{subtag: subtag for subtag in ("iw", "in")},  # registered, deprecated, without an ISO 639-3 entry
    "qaa": "",  # registered for private use with an empty code
}
"""Registry subtag to ISO 639-3 code; looked up without regard to case."""

SUBTAG_OF_ISO3: dict[str, str] = {code: subtag for subtag, code in ISO3_OF_SUBTAG.items() if code}

DEFAULT_SCRIPTS: dict[str, str] = {
    **dict.fromkeys(_LATIN.split(), "Latn"),
    **dict(pair.split(":") for pair in _OTHER.split()),
}
