"""Runs in the peer's own virtual environment: NeMo Gym as a client of our resources server. Argument: its URL.

Its check of a resources server wants an application in its own process, so it gets one that passes each request on.
Then its simple agent plays a rollout, observed, with a model of two answers; what comes of it is read with its types.
"""

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request, Response
from nemo_gym.base_resources_server import BaseVerifyResponse, ResourcesSeedSessionRequest, ReverifyMode
from nemo_gym.config_types import AggregateMetrics, BaseServerConfig, ModelServerRef, ResourcesServerRef
from nemo_gym.episode_types import EpisodeId, TaskId
from nemo_gym.server_utils import ServerClient
from nemo_gym.testing.session_conformance import check_resources_session_contract
from omegaconf import OmegaConf
from responses_api_agents.simple_agent.app import SimpleAgent, SimpleAgentConfig

HOST = "127.0.0.1"
CALL = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "step", "status": "completed"}
TEXT = {"type": "output_text", "text": "done", "annotations": []}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [TEXT]}
ANSWERS = [[{**CALL, "arguments": '{"message": "hello", "reward": 0.5, "done": true}'}], [MESSAGE]]


def passing_on_to(url: str) -> FastAPI:
    """An application that is the server at `url`."""
    app = FastAPI()

    @app.post("/{path:path}")
    async def pass_on(path: str, request: Request) -> Response:
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            answer = await client.post(f"/{path}", content=await request.body())
        return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))

    return app


def check_contract(url: str) -> None:
    seed = ResourcesSeedSessionRequest(
        resources_session_id="session-1",
        episode_id=EpisodeId(rollout_id="0-0", attempt=0),
        task_id=TaskId(taskset="echo", task_id="0"),
        task_data={"env": "echo", "seed": 1},
    )
    check_resources_session_contract(passing_on_to(url), seed, keeps_state=True)


def model() -> FastAPI:
    """A model that calls the tool, and then says that it is done."""
    app = FastAPI()

    @app.post("/{path:path}")
    async def respond(path: str, request: Request) -> dict[str, Any]:
        asked = (await request.json())["input"]
        output = ANSWERS[any(item.get("type") == "function_call_output" for item in asked)]
        common = {"created_at": 1.0, "model": "two answers", "object": "response", "output": output}
        return {"id": "resp_1", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], **common}

    return app


@contextlib.contextmanager
def serving(app: FastAPI, listener: socket.socket) -> Iterator[None]:
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield
    finally:
        server.should_exit = True
        thread.join()


def check_agent(url: str) -> None:
    """A rollout by NeMo Gym's own agent, which observes it."""
    at = httpx.URL(url)
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(2)]
        agent_port, model_port = (each.getsockname()[1] for each in sockets)
        servers = {
            "resources": {"resources_servers": {"rollgym": {"host": at.host, "port": at.port}}},
            "agent": {"responses_api_agents": {"simple_agent": {"host": HOST, "port": agent_port}}},
            "model": {"responses_api_models": {"model": {"host": HOST, "port": model_port}}},
            "observability_enabled": True,
        }
        config = SimpleAgentConfig(
            name="agent",
            host=HOST,
            port=agent_port,
            entrypoint="app.py",
            resources_server=ResourcesServerRef(type="resources_servers", name="resources"),
            model_server=ModelServerRef(type="responses_api_models", name="model"),
        )
        known = OmegaConf.create(servers)
        os.environ["NEMO_GYM_CONFIG_DICT"] = OmegaConf.to_yaml(known)  # else it looks for a command line to read
        client = ServerClient(head_server_config=BaseServerConfig(host=HOST, port=1), global_config_dict=known)
        agent = SimpleAgent(config=config, server_client=client)
        stack.enter_context(serving(agent.setup_webserver(), sockets[0]))
        stack.enter_context(serving(model(), sockets[1]))
        params = {"input": [{"role": "user", "content": "play"}]}
        row = {"responses_create_params": params, "env": "echo", "_ng_task_index": 0, "_ng_rollout_index": 0}
        ran = httpx.post(f"http://{HOST}:{agent_port}/run", json=row, timeout=60, trust_env=False)
        assert ran.status_code == 200, ran.text
        judge(url, ran.json())


def judge(url: str, answer: dict[str, Any]) -> None:
    verified = BaseVerifyResponse.model_validate(answer)
    assert (verified.reward, verified.mask_sample, verified.failure_kind) == (0.5, False, None), answer
    (call,) = answer["ng_trajectory"]["tool_calls"]
    assert (call["status"], call["tool_name"]) == ("completed", "step"), call
    with httpx.Client(base_url=url, trust_env=False) as client:
        body = {"verify_responses": [answer | {"_ng_task_index": 0, "_ng_rollout_index": 0}]}
        AggregateMetrics.model_validate(client.post("/aggregate_metrics", json=body).raise_for_status().json())
        ReverifyMode(client.get("/reverify_mode").raise_for_status().json())


if __name__ == "__main__":
    check_contract(sys.argv[1])
    check_agent(sys.argv[1])
