"""The whole stack as a person starts it: a copy of the tree in an empty folder, `docker compose`, `make`, `docker`."""

import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from testcontainers.compose import DockerCompose

from needs import ROOT
from waiting import wait_until

SERVICES = ("head", "env-bundle", "resources")
IMAGES = (*SERVICES, "driver")
COMMAND_TIMEOUT_S = 280


def copy_tree(target: Path) -> Path:
    """What a clean clone of this tree would hold, work that is not committed yet included."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


@dataclass(frozen=True)
class Container:
    """One container, by its id; what Docker says of it is asked anew each time."""

    id: str

    def inspect(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(docker("inspect", self.id).stdout)[0]
        return answer

    @property
    def name(self) -> str:
        return str(self.inspect()["Name"]).lstrip("/")

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.inspect()["State"]
        return state

    @property
    def health(self) -> str:
        return str(self.state.get("Health", {}).get("Status", self.state["Status"]))

    def wait_exit_code(self, timeout_s: float = 240) -> int:
        wait_until(lambda: self.state["Status"] == "exited", timeout_s, pause_s=0.25)
        return int(self.state["ExitCode"])

    def get_text(self, port: int, path: str) -> str:
        """What the container itself is answered on its own loopback."""
        code = (
            f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}{path}', timeout=10).read().decode())"
        )
        return docker("exec", self.id, "python", "-c", code).stdout

    def logs(self) -> str:
        answer = docker("logs", self.id, check=False)
        return answer.stdout + answer.stderr


def docker(*argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return _run(["docker", *argv], ROOT, check=check)


def _run(
    argv: list[str], cwd: Path, *, check: bool = True, own_session: bool = False
) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        argv,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
        start_new_session=own_session,
    )
    if check and answer.returncode:
        raise AssertionError(f"{' '.join(argv)} exited {answer.returncode}\n{answer.stdout}\n{answer.stderr}")
    return answer


@contextmanager
def uninterrupted() -> Iterator[None]:
    """What has to be done to its end: an impatient Ctrl-C, or xdist's own second one to a worker, waits for it."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


class Stack:
    """One Compose project in `folder`; its name, ports and images are its own, so that runs do not collide."""

    def __init__(self, folder: Path, project: str, tag: str, **settings: int) -> None:
        self.folder, self.project = copy_tree(folder), project
        self.tag = tag
        own = {"COMPOSE_PROJECT_NAME": project, "ROLLGYM_TAG": tag, "HEAD_PORT": 0, "PROMETHEUS_PORT": 0}
        (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in {**own, **settings}.items()))
        self._compose = DockerCompose(str(folder))

    def compose(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = self._compose.docker_compose_command()
        answer = _run([*command, *argv], self.folder, check=False)
        if check and answer.returncode:
            logs = _run([*command, "logs", "--no-color", "--tail", "20"], self.folder, check=False).stdout
            raise AssertionError(f"docker compose {' '.join(argv)}: {answer.returncode}\n{answer.stderr}\n{logs}")
        return answer

    def make(self, *argv: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        # Started by make itself, a test would hand that make's own variables (ARGS) on.
        without = ["-u", "ARGS", "-u", "MAKEFLAGS", "-u", "MAKELEVEL"]
        return _run(["env", *without, "make", *argv], self.folder, check=check)

    def containers(self, service: str | None = None) -> list[Container]:
        """Those of the project, stopped ones and one-off runs included."""
        filters = [f"label=com.docker.compose.project={self.project}"]
        if service is not None:
            filters.append(f"label=com.docker.compose.service={service}")
        flags = [word for each in filters for word in ("--filter", each)]
        return [Container(line) for line in docker("ps", "--all", "--quiet", *flags).stdout.split()]

    def container(self, service: str) -> Container:
        found = self.containers(service)
        assert len(found) == 1, f"{service}: {[each.name for each in found]}"
        return found[0]

    def url(self, service: str, port: int) -> str:
        host, published = self._compose.get_service_host_and_port(service, port)
        return f"http://{host}:{published}"

    def get(self, service: str, port: int, path: str, **query: str) -> Any:
        answer = httpx.get(self.url(service, port) + path, params=query, timeout=10, trust_env=False)
        answer.raise_for_status()
        return answer.json()

    def leftovers(self) -> list[str]:
        """Containers, networks and volumes that still carry the project's name."""
        label = f"label=com.docker.compose.project={self.project}"
        listings = (("ps", "--all"), ("network", "ls"), ("volume", "ls"))
        return [line for words in listings for line in docker(*words, "--quiet", "--filter", label).stdout.split()]

    def result_folders(self) -> set[Path]:
        results = self.folder / "results"
        return {path.parent for path in results.glob("*/rollouts.jsonl")} if results.exists() else set()

    @contextmanager
    def background_eval(self, *overrides: str) -> Iterator[Container]:
        """An eval that runs while the block does; its container is gone afterwards."""
        command = ["eval", "run", "--no-serve", "--config", "/opt/rollgym/eval.yaml", *overrides]
        name = _run(["scripts/compose.sh", "run", "--detach", "driver", *command], self.folder).stdout.split()[-1]
        container = Container(docker("inspect", "--format", "{{.Id}}", name).stdout.strip())
        try:
            yield container
        finally:
            docker("rm", "--force", container.id)

    @contextmanager
    def cut_off(self, container: Container) -> Iterator[None]:
        """While the block runs, `container` is in no network: what it sends or is sent is lost, and nobody is told."""
        networks = container.inspect()["NetworkSettings"]["Networks"]
        for network in networks:
            docker("network", "disconnect", network, container.id)
        try:
            yield
        finally:
            for network, settings in networks.items():
                names = [word for alias in settings["Aliases"] for word in ("--alias", alias)]
                docker("network", "connect", *names, network, container.id)

    def remove(self) -> None:
        """Whatever happened, nothing of the project stays."""
        words = ["--profile", "monitoring", "down", "--volumes", "--remove-orphans", "--timeout", "5"]
        with uninterrupted():
            _run([*self._compose.docker_compose_command(), *words], self.folder, check=False, own_session=True)


def rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_bytes().split(b"\n") if line]
