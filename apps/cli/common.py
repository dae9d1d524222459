"""Options that several commands share, and the groups that help pages show them in."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

ModelFlag = partial(typer.Option, rich_help_panel="Model")
ScreenFlag = partial(typer.Option, rich_help_panel="Browser and desktop")
LimitFlag = partial(typer.Option, rich_help_panel="Limits")
SafetyFlag = partial(typer.Option, rich_help_panel="Safety")
OutputFlag = partial(typer.Option, rich_help_panel="Output")

EMBEDDED = "literal or nano (both run on this machine), scripted:FILE, or a model id at the endpoint."
"""Help text of `--model` where the embedded models can do the work."""
RUN = "run id or its unique beginning, run folder, or last."
NO_LIMIT = "no limit"

Model = Annotated[
    str | None, ModelFlag("--model", "-m", metavar="MODEL", help="Model id at the endpoint, or scripted:FILE.")
]
EmbeddedModel = Annotated[
    str | None, ModelFlag("--model", "-m", metavar="MODEL", help=EMBEDDED, show_default="literal")
]
BaseUrl = Annotated[
    str | None,
    ModelFlag(metavar="URL", help="OpenAI-compatible endpoint of the model.", show_default="$OPENAI_BASE_URL"),
]
Preset = Annotated[
    str | None, ModelFlag(metavar="NAME", help="Sampling: kimi-k2.5, kimi-k2.5-instant, osworld, webarena or none.")
]
Temperature = Annotated[
    str | None,
    ModelFlag(metavar="NUMBER", help="Sampling temperature; omit sends none.", show_default="that of the preset"),
]
Prices = Annotated[Path | None, ModelFlag(metavar="FILE", help="JSON file of prices, for costs and --max-cost.")]
RulesModel = Annotated[
    str | None,
    ModelFlag(
        "--model",
        "-m",
        metavar="MODEL",
        help="literal (rules, no key), scripted:FILE, or a model id at the endpoint.",
        show_default="literal",
    ),
]
FallbackModel = Annotated[
    str | None, ModelFlag(metavar="MODEL", help="Model id to use while the first model is unavailable.")
]
MaxTime = Annotated[float | None, LimitFlag(metavar="SECONDS", help="Stop after this time.", show_default=NO_LIMIT)]
RoundSteps = Annotated[int | None, LimitFlag(metavar="STEPS", help="Steps of the model in a round.", show_default="30")]
MaxModelTime = Annotated[
    float | None, LimitFlag(metavar="SECONDS", help="Stop after this time of the model.", show_default=NO_LIMIT)
]
MaxCalls = Annotated[
    int | None, LimitFlag(metavar="CALLS", help="Stop after this number of tool calls.", show_default="1500")
]
MaxTokens = Annotated[
    int | None, LimitFlag(metavar="TOKENS", help="Stop after this number of tokens.", show_default=NO_LIMIT)
]
MaxCost = Annotated[
    float | None,
    LimitFlag(metavar="USD", help="Stop at this cost; needs a price table (setting prices).", show_default=NO_LIMIT),
]
Sandbox = Annotated[
    str | None,
    SafetyFlag(
        metavar="KIND",
        help="Isolation of code: auto, bubblewrap, landlock, or none (no isolation at all).",
        show_default="auto",
    ),
]
ApproveCalls = Annotated[
    str | None,
    SafetyFlag(
        metavar="MODE",
        help="Ask before tool calls: ask (each call), auto (calls without isolation) or yolo (never).",
        show_default="auto",
    ),
]
Yolo = Annotated[bool, SafetyFlag("--yolo", "-y", help="Never ask for approval; same as --approve yolo.")]
Policy = Annotated[
    Path | None, SafetyFlag(metavar="FILE", help="TOML file of rules that allow, ask about or deny actions.")
]
AllowDomain = Annotated[
    list[str] | None,
    SafetyFlag(
        metavar="DOMAIN", help="The only domain that the browser may open; repeatable.", show_default="all domains"
    ),
]
Other = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other setting; repeatable. `cua config show` lists the settings."
    ),
]
RayAddress = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Ray cluster to use.", show_default="a new one on this machine")
]
Resume = Annotated[str | None, typer.Option(metavar="RUN", help=f"Continue this run: {RUN}")]
Schema = Annotated[
    str | None,
    OutputFlag(metavar="SCHEMA", help="Require an answer of this form: JSON schema file, or FILE.py:MODEL (pydantic)."),
]
TextOrJson = Annotated[str, OutputFlag(metavar="FORMAT", help="text or json.")]
StreamFormat = Annotated[str, OutputFlag(metavar="FORMAT", help="text, json, or stream-json (one event a line).")]
Report = Annotated[bool, OutputFlag("--report/--no-report", help="Write report.html into the run folder.")]
AsJson = Annotated[bool, OutputFlag("--json", help="Print JSON.")]
