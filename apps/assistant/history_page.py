"""The page's tab of recorded runs: search, film strip, downloads, run again, resume, delete."""

from html import escape
from typing import Any
from urllib.parse import quote

from apps.assistant.assistant import Assistant
from apps.assistant.history import EXPORTS
from apps.assistant.page_parts import ERRORS, goto, html, plain, refused
from cua.trajectory.describe import describe_duration, describe_time
from cua.trajectory.run_record import TOOLS_ENV

_OVER = ("succeeded", "failed", "unverified")  # for good
_RUNS_A_PAGE = 8


def add_history(gr: Any, assistant: Assistant, opener: Any, tabs: Any) -> None:
    """Add the tab's content.

    Args:
        gr: The module gradio.
        assistant: What it works on.
        opener: Takes the HTML that opens a session.
        tabs: All tabs of the page.
    """
    with gr.Row():
        search = gr.Textbox(
            label="Search", placeholder="Words of the instruction, model, status", scale=3, elem_id="search"
        )
        refresh = gr.Button("Refresh", scale=0, min_width=110)
    number, chosen, version = gr.State(0), gr.State(""), gr.State(0)
    with gr.Row():
        with gr.Column(scale=2, min_width=320):

            @gr.render(
                inputs=[search, number, version], triggers=[search.change, number.change, version.change, refresh.click]
            )
            def show_runs(words: str | None, first: int, _: int) -> None:
                rows = assistant.history.listed(words or "", limit=(first + 1) * _RUNS_A_PAGE + 1)
                shown = rows[first * _RUNS_A_PAGE : (first + 1) * _RUNS_A_PAGE]
                if not shown:
                    gr.Markdown("No runs yet." if not words else "No run has these words.")
                for row in shown:
                    with gr.Row():
                        html(gr, run_card(row), scale=4)
                        button = gr.Button("Open", size="sm", scale=0, min_width=80)
                        button.click(lambda run=row["id"]: run, None, chosen, api_visibility="private")
                with gr.Row():
                    newer = gr.Button("Newer", size="sm", interactive=first > 0)
                    older = gr.Button("Older", size="sm", interactive=len(rows) > (first + 1) * _RUNS_A_PAGE)
                    newer.click(lambda: max(0, first - 1), None, number, api_visibility="private")
                    older.click(lambda: first + 1, None, number, api_visibility="private")

        with gr.Column(scale=3, min_width=320):
            _one_run(gr, assistant, chosen, version, opener, tabs)
    tabs.select(lambda value: value + 1, version, version, show_progress="hidden", api_visibility="private")


def _one_run(gr: Any, assistant: Assistant, chosen: Any, version: Any, opener: Any, tabs: Any) -> None:
    @gr.render(inputs=chosen, triggers=[chosen.change])
    def show_run(run_id: str) -> None:
        if not run_id:
            return
        try:
            run = assistant.history.details(run_id)
        except ERRORS as error:
            html(gr, f"<p>{escape(plain(error))}</p>")
            return
        steps = run["steps"]
        head = f"<h2>{escape(run['instruction'][:300])}</h2>{_meta(run)}"
        html(gr, f'<div class="strip">{head}{links(run_id, has_screen=not run["is_tool_run"])}</div>')
        with gr.Row():
            again, delete = (gr.Button(text, size="sm") for text in ("Run again", "Delete"))
            resume = gr.Button("Resume", size="sm", visible=run["status"] not in _OVER)
        slider = gr.Slider(1, max(len(steps), 2), value=1, step=1, label="Step of the film strip", interactive=True,
                           visible=len(steps) > 1)  # fmt: skip
        strip = html(gr, strip_step(run_id, steps, 1))
        if len(steps) > 1:
            slider.change(lambda step: strip_step(run_id, steps, int(step)), slider, strip, show_progress="hidden",
                          api_visibility="private")  # fmt: skip
        doing = {"show_progress": "hidden", "api_visibility": "private"}
        again.click(_beginning(gr, assistant.again, run_id), None, [opener, tabs], **doing)
        resume.click(_beginning(gr, assistant.resume, run_id), None, [opener, tabs], **doing)

        def remove(value: int) -> tuple[str, int]:
            try:
                assistant.history.delete(run_id)
            except ERRORS as error:
                raise refused(gr, error, "Not deleted") from error
            return "", value + 1

        delete.click(remove, version, [chosen, version], js=_CONFIRM_JS, **doing)


_CONFIRM_JS = (
    "(value) => { if (!confirm('Delete this run with all its images?')) throw new Error('kept'); return [value]; }"
)


def _beginning(gr: Any, begin: Any, run_id: str) -> Any:
    async def work() -> tuple[str, Any]:
        try:
            found = begin(run_id)
            session = await found if hasattr(found, "__await__") else found
        except ERRORS as error:
            raise refused(gr, error, "Not started") from error
        return goto(session.id), gr.update(selected="work")

    return work


def run_card(row: dict[str, Any]) -> str:
    """A run in a list, as HTML."""
    source = f"/api/runs/{quote(row['id'], safe='')}/thumbnail"
    has_image = row["env"] != TOOLS_ENV and row["num_steps"]
    image = f'<img src="{source}" alt="" loading="lazy">' if has_image else '<div class="none"></div>'
    return (
        f'<div class="run-card">{image}<div class="words">'
        f"<strong>{escape(' '.join(row['instruction'].split())[:140]) or '(no words)'}</strong>{_meta(row)}</div></div>"
    )


def _meta(row: dict[str, Any]) -> str:
    parts = [describe_time(row["started_at"])[:16], row["status"], f"{row['num_steps']} steps"]
    parts += [describe_duration(row["duration_s"]), row["model"]]
    return f'<div class="meta">{escape(" · ".join(str(part) for part in parts if part))}</div>'


def links(run_id: str, *, has_screen: bool) -> str:
    """Downloads of a run, as HTML; films and OSWorld's layout are for runs on a screen."""
    base = f"/api/runs/{quote(run_id, safe='')}/export"
    shown = {
        "report": "Report",
        "mp4": "Film (mp4)",
        "gif": "Film (gif)",
        "osworld": "OSWorld",
        "atif": "ATIF",
        "record": "Record",
    }
    return (
        '<p class="links">'
        + "".join(
            f'<a href="{base}/{kind}" download>{shown[kind]}</a>'
            for kind in EXPORTS
            if has_screen or kind not in ("mp4", "gif", "osworld")
        )
        + "</p>"
    )


def strip_step(run_id: str, steps: list[dict[str, Any]], number: int) -> str:
    """One step of a film strip, as HTML; `number` counts from 1."""
    if not 1 <= number <= len(steps):
        return "<p>This run has no steps.</p>"
    step = steps[number - 1]
    source = f"/api/runs/{quote(run_id, safe='')}/steps/{int(step['index'])}/image"
    image = f'<img src="{source}" alt="Screen at step {int(step["index"])}">' if step.get("has_image") else ""
    said = [
        f"<p><strong>{int(step['index'])}. {escape(step.get('action') or '')}</strong></p>",
        *(f"<p>{escape(text)}</p>" for text in step.get("notes", ())),
        f'<p class="meta">{escape(step["error"])}</p>' if step.get("error") else "",
        *(f"<details><summary>{label}</summary><pre>{escape(step[name])}</pre></details>"
          for name, label in (("thought", "Why"), ("code", "Code")) if step.get(name)),
        *(f'<p class="meta">{escape(text)}</p>' for text in step.get("done", ())),
    ]  # fmt: skip
    return f'<div class="strip">{image}{"".join(said)}</div>'
