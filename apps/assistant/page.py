"""The page: Gradio's components around the live part (`static/assistant.js`), which shows screen, feed and sessions.

Nothing is kept here: handlers call the `Assistant`, and what they say is text, escaped wherever it becomes HTML.
"""

from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from apps.assistant.assistant import MAX_FILE_BYTES, Assistant
from apps.assistant.history import EXPORTS
from apps.assistant.order import MODES, PRACTICE_INSTRUCTION, Order
from cua.errors import CuaError
from cua.trajectory.describe import describe_duration, describe_time
from envs.errors import EnvError, require
from visual_tools.errors import VisualError

if TYPE_CHECKING:
    import gradio

EXTRA = "assistant"
TITLE = "K2.5 assistant"
HEAD = (
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<link rel="stylesheet" href="/assistant/assistant.css">'
    '<script type="module" src="/assistant/assistant.js"></script>'
)
PLACES = {"Practice page": "practice", "Web address": "web", "Private desktop": "desktop"}
_RUNS_A_PAGE = 8
_ERRORS = (CuaError, EnvError, VisualError, ValueError)
_SESSION_JS = "(...values) => [...values.slice(0, -1), window.assistantSession()]"
_THEME_JS = """() => {
  const isDark = document.body.classList.toggle('dark');
  localStorage.setItem('assistant-theme', isDark ? 'dark' : 'light');
}"""
LOAD_JS = """() => {
  const theme = localStorage.getItem('assistant-theme');
  if (theme) document.body.classList.toggle('dark', theme === 'dark');
}"""


def make_theme() -> Any:
    """Calm colours, and fonts that the machine has: nothing is loaded from elsewhere."""
    gr = require("gradio", EXTRA)
    sans = ["system-ui", "-apple-system", "Segoe UI", "Noto Sans", "DejaVu Sans", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "DejaVu Sans Mono", "monospace"]
    theme = gr.themes.Base(primary_hue="blue", secondary_hue="slate", neutral_hue="slate", font=sans, font_mono=mono)
    return theme.set(
        button_primary_background_fill="#2f54a3",
        button_primary_background_fill_hover="#24448a",
        button_primary_background_fill_dark="#2f54a3",
        button_primary_text_color="#ffffff",
        body_text_color_subdued="#566174",
        body_text_color_subdued_dark="#a7b0c0",
        block_info_text_color="#566174",
        block_info_text_color_dark="#a7b0c0",
        border_color_primary_dark="#3a465c",
        input_placeholder_color="#677287",
        input_placeholder_color_dark="#98a2b3",
    )


def make_page(assistant: Assistant) -> "gradio.Blocks":
    """The page over an assistant.

    Raises:
        MissingDependencyError: Gradio is not installed.
    """
    gr = require("gradio", EXTRA)
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        with gr.Row(elem_id="top"):
            _html(gr, f"<h1>{TITLE}</h1>", min_width=150, scale=0)
            _html(gr, "<assistant-sessions></assistant-sessions>", min_width=240, scale=1)
            gr.Button("Light / dark", size="sm", scale=0, min_width=110).click(None, js=_THEME_JS)
        goto = _html(gr, "", elem_id="goto")
        with gr.Tabs() as tabs:
            with gr.Tab("Work", id="work"):
                _work(gr, assistant, goto)
            with gr.Tab("History", id="history"):
                _history(gr, assistant, goto, tabs)
            with gr.Tab("Settings", id="settings"):
                _settings(gr, assistant)
    page.queue(max_size=64, default_concurrency_limit=None, api_open=False)
    return page


def _html(gr: Any, value: str, **options: Any) -> Any:
    """Our own HTML with our own style."""
    return gr.HTML(value, apply_default_css=False, padding=False, container=False, **options)


