"""faster-whisper behind the same endpoint: python -m benchmarks.faster_whisper_server MODEL --threads 2

For comparison only. One process holds the model in eight bits; --workers of them decode at a time, with --threads
altogether.
"""

from __future__ import annotations

import argparse
import io
import socket
from pathlib import Path

import uvicorn
from fastapi import FastAPI, UploadFile

from benchmarks.whisper_decode import BEAM, SPOKEN, converted


def create_app(directory: Path, threads: int, workers: int) -> FastAPI:
    from faster_whisper import WhisperModel  # pyright: ignore[reportMissingImports]

    made = str(converted(directory))
    model = WhisperModel(
        made, device="cpu", compute_type="int8", cpu_threads=max(1, threads // workers), num_workers=workers
    )
    app = FastAPI()

    @app.post("/v1/audio/translations")
    def translations(file: UploadFile) -> dict[str, str]:
        segments, _ = model.transcribe(
            io.BytesIO(file.file.read()), language=SPOKEN, task="translate", beam_size=BEAM, temperature=0.0,
            without_timestamps=True, condition_on_previous_text=False,
        )  # fmt: skip
        return {"text": "".join(segment.text for segment in segments).strip()}

    return app


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    app = create_app(options.model, options.threads, options.workers)
    bound = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, access_log=False, log_level="warning")).run(sockets=[bound])


if __name__ == "__main__":
    main()
