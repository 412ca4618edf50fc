"""The languages of SeamlessM4T: its own codes of three letters, and the usual ones of two."""

from __future__ import annotations

import re
from typing import Any

from npda.models.tagged_tokens import TaggedTokens

_TAG = re.compile(r"__([a-z]{3}(?:_[A-Z][a-z]+)?)__")  # __deu__, __cmn_Hant__

# ISO 639-1 → the code of the model, which is of the language's most common form: arb of ar, cmn of zh.
_SHORT = """
af afr  am amh  ar arb  as asm  az azj  be bel  bg bul  bn ben  bs bos  ca cat  cs ces  cy cym  da dan  de deu  el ell
en eng  es spa  et est  eu eus  fa pes  ff fuv  fi fin  fr fra  ga gle  gl glg  gu guj  he heb  hi hin  hr hrv  hu hun
hy hye  id ind  ig ibo  is isl  it ita  ja jpn  jv jav  ka kat  kk kaz  km khm  kn kan  ko kor  ky kir  lg lug  lo lao
lt lit  lv lvs  mk mkd  ml mal  mn khk  mr mar  ms zlm  mt mlt  my mya  nb nob  ne npi  nl nld  nn nno  no nob  ny nya
om gaz  or ory  pa pan  pl pol  ps pbt  pt por  ro ron  ru rus  sd snd  sk slk  sl slv  sn sna  so som  sr srp  sv swe
sw swh  ta tam  te tel  tg tgk  th tha  tl tgl  tr tur  uk ukr  ur urd  uz uzn  vi vie  yo yor  zh cmn  zu zul
"""


def language_tags(tokenizer: Any) -> dict[str, int]:
    """Names of a language → its token: the model's own code, then the short one."""
    own = {found[1]: token for tag, token in tokenizer.get_added_vocab().items() if (found := _TAG.fullmatch(tag))}
    words = _SHORT.split()
    short = dict(zip(words[::2], words[1::2], strict=True))
    return own | {name: own[code] for name, code in short.items() if code in own}


def source_tokens(tokenizer: Any, size: int, language: str | None = None) -> TaggedTokens:
    """What the text encoder takes: the tag of the language, the text, the end.

    language: that is read, by default what the tokenizer's directory says
    """
    tags = language_tags(tokenizer)
    tag = TaggedTokens(tokenizer, size, tags).tag(language or tokenizer.src_lang.strip("_"))
    return TaggedTokens(tokenizer, size, tags, before=[tag], after=[tokenizer.eos_token_id])
