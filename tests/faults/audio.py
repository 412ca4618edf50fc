"""Bad recordings: cut off, spoilt, with heads that nobody means, and things that are none."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from random import Random

from tests.faults.judging import Door, Planted
from tests.faults.spoiling import spoilt
from tests.faults.verdicts import Cases
from tests.faults.world import World

WHOLE = ("a.wav", "a.flac", "a.mp3", "a.ogg", "a.aiff", "a.w64", "float.wav", "a.au", "a.caf")


def wav(
    data: bytes, rate: int = 16_000, channels: int = 1, bits: int = 16, kind: int = 1, claims: int | None = None
) -> bytes:
    """A file with a head that says what it is told to."""
    size = len(data) if claims is None else claims
    form = struct.pack(
        "<HHIIHH", kind, channels, rate, rate * channels * bits // 8 & 0xFFFFFFFF, channels * bits // 8 & 0xFFFF, bits
    )
    chunks = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", size) + data
    return b"RIFF" + struct.pack("<I", min(size + 36, 0xFFFFFFFF)) + chunks


def named(world: World) -> dict[str, bytes]:
    """Files that cannot be translated as they are: each has to be refused, or reported."""
    sound = world.file("a.wav").read_bytes()[44:]
    floats = struct.pack("<4f", 0.1, float("nan"), 0.2, float("inf")) * 8_000
    files = {
        "empty": b"",
        "a word": b"hello",
        "text": b"src_text\ttgt_text\nThe floor\tDas Wort\n" * 50,
        "zeros": bytes(10_000),
        "a head alone": wav(b""),
        "half a head": wav(sound)[:20],
        "1 Hz": wav(sound, rate=1),
        "0 Hz": wav(sound, rate=0),
        "4 GHz": wav(sound, rate=0xFFFFFFFF),
        "no channels": wav(sound, channels=0),
        "65535 channels": wav(sound, channels=65_535),
        "0 bits": wav(sound, bits=0),
        "7 bits": wav(sound, bits=7),
        "an unknown codec": wav(sound, kind=0x7777),
        "ten hours": wav(sound, claims=36_000 * 32_000),
        "NaN and infinity": wav(floats, bits=32, kind=3),
        "a picture": b"\x89PNG\r\n\x1a\n" + bytes(2_000),
        "a zip": b"PK\x03\x04" + bytes(2_000),
        "a playlist": b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/passwd\n",
        "a list for FFmpeg": b"ffconcat version 1.0\nfile '/etc/passwd'\n",
        "a session description": b"v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=audio 5004 RTP/AVP 0\n",
    }
    for name in WHOLE:
        content = world.file(name).read_bytes()
        for share in (0.5, 0.9):
            files[f"{share:.0%} of {name}"] = content[: int(share * len(content))]
    return files


def cases(world: World, random: Random) -> Cases:
    door = Door(world, ["--model", str(world.model), "--max-length", "6", "--beam", "1", "-q"])
    for name, content in named(world).items():
        for suffix in (".wav", ".mp3"):
            yield door.case(f"{name}{suffix}", "translate", Planted({f"x{suffix}": content}), must_refuse=True)
    for name, path in {
        "no such file": "none.wav", "an empty folder": "folder", "a fifo": "fifo", "a long name": "n" * 300 + ".wav",
        "a piece beyond the end": "good.wav:99999999:10", "a piece of nothing": "good.wav:0:0",
        "an escape sequence": "\x1b[31mred.wav", "nothing": "", "a file as a folder": "good.wav/x.wav",
    }.items():  # fmt: skip
        yield door.case(
            name,
            "translate",
            Planted({"good.wav": world.file("a.wav").read_bytes()}, {"fifo": os.mkfifo, "folder": os.mkdir}),
            path,
            must_refuse=True,
        )
    good = world.file("a.wav").read_bytes()
    for name in ("\udcff.wav", "a b\nc.wav", "-x.wav", "ü" * 100 + ".wav"):
        yield door.case(f"the name {name!r}", "translate", Planted({name: good}), f"./{name}", must_work=True)
    while True:
        name = random.choice(WHOLE)
        content, how = spoilt(world.file(name).read_bytes(), random)
        suffix = random.choice([Path(name).suffix, ".wav", ".mp3", ""])
        yield door.case(f"{name} as x{suffix}, {how}", "translate", Planted({f"x{suffix}": content}))
