"""The services around an eval: healthy before and after it, scaled, locked down."""

import re

import pytest

from compose.conftest import OWNER, REPLICAS
from compose.stack import SERVICES, Stack, docker, rows

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

LIMIT_MB = {"head": 250, "env-bundle": 250, "resources": 250, "driver": 350}


def test_services_are_healthy_after_the_driver_finished(services: Stack, first_eval: int) -> None:
    assert first_eval == 0
    states = {each.name: each.health for name in SERVICES for each in services.containers(name)}
    assert len(states) == len(SERVICES) - 1 + REPLICAS
    assert set(states.values()) == {"healthy"}, states
    registered = services.get("head", 11000, "/v1/servers")["servers"]
    assert sum(server["name"] == "resources" and server["status"] == "up" for server in registered) == REPLICAS


def test_every_replica_served_sessions(services: Stack) -> None:
    served = {}
    for replica in services.containers("resources"):
        text = replica.get_text(8300, "/metrics")
        served[replica.name] = sum(map(float, re.findall(r"^rollgym_sessions_closed_total\{.*\} (\S+)$", text, re.M)))
    assert len(served) == REPLICAS
    assert min(served.values()) > 0, served


def test_make_compose_eval_runs_another_eval(services: Stack) -> None:
    before = services.result_folders()
    answer = services.make("compose-eval", check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (folder,) = services.result_folders() - before
    results = folder / "rollouts.jsonl"
    assert len(rows(results)) == 200
    assert (results.stat().st_uid, results.stat().st_gid) == (OWNER, OWNER)
    assert len(services.containers("resources")) == REPLICAS
    named = answer.stdout.partition("Artifacts:\n")[2].split()
    assert str(results.relative_to(services.folder)) in named
    assert [path for path in named if not (services.folder / path).exists()] == []


def test_an_eval_in_containers_resumes_by_the_path_that_it_printed(services: Stack) -> None:
    output = "results/resumed/rollouts.jsonl"
    for limit, said in (("--limit=3", "Run "), ("--limit=3 --resume", "Resuming run ")):
        answer = services.make("compose-eval", f"ARGS={limit} --output {output}", check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        assert said in answer.stderr
    assert len(rows(services.folder / output)) == 3


def test_an_eval_with_failing_rollouts_ends_with_the_documented_code(services: Stack) -> None:
    (services.folder / "examples" / "unknown_env.jsonl").write_text(
        '{"responses_create_params": {"input": []}, "env": "gridsim", "reset": {"seed": "no number"}}\n'
    )
    with services.background_eval("++input_jsonl_fpath=/examples/unknown_env.jsonl") as driver:
        assert driver.wait_exit_code() == 3, driver.logs()


@pytest.mark.parametrize("name", [*SERVICES, "driver"])
def test_containers_are_locked_down(services: Stack, name: str) -> None:
    for container in services.containers(name):
        facts = container.inspect()
        host = facts["HostConfig"]
        user = facts["Config"]["User"].split(":")[0]
        assert user.isdecimal()
        assert int(user) > 0
        assert host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"]
        assert not host["CapAdd"]
        assert not host["Privileged"]
        assert "no-new-privileges:true" in host["SecurityOpt"]


def test_only_the_heads_page_and_the_monitoring_are_published_and_on_loopback(services: Stack) -> None:
    published = {
        service: [binding["HostIp"] for bindings in ports.values() for binding in bindings or []]
        for service in (*SERVICES, "driver", "prometheus", "folders")
        for each in services.containers(service)
        for ports in [each.inspect()["HostConfig"]["PortBindings"] or {}]
    }
    assert {service for service, hosts in published.items() if hosts} == {"head", "prometheus"}
    assert {host for hosts in published.values() for host in hosts} == {"127.0.0.1"}


@pytest.mark.parametrize("name", LIMIT_MB)
def test_images_are_small_and_hold_no_installer(stack: Stack, name: str) -> None:
    image = f"rollgym/{name}:{stack.tag}"
    size_mb = int(docker("image", "inspect", "--format", "{{.Size}}", image).stdout) / 1e6
    assert size_mb < LIMIT_MB[name]
    found = docker("run", "--rm", "--entrypoint", "ls", image, "/opt/rollgym/bin").stdout.split()
    assert not {"pip", "curl"} & set(found)
    assert int(docker("run", "--rm", "--entrypoint", "id", image, "-u").stdout) > 0
