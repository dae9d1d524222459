"""Instructions to steps; whole lists are compared."""

from apps.literal.grammar import parse_instruction
from apps.literal.steps import (
    AnswerDialog,
    CheckShown,
    ClearField,
    ClickFigures,
    ClickTarget,
    ComputeAnswer,
    CopyText,
    DescribeFigures,
    DoNotSubmit,
    DragFigures,
    DragTarget,
    OpenAddress,
    OpenUntil,
    PasteText,
    PickSuggestion,
    PressKeys,
    ReportValue,
    ScrollBy,
    ScrollUntil,
    SelectOption,
    SelectText,
    SetSlider,
    SetToggle,
    SetValue,
    TypeAnswer,
    TypeInto,
    Unreadable,
    WaitFor,
    WaitSeconds,
)
from apps.literal.targets import AnchorRelation, ElementTarget, FigureStyle
from tests.tables import table


def quoted(text: str, **more: object) -> ElementTarget:
    return ElementTarget(text=text, **more)  # type: ignore[arg-type]


def plain(text: str, phrase: str | None = None, **more: object) -> ElementTarget:
    return ElementTarget(text=text, phrase=text if phrase is None else phrase, **more)  # type: ignore[arg-type]


CASES: list[tuple[str, list[object]]] = [
    ("click 'Save'", [ClickTarget(target=quoted("Save"))]),
    ("Double-click on “Report”", [ClickTarget(target=quoted("Report"), clicks=2)]),
    (
        'right click "foo", then middle-click the link "bar"',
        [
            ClickTarget(target=quoted("foo"), button="right"),
            ClickTarget(target=quoted("bar", role="link"), button="middle"),
        ],
    ),
    ("hover over Products", [ClickTarget(target=plain("Products"), clicks=0)]),
    ('click the second "Delete"', [ClickTarget(target=quoted("Delete", ordinal=2))]),
    ("click the last Edit", [ClickTarget(target=plain("Edit", "last Edit", ordinal=-1))]),
    ("click Sign in", [ClickTarget(target=plain("Sign in"))]),
    ("click the Save button", [ClickTarget(target=plain("Save", "Save button", role="button"))]),
    (
        "click Save next to Total",
        [ClickTarget(target=plain("Save", "Save next to Total", relation=AnchorRelation(kind="near", anchor="Total")))],
    ),
    (
        "click 'Delete' in the row of 'Coffee'",
        [ClickTarget(target=quoted("Delete", relation=AnchorRelation(kind="row", anchor="Coffee")))],
    ),
    (
        "click the Delete button in the row with 'Coffee'",
        [ClickTarget(target=quoted("Delete", role="button", relation=AnchorRelation(kind="row", anchor="Coffee")))],
    ),
    ("click 'Delete' in the third row", [ClickTarget(target=quoted("Delete", ordinal=3))]),
    (
        "click 'A' below 'B' and click 'C' above 'D'",
        [
            ClickTarget(target=quoted("A", relation=AnchorRelation(kind="below", anchor="B"))),
            ClickTarget(target=quoted("C", relation=AnchorRelation(kind="above", anchor="D"))),
        ],
    ),
    (
        "click 'A' to the left of 'B'; click 'C' right of 'D'",
        [
            ClickTarget(target=quoted("A", relation=AnchorRelation(kind="left", anchor="B"))),
            ClickTarget(target=quoted("C", relation=AnchorRelation(kind="right", anchor="D"))),
        ],
    ),
    ("click at (0.25, 0.5)", [ClickTarget(target=ElementTarget(position=(0.25, 0.5)))]),
    ('click "7", "+", "8" and "="', [ClickTarget(target=quoted(text)) for text in "7+8="]),
    (
        "click File -> Save As",
        [ClickTarget(target=plain("File"), reveals="Save As"), ClickTarget(target=plain("Save As"))],
    ),
    (
        "type 12.50 into Amount and click Save",
        [TypeInto(text="12.50", field=plain("Amount")), ClickTarget(target=plain("Save"))],
    ),
    (
        "Enter 'Lunch, then tea; and click' in the Description field.",
        [TypeInto(text="Lunch, then tea; and click", field=plain("Description", "Description field", role="field"))],
    ),
    ("type s3cret! into Password", [TypeInto(text="s3cret!", field=plain("Password"))]),
    ("Type {{password}} into Password", [TypeInto(text="{{password}}", field=plain("Password"))]),
    ("type 'It's ok' into \"Bob's note\"", [TypeInto(text="It's ok", field=quoted("Bob's note"))]),
    ("type hello", [TypeInto(text="hello")]),
    ("type 'hello world' into the document", [TypeInto(text="hello world", field=plain("", "document", role="area"))]),
    ("append ' and more' to Notes", [TypeInto(text=" and more", field=plain("Notes"), append=True)]),
    (
        "Fill Amount with 3 and Date with 2026-03-04",
        [SetValue(field=plain("Amount"), value="3"), SetValue(field=plain("Date"), value="2026-03-04")],
    ),
    (
        'set "Due date" to 2026-05-06 and "Owner" to Ann',
        [SetValue(field=quoted("Due date"), value="2026-05-06"), SetValue(field=quoted("Owner"), value="Ann")],
    ),
    (
        "Fill in the form:\n  Name: Bob\n  City: Paris",
        [SetValue(field=plain("Name"), value="Bob"), SetValue(field=plain("City"), value="Paris")],
    ),
    ("set Wifi to off", [SetToggle(target=plain("Wifi"), is_on=False)]),
    ("clear the Amount field", [ClearField(field=plain("Amount", "Amount field", role="field"))]),
    (
        "choose Travel from the Category list",
        [SelectOption(option=ElementTarget(text="Travel"), field=plain("Category", "Category list", role="list"))],
    ),
    ("select 'Travel' in Category", [SelectOption(option=ElementTarget(text="Travel"), field=plain("Category"))]),
    ("select the 'Card' radio button", [SetToggle(target=quoted("Card", role="radio"))]),
    (
        "tick Reimbursable and uncheck 'Send mail'",
        [SetToggle(target=plain("Reimbursable")), SetToggle(target=quoted("Send mail"), is_on=False)],
    ),
    ("make sure that Reimbursable is not ticked", [SetToggle(target=plain("Reimbursable"), is_on=False)]),
    (
        "press ctrl+s, press Tab 3 times then press Enter twice",
        [PressKeys(keys=("ctrl", "s")), PressKeys(keys=("tab",), times=3), PressKeys(keys=("enter",), times=2)],
    ),
    ("press Control-Shift-T and press ctrl++", [PressKeys(keys=("ctrl", "shift", "t")), PressKeys(keys=("ctrl", "+"))]),
    ("press Save", [ClickTarget(target=plain("Save"))]),
    ("press the '7' button", [ClickTarget(target=quoted("7", role="button"))]),
    (
        "scroll down 2 pages; scroll up 3 notches; scroll to the bottom",
        [
            ScrollBy(direction="down", notches=10),
            ScrollBy(direction="up", notches=3),
            ScrollBy(direction="down", notches=None),
        ],
    ),
    (
        "Please scroll down until you see 'Terms', then click it",
        [ScrollUntil(target=quoted("Terms")), ClickTarget(target=quoted("Terms"))],
    ),
    ("drag 'A' and drop it on 'B'", [DragTarget(source=quoted("A"), onto=quoted("B"))]),
    ("drag the 'Volume' to the right by 40 pixels", [DragTarget(source=quoted("Volume"), by_px=(40, 0))]),
    (
        "wait until 'Saved' appears; wait until 'Loading' disappears; wait 2 seconds; wait 500 ms",
        [
            WaitFor(text="Saved"),
            WaitFor(text="Loading", is_shown=False),
            WaitSeconds(duration_s=2),
            WaitSeconds(duration_s=0.5),
        ],
    ),
    (
        "1. Open http://localhost:8000/a?x=1. 2. Go to example.org/b; 3) go back",
        [
            OpenAddress(url="http://localhost:8000/a?x=1"),
            OpenAddress(url="example.org/b"),
            PressKeys(keys=("alt", "left")),
        ],
    ),
    ("accept the dialog. Dismiss the alert", [AnswerDialog(accept=True), AnswerDialog(accept=False)]),
    ("What is the Total?", [ReportValue(target=plain("Total"))]),
    ("report the text next to 'Total'", [ReportValue(target=quoted("Total"))]),
    (
        "tell me the Amount in the row of 'Coffee'",
        [ReportValue(target=quoted("Amount", relation=AnchorRelation(kind="row", anchor="Coffee")))],
    ),
    (
        "check that 'Saved' is shown and verify that 'Error' is not shown",
        [CheckShown(target=quoted("Saved")), CheckShown(target=quoted("Error"), is_shown=False)],
    ),
    ("check that Total is 45.00", [CheckShown(target=plain("Total"), value="45.00")]),
    (
        "Add an expense: click New, type 5 into Amount. Done.",
        [ClickTarget(target=plain("New")), TypeInto(text="5", field=plain("Amount"))],
    ),
    (
        "First, click 'A'. Next, please click 'B'. Finally click 'C', thanks",
        [ClickTarget(target=quoted("A")), ClickTarget(target=quoted("B")), ClickTarget(target=quoted("C"))],
    ),
    ("- click 'A'\n* click 'B'\n• click 'C'\nStep 4: click 'D'", [ClickTarget(target=quoted(text)) for text in "ABCD"]),
    (
        "Select x, y and z and click Submit",
        [
            SelectOption(option=ElementTarget(text="x")),
            SelectOption(option=ElementTarget(text="y", whole="y and z")),
            SelectOption(option=ElementTarget(text="z", whole="y and z", is_rest=True)),
            ClickTarget(target=plain("Submit")),
        ],
    ),
    (
        "Select 'a', 'b' and 'c' in Tags",
        [SelectOption(option=ElementTarget(text=text), field=plain("Tags"), is_more=text != "a") for text in "abc"],
    ),
    (
        'untick "A" and "B"; click the buttons "C" and "D"',
        [
            *(SetToggle(target=quoted(text), is_on=False) for text in "AB"),
            *(ClickTarget(target=quoted(text, role="button")) for text in "CD"),
        ],
    ),
    (
        "click Terms and Conditions",
        [
            ClickTarget(target=ElementTarget(text="Terms", whole="Terms and Conditions")),
            ClickTarget(target=ElementTarget(text="Conditions", whole="Terms and Conditions", is_rest=True)),
        ],
    ),
    ("Select nothing and click Submit", [ClickTarget(target=plain("Submit"))]),
    (
        "Click button ONE, then click the TWO button",
        [
            ClickTarget(target=plain("ONE", "button ONE", role="button")),
            ClickTarget(target=plain("TWO", "TWO button", role="button")),
        ],
    ),
    ("Open the Billing tab", [ClickTarget(target=plain("Billing", "Billing tab", role="tab"))]),
    (
        "click the 3rd search result and click the second link",
        [
            ClickTarget(target=plain("", "3rd search result", ordinal=3, role="result")),
            ClickTarget(target=plain("", "second link", ordinal=2, role="link")),
        ],
    ),
    (
        'Enter the username "vina" and the password "US" into the text fields and press login.',
        [
            SetValue(field=plain("username"), value="vina"),
            SetValue(field=plain("password"), value="US"),
            ClickTarget(target=plain("login")),
        ],
    ),
    (
        'type "vina" as the username and "US" as the password',
        [SetValue(field=plain("username"), value="vina"), SetValue(field=plain("password"), value="US")],
    ),
    (
        'Log in with user name "a" and password "b"',
        [
            SetValue(field=plain("user name"), value="a"),
            SetValue(field=plain("password"), value="b"),
            PressKeys(keys=("enter",)),
        ],
    ),
    (
        'enter "a" into First and "b" into Second',
        [TypeInto(text="a", field=plain("First")), TypeInto(text="b", field=plain("Second"))],
    ),
    (
        'Enter the password "yA" into both text fields',
        [TypeInto(text="yA", field=ElementTarget(ordinal=number, role="field")) for number in (1, 2)],
    ),
    (
        'Enter an item that starts with "Ce" and ends with "lic".',
        [PickSuggestion(start="Ce", end="lic")],
    ),
    (
        'type a city which contains "ville" into the Destination field',
        [PickSuggestion(part="ville", field=plain("Destination", "Destination field", role="field"))],
    ),
    (
        'Type "agustina" in all upper case letters in the text input',
        [TypeInto(text="AGUSTINA", field=plain("", "text input", role="field"))],
    ),
    (
        'Use the textbox to enter "Renda" and press "Search", then find and click "More"',
        [
            TypeInto(text="Renda", field=plain("", "textbox", role="field")),
            ClickTarget(target=quoted("Search")),
            ClickTarget(target=quoted("More")),
        ],
    ),
    ('Click the button in the dialog box labeled "Cancel"', [ClickTarget(target=quoted("Cancel", role="button"))]),
    ('Close the dialog box by clicking the "x"', [ClickTarget(target=quoted("x"))]),
    ("Focus into the 3rd input textbox", [ClickTarget(target=plain("", "3rd input textbox", ordinal=3, role="field"))]),
    ('Click on a "checkbox" widget', [ClickTarget(target=quoted("", ordinal=1, role="checkbox"))]),
    (
        "Select File > Export",
        [ClickTarget(target=plain("File"), reveals="Export"), ClickTarget(target=plain("Export"))],
    ),
    (
        "click Save at the bottom of the page",
        [ClickTarget(target=plain("Save", "Save at the bottom of the page", ordinal=-1))],
    ),
    (
        'fill in the form with name "Bob" and email "b@x.org"',
        [SetValue(field=plain("name"), value="Bob"), SetValue(field=plain("email"), value="b@x.org")],
    ),
    (
        "Select 'Large' as the size and 'Blue' as the color",
        [
            SelectOption(option=ElementTarget(text="Large"), field=plain("size")),
            SelectOption(option=ElementTarget(text="Blue"), field=plain("color")),
        ],
    ),
    ("Enter the code 1234 into PIN", [TypeInto(text="1234", field=plain("PIN"))]),
    ('click "+" twice', [ClickTarget(target=quoted("+"))] * 2),
    ("Click Next twice.", [ClickTarget(target=plain("Next"))] * 2),
    ("click the Next button 3 times", [ClickTarget(target=plain("Next", "Next button", role="button"))] * 3),
    ("click three times on Next", [ClickTarget(target=plain("Next"))] * 3),
    ("click Once Upon a Time", [ClickTarget(target=plain("Once Upon a Time"))]),
    (
        "press Enter to search, press Submit when done",
        [PressKeys(keys=("enter",)), ClickTarget(target=plain("Submit"))],
    ),
    ("Frobnicate the widget", [Unreadable(text="Frobnicate the widget")]),
    ("日本語 {x} 🙂", [Unreadable(text="日本語 {x} 🙂")]),
    ("", []),
]

