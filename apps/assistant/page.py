"""Gradio page: components around the live part (`static/assistant.js`), which shows screen, feed and sessions.

The page has no state of its own: handlers call the `Assistant`; their texts are escaped wherever they become HTML.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import ValidationError

from apps.assistant.assistant import Assistant
from apps.assistant.history import EXPORTS
from apps.assistant.run_request import MODES, PLACES, make_request, practice_request
from apps.assistant.saved_tasks import SCHEDULE_FORMS, SavedTask
from cua.errors import CuaError
from cua.json_text import Json
from cua.trajectory.describe import describe_duration, describe_time
from cua.trajectory.run_record import TOOLS_ENV
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
_SESSION_JS = "(...values) => [...values.slice(0, -1), window.assistantSession()]"
_THEME_JS = """() => {
  const isDark = document.body.classList.toggle('dark');
  localStorage.setItem('assistant-theme', isDark ? 'dark' : 'light');
}"""
LOAD_JS = """() => {
  const theme = localStorage.getItem('assistant-theme');
  if (theme) document.body.classList.toggle('dark', theme === 'dark');
}"""
_DELETE_RUN_JS = (
    "(value) => { if (!confirm('Delete this run with all its images?')) throw new Error('kept'); return [value]; }"
)
_DELETE_TASK_JS = (
    "(...values) => { if (!confirm('Delete this task?')) throw new Error('kept'); return values.slice(0, 2); }"
)
_OVER = ("succeeded", "failed", "unverified")  # final phases
_RUNS_A_PAGE = 8
ERRORS = (CuaError, EnvError, VisualError, ValueError)
QUIET: Json = {"show_progress": "hidden", "api_visibility": "private"}


def make_theme() -> Any:
    """Return a theme of muted colors and system fonts: nothing is loaded from other hosts."""
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
    """Make the page of an assistant.

    Raises:
        MissingDependencyError: If Gradio is not installed.
    """
    gr = require("gradio", EXTRA)
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        with gr.Row(elem_id="top"):
            _html(gr, f"<h1>{TITLE}</h1>", min_width=150, scale=0)
            _html(gr, "<assistant-sessions></assistant-sessions>", min_width=240, scale=1)
            gr.Button("Light / dark", size="sm", scale=0, min_width=110).click(None, js=_THEME_JS)
        opener = _html(gr, "", elem_id="goto")
        with gr.Tabs() as tabs:
            with gr.Tab("Work", id="work"):
                _work(gr, assistant, opener)
            with gr.Tab("Tasks", id="tasks"):
                _add_tasks(gr, assistant, opener, tabs)
            with gr.Tab("History", id="history"):
                _add_history(gr, assistant, opener, tabs)
            with gr.Tab("Settings", id="settings"):
                _settings(gr, assistant)
    page.queue(max_size=64, default_concurrency_limit=None, api_open=False)
    return page


def _work(gr: Any, assistant: Assistant, opener: Any) -> None:
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            _html(gr, "<assistant-screen></assistant-screen>")
        with gr.Column(scale=2, min_width=320):
            _html(gr, "<assistant-feed></assistant-feed>")
            words = gr.MultimodalTextbox(
                label="What is to be done", show_label=False, elem_id="words", lines=1, max_lines=6,
                file_count="multiple", sources=["upload"],
                placeholder="Write an instruction. While the agent works, a further sentence redirects it.",
            )  # fmt: skip
            with gr.Row(elem_id="how"):
                mode = gr.Dropdown(
                    [(name.capitalize(), name) for name in MODES], value="thinking", info=MODES["thinking"],
                    label="Mode", elem_id="mode", min_width=150, filterable=False,
                )  # fmt: skip
                place = gr.Dropdown(
                    list(PLACES),
                    value="Practice page",
                    label="Start at",
                    info="what its screen shows first",
                    elem_id="place",
                    min_width=150,
                    filterable=False,
                )
            where = gr.Textbox(label="Address or program", visible=False, elem_id="where")
            practice = gr.Button("Try the practice task", size="sm", elem_id="practice")
    place.change(
        lambda name: gr.update(visible=name != "Practice page", label="Program" if "desktop" in name else "Address"),
        place, where, show_progress="hidden",
    )  # fmt: skip
    mode.change(
        lambda name: (gr.update(info=MODES[name]), gr.update(visible=name in ("instant", "thinking"))),
        mode, [mode, place], **QUIET,
    )  # fmt: skip

    async def send(message: Json, name: str, start: str, address: str, session: str) -> tuple[Any, Any]:
        with _showing_errors(gr, "Not started"):
            files = [_upload(assistant, file) for file in message.get("files") or ()]
            request = make_request(message.get("text") or "", name, start, address, files)
            started = await assistant.send(request, session if session in assistant.sessions else "")
        return gr.update(value={"text": "", "files": []}), _goto(started.id)

    async def try_practice(name: str) -> str:
        with _showing_errors(gr, "Not started"):
            return _goto((await assistant.send(practice_request(name))).id)

    hidden = gr.Textbox(visible=False)
    words.submit(
        send, [words, mode, place, where, hidden], [words, opener], js=_SESSION_JS, **QUIET,
    )  # fmt: skip
    practice.click(try_practice, mode, opener, **QUIET)


def _settings(gr: Any, assistant: Assistant) -> None:
    gr.Markdown(
        "The same settings as on the command line. What is changed here wins over files and variables, and holds for "
        f"runs that are started from now on. {assistant.preferences.about_secrets}"
    )
    rows = assistant.preferences.rows()
    with gr.Row():
        name = gr.Dropdown([row["name"] for row in rows], value="model", label="Setting", elem_id="setting")
        value = gr.Dropdown(
            rows[0]["choices"], value=rows[0]["value"], allow_custom_value=True,
            label="Value (empty: back to its source)", elem_id="value",
        )  # fmt: skip
        secret = gr.Textbox(label="Key", type="password", visible=False, elem_id="secret")
        save = gr.Button("Save", variant="primary", scale=0, min_width=110, elem_id="save")
    about = _html(gr, _about_setting(rows, "model"))
    table = gr.Dataframe(
        _table_of(rows), headers=["setting", "value", "comes from"], interactive=False, wrap=True,
        elem_id="settings-table", datatype=["str", "str", "str"], label="In force",
    )  # fmt: skip
    _secrets(gr, assistant)
    test = gr.Button("Test the endpoint")
    outcome = gr.Textbox(label="What works there", lines=8, interactive=False, elem_id="outcome")

    def choose(chosen: str) -> tuple[Any, Any, str]:
        now = assistant.preferences.rows()
        row = next(row for row in now if row["name"] == chosen)
        is_secret = row["is_secret"]
        shown = "" if is_secret else row["value"]
        return (
            gr.update(visible=not is_secret, choices=row["choices"], value=shown),
            gr.update(visible=is_secret, value=""),
            _about_setting(now, chosen),
        )

    def keep(chosen: str, text: str, key: str) -> tuple[Any, Any]:
        with _showing_errors(gr, "Not saved"):
            assistant.preferences.change(chosen, key if chosen == "api_key" else text)
        return _table_of(assistant.preferences.rows()), gr.update(value="")

    def probe() -> str:
        try:
            report = assistant.preferences.test_endpoint()
        except ERRORS as error:
            return _plain(error)
        return "\n".join(f"{row['name']}: {row['status']}. {row['text']}" for row in report["probes"])

    name.change(choose, name, [value, secret, about], **QUIET)
    save.click(keep, [name, value, secret], [table, secret], **QUIET)
    test.click(probe, None, outcome, api_visibility="private")


def _secrets(gr: Any, assistant: Assistant) -> None:
    gr.Markdown("A secret is typed where the instruction says `{{its_name}}`: the model never sees its value.")
    with gr.Row():
        name = gr.Textbox(label="Secret's name", placeholder="shop_password", elem_id="secret-name")
        value = gr.Textbox(label="Value to type (empty: delete it)", type="password", elem_id="secret-value")
        domains = gr.Textbox(label="Sites (empty: everywhere)", placeholder="shop.example.com", elem_id="secret-sites")
        save = gr.Button("Keep", scale=0, min_width=110, elem_id="secret-save")
    kept = _html(gr, _about_secrets(assistant.preferences.secret_rows()))

    def keep(chosen: str, text: str, sites: str) -> tuple[str, Any, str]:
        with _showing_errors(gr, "Not kept"):
            assistant.preferences.change_secret(chosen.strip(), text, sites.split(","))
        return "", gr.update(value=""), _about_secrets(assistant.preferences.secret_rows())

    save.click(keep, [name, value, domains], [name, value, kept], **QUIET)


def _about_secrets(rows: list[Json]) -> str:
    """Return the names of the stored secrets as HTML."""
    shown = (f"<li>{escape(row['name'])}: {escape(', '.join(row['domains']) or 'everywhere')}</li>" for row in rows)
    return f'<div class="run-card">{"Kept:<ul>" + "".join(shown) + "</ul>" if rows else "No secrets are kept."}</div>'


def _about_setting(rows: list[Json], name: str) -> str:
    """Return the description of a setting as HTML."""
    row = next(row for row in rows if row["name"] == name)
    choices = f" One of: {', '.join(row['choices'])}." if row["choices"] and not row["is_open"] else ""
    return f'<p class="run-card">{escape(name)}: {escape(row["about"])}.{escape(choices)}</p>'


def _table_of(rows: list[Json]) -> list[list[str]]:
    """Return the settings as rows of a table."""
    return [[row["name"], row["value"], row["source"]] for row in rows]


def _upload(assistant: Assistant, file: Any) -> str:
    path = Path(file if isinstance(file, str) else file["path"])
    return assistant.take_file(path, path.name)


def _add_tasks(gr: Any, assistant: Assistant, opener: Any, tabs: Any) -> None:
    """Add the tab of saved tasks.

    Args:
        gr: The module gradio.
        assistant: Assistant of the page.
        opener: Component that gets the HTML that opens a session.
        tabs: All tabs of the page.
    """
    given, names, version = gr.State(("", {})), gr.State(()), gr.State(0)
    with gr.Row():
        listing = gr.Column(scale=2, min_width=320)
        with gr.Column(scale=3, min_width=320):
            form = _form(gr)
            _, words, _, place, where, _ = form

            @gr.render(inputs=[names, given])
            def show_end_of_form(parameters: tuple[str, ...], opened: tuple[str, dict[str, str]]) -> None:
                name, values = opened
                with gr.Row(visible=bool(parameters)):
                    boxes = [
                        gr.Textbox(
                            values.get(parameter, ""),
                            label=parameter,
                            max_lines=1,
                            min_width=160,
                            key=f"{name}/{parameter}",
                        )
                        for parameter in parameters
                    ]
                _buttons(gr, assistant, (form, parameters, boxes), version, [opener, tabs])

    _list(gr, assistant, listing, [*form, given], version)
    words.change(lambda text: SavedTask.model_construct(instruction=text).parameters, words, names, **QUIET)
    place.change(
        lambda start: gr.update(visible=start != "Practice page", label="Program" if "desktop" in start else "Address"),
        place, where, **QUIET,
    )  # fmt: skip
    tabs.select(lambda number: number + 1, version, version, **QUIET)


def _buttons(
    gr: Any, assistant: Assistant, fields: tuple[list[Any], tuple[str, ...], list[Any]], version: Any, shown: list[Any]
) -> None:
    form, names, boxes = fields

    async def begin(_: str, *values: Any) -> tuple[str, Any]:
        with _showing_errors(gr, "Not started"):
            session = await assistant.send(_task(names, *values).request())
        return _goto(session.id), gr.update(selected="work")

    def keep(number: int, name: str, *values: Any) -> int:
        with _showing_errors(gr, "Not saved"):
            assistant.tasks.save(name, _task(names, *values))
        gr.Info(f"Saved: {escape(name)}", duration=4)
        return number + 1

    def forget(number: int, name: str) -> int:
        with _showing_errors(gr, "Not deleted"):
            assistant.tasks.delete(name)
        return number + 1

    with gr.Row():
        run = gr.Button("Run now", variant="primary", elem_id="task-run", min_width=100)
        save = gr.Button("Save", elem_id="task-save", min_width=100)
        delete = gr.Button("Delete", elem_id="task-delete", min_width=100)
    run.click(begin, [*form, *boxes], shown, **QUIET)
    save.click(keep, [version, *form, *boxes], version, **QUIET)
    delete.click(forget, [version, form[0]], version, js=_DELETE_TASK_JS, **QUIET)


def _form(gr: Any) -> list[Any]:
    """Return the fields of a task: name, instruction, mode, place, address, time."""
    name = gr.Textbox(label="Name", max_lines=1, elem_id="task-name")
    words = gr.Textbox(
        label="What is to be done", lines=2, elem_id="task-words", placeholder="Pay {invoice}",
        info="A word in braces is a parameter",
    )  # fmt: skip
    with gr.Row():
        modes = [(name.capitalize(), name) for name in MODES]
        mode = gr.Dropdown(modes, value="thinking", label="Mode", filterable=False, min_width=120)
        place = gr.Dropdown(list(PLACES), value="Practice page", label="Start at", filterable=False, min_width=120)
        where = gr.Textbox(label="Address", visible=False, min_width=160)
    when = gr.Textbox(label="Run at", info=f"While the app is open: {SCHEDULE_FORMS}", max_lines=1, elem_id="task-when")
    return [name, words, mode, place, where, when]


def _list(gr: Any, assistant: Assistant, column: Any, fields: list[Any], version: Any) -> None:
    with column:

        @gr.render(inputs=version, triggers=[version.change])
        def show_tasks(_: int) -> None:
            try:
                rows = assistant.tasks.rows()
            except ERRORS as error:
                _html(gr, f"<p>{escape(str(error))}</p>")
                return
            if not rows:
                gr.Markdown("No saved tasks yet. Fill in the form and save it.")
            for row in rows:
                with gr.Row():
                    _html(gr, _task_card(row), scale=4)
                    button = gr.Button("Open", size="sm", scale=0, min_width=80)
                    button.click(lambda row=row: _fields(row), None, fields, **QUIET)


def _task_card(row: Json) -> str:
    """Return a task of the list as HTML."""
    about = [row["mode"], f"next {row['next']}" if row["next"] else row["when"], row["last"]]
    return (
        f'<div class="run-card"><div class="words"><strong>{escape(row["name"])}</strong>'
        f"<div>{escape(' '.join(row['instruction'].split())[:160])}</div>"
        f'<div class="meta">{escape(" · ".join(text for text in about if text))}</div></div></div>'
    )


def _fields(row: Json) -> tuple[Any, ...]:
    start = next(shown for shown, place in PLACES.items() if place == row["place"])
    where = row["url"] or row["app"] or ""
    return row["name"], row["instruction"], row["mode"], start, where, row["when"], (row["name"], row["values"])


def _task(names: tuple[str, ...], words: str, mode: str, start: str, where: str, when: str, *values: str) -> SavedTask:
    """Return the task in the form's fields.

    Raises:
        ConfigError: If a field is missing or too long.
    """
    request = make_request(words, mode, start, where, [])
    given = {name: text for name, text in zip(names, values, strict=True) if text}
    try:
        return SavedTask(
            instruction=words,
            mode=request.mode,
            place=request.place,
            url=request.url,
            app=request.app,
            values=given,
            when=when,
        )
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from error


def _add_history(gr: Any, assistant: Assistant, opener: Any, tabs: Any) -> None:
    """Add the history tab.

    Args:
        gr: The module gradio.
        assistant: Assistant of the page.
        opener: Component that gets the HTML that opens a session.
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
                rows = assistant.history.find_runs(words or "", limit=(first + 1) * _RUNS_A_PAGE + 1)
                shown = rows[first * _RUNS_A_PAGE : (first + 1) * _RUNS_A_PAGE]
                if not shown:
                    gr.Markdown("No runs yet." if not words else "No run has these words.")
                for row in shown:
                    with gr.Row():
                        _html(gr, _run_card(row), scale=4)
                        button = gr.Button("Open", size="sm", scale=0, min_width=80)
                        button.click(lambda run=row["id"]: run, None, chosen, api_visibility="private")
                with gr.Row():
                    newer = gr.Button("Newer", size="sm", interactive=first > 0)
                    older = gr.Button("Older", size="sm", interactive=len(rows) > (first + 1) * _RUNS_A_PAGE)
                    newer.click(lambda: max(0, first - 1), None, number, api_visibility="private")
                    older.click(lambda: first + 1, None, number, api_visibility="private")

        with gr.Column(scale=3, min_width=320):
            _one_run(gr, assistant, chosen, version, opener, tabs)
    tabs.select(lambda value: value + 1, version, version, **QUIET)


