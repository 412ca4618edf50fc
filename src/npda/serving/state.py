"""What the parts of a running server share."""

from __future__ import annotations

from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from npda.serving.access import Access
from npda.serving.captions.conversation import Conversations
from npda.serving.database import Database
from npda.serving.engine.asks import Engine, Library
from npda.serving.engine.catalogue import Catalogue
from npda.serving.metrics import Metrics
from npda.serving.requests.decoding import Decoder
from npda.serving.requests.receiving import Uploads
from npda.serving.requests.recent import Recent
from npda.serving.settings import Settings
from npda.serving.stores.correcting import Correcting
from npda.serving.stores.jobs import Jobs
from npda.serving.terms.requested import ServedTerms


@dataclass
class State:
    """As ``app.state.npda``; ``npda.serving.app`` puts it together.

    ready: requests are taken
    """

    settings: Settings
    access: Access
    metrics: Metrics
    recent: Recent
    engine: Engine
    library: Library
    models: Catalogue
    uploads: Uploads
    decoder: Decoder
    database: Database | None = None
    jobs: Jobs | None = None
    terms: ServedTerms | None = None
    corrections: Correcting | None = None
    ready: bool = False
    live: Conversations = field(default_factory=Conversations)


def state_of(connection: HTTPConnection) -> State:
    """Of the server that has received a request or holds a WebSocket."""
    return connection.app.state.npda
