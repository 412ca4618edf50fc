"""Translation memories (TMX): the pairs of two languages, streamed unit by unit from files of any size."""

import gzip
import logging
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from npda.corpus.pairs import Pair
from npda.io.errors import InputError

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

logger = logging.getLogger(__name__)

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# What these elements hold is markup of the original document; <sub> is text inside such markup, not of the sentence.
NATIVE_CODES = {"bpt", "ept", "ph", "it", "ut", "sub"}
MOST_PARTS = 100_000  # elements that are held at once: no unit has as many, nor any text that is nested so deeply
OTHER_LANGUAGE, EMPTY = "without one of the languages", "with an empty side"


def read_tmx(
    path: str | Path, source_language: str, target_language: str, skipped: Counter[str] | None = None
) -> Iterator[Pair]:
    """Yield the pairs of a TMX file (.gz too), one for each unit that has both languages.

    A language matches its regional variants, in upper or lower case: "en" finds en-US and EN_GB, but "en-US" does not
    find "en". Of several variants the first is taken. Inline codes are dropped, the text inside <hi> is kept, white
    space is folded. Units that lack a language or have an empty side are skipped, and counted in a warning at the end
    and in `skipped`, by reason.
    """
    path = Path(path)
    skipped = Counter() if skipped is None else skipped
    before = skipped.copy()
    found: Counter[str] = Counter()
    pairs = 0
    for unit in _units(path):
        sides = _variants(unit)
        found.update(sides.keys())
        source, target = _choose(sides, source_language), _choose(sides, target_language)
        if source is None or target is None:
            skipped[OTHER_LANGUAGE] += 1
            continue
        src_text, tgt_text = _text(source), _text(target)
        if src_text and tgt_text:
            pairs += 1
            yield Pair(src_text, tgt_text, " ".join(unit.get("tuid", "").split()), target_language)
        else:
            skipped[EMPTY] += 1
    if not pairs:
        languages = ", ".join(f"{language} ({count})" for language, count in found.most_common(20))
        raise InputError(
            f"{path} has no unit with text in both {source_language} and {target_language}; "
            f"the languages found, with the number of units, are: {languages or 'none'}."
        )
    for reason, count in (skipped - before).items():
        logger.warning("%s: skipped %d units %s", path, count, reason)


def tmx_languages(path: str | Path, units: int = 1_000) -> Counter[str]:
    """The languages of the first units of a TMX file, written as en or en-us, and in how many units each occurs."""
    return Counter(language for unit in islice(_units(Path(path)), units) for language in _variants(unit))


def _units(path: Path) -> Iterator["Element"]:
    """Every <tu>, freed as soon as the next one is asked for."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, iterparse

    open_elements: list[Element] = []
    open_units = held = 0
    with _opened(path) as stream:
        try:
            # A DOCTYPE that names the DTD is usual and harmless: it is not fetched.
            for event, element in iterparse(stream, ("start", "end")):
                if event == "start":
                    if not open_elements and _tag(element) != "tmx":
                        raise InputError(f"{path} is not TMX: its root element is <{_tag(element)}>, not <tmx>.")
                    open_elements.append(element)
                    open_units += _tag(element) == "tu"
                    held += 1
                    if held > MOST_PARTS:
                        raise InputError(
                            f"{path} has more than {MOST_PARTS:,} elements in one place, unlike a translation memory."
                        )
                    continue
                open_elements.pop()
                if _tag(element) == "tu":
                    open_units -= 1
                    yield element
                if open_elements and not open_units:
                    open_elements[-1].clear()
                    held = len(open_elements)
        except ParseError as error:
            line, column = error.position
            reason = str(error).partition(":")[0]
            raise InputError(
                f"{path}, line {line}, column {column + 1}: broken XML ({reason}); repair it or export it again."
            ) from None
        except DefusedXmlException:
            raise InputError(
                f"{path} declares entities or refers to other files, which is refused as unsafe; "
                "remove the declarations from its DOCTYPE."
            ) from None
        except (LookupError, ValueError) as error:
            raise InputError(f"{path}: its encoding cannot be read ({error}); save the file as UTF-8.") from None


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as stream:
            yield stream  # pyright: ignore[reportReturnType]
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}); compress or copy it again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _tag(element: "Element") -> str:
    return element.tag.rpartition("}")[2]


def _variants(unit: "Element") -> dict[str, "Element"]:
    """The first <seg> of each language of a unit; languages are written as en or en-us."""
    sides: dict[str, Element] = {}
    for variant in unit:
        language = variant.get(XML_LANG) or variant.get("lang")
        if _tag(variant) != "tuv" or not language:
            continue
        segment = next((child for child in variant if _tag(child) == "seg"), None)
        if segment is not None:
            sides.setdefault(_language(language), segment)
    return sides


def _choose(sides: dict[str, "Element"], language: str) -> "Element | None":
    wanted = _language(language)
    return next((side for found, side in sides.items() if f"{found}-".startswith(f"{wanted}-")), None)


def _language(code: str) -> str:
    return code.strip().lower().replace("_", "-")


def _text(segment: "Element") -> str:
    """The text of a segment without its codes; with a stack of its own, since nesting may be deeper than Python's."""
    parts = [segment.text or ""]
    stack = [iter(segment)]
    tails: list[str] = []
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
            parts.append(tails.pop() if tails else "")
        elif _tag(child) in NATIVE_CODES:
            parts.append(child.tail or "")
        else:
            parts.append(child.text or "")
            tails.append(child.tail or "")
            stack.append(iter(child))
    return " ".join("".join(parts).split())
