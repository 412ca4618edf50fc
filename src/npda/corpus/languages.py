"""Names of languages: people may say German or Deutsch; files and models say de."""

from __future__ import annotations

import difflib
import re

from npda.io.errors import InputError

# ISO 639-1 (or 639-3, where there is no shorter one) → the English names, then the language's own.
NAMES = {
    "af": "Afrikaans",
    "am": "Amharic",
    "ar": "Arabic",
    "as": "Assamese",
    "az": "Azerbaijani",
    "ba": "Bashkir",
    "be": "Belarusian",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "bo": "Tibetan",
    "br": "Breton",
    "bs": "Bosnian Bosanski",
    "ca": "Catalan Valencian Català",
    "cs": "Czech Čeština",
    "cy": "Welsh Cymraeg",
    "da": "Danish Dansk",
    "de": "German Deutsch",
    "el": "Greek Ελληνικά",
    "en": "English",
    "es": "Spanish Castilian Español",
    "et": "Estonian Eesti",
    "eu": "Basque Euskara",
    "fa": "Persian Farsi",
    "fi": "Finnish Suomi",
    "fo": "Faroese Føroyskt",
    "fr": "French Français",
    "ga": "Irish Gaeilge",
    "gl": "Galician Galego",
    "gu": "Gujarati",
    "ha": "Hausa",
    "haw": "Hawaiian",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian Hrvatski",
    "ht": "Haitian",
    "hu": "Hungarian Magyar",
    "hy": "Armenian",
    "id": "Indonesian",
    "ig": "Igbo",
    "is": "Icelandic Íslenska",
    "it": "Italian Italiano",
    "ja": "Japanese 日本語",
    "jw": "Javanese",
    "ka": "Georgian",
    "kk": "Kazakh",
    "km": "Khmer",
    "kn": "Kannada",
    "ko": "Korean 한국어",
    "la": "Latin",
    "lb": "Luxembourgish Letzeburgesch Lëtzebuergesch",
    "ln": "Lingala",
    "lo": "Lao",
    "lt": "Lithuanian Lietuvių",
    "lv": "Latvian Latviešu",
    "mg": "Malagasy",
    "mi": "Maori Māori",
    "mk": "Macedonian",
    "ml": "Malayalam",
    "mn": "Mongolian",
    "mr": "Marathi",
    "ms": "Malay",
    "mt": "Maltese Malti",
    "my": "Burmese Myanmar",
    "ne": "Nepali",
    "nl": "Dutch Flemish Nederlands",
    "nn": "Nynorsk",
    "no": "Norwegian Norsk",
    "oc": "Occitan",
    "pa": "Punjabi Panjabi",
    "pl": "Polish Polski",
    "ps": "Pashto Pushto",
    "pt": "Portuguese Português",
    "ro": "Romanian Moldavian Moldovan Română",
    "ru": "Russian Русский",
    "sa": "Sanskrit",
    "sd": "Sindhi",
    "si": "Sinhala Sinhalese",
    "sk": "Slovak Slovenčina",
    "sl": "Slovenian Slovene Slovenščina",
    "sn": "Shona",
    "so": "Somali",
    "sq": "Albanian Shqip",
    "sr": "Serbian Srpski",
    "su": "Sundanese",
    "sv": "Swedish Svenska",
    "sw": "Swahili Kiswahili",
    "ta": "Tamil",
    "te": "Telugu",
    "tg": "Tajik",
    "th": "Thai",
    "tk": "Turkmen",
    "tl": "Tagalog",
    "tr": "Turkish Türkçe",
    "tt": "Tatar",
    "uk": "Ukrainian Українська",
    "ur": "Urdu",
    "uz": "Uzbek",
    "vi": "Vietnamese",
    "xh": "Xhosa",
    "yi": "Yiddish",
    "yo": "Yoruba Yorùbá",
    "yue": "Cantonese",
    "zh": "Chinese Mandarin 中文",
    "zu": "Zulu",
}
_CODES = {name.casefold(): code for code, names in NAMES.items() for name in names.split()}
_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]+)*")  # de, deu, de-AT, deu_Latn


def is_code(language: str) -> bool:
    """Whether it looks like the code of a language."""
    return _CODE.fullmatch(language) is not None


def language_code(language: str) -> str:
    """The code of a language that is given by its name, in any case. What looks like a code stays as it is."""
    given = language.strip()
    code = _CODES.get(given.casefold())
    if code is not None and not (given.islower() and len(given) <= 3):  # Lao is a name, lao is a code
        return code
    if _CODE.fullmatch(given):
        return given
    close = difflib.get_close_matches(given.casefold(), _CODES, n=1, cutoff=0.7)
    hint = f"did you mean {close[0].capitalize()} ({_CODES[close[0]]})?" if close else "give its code, such as de."
    raise InputError(f"There is no language called {language!r}; {hint}")
