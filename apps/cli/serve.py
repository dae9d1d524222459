"""`cua serve`: serve Kimi K2.5, plan GPUs, test any endpoint. `cua mcp`: tools for other agents."""

import json
import logging
import os
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from apps.cli import common, terminal
from apps.cli.config import choice, chosen_settings

if TYPE_CHECKING:
    from model_runtime.config import K25Config
    from model_runtime.launch.options import NativeOptions, VllmOptions

Flag = typer.Option
VllmFlag = partial(typer.Option, rich_help_panel="With --engine vllm")
PlanFlag = partial(typer.Option, rich_help_panel="Plan GPUs")
TestFlag = partial(typer.Option, rich_help_panel="Test an endpoint")


def serve(
    extra: Annotated[
        list[str] | None, typer.Argument(metavar="VLLM_ARGUMENTS", help="After --: arguments for vLLM, unchanged.")
    ] = None,
    engine: Annotated[str, Flag(metavar="ENGINE", help="native (the engine of this project) or vllm.")] = "native",
    model: Annotated[
        str | None,
        Flag("--model", "-m", metavar="FOLDER", help="Folder of the model, or nano; with --self-test its name."),
    ] = None,
    host: Annotated[str, Flag(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Flag(metavar="PORT", help="Port to listen on.")] = 8000,
    served_name: Annotated[
        str | None, Flag(metavar="NAME", help="Model name in requests.", show_default="name of the folder")
    ] = None,
    api_key_env: Annotated[
        str | None, Flag(metavar="VARIABLE", help="Environment variable that holds the API key.")
    ] = None,
    max_model_len: Annotated[
        int | None, Flag(metavar="TOKENS", help="Longest prompt with its answer.", show_default="limit of the model")
    ] = None,
    tp: Annotated[
        int | None, Flag(metavar="GPUS", help="Tensor-parallel size.", show_default="8 for vllm, 1 for native")
    ] = None,
    kernels: Annotated[str, Flag(metavar="KIND", help="native: triton or torch; auto takes triton on a GPU.")] = "auto",
    timeout: Annotated[
        float | None, Flag(metavar="SECONDS", help="vllm: time until it serves; --self-test: time per answer.")
    ] = None,
    dry_run: Annotated[bool, Flag("--dry-run", help="Print the values in force and exit.")] = False,
    other: Annotated[
        list[str] | None, Flag("--set", metavar="NAME=VALUE", help="Any other engine setting; repeatable.")
    ] = None,
    pp: Annotated[int, VllmFlag(metavar="STAGES", help="Pipeline-parallel size.")] = 1,
    dp: Annotated[int, VllmFlag(metavar="REPLICAS", help="Data-parallel size of attention.")] = 1,
    ep: Annotated[bool, VllmFlag("--ep", help="Expert parallelism: whole experts on each GPU.")] = False,
    ray: Annotated[bool, VllmFlag("--ray", help="Use the nodes of a running Ray cluster.")] = False,
    draft_model: Annotated[str | None, VllmFlag(metavar="FOLDER", help="EAGLE-3 draft model.")] = None,
    vllm: Annotated[str, VllmFlag(metavar="PATH", help="vLLM program, or its virtual environment.")] = "vllm",
    plan: Annotated[bool, PlanFlag("--plan", help="Print what fits on the given GPUs and exit; needs no GPU.")] = False,
    gpu: Annotated[str, PlanFlag(metavar="NAME", help="Kind of GPU.")] = "H200",
    gpus: Annotated[int, PlanFlag(metavar="GPUS", help="GPUs per node.")] = 8,
    nodes: Annotated[int, PlanFlag(metavar="NODES", help="Number of nodes.")] = 1,
    gpu_memory: Annotated[
        float | None, PlanFlag(metavar="GIB", help="Memory of a GPU.", show_default="that of --gpu")
    ] = None,
    bandwidth: Annotated[
        float | None,
        PlanFlag(metavar="TB/S", help="Memory bandwidth of a GPU, by its data sheet.", show_default="that of --gpu"),
    ] = None,
    self_test: Annotated[
        str | None, TestFlag(metavar="URL", help="Test the features of the endpoint at this address and exit.")
    ] = None,
    only: Annotated[
        str | None, TestFlag(metavar="NAMES", help="Comma-separated names of tests.", show_default="all tests")
    ] = None,
    as_json: Annotated[bool, common.OutputFlag("--json", help="With --plan or --self-test: print JSON.")] = False,
) -> None:
    """Serve Kimi K2.5 at an OpenAI-compatible endpoint.

    Settings without an option are given with --set; --dry-run prints all values.

        cua serve --model DIR                            the engine of this project
        cua serve --model nano                           the bundled small model
        cua serve --engine vllm --model DIR --tp 8       vLLM, configured for K2.5
        cua serve --plan --gpu H100 --nodes 2            what fits, and its speed
        cua serve --self-test http://127.0.0.1:8000/v1   features of an endpoint
    """
    shared: dict[str, object] = {"host": host, "port": port, "served_name": served_name, "max_model_len": max_model_len}
    if extra and not extra[0].startswith("-"):
        raise typer.BadParameter(f"{extra[0]!r} is not an option of vLLM; did you mean --model {extra[0]}?")
    if plan and self_test:
        raise typer.BadParameter("--plan and --self-test exclude each other; choose one")
    if plan:
        _plan(model, find={"name": gpu, "memory_gib": gpu_memory, "bandwidth_tb_s": bandwidth},
              count=(gpus, nodes), context_len=max_model_len, as_json=as_json)  # fmt: skip
    elif self_test:
        _self_test(self_test, model, api_key_env, only, timeout, as_json)
    elif choice("--engine", engine, ("native", "vllm")) == "vllm":
        if kernels != "auto":
            raise typer.BadParameter("--kernels is for --engine native; vLLM chooses its own")
        parallel = {"pipeline_parallel_size": pp, "data_parallel_size": dp, "expert_parallel": ep}
        chosen = {**shared, **parallel, "tensor_parallel_size": tp or 8, "executor": "ray" if ray else None}
        more = {"vllm": vllm, "draft_model": draft_model, "api_key_env": api_key_env, "extra": tuple(extra or ())}
        _serve_vllm({**chosen, **more, "model": _needed(model)}, other or [], timeout, dry_run)
    else:
        kernels = choice("--kernels", kernels, ("auto", "torch", "triton"))
        _refuse_vllm_only(pp > 1 or dp > 1, ep, ray, bool(draft_model), bool(extra))
        chosen = {**shared, "kernels": kernels, "tensor_parallel_size": tp or 1, "api_keys_env": api_key_env}
        _serve_native({**chosen, **_find_native(_needed(model), served_name)}, other or [], dry_run)


def _needed(model: str | None) -> str:
    if not model:
        raise typer.BadParameter("a model is needed, such as: cua serve --model ~/models/Kimi-K2.5")
    return model


def _find_native(model: str, served_name: str | None) -> dict[str, object]:
    """Return the folder and name of a model; `nano` is the bundled small model unless a folder has that name."""
    from apps.nano.model import NAME, find_weights

    if model == NAME and not Path(model).is_dir():
        return {"model_dir": find_weights(), "served_name": served_name or NAME}
    return {"model_dir": Path(model)}


def _refuse_vllm_only(*given: bool) -> None:
    if any(given):
        raise typer.BadParameter("--pp, --dp, --ep, --ray, --draft-model and arguments after -- need --engine vllm")


def _serve_native(chosen: dict[str, Any], settings: list[str], dry_run: bool) -> None:
    from model_runtime.launch.options import NativeOptions, check_options, with_settings

    options = with_settings(NativeOptions(**chosen), settings)
    check_options(options)
    if dry_run:
        terminal.echo(_shown(options))
        return
    _warn_of_open_door(options.host, options.api_keys_env)
    from model_runtime.native import serve_native

    _log_to_stderr("model_runtime")
    serve_native(options, emit=terminal.echo_err)


def _log_to_stderr(name: str) -> None:
    log = logging.getLogger(name)
    line = logging.StreamHandler()
    line.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.addHandler(line)
    log.setLevel(logging.INFO)


def _shown(options: "NativeOptions") -> str:
    width = max(map(len, asdict(options)))
    return "\n".join(f"{name:<{width}}  {'' if value is None else value}" for name, value in asdict(options).items())


def _serve_vllm(chosen: dict[str, Any], settings: list[str], timeout: float | None, dry_run: bool) -> None:
    from model_runtime.launch import command
    from model_runtime.launch.options import VllmOptions, with_settings

    options = with_settings(VllmOptions(**chosen), settings)
    line = command.make_vllm_command(options)
    if dry_run:
        terminal.echo(command.show_command(line, command.own_environment(options), options.api_key_env))
        return
    environment = command.make_vllm_environment(options, os.environ)
    program = command.find_vllm(options.vllm)
    for warning in command.check_version(command.read_version(program), options):
        terminal.secho(f"cua: {warning}", err=True, fg=typer.colors.YELLOW)
    _warn_of_open_door(options.host, options.api_key_env or os.environ.get("VLLM_API_KEY"))
    sys.exit(_watch(options, command.make_vllm_command(options, program=str(program)), environment, timeout))


def _watch(options: "VllmOptions", line: list[str], environment: dict[str, str], timeout: float | None) -> int:
    from model_runtime.launch.watch import WatchOptions, run_vllm

    times = WatchOptions() if timeout is None else WatchOptions(ready_timeout_s=timeout)
    url = f"http://{options.host}:{options.port}/v1"

    def when_ready() -> None:
        terminal.echo(url)
        terminal.secho(f"serving; test it with: cua serve --self-test {url}", err=True, fg=typer.colors.GREEN)

    address = (options.host, options.port)
    return run_vllm(line, environment, address, emit=terminal.echo_err, when_ready=when_ready, options=times)


def _warn_of_open_door(host: str, key: str | None) -> None:
    from model_runtime.launch.options import is_exposed

    if is_exposed(host) and not key:
        text = f"cua: {host} can be reached from other machines and requires no key; see --api-key-env"
        terminal.secho(text, err=True, fg=typer.colors.YELLOW)


def _plan(
    model: str | None, find: dict[str, Any], count: tuple[int, int], context_len: int | None, as_json: bool
) -> None:
    from model_runtime.launch.plan import PlanRequest, find_gpu, make_plan, plan_json, show_plan

    config = _config(model)
    longest = config.text.max_position_embeddings
    request = PlanRequest(
        gpu=find_gpu(**find),
        gpus_per_node=count[0],
        num_nodes=count[1],
        config=config,
        context_len=context_len if context_len is not None else min(32_768, longest),
    )
    plan = make_plan(request)
    terminal.echo(plan_json(plan) if as_json else show_plan(plan), nl=as_json)
    sys.exit(0 if plan.fitting else 1)


def _config(model: str | None) -> "K25Config":
    from model_runtime.config import load_config
    from model_runtime.launch.sizes import RELEASE

    return RELEASE if model is None else load_config(Path(model))


def _self_test(
    url: str, model: str | None, api_key_env: str | None, only: str | None, timeout: float | None, as_json: bool
) -> None:
    from apps.endpoint_check import SelfTestOptions, run_self_test, show_report

    options = SelfTestOptions(
        url=url,
        model=model,
        api_key=_key(api_key_env),
        only=tuple(name.strip() for name in only.split(",") if name.strip()) if only else (),
        timeout_s=120.0 if timeout is None else timeout,
    )
    report = run_self_test(options, emit=terminal.echo_err)
    terminal.echo(json.dumps(report.to_json(), ensure_ascii=False) if as_json else show_report(report))
    sys.exit(report.exit_code)


def _key(api_key_env: str | None) -> str | None:
    if api_key_env is None:  # a key is never sent to an address for which it was not given
        return None
    key = os.environ.get(api_key_env)
    if not key:
        raise typer.BadParameter(f"--api-key-env names {api_key_env}, which is not set; set it to the key")
    return key


def mcp(
    given: typer.Context,
    folder: Annotated[
        Path,
        Flag(metavar="FOLDER", help="The only folder whose files clients may name.", show_default="current folder"),
    ] = Path(),
    other: common.Other = None,
    model: common.EmbeddedModel = None,
    base_url: common.BaseUrl = None,
    max_time: Annotated[
        float | None,
        common.LimitFlag(metavar="SECONDS", help="Stop each call after this time.", show_default=common.NO_LIMIT),
    ] = None,
    max_cost: Annotated[
        float | None, common.LimitFlag(metavar="USD", help="Stop each call at this cost.", show_default=common.NO_LIMIT)
    ] = None,
    approve: Annotated[
        str | None,
        common.SafetyFlag(metavar="MODE", help="auto (refuse risky actions) or yolo (allow all).", show_default="auto"),
    ] = None,
    policy: common.Policy = None,
    allow_domain: common.AllowDomain = None,
) -> None:
    """Offer task, ask, swarm and see as tools of an MCP server.

    The server uses standard input and output. Actions that need approval are refused unless a rule allows them.
    Cancelling a call stops its run and keeps its record. Register the server in the mcp.json of another agent:

        {"mcpServers": {"cua": {"command": "cua", "args": ["mcp"]}}}
    """
    from apps.cli.mcp import ToolServer
    from apps.cli.running import run_cancelled_by_signals
    from cua.config import load_settings
    from cua.errors import ConfigError
    from visual_tools.errors import require

    require("mcp", "mcp")
    settings = chosen_settings(given)
    load_settings(settings)  # report wrong settings now, not to a client later
    if not folder.is_dir():
        raise ConfigError(f"--folder {folder} is not a folder")
    work = ToolServer(settings=settings, folder=folder.resolve()).run()
    run_cancelled_by_signals(work)
