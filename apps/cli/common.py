"""Options that several commands share."""

from typing import Annotated

import typer

Model = Annotated[str | None, typer.Option("--model", "-m", help="A model id at OPENAI_BASE_URL, or scripted:FILE.")]
BaseUrl = Annotated[str | None, typer.Option(help="OpenAI-compatible endpoint.")]
MaxTime = Annotated[float | None, typer.Option(help="Stop after so many seconds.")]
MaxTokens = Annotated[int | None, typer.Option(help="Stop after so many tokens.")]
MaxCost = Annotated[float | None, typer.Option(help="Stop after so many US dollars.")]
Sandbox = Annotated[str | None, typer.Option(help="auto, bubblewrap, landlock, or none (no isolation at all).")]
ApproveCalls = Annotated[str | None, typer.Option(help="ask (every call), auto (calls without isolation) or yolo.")]
Other = Annotated[list[str] | None, typer.Option("--set", help="Any other setting, as NAME=VALUE; repeat for more.")]
TextOrJson = Annotated[str, typer.Option(help="text or json.")]
StreamFormat = Annotated[str, typer.Option(help="text, json or stream-json.")]
Report = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