def _one_run(gr: Any, assistant: Assistant, chosen: Any, version: Any, opener: Any, tabs: Any) -> None:
    @gr.render(inputs=chosen, triggers=[chosen.change])
    def show_run(run_id: str) -> None:
        if not run_id:
            return
        try:
            run = assistant.history.details(run_id)
        except ERRORS as error:
            _html(gr, f"<p>{escape(_plain(error))}</p>")
            return
        steps = run["steps"]
        head = f"<h2>{escape(run['instruction'][:300])}</h2>{_meta(run)}"
        _html(gr, f'<div class="strip">{head}{_links(run_id, has_screen=not run["is_tool_run"])}</div>')
        with gr.Row():
            again, delete = (gr.Button(text, size="sm") for text in ("Run again", "Delete"))
            resume = gr.Button("Resume", size="sm", visible=run["status"] not in _OVER)
        slider = gr.Slider(1, max(len(steps), 2), value=1, step=1, label="Step of the film strip", interactive=True,
                           visible=len(steps) > 1)  # fmt: skip
        strip = _html(gr, _strip_step(run_id, steps, 1))
        if len(steps) > 1:
            slider.change(lambda step: _strip_step(run_id, steps, int(step)), slider, strip, **QUIET)  # fmt: skip
        again.click(_beginning(gr, assistant.again, run_id), None, [opener, tabs], **QUIET)
        resume.click(_beginning(gr, assistant.resume, run_id), None, [opener, tabs], **QUIET)

        def remove(value: int) -> tuple[str, int]:
            with _showing_errors(gr, "Not deleted"):
                assistant.history.delete(run_id)
            return "", value + 1

        delete.click(remove, version, [chosen, version], js=_DELETE_RUN_JS, **QUIET)


