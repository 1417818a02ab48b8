"""Starting and ending the demonstration's processes: nginx and the engines.

Everything lies in RUN (build/run): pid files, logs, the nginx.conf in use.
Only a process that a pid file names, and that still is what we started, is
ever ended.
"""

import fcntl
import json
import os
import pathlib
import re
import select
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ENGINE = HERE / "engine.py"
ROOT = HERE.parents[1]
PORT = 8092


class DemoError(Exception):
    """A sentence for the user, without its full stop."""


class Busy(DemoError):
    """Nothing is ours to end."""


def wait_until(condition, seconds, step=0.02):
    """The condition's first true value, or None when time is over."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            return None
        time.sleep(step)


def read_text(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def last_line(path):
    lines = read_text(path).strip().splitlines()
    return lines[-1].strip() if lines else "it left no message"


def command_line(pid):
    return read_text(f"/proc/{pid}/cmdline").replace("\0", " ")


def alive(pid):
    state = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(state) and state[0] not in "ZX"


def worker_processes(master):
    """Pids of nginx's worker processes."""
    children = read_text(f"/proc/{master}/task/{master}/children").split()
    return [int(pid) for pid in children
            if command_line(pid).startswith("nginx: worker process")]


def check_port(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DemoError(f"port {port} cannot be used ({error.strerror}): "
                            f"end what listens there, or take another one "
                            f"with --port")
        return probe.getsockname()[1]


class Processes:
    def __init__(self, build, nginx="nginx", conf=None):
        self.build = pathlib.Path(build).resolve()
        self.run = self.build / "run"
        self.nginx = nginx
        self.conf = pathlib.Path(conf or ROOT / "conf" / "nginx.conf")
        self.children = {}

    # Starting

    def claim(self):
        """One demonstration at a time plays in a build directory."""
        self.run.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.run / "demo.lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(f"another demonstration is playing in {self.build}")

    def start_selector(self, port):
        """Returns nginx's master pid once it listens."""
        log = self.run / "start.log"
        try:
            with open(log, "w") as output:
                status = subprocess.run(
                    self._nginx_command(port), stdin=subprocess.DEVNULL,
                    stdout=output, stderr=output, timeout=20).returncode
        except OSError as error:
            raise DemoError(f"{self.nginx} cannot be started: "
                            f"{error.strerror}")
        except subprocess.TimeoutExpired:
            raise DemoError("nginx did not go into the background within 20 s")
        if status != 0:
            raise DemoError(f"nginx did not start: {last_line(log)}")
        pid = wait_until(lambda: read_text(self._nginx_pid_file()).strip(), 5)
        if not pid:
            raise DemoError(f"nginx wrote no pid file "
                            f"{self._nginx_pid_file()}")
        return int(pid)

    def start_engine(self, number, *arguments):
        """Returns {"pid", "http", "kv_events"}: an engine that is ready."""
        log = self.run / f"engine-{number}.log"
        with open(log, "w") as output:
            child = subprocess.Popen(
                [sys.executable, str(ENGINE), *map(str, arguments)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=output, start_new_session=True)
        self.children[child.pid] = child
        (self.run / f"engine-{number}.pid").write_text(f"{child.pid}\n")
        with child.stdout as ready:
            said = select.select([ready], [], [], 20)[0] and ready.readline()
        if not said:
            raise DemoError(f"engine {number} did not start: {last_line(log)}")
        return {"pid": child.pid, **json.loads(said)}

    def _nginx_command(self, port):
        text = self.conf_text(port)
        rendered = self.run / "nginx.conf"
        rendered.write_text(text)
        command = [self.nginx, "-p", f"{ROOT}/", "-c", str(rendered),
                   "-e", str(self.run / "error.log")]
        if not re.search(r"^\s*pid\s", text, re.M):
            command += ["-g", f"pid {self.run}/nginx.pid;"]
        return command

    def conf_text(self, port):
        """conf/nginx.conf with our port and our build directory."""
        try:
            text = self.conf.read_text()
        except OSError as error:
            raise DemoError(f"{self.conf} cannot be read: {error.strerror}")
        text, count = re.subn(rf"(\blisten\s[^;#]*?)\b{PORT}\b",
                              rf"\g<1>{port}", text)
        if count == 0:
            raise DemoError(f"{self.conf} does not listen on port {PORT}")
        return re.sub(r"(?<![\w./-])build/", f"{self.build}/", text)

    def configured_workers(self):
        found = re.search(r"^\s*worker_processes\s+(\d+)",
                          read_text(self.run / "nginx.conf"), re.M)
        return int(found[1]) if found else 1

    def _nginx_pid_file(self):
        found = re.search(r"^\s*pid\s+([^;\s]+)",
                          read_text(self.run / "nginx.conf"), re.M)
        return ROOT / found[1] if found else self.run / "nginx.pid"

    # Ending

    def running(self):
        """{pid: (name, pid file)} of the processes that are ours."""
        found = {}
        files = [("nginx", self._nginx_pid_file(), str(self.run))]
        files += [(path.stem, path, str(ENGINE))
                  for path in sorted(self.run.glob("engine-*.pid"))]
        for name, path, mark in files:
            pid = read_text(path).strip()
            if pid.isdecimal() and alive(pid) and mark in command_line(pid):
                found[int(pid)] = (name, path)
        return found

    def stop(self):
        """Ends all of them.  Returns their names."""
        ours = self.running()
        workers = [worker for pid in ours for worker in worker_processes(pid)]
        self._signal(ours, signal.SIGTERM)
        every = [*ours, *workers]
        if not wait_until(lambda: not any(map(alive, every)), 5):
            self._signal(every, signal.SIGKILL)
            if not wait_until(lambda: not any(map(alive, every)), 5):
                left = ", ".join(map(str, filter(alive, every)))
                raise DemoError(f"these processes did not end: {left}")
        for child in self.children.values():
            child.wait()
        self.children.clear()
        for path in (self._nginx_pid_file(), *self.run.glob("engine-*.pid")):
            path.unlink(missing_ok=True)
        return [name for name, _ in ours.values()]

    @staticmethod
    def _signal(pids, number):
        for pid in filter(alive, pids):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
