"""Gradio page: components around the live part (`static/assistant.js`), which shows screen, feed and sessions.

The page has no state of its own: handlers call the `Assistant`; their texts are escaped wherever they become HTML.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from apps.assistant.assistant import Assistant
from apps.assistant.preferences import TEST_S
from apps.assistant.run_request import MODES, PLACES
from apps.assistant.saved_tasks import SCHEDULE_FORMS, SavedTask
from apps.assistant.wording import SHOWN, phrase
from cua.errors import CuaError
from cua.json_text import Json
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
LOAD_JS = "() => window.setAssistantTheme?.()"
_DELETE_TASK_JS = (
    "(...values) => { if (!confirm('Delete this task?')) throw new Error('kept'); return values.slice(0, 2); }"
)
_YES_NO = {"true": "yes", "false": "no"}
_ABILITIES = {"pictures": ("image-tokens", "image-count", "image-order"), "tools": ("tool-call",)}
"""Probes that show what an endpoint can do; one that succeeds is enough."""
ENDPOINT_EXAMPLE = "http://127.0.0.1:8000/v1"
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
    """Make the pages of tasks and settings; the rest of the page is `static/assistant.js`.

    Raises:
        MissingDependencyError: If Gradio is not installed.
    """
    gr = require("gradio", EXTRA)
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as page:
        opener = _html(gr, "", elem_id="goto")
        with gr.Column(elem_id="tasks"):
            gr.Markdown("## Tasks")
            _add_tasks(gr, assistant, opener)
        with gr.Column(elem_id="settings"):
            gr.Markdown("## Settings")
            _settings(gr, assistant)
    page.queue(max_size=64, default_concurrency_limit=None, api_open=False)
    return page


def _settings(gr: Any, assistant: Assistant) -> None:
    _connect(gr, assistant)
    _secrets(gr, assistant)
    with gr.Accordion("All settings", open=False):
        gr.Markdown("What is saved here wins over files. Runs that start later use it.")
        _all_settings(gr, assistant)


def _connect(gr: Any, assistant: Assistant) -> None:
    """Add the form of endpoint, model and key, with a test."""
    given = {row["name"]: row["value"] for row in assistant.preferences.rows()}
    gr.Markdown("### Connect a model")
    with gr.Row():
        url = gr.Textbox(
            given["base_url"],
            label="Endpoint",
            placeholder=ENDPOINT_EXAMPLE,
            max_lines=1,
            min_width=240,
            elem_id="connect-url",
        )
        model = gr.Textbox(given["model"], label="Model", max_lines=1, elem_id="connect-model")
        hint = given["api_key"] or "none"
        key = gr.Textbox(label="Key", type="password", placeholder=hint, elem_id="connect-key")
    with gr.Row():
        test = gr.Button("Test and save", variant="primary", elem_id="connect-test", min_width=170, scale=0)
        forget = gr.Button("Disconnect", elem_id="connect-forget", min_width=150, scale=0)
    verdict = _html(gr, "", elem_id="verdict")
    with gr.Accordion("Details of the test", open=False, visible=False) as folded:
        outcome = gr.Textbox(show_label=False, label="Details", lines=8, interactive=False, elem_id="outcome")
    gr.Markdown(assistant.preferences.about_secrets)

    def connect(address: str, name: str, secret: str) -> tuple[Any, ...]:
        try:
            for setting, text in (("base_url", address.strip()), ("model", name.strip()), ("api_key", secret)):
                if text or setting != "api_key":  # an empty field keeps the key
                    assistant.preferences.change(setting, text)
            report = assistant.preferences.test_endpoint()
        except ERRORS as error:
            return _verdict(_plain(error), is_good=False), gr.update(visible=False), "", gr.update(value="")
        text, is_good = describe_probes(report["probes"])
        rows = "\n".join(f"{row['name']}: {row['status']}. {phrase(row['text'])}" for row in report["probes"])
        return _verdict(escape(text), is_good=is_good), gr.update(visible=True), rows, gr.update(value="")

    def disconnect() -> tuple[Any, ...]:
        for setting in ("base_url", "model", "api_key"):
            assistant.preferences.change(setting, "")
        kept = {row["name"]: row["value"] for row in assistant.preferences.rows()}
        shown = _verdict("Disconnected. The embedded model is used.", is_good=True)
        return kept["base_url"], kept["model"], gr.update(value=""), shown, gr.update(visible=False)

    def wait() -> tuple[str, Any]:
        text = f"Asking the server. One that does not answer is given up after {TEST_S:.0f} s."
        return _verdict(text, is_good=True), gr.update(interactive=False)

    asked = test.click(wait, None, [verdict, test], **QUIET)
    answered = asked.then(connect, [url, model, key], [verdict, folded, outcome, key], **QUIET)
    answered.then(lambda: gr.update(interactive=True), None, test, **QUIET)
    forget.click(disconnect, None, [url, model, key, verdict, folded], **QUIET)


def describe_probes(probes: Sequence[Json]) -> tuple[str, bool]:
    """Return the result of an endpoint's test in one line, and whether the endpoint can be used."""
    status = {str(row["name"]): str(row["status"]) for row in probes}
    counts = Counter(status.values())
    able = [text for text, names in _ABILITIES.items() if any(status.get(name) in ("ok", "warning") for name in names)]
    is_good = any(status.get(name) in ("ok", "warning") for name in ("chat", "stream"))
    parts = [f"{'works' if is_good else 'does not work'}{', with ' + ' and '.join(able) if able and is_good else ''}"]
    notes = counts["warning"] + counts["inconclusive"] + counts["not supported"]
    parts += [
        f"{number} {word}{'s' * (number != 1)}"
        for number, word in ((counts["failed"], "fault"), (notes, "note"))
        if number
    ]
    return "; ".join(parts), is_good


