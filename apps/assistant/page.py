"""The page: Gradio's components around the live part (`static/assistant.js`), which shows screen, feed and sessions.

Nothing is kept here: handlers call the `Assistant`, and what they say is text, escaped wherever it becomes HTML.
"""

from html import escape
from typing import TYPE_CHECKING, Any

from apps.assistant.assistant import Assistant
from apps.assistant.history_page import add_history
from apps.assistant.order import MODES, PLACES, make_order, practice_order
from apps.assistant.page_parts import ERRORS, QUIET, goto, html, plain, refused
from apps.assistant.task_page import add_tasks
from envs.errors import require

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
            html(gr, f"<h1>{TITLE}</h1>", min_width=150, scale=0)
            html(gr, "<assistant-sessions></assistant-sessions>", min_width=240, scale=1)
            gr.Button("Light / dark", size="sm", scale=0, min_width=110).click(None, js=_THEME_JS)
        opener = html(gr, "", elem_id="goto")
        with gr.Tabs() as tabs:
            with gr.Tab("Work", id="work"):
                _work(gr, assistant, opener)
            with gr.Tab("Tasks", id="tasks"):
                add_tasks(gr, assistant, opener, tabs)
            with gr.Tab("History", id="history"):
                add_history(gr, assistant, opener, tabs)
            with gr.Tab("Settings", id="settings"):
                _settings(gr, assistant)
    page.queue(max_size=64, default_concurrency_limit=None, api_open=False)
    return page


def _work(gr: Any, assistant: Assistant, opener: Any) -> None:
    with gr.Row():
        with gr.Column(scale=3, min_width=320):
            html(gr, "<assistant-screen></assistant-screen>")
        with gr.Column(scale=2, min_width=320):
            html(gr, "<assistant-feed></assistant-feed>")
            words = gr.MultimodalTextbox(
                label="What is to be done", show_label=False, elem_id="words", lines=1, max_lines=6,
                file_count="multiple", sources=["upload"],
                placeholder="Say what you want. While it works: a sentence redirects it.",
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

    async def send(said: dict[str, Any], name: str, start: str, address: str, session: str) -> tuple[Any, Any]:
        try:
            files = [_upload(assistant, file) for file in said.get("files") or ()]
            order = make_order(said.get("text") or "", name, start, address, files)
            begun = await assistant.send(order, session if session in assistant.sessions else "")
        except ERRORS as error:
            raise refused(gr, error, "Not started") from error
        return gr.update(value={"text": "", "files": []}), goto(begun.id)

    async def try_practice(name: str) -> str:
        try:
            return goto((await assistant.send(practice_order(name))).id)
        except ERRORS as error:
            raise refused(gr, error, "Not started") from error

    hidden = gr.Textbox(visible=False)
    words.submit(
        send, [words, mode, place, where, hidden], [words, opener], js=_SESSION_JS, show_progress="hidden",
        api_visibility="private",
    )  # fmt: skip
    practice.click(try_practice, mode, opener, show_progress="hidden", api_visibility="private")


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
    about = html(gr, about_setting(rows, "model"))
    table = gr.Dataframe(
        table_of(rows), headers=["setting", "value", "comes from"], interactive=False, wrap=True,
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
            about_setting(now, chosen),
        )

    def keep(chosen: str, text: str, key: str) -> tuple[Any, Any]:
        try:
            assistant.preferences.change(chosen, key if chosen == "api_key" else text)
        except ERRORS as error:
            raise refused(gr, error, "Not saved") from error
        return table_of(assistant.preferences.rows()), gr.update(value="")

    def probe() -> str:
        try:
            report = assistant.preferences.test_endpoint()
        except ERRORS as error:
            return plain(error)
        return "\n".join(f"{row['name']}: {row['status']}. {row['text']}" for row in report["probes"])

    name.change(choose, name, [value, secret, about], **QUIET)
    save.click(keep, [name, value, secret], [table, secret], **QUIET)
    test.click(probe, None, outcome, api_visibility="private")


def _secrets(gr: Any, assistant: Assistant) -> None:
    gr.Markdown("A secret is typed where the instruction says `{{its_name}}`: the model never sees its value.")
    with gr.Row():
        name = gr.Textbox(label="Secret's name", placeholder="shop_password", elem_id="secret-name")
        value = gr.Textbox(label="What is typed (empty: forget it)", type="password", elem_id="secret-value")
        domains = gr.Textbox(label="Sites (empty: everywhere)", placeholder="shop.example.com", elem_id="secret-sites")
        save = gr.Button("Keep", scale=0, min_width=110, elem_id="secret-save")
    kept = html(gr, about_secrets(assistant.preferences.secret_rows()))

    def keep(chosen: str, text: str, sites: str) -> tuple[str, Any, str]:
        try:
            assistant.preferences.change_secret(chosen.strip(), text, sites.split(","))
        except ERRORS as error:
            raise refused(gr, error, "Not kept") from error
        return "", gr.update(value=""), about_secrets(assistant.preferences.secret_rows())

    save.click(keep, [name, value, domains], [name, value, kept], **QUIET)


def about_secrets(rows: list[dict[str, Any]]) -> str:
    """Names of what is kept, as HTML."""
    shown = (f"<li>{escape(row['name'])}: {escape(', '.join(row['domains']) or 'everywhere')}</li>" for row in rows)
    return f'<div class="run-card">{"Kept:<ul>" + "".join(shown) + "</ul>" if rows else "No secrets are kept."}</div>'


def about_setting(rows: list[dict[str, Any]], name: str) -> str:
    """What a setting is, as HTML."""
    row = next(row for row in rows if row["name"] == name)
    choices = f" One of: {', '.join(row['choices'])}." if row["choices"] and not row["is_open"] else ""
    return f'<p class="run-card">{escape(name)}: {escape(row["about"])}.{escape(choices)}</p>'


def table_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Settings as rows of a table."""
    return [[row["name"], row["value"], row["source"]] for row in rows]


def _upload(assistant: Assistant, file: Any) -> str:
    from pathlib import Path

    path = Path(file if isinstance(file, str) else file["path"])
    return assistant.take_file(path, path.name)