def _work(gr: Any, assistant: Assistant, goto: Any) -> None:
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            _html(gr, "<assistant-screen></assistant-screen>")
        with gr.Column(scale=2, min_width=320):
            _html(gr, "<assistant-feed></assistant-feed>")
            words = gr.MultimodalTextbox(
                label="What is to be done", show_label=False, elem_id="words", lines=1, max_lines=6,
                file_count="multiple", sources=["upload"],
                placeholder="Say what you want. While it works: a sentence redirects it.",
            )  # fmt: skip
            with gr.Row(elem_id="how"):
                mode = gr.Dropdown(
                    [(f"{name.capitalize()}: {about}", name) for name, about in MODES.items()], value="thinking",
                    label="Mode", elem_id="mode", min_width=150, filterable=False,
                )  # fmt: skip
                place = gr.Dropdown(
                    list(PLACES),
                    value="Practice page",
                    label="Start at",
                    elem_id="place",
                    min_width=150,
                    filterable=False,
                )
                where = gr.Textbox(label="Address or program", visible=False, elem_id="where", min_width=180)
            practice = gr.Button("Try the practice task", size="sm", elem_id="practice")
    place.change(
        lambda name: gr.update(visible=name != "Practice page", label="Program" if "desktop" in name else "Address"),
        place, where, show_progress="hidden",
    )  # fmt: skip
    mode.change(lambda name: gr.update(visible=name in ("instant", "thinking")), mode, place, show_progress="hidden")

    async def send(said: dict[str, Any], name: str, start: str, address: str, session: str) -> tuple[Any, Any]:
        try:
            files = [_upload(assistant, file) for file in said.get("files") or ()]
            order = make_order(said.get("text") or "", name, start, address, files)
            begun = await assistant.send(order, session if session in assistant.sessions else "")
        except _ERRORS as error:
            raise gr.Error(_plain(error), print_exception=False, title="Not started") from error
        return gr.update(value={"text": "", "files": []}), _goto(begun.id)

    async def try_practice() -> str:
        try:
            return _goto((await assistant.send(Order(instruction=PRACTICE_INSTRUCTION))).id)
        except _ERRORS as error:
            raise gr.Error(_plain(error), print_exception=False, title="Not started") from error

    hidden = gr.Textbox(visible=False)
    words.submit(
        send, [words, mode, place, where, hidden], [words, goto], js=_SESSION_JS, show_progress="hidden",
        api_visibility="private",
    )  # fmt: skip
    practice.click(try_practice, None, goto, show_progress="hidden", api_visibility="private")


def make_order(text: str, mode: str, place: str, where: str, files: list[str]) -> Order:
    """An order from what the page's fields hold.

    Raises:
        CuaError: Something is missing.
    """
    if not text.strip():
        raise CuaError("say what is to be done first")
    start = PLACES.get(place, "practice")
    if mode in ("instant", "thinking") and start == "web" and not where.strip():
        raise CuaError("an address is needed to start at, such as https://example.com")
    given = {"url": where.strip()} if start == "web" else {"app": where.strip() or None} if start == "desktop" else {}
    return Order.model_validate({"instruction": text, "mode": mode, "place": start, "files": files, **given})


def _history(gr: Any, assistant: Assistant, goto: Any, tabs: Any) -> None:
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
            def show_runs(words: str, first: int, _: int) -> None:
                rows = assistant.history.listed(words, limit=(first + 1) * _RUNS_A_PAGE + 1)
                shown = rows[first * _RUNS_A_PAGE : (first + 1) * _RUNS_A_PAGE]
                if not shown:
                    gr.Markdown("No runs yet." if not words else "No run has these words.")
                for row in shown:
                    with gr.Row(equal_height=True):
                        _html(gr, run_card(row), scale=4)
                        button = gr.Button("Open", size="sm", scale=0, min_width=80)
                        button.click(lambda run=row["id"]: run, None, chosen, api_visibility="private")
                with gr.Row():
                    newer = gr.Button("Newer", size="sm", interactive=first > 0)
                    older = gr.Button("Older", size="sm", interactive=len(rows) > (first + 1) * _RUNS_A_PAGE)
                    newer.click(lambda: max(0, first - 1), None, number, api_visibility="private")
                    older.click(lambda: first + 1, None, number, api_visibility="private")

        with gr.Column(scale=3, min_width=320):
            _one_run(gr, assistant, chosen, version, goto, tabs)
    tabs.select(lambda value: value + 1, version, version, show_progress="hidden", api_visibility="private")


def _one_run(gr: Any, assistant: Assistant, chosen: Any, version: Any, goto: Any, tabs: Any) -> None:
    @gr.render(inputs=chosen, triggers=[chosen.change])
    def show_run(run_id: str) -> None:
        if not run_id:
            return
        try:
            run = assistant.history.details(run_id)
        except _ERRORS as error:
            _html(gr, f"<p>{escape(_plain(error))}</p>")
            return
        steps = run["steps"]
        _html(gr, f'<div class="strip"><h2>{escape(run["instruction"][:300])}</h2>{_meta(run)}{links(run_id)}</div>')
        with gr.Row():
            again, resume, delete = (gr.Button(text, size="sm") for text in ("Run again", "Resume", "Delete"))
        strip = _html(gr, strip_step(run_id, steps, 1))
        if len(steps) > 1:
            slider = gr.Slider(1, len(steps), value=1, step=1, label="Step of the film strip")
            slider.change(lambda step: strip_step(run_id, steps, int(step)), slider, strip, show_progress="hidden",
                          api_visibility="private")  # fmt: skip
        doing = {"show_progress": "hidden", "api_visibility": "private"}
        again.click(_beginning(gr, assistant.again, run_id), None, [goto, tabs], **doing)
        resume.click(_beginning(gr, assistant.resume, run_id), None, [goto, tabs], **doing)

        def remove(value: int) -> tuple[str, int]:
            try:
                assistant.history.delete(run_id)
            except _ERRORS as error:
                raise gr.Error(_plain(error), print_exception=False, title="Not deleted") from error
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
        except _ERRORS as error:
            raise gr.Error(_plain(error), print_exception=False, title="Not started") from error
        return _goto(session.id), gr.update(selected="work")

    return work