def _beginning(gr: Any, begin: Any, run_id: str) -> Any:
    async def work() -> tuple[str, Any]:
        with _showing_errors(gr, "Not started"):
            result = begin(run_id)
            session = await result if hasattr(result, "__await__") else result
        return _goto(session.id), gr.update(selected="work")

    return work


def _run_card(row: Json) -> str:
    """Return a run of a list as HTML."""
    source = f"/api/runs/{quote(row['id'], safe='')}/thumbnail"
    has_image = row["env"] != TOOLS_ENV and row["num_steps"]
    image = f'<img src="{source}" alt="" loading="lazy">' if has_image else '<div class="none"></div>'
    return (
        f'<div class="run-card">{image}<div class="words">'
        f"<strong>{escape(' '.join(row['instruction'].split())[:140]) or '(no words)'}</strong>{_meta(row)}</div></div>"
    )


def _meta(row: Json) -> str:
    parts = [describe_time(row["started_at"])[:16], row["status"], f"{row['num_steps']} steps"]
    parts += [describe_duration(row["duration_s"]), row["model"]]
    return f'<div class="meta">{escape(" · ".join(str(part) for part in parts if part))}</div>'


def _links(run_id: str, *, has_screen: bool) -> str:
    """Return the download links of a run as HTML; film and OSWorld layout only for runs with a screen."""
    base = f"/api/runs/{quote(run_id, safe='')}/export"
    links = (
        f'<a href="{base}/{name}" download>{kind.title}</a>'
        for name, kind in EXPORTS.items()
        if has_screen or not kind.needs_screen
    )
    return f'<p class="links">{"".join(links)}</p>'


