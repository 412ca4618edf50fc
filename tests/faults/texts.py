"""Bad tables: pairs, manifests, memories (TMX) and lists of terms, at every verb that reads them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.faults.judging import Door, Planted
from tests.faults.spoiling import spoilt
from tests.faults.trial import Ended
from tests.faults.verdicts import Case, Cases
from tests.faults.world import TMX, UNIT, World

HEADER = "src_text\ttgt_text\n"
ROW = "The floor is yours.\tDas Wort hat die Fraktion.\n"


def tables(world: World, random: Random) -> Cases:
    """Pairs and manifests."""
    door = Door(world, ["--model", str(world.model), "--out", "out", "-q", "--json"])
    whole = (HEADER + ROW * 3).encode()
    bad = {
        "empty": b"",
        "a header alone": HEADER.encode(),
        "one column": b"src_text\nThe floor\n",
        "an unknown header": b"english\tgerman\tfrench\na\tb\tc\n",
        "a field too many": whole + b"a\tb\tc\n",
        "a field too few": whole + b"a\n",
        "an empty side": whole + b"a\t \n",
        "a column twice": b"src_text\tsrc_text\ttgt_text\na\tb\tc\n",
        "latin-1": whole + "schön\tgrün\n".encode("latin-1"),
        "UTF-16": whole.decode().encode("utf-16"),
        "a surrogate": whole + b"a\xed\xa0\x80\tb\n",
        "a language that is none": b"src_text\ttgt_text\ttgt_lang\na\tb\t../../x\n",
        "mixed languages": b"src_text\ttgt_text\ttgt_lang\na\tb\tmixed\n",
        "another language": b"src_text\ttgt_text\ttgt_lang\na\tb\tfr\n",
        "zeros": bytes(500),
        "half a gzip.gz": gzip.compress(whole * 50)[:100],
        "no gzip.gz": whole,
    }
    for name, content in bad.items():
        file = "x.tsv.gz" if name.endswith(".gz") else "x.tsv"
        yield door.case(name, "build --text", Planted({file: content}), must_refuse=True)
        yield door.case(
            name, "filter --out new.tsv --against", Planted({file: content}), file, str(world.file("pairs.tsv")),
            must_refuse=name not in ("a language that is none", "mixed languages", "another language"),
            rest=["-q"], writes=("new.tsv",),
        )  # fmt: skip
    good = {
        "a mark of byte order": b"\xef\xbb\xbf" + whole,
        "ends of lines of Windows": whole.replace(b"\n", b"\r\n"),
        "without a header": (ROW * 3).encode(),
        "no end of the last line": whole[:-1],
        "more columns": b"id\tsrc_text\ttgt_text\tnote\n1\ta\tb\tc\n2\ta\tb\tc\n3\ta\tb\tc\n",
        "quotes": (HEADER + '"The\tfloor"\n' * 3).encode(),
        "a separator of lines": (HEADER + "a\u2028b\tc\n" * 3).encode(),
        "gzip.gz": gzip.compress(whole),
    }
    for name, content in good.items():
        file = "x.tsv.gz" if name.endswith(".gz") else "x.tsv"
        yield door.case(
            name, "build --text", Planted({file: content}), must_work=True, check=_sentences(3), writes=("out",)
        )
    yield from _manifests(world)
    content = world.file("pairs.tsv").read_bytes()
    while True:
        data, how = spoilt(content, random)
        yield door.case(how, "build --text", Planted({"x.tsv": data}), check=_as_many_lines(data), writes=("out",))


def _manifests(world: World) -> Iterator[Case]:
    header = "id\taudio\tn_frames\ttgt_text\tsrc_text\n"
    audio = str(world.file("a.wav"))
    rows = {
        "no such recording": "1\tnone.wav\t98\tDas Wort\tThe floor\n",
        "no frames": f"1\t{audio}\t0\tDas Wort\tThe floor\n",
        "frames that are no number": f"1\t{audio}\tmany\tDas Wort\tThe floor\n",
        "frames beyond reason": f"1\t{audio}\t{10**15}\tDas Wort\tThe floor\n",
        "frames that the recording has not": f"1\t{audio}\t2000\tDas Wort\tThe floor\n",
        "a piece beyond the end": f"1\t{audio}:990000:16000\t98\tDas Wort\tThe floor\n",
        "an id twice": f"1\t{audio}\t98\tDas Wort\tThe floor\n" * 2,
        "no recording at all": "1\t\t98\tDas Wort\tThe floor\n",
        "a folder": "1\t.\t98\tDas Wort\tThe floor\n",
    }
    harmless = "an id twice", "frames that the recording has not"
    rest = ["--model", str(world.model), "--out", "out", "-q"]
    for name, row in rows.items():
        door = Door(world, rest)
        yield door.case(
            name,
            "build --speech",
            Planted({"x.tsv": (header + row).encode()}),
            must_refuse=name not in harmless,
            writes=("out",),
        )


def memories(world: World, random: Random) -> Cases:
    """TMX."""
    rest = ["--model", str(world.model), "--out", "out", "--source-language", "en", "--language", "de", "-q", "--json"]
    door = Door(world, rest)
    unit = UNIT.format("a floor", "ein Wort")
    whole = TMX.format(units=unit * 3)
    entity = '<?xml version="1.0"?><!DOCTYPE tmx [<!ENTITY x {}>]>' + whole.split("?>")[1].replace("a floor", "&x;")
    bad = {
        "empty": "",
        "no XML": "src\ttgt\n",
        "cut off": whole[:200],
        "no units": TMX.format(units=""),
        "other languages": TMX.format(units=unit.replace('"en"', '"fr"').replace('"de"', '"es"')),
        "another root": "<html><body><p>a</p></body></html>",
        "an entity": entity.format('"b"'),
        "a file as an entity": entity.format('SYSTEM "file:///etc/passwd"'),
        "a billion laughs": '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "ha">'
        + "".join(f'<!ENTITY a{n} "{f"&a{n - 1 if n else str()};" * 10}">' for n in range(9))
        + "]><tmx><body>&a8;</body></tmx>",
        "a nest": "<tmx><body>" + "<tu>" * 20_000,
        "two roots": whole + "<tmx></tmx>",
        "an encoding that nobody knows": whole.replace("UTF-8", "klingon"),
    }
    for name, content in bad.items():
        yield door.case(name, "build --tmx", Planted({"x.tmx": content.encode()}), must_refuse=True)
    good = {
        "as it should be": whole.encode(),
        "UTF-16": whole.replace("UTF-8", "UTF-16").encode("utf-16"),
        "codes of countries": whole.replace('"en"', '"en-GB"').replace('"de"', '"DE-at"').encode(),
        "marks inside": whole.replace("floor", '<bpt i="1">{b}</bpt>floor<ept i="1">{/b}</ept>').encode(),
    }
    for name, content in good.items():
        yield door.case(
            name, "build --tmx", Planted({"x.tmx": content}), must_work=True, check=_sentences(3), writes=("out",)
        )
    content = world.file("memory.tmx").read_bytes()
    while True:
        data, how = spoilt(content, random)
        yield door.case(how, "build --tmx", Planted({"x.tmx": data}), check=_at_most(40), writes=("out",))


def glossaries(world: World, random: Random) -> Cases:
    """Lists of terms, and what `npda terms` makes of them."""
    rest = [
        "--model",
        str(world.model),
        "--out",
        "out",
        "--general",
        str(world.file("pairs.tsv")),
        "-q",
        "--sentences",
        "4",
    ]
    door = Door(world, rest)
    bad = {
        "empty": b"",
        "one column": b"floor\nwindow\n",
        "a header alone": b"source\ttarget\n",
        "an empty side": b"source\ttarget\nfloor\t\n",
        "a field too many": b"source\ttarget\nfloor\tWort\tx\n",
        "the same twice, differently": b"source\ttarget\nfloor\tWort\nfloor\tBoden\n",
        "latin-1": "source\ttarget\nfloor\tTür\n".encode("latin-1"),
        "an open quote": b'source,target\n"floor,Wort\n',
        "zeros": bytes(500),
        "points alone": b"source\ttarget\n...\t...\n",
    }
    for name, content in bad.items():
        yield door.case(name, "terms", Planted({"x.tsv": content}), must_refuse=True)
    good = world.file("terms.tsv").read_bytes()
    yield door.case("as it should be", "terms", Planted({"x.tsv": good}), must_work=True, writes=("out",))
    translate = Door(world, ["--model", str(world.model), "--max-length", "6", "--beam", "1", "-q"])
    while True:
        data, how = spoilt(good, random)
        if random.random() < 0.3:
            yield door.case(how, "terms", Planted({"x.tsv": data}), writes=("out",))
        else:
            yield translate.case(how, f"translate {world.file('1.wav')} --terms", Planted({"x.tsv": data}))


def _sentences(count: int):
    """→ a check that a store was made of so many"""

    def check(ended: Ended, folder: Path) -> str:
        found = sum(source["sentences"] for source in json.loads(ended.output)["sources"])
        return "" if found == count else f"{found} sentences instead of {count}"

    return check


def _at_most(count: int):
    def check(ended: Ended, folder: Path) -> str:
        found = sum(source["sentences"] + source["skipped"] for source in json.loads(ended.output)["sources"])
        return "" if found <= 2 * count else f"{found} sentences of {count}"

    return check


def _as_many_lines(data: bytes):
    """→ a check that every line of a table became a sentence, but for a header"""
    lines = data.decode(errors="replace").removesuffix("\n").count("\n") + 1

    def check(ended: Ended, folder: Path) -> str:
        found = sum(source["sentences"] + source["skipped"] for source in json.loads(ended.output)["sources"])
        return "" if found in (lines, lines - 1) else f"{found} sentences of {lines} lines"

    return check