CASES.append(
    (
        'Press ctrl+end. Type "She comes in May." Type "new" into Summary. Click "Save!" Press Enter.',
        [
            PressKeys(keys=("ctrl", "end")),
            TypeInto(text="She comes in May."),
            TypeInto(text="new", field=plain("Summary")),
            ClickTarget(target=quoted("Save!")),
            PressKeys(keys=("enter",)),
        ],
    )
)


CASES += [
    (
        'Expand the sections below, to find and click on the link "Terms".',
        [
            OpenUntil(kind="section", target=quoted("Terms", role="link")),
            ClickTarget(target=quoted("Terms", role="link")),
        ],
    ),
    (
        'Switch between the tabs until you see "Fees", then click Pay',
        [OpenUntil(kind="tab", target=quoted("Fees")), ClickTarget(target=plain("Pay"))],
    ),
    (
        'Browse through the folders. Locate and double-click the file "a.txt"',
        [OpenUntil(kind="node", target=quoted("a.txt")), ClickTarget(target=quoted("a.txt"), clicks=2)],
    ),
    (
        "Enter the value of Last name into the text field",
        [
            ReportValue(target=plain("name", "Last name", ordinal=-1)),
            TypeAnswer(field=ElementTarget(role="field", phrase="text field")),
        ],
    ),
    (
        "Solve for x, then type the answer into the box",
        [ComputeAnswer(kind="unknown"), TypeAnswer(field=ElementTarget(role="field", phrase="box"))],
    ),
    (
        'Copy the text of "From" and paste it into "To"',
        [CopyText(field=quoted("From")), PasteText(field=quoted("To"))],
    ),
    ("Highlight the text in the last paragraph", [SelectText(paragraph=-1)]),
    (
        'make "Total" bold and underline "Sum"',
        [SelectText(text="Total", style="b"), Unreadable(text='underline "Sum"')],
    ),
    ("select -5.5 with the 2nd slider", [SetSlider(value=-5.5, number=2)]),
    (
        "set the sliders to 3, 4 and 9",
        [SetSlider(value=value, number=index) for index, value in enumerate((3, 4, 9), 1)],
    ),
    ("set the spinner to 7", [SetSlider(value=7, is_spinner=True)]),
    ("select all the shades of red", [ClickFigures(looks=FigureStyle(colour="red", kind="item"), is_all=True)]),
    (
        "click the small blue triangle",
        [ClickFigures(looks=FigureStyle(size="small", colour="blue", kind="triangle"), phrase="small blue triangle")],
    ),
    ("How many green squares are there?", [DescribeFigures(looks=FigureStyle(colour="green", kind="square"))]),
    (
        "drag all circles into the left box, and everything else into the right box",
        [
            DragFigures(looks=FigureStyle(kind="circle"), box="left"),
            DragFigures(looks=FigureStyle(kind="circle"), box="right", is_others=True),
        ],
    ),
    ("click the button that best describes the figure", [DescribeFigures(looks=FigureStyle(kind="item"), what="name")]),
    (
        'type "Ann" into Name, but do not submit it',
        [TypeInto(text="Ann", field=plain("Name")), DoNotSubmit()],
    ),
    (
        "Scroll to the bottom of the textarea, then hover over A",
        [
            ScrollBy(direction="down", notches=None, over=plain("", "textarea", role="area")),
            ClickTarget(target=plain("A"), clicks=0),
        ],
    ),
]