def _strip_step(run_id: str, steps: list[Json], number: int) -> str:
    """Return one step of a film strip as HTML; `number` is 1-based."""
    if not 1 <= number <= len(steps):
        return "<p>This run has no steps.</p>"
    step = steps[number - 1]
    source = f"/api/runs/{quote(run_id, safe='')}/steps/{int(step['index'])}/image"
    image = f'<img src="{source}" alt="Screen at step {int(step["index"])}">' if step.get("has_image") else ""
    parts = [
        f"<p><strong>{int(step['index'])}. {escape(step.get('action') or '')}</strong></p>",
        *(f"<p>{escape(text)}</p>" for text in step.get("notes", ())),
        f'<p class="meta">{escape(step["error"])}</p>' if step.get("error") else "",
        *(f"<details><summary>{label}</summary><pre>{escape(step[name])}</pre></details>"
          for name, label in (("thought", "Why"), ("code", "Code")) if step.get(name)),
        *(f'<p class="meta">{escape(text)}</p>' for text in step.get("done", ())),
    ]  # fmt: skip
    return f'<div class="strip">{image}{"".join(parts)}</div>'


def _html(gr: Any, value: str, **options: Any) -> Any:
    """Make an HTML component with the page's own style."""
    return gr.HTML(value, apply_default_css=False, padding=False, container=False, **options)


def _goto(session_id: str) -> str:
    """Return HTML that opens a session in the live part of the page."""
    return f'<assistant-goto session="{escape(session_id)}" nonce-number="{time.monotonic_ns()}"></assistant-goto>'


def _plain(error: Exception) -> str:
    """Return the first line of an error, for a component that shows HTML."""
    return escape(str(error).splitlines()[0] if str(error) else type(error).__name__)


@contextmanager
def _showing_errors(gr: Any, title: str) -> Iterator[None]:
    """Convert errors that the user can fix to messages on the page."""
    try:
        yield
    except ERRORS as error:
        raise gr.Error(_plain(error), print_exception=False, title=title) from error
