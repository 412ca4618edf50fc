"""Languages by name: the codes that Whisper's own table gives, and sentences about misspelt names."""

import pytest
from transformers.models.whisper.tokenization_whisper import LANGUAGES, TO_LANGUAGE_CODE

from npda.corpus.languages import language_code
from npda.io.errors import InputError


@pytest.mark.parametrize("name", [name for name in TO_LANGUAGE_CODE if " " not in name])
def test_names_are_those_of_whisper(name: str):
    assert language_code(name.capitalize()) == TO_LANGUAGE_CODE[name]
    assert language_code(name.upper()) == TO_LANGUAGE_CODE[name]


@pytest.mark.parametrize(
    ("name", "code"), [("Deutsch", "de"), ("français", "fr"), (" German ", "de"), ("ROMÂNĂ", "ro")]
)
def test_a_language_may_be_called_by_its_own_name(name: str, code: str):
    assert language_code(name) == code


@pytest.mark.parametrize("code", [*LANGUAGES, "deu", "de-AT", "zh_CN", "DE", "deu_Latn", "lao", "xx"])
def test_codes_stay_codes(code: str):
    assert language_code(code) == code


@pytest.mark.parametrize(
    ("name", "says"), [("Gemran", "did you mean German (de)?"), ("Klingonese?", "give its code, such as de.")]
)
def test_an_unknown_name_is_answered_in_a_sentence(name: str, says: str):
    with pytest.raises(InputError) as error:
        language_code(name)
    assert str(error.value) == f"There is no language called {name!r}; {says}"
