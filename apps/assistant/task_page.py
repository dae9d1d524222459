"""The page's tab of saved tasks: a list, and one form to edit a task, fill in its parameters, run and save it."""

from html import escape
from typing import Any

from pydantic import ValidationError

from apps.assistant.assistant import Assistant
from apps.assistant.order import MODES, PLACES, make_order
from apps.assistant.page_parts import ERRORS, QUIET, goto, html, refused
from apps.assistant.saved_tasks import WHEN, SavedTask

_CONFIRM_JS = (
    "(...values) => { if (!confirm('Delete this task?')) throw new Error('kept'); return values.slice(0, 2); }"
)


def add_tasks(gr: Any, assistant: Assistant, opener: Any, tabs: Any) -> None:
    """Add the tab's content.

    Args:
        gr: The module gradio.
        assistant: What it works on.
        opener: Takes the HTML that opens a session.
        tabs: All tabs of the page.
    """
    given, names, version = gr.State(("", {})), gr.State(()), gr.State(0)
    with gr.Row():
        listing = gr.Column(scale=2, min_width=320)
        with gr.Column(scale=3, min_width=320):
            form = _form(gr)
            _, words, _, place, where, _ = form

            @gr.render(inputs=[names, given])
            def show_end_of_form(found: tuple[str, ...], opened: tuple[str, dict[str, str]]) -> None:
                name, values = opened
                with gr.Row(visible=bool(found)):
                    boxes = [
                        gr.Textbox(values.get(one, ""), label=one, max_lines=1, min_width=160, key=f"{name}/{one}")
                        for one in found
                    ]
                _buttons(gr, assistant, (form, found, boxes), version, [opener, tabs])

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

    async def begin(_: str, *said: Any) -> tuple[str, Any]:
        try:
            session = await assistant.send(_task(names, *said).order())
        except ERRORS as error:
            raise refused(gr, error, "Not started") from error
        return goto(session.id), gr.update(selected="work")

    def keep(number: int, name: str, *said: Any) -> int:
        try:
            assistant.tasks.save(name, _task(names, *said))
        except ERRORS as error:
            raise refused(gr, error, "Not saved") from error
        gr.Info(f"Saved: {escape(name)}", duration=4)
        return number + 1

    def forget(number: int, name: str) -> int:
        try:
            assistant.tasks.delete(name)
        except ERRORS as error:
            raise refused(gr, error, "Not deleted") from error
        return number + 1

    with gr.Row():
        run = gr.Button("Run now", variant="primary", elem_id="task-run", min_width=100)
        save = gr.Button("Save", elem_id="task-save", min_width=100)
        delete = gr.Button("Delete", elem_id="task-delete", min_width=100)
    run.click(begin, [*form, *boxes], shown, **QUIET)
    save.click(keep, [version, *form, *boxes], version, **QUIET)
    delete.click(forget, [version, form[0]], version, js=_CONFIRM_JS, **QUIET)


def _form(gr: Any) -> list[Any]:
    """Fields of a task: name, instruction, mode, place, address, time."""
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
    when = gr.Textbox(label="Run at", info=f"While the app is open: {WHEN}", max_lines=1, elem_id="task-when")
    return [name, words, mode, place, where, when]


def _list(gr: Any, assistant: Assistant, column: Any, fields: list[Any], version: Any) -> None:
    with column:

        @gr.render(inputs=version, triggers=[version.change])
        def show_tasks(_: int) -> None:
            try:
                rows = assistant.tasks.rows()
            except ERRORS as error:
                html(gr, f"<p>{escape(str(error))}</p>")
                return
            if not rows:
                gr.Markdown("No saved tasks yet. Fill in the form and save it.")
            for row in rows:
                with gr.Row():
                    html(gr, task_card(row), scale=4)
                    button = gr.Button("Open", size="sm", scale=0, min_width=80)
                    button.click(lambda row=row: _fields(row), None, fields, **QUIET)


def task_card(row: dict[str, Any]) -> str:
    """A task in the list, as HTML."""
    about = [row["mode"], f"next {row['next']}" if row["next"] else row["when"], row["last"]]
    return (
        f'<div class="run-card"><div class="words"><strong>{escape(row["name"])}</strong>'
        f"<div>{escape(' '.join(row['instruction'].split())[:160])}</div>"
        f'<div class="meta">{escape(" · ".join(text for text in about if text))}</div></div></div>'
    )


def _fields(row: dict[str, Any]) -> tuple[Any, ...]:
    start = next(shown for shown, place in PLACES.items() if place == row["place"])
    where = row["url"] or row["app"] or ""
    return row["name"], row["instruction"], row["mode"], start, where, row["when"], (row["name"], row["values"])


def _task(names: tuple[str, ...], words: str, mode: str, start: str, where: str, when: str, *values: str) -> SavedTask:
    """The task that the form's fields describe.

    Raises:
        ConfigError: Something is missing or too long.
    """
    order = make_order(words, mode, start, where, [])
    given = {name: text for name, text in zip(names, values, strict=True) if text}
    try:
        return SavedTask(
            instruction=words, mode=order.mode, place=order.place, url=order.url, app=order.app, values=given, when=when
        )
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from error