@table(("instruction", "steps"), CASES)
def test_instruction_is_read_as_steps(instruction: str, steps: list[object]) -> None:
    assert parse_instruction(instruction) == steps


REFUSED: list[tuple[str, str]] = [
    ('Enter "Bob" banana into Name', "banana"),
    ('Enter banana "Bob" into Name', "banana"),
    ('type "hello" and "world" into Notes', "and"),
    ("Enter the value of my house into", "the value of my house into"),
    ("Type the text below into the text field", "the text below"),
    ("type your answer into the textbox", "your answer"),
    ("type that into the textbox", "that"),
    ("enter username bob and password secret", "username bob and password secret"),
    ('put "Coffee" into the cart', "the cart"),
    ('click the blue "Save" button', "blue"),
    ('click "Save" in the green "Total" box', "green"),
    ('click "Like" on all posts by @ann', "all posts by @ann"),
    ("click the button that best describes your mood", "that best describes your mood"),
    ("pick the card with the greatest number", "with the greatest number"),
    ("select all the shades of meaning", "all the shades of meaning"),
    ("select all the items", "all the items"),
    ("How many items are there?", "How many items are there"),
    ("select words similar to red", "similar to red"),
    ("select 5 with the wheel", "with the wheel"),
    ("select five with the slider", "with the slider"),
    ("highlight the best paragraph", "best"),
    ("click the second item", "item"),
    ('enter an item that starts with "A" and starts with "B"', 'starts with "B"'),
    ("search for action movies directed by Bowen from year 1998", "action movies directed by Bowen from year 1998"),
    ("click Save if the total is above 10", "if the total is"),
    ('click "+" 90 times', "90 times"),
    ('open the link "Terms" in a new tab', "a new tab"),
    ("press the button that opens the door", "that opens the door"),
    ("type my name into Name", "my name"),
]


@table(("instruction", "words"), REFUSED)
def test_what_is_not_understood_is_named_and_no_step(instruction: str, words: str) -> None:
    steps = parse_instruction(instruction)

    assert [type(step) for step in steps] == [Unreadable]
    assert words in (steps[0].words or steps[0].text)  # type: ignore[union-attr]


def test_a_long_instruction_is_read_in_time() -> None:
    instruction = "\n".join(f'click "Button {index}" and type "a, b; c {index}" into the field' for index in range(400))

    assert len(parse_instruction(instruction)) == 800


def test_steps_are_shown_in_the_words_of_an_instruction() -> None:
    """What the report and the record show of a step can be given as an instruction again."""
    instructions = (
        'Click "Save"',
        'Tick "I agree"',
        'Untick "I agree"',
        'Type "Ada" into "Name"',
        'Select "Norway" in "Country"',
        'Press "Enter"',
    )
    for instruction in instructions:
        (step,) = parse_instruction(instruction)
        (again,) = parse_instruction(str(step))
        assert again == step
        assert str(step).split()[0] in ("Click", "Tick", "Untick", "Type", "Set", "Choose", "Select", "Press"), str(
            step
        )