def run_card(row: dict[str, Any]) -> str:
    """A run in a list, as HTML."""
    source = f"/api/runs/{quote(row['id'], safe='')}/thumbnail"
    return (
        f'<div class="run-card"><img src="{source}" alt="" loading="lazy"><div class="words">'
        f"<strong>{escape(' '.join(row['instruction'].split())[:140]) or '(no words)'}</strong>{_meta(row)}</div></div>"
    )


def _meta(row: dict[str, Any]) -> str:
    parts = [describe_time(row["started_at"])[:16], row["status"], f"{row['num_steps']} steps"]
    parts += [describe_duration(row["duration_s"]), row["model"]]
    return f'<div class="meta">{escape(" · ".join(str(part) for part in parts if part))}</div>'


def links(run_id: str) -> str:
    """Downloads of a run, as HTML."""
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
        + "".join(f'<a href="{base}/{kind}" download>{shown[kind]}</a>' for kind in EXPORTS)
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


def _settings(gr: Any, assistant: Assistant) -> None:
    gr.Markdown(
        "The same settings as on the command line. What is changed here wins over files and variables, and holds for "
        "runs that are started from now on. Keys go in and never come out; they are forgotten when the app ends."
    )
    rows = assistant.preferences.rows()
    with gr.Row():
        name = gr.Dropdown([row["name"] for row in rows], value="model", label="Setting", elem_id="setting")
        value = gr.Textbox(label="Value (empty: back to its source)", elem_id="value")
        secret = gr.Textbox(label="Key", type="password", visible=False, elem_id="secret")
        save = gr.Button("Save", variant="primary", scale=0, min_width=110, elem_id="save")
    about = _html(gr, about_setting(rows, "model"))
    table = gr.Dataframe(
        table_of(rows), headers=["setting", "value", "comes from"], interactive=False, wrap=True,
        elem_id="settings-table", datatype=["str", "str", "str"], label="In force",
    )  # fmt: skip
    test = gr.Button("Test the endpoint")
    outcome = gr.Textbox(label="What works there", lines=8, interactive=False, elem_id="outcome")

    def choose(chosen: str) -> tuple[Any, Any, str]:
        now = assistant.preferences.rows()
        row = next(row for row in now if row["name"] == chosen)
        is_secret = row["is_secret"]
        shown = "" if is_secret else row["value"]
        return (
            gr.update(visible=not is_secret, value=shown),
            gr.update(visible=is_secret, value=""),
            about_setting(now, chosen),
        )

    def keep(chosen: str, text: str, key: str) -> tuple[Any, Any]:
        try:
            assistant.preferences.change(chosen, key if chosen == "api_key" else text)
        except _ERRORS as error:
            raise gr.Error(_plain(error), print_exception=False, title="Not saved") from error
        return table_of(assistant.preferences.rows()), gr.update(value="")

    def probe() -> str:
        try:
            report = assistant.preferences.test_endpoint()
        except _ERRORS as error:
            return _plain(error)
        return "\n".join(f"{row['name']}: {row['status']}. {row['text']}" for row in report["probes"])

    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    name.change(choose, name, [value, secret, about], **quiet)
    save.click(keep, [name, value, secret], [table, secret], **quiet)
    test.click(probe, None, outcome, api_visibility="private")


def about_setting(rows: list[dict[str, Any]], name: str) -> str:
    """What a setting is, as HTML."""
    row = next(row for row in rows if row["name"] == name)
    choices = f" One of: {', '.join(row['choices'])}." if row["choices"] else ""
    return f'<p class="run-card">{escape(name)}: {escape(row["about"])}.{escape(choices)}</p>'


def table_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Settings as rows of a table."""
    return [[row["name"], row["value"], row["source"]] for row in rows]


def _upload(assistant: Assistant, file: Any) -> str:
    from pathlib import Path

    path = Path(file if isinstance(file, str) else file["path"])
    if path.stat().st_size > MAX_FILE_BYTES:
        raise CuaError(f"{path.name} is larger than {MAX_FILE_BYTES >> 20} MB")
    return assistant.take_file(path, path.name)


def _goto(session_id: str) -> str:
    import time

    return f'<assistant-goto session="{escape(session_id)}" nonce-number="{time.monotonic_ns()}"></assistant-goto>'


def _plain(error: Exception) -> str:
    """What went wrong, for a place that shows HTML."""
    return escape(str(error).splitlines()[0] if str(error) else type(error).__name__)