def _verdict(text: str, *, is_good: bool) -> str:
    """Return a verdict as HTML; the text is escaped already."""
    return f'<p class="verdict is-{"good" if is_good else "bad"}" role="status">{text}</p>'


def _all_settings(gr: Any, assistant: Assistant) -> None:
    rows = assistant.preferences.rows()
    names = [(row["label"], row["name"]) for row in rows if not row["is_secret"]]
    with gr.Row():
        name = gr.Dropdown(names, value="model", label="Setting", elem_id="setting")
        value = gr.Dropdown(
            _choices_of(rows[0]), value=rows[0]["value"], allow_custom_value=True,
            label="Value (empty: back to its source)", elem_id="value",
        )  # fmt: skip
        save = gr.Button("Save", variant="primary", scale=0, min_width=110, elem_id="save")
    about = _html(gr, _about_setting(rows[0]), elem_id="about-setting")
    table = _html(gr, _table_of(rows), elem_id="settings-table")

    def choose(chosen: str) -> tuple[Any, str]:
        row = next(row for row in assistant.preferences.rows() if row["name"] == chosen)
        return gr.update(choices=_choices_of(row), value=row["value"]), _about_setting(row)

    def keep(chosen: str, text: str | None) -> tuple[str, str]:
        try:
            assistant.preferences.change(chosen, text)
            outcome = _verdict("Saved.", is_good=True)
        except ERRORS as error:
            outcome = _verdict(_plain(error), is_good=False)
        return outcome, _table_of(assistant.preferences.rows())

    name.change(choose, name, [value, about], **QUIET)
    save.click(keep, [name, value], [about, table], **QUIET)


def _secrets(gr: Any, assistant: Assistant) -> None:
    gr.Markdown("### Secrets\nWrite `{{name}}` in an instruction. The model never sees the value.")
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


def _about_setting(row: Json) -> str:
    """Return the description of a setting as HTML."""
    return f'<p class="run-card">{escape(row["label"])}: {escape(row["about"])}</p>'


def _in_words(row: Json, value: str) -> str:
    """Return the value of a setting in the words of the page."""
    return (SHOWN[row["name"]].choices or (_YES_NO if "true" in row["choices"] else {})).get(value, value)


def _choices_of(row: Json) -> list[tuple[str, str]]:
    """Return the choices of a setting as pairs of words and value."""
    return [(_in_words(row, value), value) for value in row["choices"]]


