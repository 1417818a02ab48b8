"""JSON over HTTP: to the selector over a few lasting connections; to an
engine, and through the router, with a connection for each call."""

from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
import itertools
import json
import time
from urllib.parse import urlsplit

from processes import DemoError

TIMEOUT = 10
CONNECTIONS = 4


def exchange(connection, method, path, body=None):
    """Returns (status, body as bytes)."""
    headers = {}
    if body is not None:
        body = json.dumps(body)
        headers["Content-Type"] = "application/json"
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, response.read()


def connect(url):
    return closing(HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT))


def call_engine(endpoint, path):
    try:
        with connect(endpoint) as connection:
            status, text = exchange(connection, "GET", path)
        answer = json.loads(text)
    except (OSError, HTTPException, ValueError) as error:
        raise DemoError(f"the engine {endpoint} does not answer: {error}")
    if status != 200:
        raise DemoError(f"the engine {endpoint} answered {status}: "
                        f"{answer.get('error')}")
    return answer


@dataclass
class Completion:
    worker: int
    predicted: int
    cached: int = None
    tokens: list = field(default_factory=list)

    def event(self, data):
        members = json.loads(data)
        for choice in members["choices"]:
            self.tokens += choice["token_ids"]
        if "usage" in members:
            self.cached = members["usage"]["prompt_tokens_details"][
                "cached_tokens"]


def complete(url, body, started):
    """A streamed completion; STARTED is called at its first event."""
    try:
        with connect(url) as connection:
            connection.request("POST", "/v1/completions", json.dumps(body),
                               {"Content-Type": "application/json"})
            return read_completion(connection.getresponse(), started)
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise DemoError(f"POST /v1/completions through {url}: "
                        f"{type(error).__name__}: {error}")


def read_completion(response, started):
    if response.status != 200:
        raise DemoError(f"POST /v1/completions answered {response.status}: "
                        f"{response.read(200).decode('latin1')}")
    answer = Completion(int(response.headers["X-Select-Worker"]),
                        int(response.headers["X-Select-Overlap"]))
    for line in response:
        data = line.decode().strip().removeprefix("data: ")
        if data == "[DONE]":
            return answer
        if data:
            if not answer.tokens:
                started()
            answer.event(data)
    raise DemoError("a completion ended without [DONE]")


@dataclass
class Load:
    """Of all ranks together."""
    requests: int
    tokens: int
    blocks: int


class Selector:
    """Each worker process of nginx has an index of its own, and a connection
    stays with the process that took it: what all connections see, every
    process that we can meet knows."""

    def __init__(self, port, log):
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        self.pool = [HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
                     for _ in range(CONNECTIONS)]
        self.turn = itertools.cycle(self.pool)

    def raw(self, method, path, body=None, connection=None):
        """One exchange; a connection that idled out is opened again."""
        connection = connection or next(self.turn)
        reused = connection.sock is not None
        for again in ([True, False] if reused else [False]):
            try:
                return exchange(connection, method, path, body)
            except (OSError, HTTPException) as error:
                connection.close()
                if not again:
                    raise DemoError(
                        f"the selector {self.url} does not answer {method} "
                        f"{path} ({error or type(error).__name__}); its log "
                        f"is {self.log}")

    def call(self, method, path, body=None, expect=200, connection=None,
             needs=()):
        """The answer, an object that has the members NEEDS."""
        status, text = self.raw(method, path, body, connection)
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        fits = isinstance(answer, dict)
        if status != expect or not fits:
            error = fits and answer.get("error") or text[:200].decode("latin1")
            raise DemoError(f"{method} {path} answered {status} instead of "
                            f"{expect} with an object: {error}")
        for name in needs:
            if name not in answer:
                raise DemoError(f"the answer of {method} {path} has no "
                                f"member {name}")
        return answer

    def load(self):
        with connect(self.url) as connection:
            status, text = self.raw("GET", "/loads", connection=connection)
        if status != 200:
            raise DemoError(f"GET /loads answered {status}")
        ranks = [rank for partition in json.loads(text)
                 for rank in partition["loads"]]
        return Load(*(sum(rank[member] for rank in ranks) for member in (
            "active_requests", "potential_prefill_tokens",
            "potential_decode_blocks")))

    def healthy(self):
        try:
            return self.raw("GET", "/health")[0] == 200
        except DemoError:
            return False

    def cached_blocks(self, prompt, worker_id, connection):
        rows = self.call("POST", "/overlap_scores", prompt,
                         connection=connection, needs=("workers",))["workers"]
        return sum(row["device_blocks"] for row in rows
                   if row["worker_id"] == worker_id)

    def wait_for_blocks(self, prompt, worker_id, blocks, seconds=2):
        """Seconds until every connection sees exactly these blocks.

        Returns (seconds, None), or (None, what was seen last)."""
        start = time.monotonic()
        for connection in self.pool:
            seen = self.cached_blocks(prompt, worker_id, connection)
            while seen != blocks:
                if time.monotonic() - start > seconds:
                    return None, seen
                time.sleep(0.002)
                seen = self.cached_blocks(prompt, worker_id, connection)
        return time.monotonic() - start, None
