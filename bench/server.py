"""An nginx of a benchmark's own, with the module."""

import argparse
import json
import os
import pathlib
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from http.client import HTTPConnection

BLOCK = 16                  # tokens
WAIT = 30                   # seconds

CONF = """
load_module {build}/ngx_http_select_module.so;
load_module {build}/bench/ngx_bench_answer_module.so;

daemon off;
worker_processes {processes};
pid {run}/nginx.pid;
error_log {run}/error.log warn;

events {{
    worker_connections 16384;
}}

http {{
    access_log off;
    keepalive_requests 100000000;
    client_body_buffer_size 128k;
    client_body_temp_path {run}/client_body;
    proxy_temp_path {run}/proxy;
    fastcgi_temp_path {run}/fastcgi;
    uwsgi_temp_path {run}/uwsgi;
    scgi_temp_path {run}/scgi;

    select_zone selector 64m;
    select_kv_events {events};
    {upstreams}

    server {{
        listen 127.0.0.1:{port} reuseport;
        {locations}

        location / {{
            select_service selector;
        }}

        location = /status {{
            select_status selector;
        }}

        location = /fixed {{
            bench_answer '{answer}';
        }}

        location = /return {{
            default_type application/json;
            return 200 '{answer}';
        }}
    }}
}}
"""


class BenchError(Exception):
    pass


def wait_until(condition, what):
    end = time.monotonic() + WAIT
    while not condition():
        if time.monotonic() > end:
            raise BenchError(f"{what}: not within {WAIT} seconds")
        time.sleep(0.01)


def raise_limit(files):
    """Of descriptors, for us and for nginx; whether there are so many."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard == resource.RLIM_INFINITY or hard >= files


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Nginx:
    """A server of our own, ended with the scenario."""

    def __init__(self, options, events, processes=2, answer="", turns=None,
                 name="nginx", upstreams="", locations=""):
        self.port = free_port()
        self.run = options.build / "bench" / "run" / name
        self.run.mkdir(parents=True, exist_ok=True)
        conf = self.run / "nginx.conf"
        conf.write_text(CONF.format(
            build=options.build, run=self.run, port=self.port,
            processes=processes, events="on" if events else "off",
            answer=answer, upstreams=upstreams, locations=locations))
        self.master = subprocess.Popen(
            [options.nginx, "-p", f"{self.run}/", "-c", conf,
             "-e", self.run / "error.log"], stdin=subprocess.DEVNULL,
            env=dict(os.environ, **turns.environment) if turns else None)
        self.http = HTTPConnection("127.0.0.1", self.port, timeout=WAIT)
        wait_until(self.answers, "nginx")

    def answers(self):
        if self.master.poll() is not None:
            raise BenchError(f"nginx did not start, see {self.run}/error.log")
        try:
            return self.call("GET", "/health")[0] == 200
        except OSError:
            self.http.close()
            return False

    def call(self, method, path, body=None):
        self.http.request(method, path, body and json.dumps(body),
                          {"Content-Type": "application/json"})
        response = self.http.getresponse()
        return response.status, response.read().decode()

    def register(self, number, ports=(), endpoint=None):
        """A worker whose ranks publish at these ports, or do not publish."""
        status, text = self.call("POST", "/workers", {
            "worker_id": 1000 + number, "block_size": BLOCK,
            "endpoint": endpoint or f"http://engine-{1000 + number}:8000",
            "data_parallel_size": len(ports) or 1,
            "kv_events_endpoints": {
                str(rank): f"tcp://127.0.0.1:{port}"
                for rank, port in enumerate(ports)}})
        if status != 201 or '"schedulable"' not in text:
            raise BenchError(f"a worker was not taken: {text}")

    def workers(self):
        children = pathlib.Path(f"/proc/{self.master.pid}/task/"
                                f"{self.master.pid}/children").read_text()
        return ",".join(children.split())

    def cpu(self):
        """Seconds of CPU time that each worker process has had."""
        return [time.clock_gettime(~int(pid) << 3 | 2)
                for pid in self.workers().split(",")]

    def metric(self, name):
        status = self.call("GET", "/status")[1]
        return float(re.search(rf"^{name} (\S+)", status, re.M)[1])

    def index_blocks(self):
        """Of each worker process."""
        status = self.call("GET", "/status")[1]
        return [int(float(n)) for n in re.findall(
            r'^select_index_blocks\{process="\d+"\} (\S+)', status, re.M)]

    def stop(self):
        self.http.close()
        self.master.send_signal(signal.SIGTERM)
        self.master.wait(WAIT)


def spread(values, digits=1):
    return (f"{statistics.median(values):.{digits}f} "
            f"({min(values):.{digits}f} .. {max(values):.{digits}f})")


def run(main):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--nginx", default="/usr/sbin/nginx")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.build = options.build.resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    try:
        main(options)
    except (BenchError, subprocess.SubprocessError) as error:
        sys.exit(str(error))