def _table_of(rows: list[Json]) -> str:
    """Return the settings as an HTML table: label and description, value, source."""
    lines = (
        (
            f"{escape(row['label'])}<p>{escape(row['about'])}</p>",
            escape(_in_words(row, row["value"])),
            "command line" if row["source"] == "flag" else escape(row["source"]),
        )
        for row in rows
    )
    cells = "".join(
        f"<tr><th scope=row>{first}</th><td>{value}</td><td>{source}</td></tr>" for first, value, source in lines
    )
    return f"<table class=all-settings><tr><th>Setting</th><th>Value</th><th>Source</th></tr>{cells}</table>"


def _add_tasks(gr: Any, assistant: Assistant, opener: Any) -> None:
    """Add the page of saved tasks.

    Args:
        gr: The module gradio.
        assistant: Assistant of the page.
        opener: Component that gets the HTML that opens a session.
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
                _buttons(gr, assistant, (form, parameters, boxes), version, opener)

    _list(gr, assistant, listing, [*form, given], version)
    words.change(lambda text: SavedTask.model_construct(instruction=text).parameters, words, names, **QUIET)
    place.change(
        lambda start: gr.update(visible=start != "Practice page", label="Program" if "desktop" in start else "Address"),
        place, where, **QUIET,
    )  # fmt: skip
    shown = gr.Button("Refresh", elem_id="tasks-shown")  # pressed by the page when it shows the tasks
    shown.click(lambda number: number + 1, version, version, **QUIET)


def _buttons(
    gr: Any, assistant: Assistant, fields: tuple[list[Any], tuple[str, ...], list[Any]], version: Any, opener: Any
) -> None:
    form, names, boxes = fields

    async def run_now(_: str, *values: Any) -> str:
        with _showing_errors(gr, "Not started"):
            session = await assistant.send(_task(names, *values).request())
        return _goto(session.id)

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
    run.click(run_now, [*form, *boxes], opener, **QUIET)
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
        place = gr.Dropdown(list(PLACES), value="Practice page", label="Start at", filterable=False, min_width=180)
        where = gr.Textbox(label="Address", visible=False, min_width=160)
    when = gr.Textbox(label="Run at", info=f"While the app is open. {SCHEDULE_FORMS}", max_lines=1, elem_id="task-when")
    return [name, words, mode, place, where, when]


def _list(gr: Any, assistant: Assistant, column: Any, fields: list[Any], version: Any) -> None:
    with column:

        @gr.render(inputs=version, triggers=[version.change])
        def show_tasks(_: int) -> None:
            try:
                rows = assistant.tasks.rows()
            except ERRORS as error:
                _html(gr, f"<p>{_plain(error)}</p>")
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


def _task(
    names: tuple[str, ...], words: str, mode: str, start: str, where: str | None, when: str, *values: str
) -> SavedTask:
    """Return the task in the form's fields.

    Raises:
        ValidationError: If a field is missing or too long.
    """
    place = PLACES[start]
    field = {"web": {"url": where or None}, "desktop": {"app": where or None}}.get(place, {})
    given = {name: text for name, text in zip(names, values, strict=True) if text}
    kept = {"instruction": words, "mode": mode, "place": place, "values": given, "when": when}
    return SavedTask.model_validate(kept | field)


def _html(gr: Any, value: str, **options: Any) -> Any:
    """Make an HTML component with the page's own style."""
    return gr.HTML(value, apply_default_css=False, padding=False, container=False, **options)


def _goto(session_id: str) -> str:
    """Return HTML that opens a session in the live part of the page."""
    return f'<assistant-goto session="{escape(session_id)}" nonce-number="{time.monotonic_ns()}"></assistant-goto>'


def _plain(error: Exception) -> str:
    """Return an error in the words of the page, for a component that shows HTML."""
    return escape(phrase(error))


@contextmanager
def _showing_errors(gr: Any, title: str) -> Iterator[None]:
    """Convert errors that the user can fix to messages on the page."""
    try:
        yield
    except ERRORS as error:
        raise gr.Error(_plain(error), print_exception=False, title=title) from error
