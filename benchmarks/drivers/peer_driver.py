"""The published nemo-gym's rollout collection, started with nothing but what it needs; runs in an environment with it.

    peer_driver.py --agent-url http://127.0.0.1:PORT --agent-name NAME --input FILE --output FILE [--tuned] …

Its command line would first ask a head for a configuration and then start servers; here the configuration is given, and
everything from the reading of the rows to the written results is its own code.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from typing import Any
from urllib.parse import urlsplit

# Found where this runs, in the peer's environment, and nowhere else.
import nemo_gym.rollout_collection as collection  # type: ignore[import-not-found]
from nemo_gym.config_types import BaseServerConfig  # type: ignore[import-not-found]
from nemo_gym.server_utils import (  # type: ignore[import-not-found]
    GlobalAIOHTTPAsyncClientConfig,
    ServerClient,
    is_global_aiohttp_client_setup,
    set_global_aiohttp_client,
)
from omegaconf import DictConfig, OmegaConf

TUNED_THRESHOLDS = (50_000, 50, 100)


def flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent-url", required=True)
    parser.add_argument("--agent-name", required=True)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--tuned", action="store_true", help="freeze and set thresholds before collection")
    return parser.parse_args()


def global_config(options: argparse.Namespace) -> DictConfig:
    """What its head would answer: where the agent is, which environment server scores its rows, and capture on."""
    parts = urlsplit(options.agent_url)
    head = {"host": parts.hostname, "port": parts.port}
    server = {**head, "entrypoint": "app.py"}
    agent = {"type": "responses_api_agents", "name": options.agent_name}
    return OmegaConf.create(
        {
            "head_server": head,
            options.agent_name: {"responses_api_agents": {"simulated": server}},
            "simulated_env": {"environment_servers": {"legacy_agent": {**server, "agent_server": agent}}},
            "observability_enabled": True,
            "model_call_capture_dir": f"{options.output}.captures",
        }
    )


def use(config: DictConfig) -> None:
    """Give the collection its configuration where it would ask a head for it."""

    def server_client(_: Any, head_server_config: BaseServerConfig | None = None) -> ServerClient:
        if not is_global_aiohttp_client_setup():
            set_global_aiohttp_client(cfg=GlobalAIOHTTPAsyncClientConfig.model_validate(config))
        head = head_server_config or BaseServerConfig.model_validate(OmegaConf.to_container(config.head_server))
        return ServerClient(head_server_config=head, global_config_dict=config)

    def configured(*_: Any, **__: Any) -> DictConfig:
        return config

    collection.get_global_config_dict = configured
    collection.RolloutCollectionHelper.setup_server_client = server_client


def main() -> None:
    options = flags()
    use(global_config(options))
    config = collection.RolloutCollectionConfig(
        input_jsonl_fpath=options.input,
        output_jsonl_fpath=options.output,
        num_repeats=options.repeats,
        num_samples_in_parallel=options.concurrency,
        disable_aggregation=True,
        disable_health_check=True,
    )
    if options.tuned:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*TUNED_THRESHOLDS)
    asyncio.run(collection.RolloutCollectionHelper().run_from_config(config))


if __name__ == "__main__":
    main()
