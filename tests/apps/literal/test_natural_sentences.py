"""Sentences as people write them, on pages of many styles: tabs, trees, calendars, sliders, figures and more."""

import re

import pytest

from envs.browser import BrowserEnv
from envs.browser.launch import find_browser
from tests.apps.literal.test_verify_result import DARK, LIGHT, SERIF, follow_on

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(find_browser() is None, reason="no browser was found; `cua setup` gets one"),
]


def tabs(style: str, names: list[str], bodies: list[str]) -> str:
    heads = "".join(f'<a class=tab onclick="show({n})" id=t{n}>{name}</a>' for n, name in enumerate(names))
    panes = "".join(f"<div class=pane id=p{n} hidden>{body}</div>" for n, body in enumerate(bodies))
    script = (
        "<script>function show(n){document.querySelectorAll('.pane').forEach((p,i)=>p.hidden=i!==n);"
        "document.querySelectorAll('.tab').forEach((t,i)=>t.classList.toggle('on',i===n))};show(0)</script>"
    )
    return f"{style}<div class=bar>{heads}</div>{panes}<p id=o></p>{script}"


BORDERED = (
    f"{LIGHT}<style>.bar{{display:flex;border-bottom:1px solid #ccc}}.tab{{padding:8px 16px;border:1px solid #ccc;"
    "border-bottom:0;margin-right:4px;background:#f1f3f5;cursor:pointer}.on{background:#fff}a{color:#0b5ed7}</style>"
)
UNDERLINED = (
    f"{LIGHT}<style>.bar{{display:flex;gap:28px;border-bottom:2px solid #d0d4da}}.tab{{padding:6px 2px;color:#444;"
    "cursor:pointer}.on{border-bottom:3px solid #36c}a.l{color:#06c}</style>"
)
NOTES = "<p>Our autumn prices hold until the end of November, and members pay no shipping.</p>"


def link(text: str) -> str:
    return f"<a class=l href=# onclick=\"o.textContent='went to {text}';return false\" style='color:#0645ad'>{text}</a>"


BODIES = [NOTES, f"<p>Read the {link('warranty')} before you order, or ask {link('Support')}.</p>", NOTES]
SECTIONS = "".join(
    f"<details style='border:1px solid #bbb;margin:6px 0'><summary style='padding:8px'>{name}</summary><p>{body}</p>"
    "</details>"
    for name, body in zip(("Delivery", "Returns", "Payment"), BODIES, strict=True)
)
BARS = (
    f"{SERIF}<style>.h{{background:#345;color:#fff;padding:9px 14px;margin-top:3px;cursor:pointer;width:600px}}</style>"
    + "".join(
        f'<div class=h onclick="this.nextSibling.hidden=!this.nextSibling.hidden">{name}</div><div hidden>{body}</div>'
        for name, body in zip(("Shipping", "Guarantee", "Contact"), BODIES, strict=True)
    )
    + "<p id=o>"
)
TREE = (
    f"{LIGHT}<style>summary{{list-style:none;cursor:pointer}}summary::before{{content:'▸ '}}[open]>summary::before"
    "{content:'▾ '}details,p{margin:4px 0 4px 24px}</style>"
    "<details><summary>src</summary><p onclick=\"o.textContent='main'\">main.py</p></details>"
    "<details><summary>docs</summary><details><summary>guides</summary>"
    "<p onclick=\"o.textContent='opened'\">setup.md</p></details></details><p id=o>"
)
PEOPLE = (
    f"{LIGHT}<h3 id=n></h3><p>Phone: <a href=# id=f "
    "onclick=\"o.textContent='call '+this.textContent;return false\"></a></p>"
    "<p>E-mail: <a href=# id=m></a></p><p><a href=# onclick='turn(-1);return false'>Previous</a> &nbsp; "
    "<a href=# onclick='turn(1);return false'>Next</a></p><p id=o><script>const all=[['Ada Lovelace','555-0101'],"
    "['Grace Hopper','555-0188'],['Alan Turing','555-0142']];let i=0;function turn(s){"
    "i=Math.max(0,Math.min(2,i+s));"
    "n.textContent=all[i][0];f.textContent=all[i][1];m.textContent=all[i][0].split(' ')[0]+'@x.org'}turn(0)"
    "</script>"
)
RESULTS = (
    f"{LIGHT}<div id=r></div><p><a href=# style='color:#06c' onclick='k++;draw();return false'>Next ›</a><p id=o>"
    "<script>let k=0;function draw(){r.innerHTML='';for(let j=1;j<=4;j++){const n=k*4+j;r.innerHTML+="
    "`<p><a href=# style='color:#06c' onclick='o.textContent=\"opened ${n}\";return false'>Report of year ${2000+n}</a>"
    "<br><small>What was done that year, in short</small></p>`}}draw()</script>"
)
MONTHS = "'January February March April May June July August September October November December'.split(' ')"


def picker(first: int, arrows: tuple[str, str], show: str, style: str = LIGHT, can_turn: bool = True) -> str:
    """A page with a field that cannot be typed into and a calendar below it; weeks begin on day `first`."""
    days = "['Su','Mo','Tu','We','Th','Fr','Sa']"
    turn = "m+=s;" if can_turn else ""
    return (
        f"{style}<style>#c td,#c th{{width:34px;height:28px;text-align:center}}#c{{border:1px solid #aaa;width:250px}}"
        "#c span{cursor:pointer;padding:0 8px}</style><p>Travel date <input id=d readonly onclick='c.hidden=false'>"
        "<div id=c hidden></div><p><button onclick=\"o.textContent='sent '+d.value\">Send</button><p id=o><script>"
        f"const names={MONTHS},wd={days},first={first};let y=2024,m=4;function draw(){{const s=new Date(y,m,1),"
        "n=new Date(y,m+1,0).getDate(),off=(s.getDay()-first+7)%7;let h=`<div style='display:flex;justify-content:"
        f"space-between'><span onclick='turn(-1)'>{arrows[0]}</span><b>"
        "${names[s.getMonth()]} ${s.getFullYear()}</b>"
        f"<span onclick='turn(1)'>{arrows[1]}</span></div><table><tr>`;"
        "for(let i=0;i<7;i++)h+=`<th>${wd[(i+first)%7]}</th>`;"
        "h+='</tr><tr>';for(let i=0;i<off;i++)h+='<td>';for(let q=1;q<=n;q++){h+=`<td onclick='pick(${q})'>${q}</td>`;"
        "if((q+off)%7===0)h+='</tr><tr>'}c.innerHTML=h+'</table>'}"
        f"function turn(s){{{turn}draw()}}function pick(q){{const s=new Date(y,m,q),Y=s.getFullYear(),"
        "M=String(s.getMonth()+1).padStart(2,'0'),D=String(q).padStart(2,'0');"
        f"d.value={show};c.hidden=true}}draw()</script>"
    )


SLIDERS = (
    f"{LIGHT}<p>Volume <input type=range id=v min=0 max=50 value=10 oninput='vo.textContent=value'> <b id=vo>10</b></p>"
    "<p>Guests <input type=number id=g value=2 style='font-size:18px;width:120px'></p>"
)
FIGURES = (
    "<!doctype html><body style='margin:0;background:#fff'><svg width=700 height=420>"
    "<circle cx=90 cy=90 r=40 fill='red' id=a /><circle cx=250 cy=90 r=22 fill='#0a0' id=b />"
    "<rect x=360 y=50 width=80 height=80 fill='blue' id=c />"
    "<polygon points='560,50 520,130 600,130' fill='#e6b800' id=d />"
    "<rect x=80 y=220 width=60 height=60 fill='red' id=e /><circle cx=250 cy=250 r=40 fill='blue' id=f />"
    "<circle cx=400 cy=250 r=20 fill='red' id=g /></svg><p id=o><script>document.querySelectorAll('svg *').forEach(s=>"
    "s.onclick=()=>{o.dataset.hit=(o.dataset.hit||'')+s.id;s.style.opacity=0.6})</script>"
)
COPY = (
    f"{LIGHT}<p>Billing address<br><input id=a value='12 Elm Road, Leeds' style='width:260px'><p>Shipping address<br>"
    "<input id=b style='width:260px'>"
)
TABLE = (
    f"{LIGHT}<table border=1 cellpadding=6 style='border-collapse:collapse'><tr><td>Name<td>Ines Roth<tr><td>Country"
    "<td>Portugal<tr><td>Plan<td>Premium</table><p>Country: <input id=c style='height:24px'><p>Plan: "
    "<input id=p style='height:24px'><p><button onclick=\"o.textContent='sent'\">Submit</button><p id=o>"
)
SURVEY = (
    f"{LIGHT}<p><label><input type=checkbox id=j> Jazz</label> <label><input type=checkbox> Opera</label>"
    "<p>Year <input id=y><p><button onclick=\"o.textContent='sent '+y.value+' '+j.checked\">Submit</button><p id=o>"
)
WORDS = (
    f"{SERIF}<p style='width:420px'>Seven quiet herons crossed the river before noon.</p><p><input id=w>"
    "<p><button onclick=\"o.textContent='got '+w.value\">Check</button><p id=o>"
)
SUM = f"{LIGHT}<div style='font-size:40px'>17 + 26 =</div><input id=s style='font-size:20px'><p id=o>"
EDITOR = (
    f"{LIGHT}<div contenteditable id=t style='border:1px solid #888;padding:12px;width:400px;height:120px'>"
    "Bring the blue folder</div>"
)
PARAGRAPHS = (
    f"{SERIF}<p style='width:300px'>Rain is expected in the north.</p><p style='width:300px'>The south stays dry.</p>"
)

BUTTONS = """<!doctype html><meta charset=utf-8>
<style>body{font:16px/1.5 'Segoe UI',Arial,sans-serif;margin:32px;max-width:760px;color:#212529}
label{display:block;margin-top:12px}
input,select,textarea{font:inherit;padding:6px 12px;border:1px solid #ced4da;border-radius:6px;width:320px;
box-sizing:border-box}
input[type=checkbox],input[type=radio]{width:auto}
button,.btn{font:inherit;padding:6px 14px;border-radius:6px;border:1px solid #0d6efd;background:#0d6efd;
color:#fff;cursor:pointer}
.o{background:#fff;color:#0d6efd}.alert{padding:12px;border-radius:6px;margin-top:16px}nav a{margin-right:18px}
</style>"""
PAPER = """<!doctype html><meta charset=utf-8>
<style>body{font:14px Roboto,Helvetica,sans-serif;margin:0;background:#fafafa;color:#222}
header{background:#3f51b5;color:#fff;padding:16px 24px;font-size:20px}main{padding:24px}
.f{border:0;border-bottom:1px solid #888;background:transparent;padding:8px 0;font-size:16px;width:260px}
.b{background:#3f51b5;color:#fff;border:0;padding:10px 18px;text-transform:uppercase;letter-spacing:1px;
border-radius:4px;font-weight:500}
.chip{display:inline-block;background:#e0e0e0;border-radius:16px;padding:6px 12px;margin:4px;cursor:pointer}
.card{background:#fff;box-shadow:0 1px 4px #0004;padding:16px;margin:12px 0;width:420px}</style>"""
DONE: dict[str, tuple[str, str, str, object]] = {
    "bordered tabs": (
        tabs(BORDERED, ["Prices", "Service", "News"], BODIES),
        'Look through the tabs to find the link "warranty", then click the link "warranty".',
        "o.textContent",
        "went to warranty",
    ),
    "tabs above a line": (
        tabs(UNDERLINED, ["Overview", "Service", "History"], BODIES),
        'Switch between the tabs to find and click the link "Support".',
        "o.textContent",
        "went to Support",
    ),
    "sections with triangles": (
        f"{LIGHT}{SECTIONS}<p id=o>",
        'Expand the sections to find and click on the link "warranty".',
        "o.textContent",
        "went to warranty",
    ),
    "sections as dark bars": (
        BARS,
        'Open each of the sections below. Find and click the link "Support".',
        "o.textContent",
        "went to Support",
    ),
    "a tree": (
        TREE,
        'Go through the folder tree, find and click on the file named "setup.md".',
        "o.textContent",
        "opened",
    ),
    "a book of contacts": (
        PEOPLE,
        "Find Alan Turing in the address book and click on his phone number.",
        "o.textContent",
        "call 555-0142",
    ),
    "results on later pages": (RESULTS, "Click the 7th search result.", "o.textContent", "opened 7"),
    "a calendar whose weeks begin on Sunday": (
        picker(0, ("‹", "›"), "`${M}/${D}/${Y}`"),
        "Select 07/09/2024 as the travel date and press Send.",
        "o.textContent",
        "sent 07/09/2024",
    ),
    "a calendar whose weeks begin on Monday, a year back, dark": (
        picker(1, ("◀", "▶"), "`${Y}-${M}-${D}`", DARK),
        "Choose 2023-02-28 as the travel date and click Send.",
        "o.textContent",
        "sent 2023-02-28",
    ),
    "a native slider": (SLIDERS, "Set the slider to 37.", "v.value", "37"),
    "a native number field": (SLIDERS, "Select 9 with the spinner.", "g.value", "9"),
    "a colour": (FIGURES, "Click on the green circle.", "o.dataset.hit", "b"),
    "a shape": (FIGURES, "Click the triangle.", "o.dataset.hit", "d"),
    "a size": (FIGURES, "Click a small red circle", "o.dataset.hit", "g"),
    "all of a colour": (FIGURES, "Select all red shapes.", "o.dataset.hit", "aeg"),
    "one field to another": (
        COPY,
        'Copy the text of "Billing address" and paste it into "Shipping address".',
        "b.value",
        "12 Elm Road, Leeds",
    ),
    "a value of a table": (TABLE, "Enter the value of Country into the Plan field.", "p.value", "Portugal"),
    "all values of a table": (
        TABLE,
        "Fill in the form with the values from the table and submit.",
        "[c.value, p.value, o.textContent]",
        ["Portugal", "Premium", "sent"],
    ),
    "a word": (
        WORDS,
        "Find the 3rd word in the sentence, type it into the text box and click Check.",
        "o.textContent",
        "got herons",
    ),
    "a sum": (SUM, "Solve the equation and type the result into the text field.", "s.value", "43"),
    "bold": (
        EDITOR,
        "In the text editor, make everything bold.",
        "t.innerHTML.replace(/strong/g,'b')",
        "<b>Bring the blue folder</b>",
    ),
    "a form that no step sends": (SURVEY, 'Tick Jazz and type "1984" into Year.', "o.textContent", "sent 1984 true"),
    "a form that is not to be sent": (
        SURVEY,
        'Tick Jazz and type "1984" into Year, but do not submit it.',
        "[y.value, j.checked, o.textContent]",
        ["1984", True, ""],
    ),
    "a marked paragraph": (
        PARAGRAPHS,
        "Select the text in the 2nd paragraph.",
        "getSelection().toString().trim()",
        "The south stays dry.",
    ),
    "a search whose field takes no Enter": (
        BUTTONS
        + """<input id=a placeholder='Search products'><button onclick="o.textContent='3 results for '+a.value">Search
</button><p id=o>""",
        "Search for blue kettle.",
        "o.textContent",
        "3 results for blue kettle",
    ),
    "a thing into the cart": (
        PAPER
        + """<header>Shop</header><main><div class=card><b>Lamp</b><p>20 EUR<p>
<button class=b onclick="o.textContent+='Lamp;'">Add to cart</button></div><div class=card><b>Chair</b><p>45 EUR
<p><button class=b onclick="o.textContent+='Chair;'">Add to cart</button></div><div class=card><b>Desk</b>
<p>120 EUR<p><button class=b onclick="o.textContent+='Desk;'">Add to cart</button></div><p id=o></main>""",
        "Add the chair to the cart.",
        "o.textContent",
        "Chair;",
    ),
    "two named fields, then by clicking": (
        PAPER
        + """<header>Sign up</header><main>
<p>Email<br><input class=f id=a><p>Password<br><input class=f id=b type=password>
<p><button class=b onclick="o.textContent='Welcome '+a.value">Create account</button><p id=o></main>""",
        (
            "Type kim@example.org in the email field and s3cret!pw in the password field, then create "
            "the account by clicking Create account."
        ),
        "[a.value,b.value,o.textContent]",
        ["kim@example.org", "s3cret!pw", "Welcome kim@example.org"],
    ),
    "a large field on the base line of its label": (
        BUTTONS
        + """<label>Subject<input id=a></label><label>Message<textarea id=b rows=4></textarea></label><p>
<button onclick="o.textContent='Message sent'">Send</button><div id=o></div>""",
        "Write 'Order 1182' as the subject and 'The parcel has not arrived.' as the message and send it.",
        "[a.value,b.value,o.textContent]",
        ["Order 1182", "The parcel has not arrived.", "Message sent"],
    ),
    "a tab with a clipped letter": (
        BUTTONS
        + """<div><button class=o onclick="o.textContent='General panel'">General</button>
<button class=o onclick="o.textContent='Security panel'">Security</button>
<button class=o onclick="o.textContent='Billing panel'">Billing</button></div><p id=o>General panel""",
        "Open the Billing tab.",
        "o.textContent",
        "Billing panel",
    ),
    "update the cart": (
        BUTTONS
        + """<label>Quantity<input type=number id=a value=1></label><p>
<button onclick="o.textContent='Total '+a.value*5">Update cart</button><p id=o>""",
        "Change the quantity to 4 and update the cart.",
        "[a.value,o.textContent]",
        ["4", "Total 20"],
    ),
    "the second in the list": (
        BUTTONS
        + """<ol><li><a href='#' onclick="o.textContent='Alpha report'">Alpha report</a><li>
<a href='#' onclick="o.textContent='Beta report'">Beta report</a><li>
<a href='#' onclick="o.textContent='Gamma report'">Gamma report</a></ol><p id=o>""",
        "Open the second report in the list.",
        "o.textContent",
        "Beta report",
    ),
    "delete and confirm": (
        BUTTONS
        + """<button onclick="m.style.display='block'">Delete project</button>
<div id=m style='display:none;position:fixed;left:0;top:0;right:0;bottom:0;background:#0008'>
<div style='background:#fff;width:380px;margin:140px auto;padding:20px;border-radius:8px'>
<p>Delete this project? This cannot be undone.<p><button class=o onclick="m.style.display='none'">Cancel
</button>
<button style='background:#dc3545;border-color:#dc3545'
onclick="m.style.display='none';o.textContent='Project deleted'">Delete</button></div></div><p id=o>""",
        "Delete the project and confirm.",
        "o.textContent",
        "Project deleted",
    ),
    "and save, without quotes": (
        BUTTONS
        + """<label>Display name<input id=a value='Old Name'></label><p>
<button onclick="o.textContent='Profile updated'">Save</button><p id=o>""",
        "Replace the display name with New Name and save.",
        "[a.value,o.textContent]",
        ["New Name", "Profile updated"],
    ),
    "a name and a password without quotes": (
        BUTTONS
        + """<label>Username<input id=a></label><label>Password<input id=b type=password></label><p>
<button onclick="o.textContent=a.value=='jo'&&b.value=='abc12'?'Dashboard':'Invalid credentials'">Log in
</button><p id=o>""",
        "Log in with username jo and password abc12.",
        "o.textContent",
        "Dashboard",
    ),
    "then order": (
        BUTTONS
        + """<p>Toppings<p><label><input type=checkbox value=Cheese> Cheese</label><label>
<input type=checkbox value=Ham> Ham
</label><label><input type=checkbox value=Olives> Olives</label><label><input type=checkbox value=Onion> Onion
</label><p>
<button onclick="o.textContent=[...document.querySelectorAll(':checked')].map(e=>e.value).join()">Order</button>
<p id=o>""",
        "Choose Cheese, Olives and Onion, then order.",
        "o.textContent",
        "Cheese,Olives,Onion",
    ),
    "a list beside its label": (
        BUTTONS
        + """<label>Country<select id=a><option>Austria<option>Belgium<option>Croatia<option>Denmark<option>Estonia
<option>Finland<option>France<option>Germany<option>Greece<option>Hungary<option>Ireland<option>Italy
<option>Latvia<option>Malta<option>Norway<option>Poland<option>Portugal<option>Romania<option>Spain
<option>Sweden</select></label><p><button onclick="o.textContent=a.value">Next</button><p id=o>""",
        "Pick Norway from the country list and click Next.",
        "o.textContent",
        "Norway",
    ),
    "a link in a sentence": (
        BUTTONS
        + """<p>By continuing you accept the <a href='#' onclick="o.textContent='terms'">terms of service</a> and the
<a href='#' onclick="o.textContent='privacy'">privacy policy</a>.<p id=o>""",
        "Open the privacy policy.",
        "o.textContent",
        "privacy",
    ),
}


@pytest.mark.parametrize("name", DONE)
async def test_a_sentence_is_done(env: BrowserEnv, name: str) -> None:
    page, sentence, look, expected = DONE[name]

    outcome = await follow_on(env, page, sentence)

    assert (outcome.status, await env.page.evaluate(look)) == ("success", expected), outcome.actions


GIVEN_UP: dict[str, tuple[str, str, str]] = {
    "in no tab": (
        tabs(BORDERED, ["Prices", "Service", "News"], BODIES),
        'Switch between the tabs to find and click on the link "refund".',
        "opened 3 of the tabs and did not find",
    ),
    "not a link": (
        tabs(BORDERED, ["Prices", "Service", "News"], BODIES),
        'Switch between the tabs to find and click on the link "November".',
        "did not find",
    ),
    "no tabs": (f"{LIGHT}<p>Nothing here", 'Switch between the tabs to find and click on the link "A".', "no tabs"),
    "nobody of that name": (PEOPLE, "Find Kurt in the contact book and click on their phone number.", "Kurt"),
    "too many results": (f"{LIGHT}<p>No hits", "Click the 9th search result.", "result"),
    "a calendar that does not turn": (
        picker(0, ("‹", "›"), "`${M}/${D}/${Y}`", can_turn=False),
        "Select 07/09/2024 as the travel date and press Send.",
        "does not change to",
    ),
    "a calendar that fills in another day": (
        picker(0, ("‹", "›"), "`${M}/01/${Y}`"),
        "Select 05/09/2024 as the travel date and press Send.",
        "the screen does not show that date",
    ),
    "no number tells the value": (
        f"{LIGHT}<input type=range min=0 max=50 value=10>",
        "Set the slider to 37.",
        "no number next to it",
    ),
    "which of two sliders": (
        f"{LIGHT}<p><input type=range> <b>50</b><p><input type=range> <b>50</b>",
        "Set the slider to 7.",
        "found 2",
    ),
    "a slider that does not reach it": (
        SLIDERS.replace("max=50", "max=30"),
        "Set the slider to 37.",
        "no number next to it confirms the value",
    ),
    "a figure that does nothing": (
        FIGURES[: FIGURES.index("<script>")],
        "Click the triangle.",
        "nothing on the screen",
    ),
    "no such colour": (FIGURES, "Click on the purple circle.", "purple circle"),
    "which paragraph": (PARAGRAPHS, "Highlight the text in the paragraph below.", "2 paragraphs"),
    "two sums": (
        f"{SUM}<div style='font-size:40px'>9 - 4 =</div>",
        "Solve the problem and type the answer into the text field.",
        "no single sum",
    ),
    "a form that was not sent": (
        f"{LIGHT}{FIGURES[FIGURES.index('<svg') :]}<button>Submit</button>",
        "Drag the triangle down.",
        "the figure did not move|entered, not sent",
    ),
    "all of what may be entries": (FIGURES, "Click all the items.", "could not read"),
    "a field that takes nothing": (
        COPY.replace("<input id=b", "<input readonly id=b"),
        'Copy the text of "Billing address" and paste it into "Shipping address".',
        "did not change",
    ),
    "an answer that nothing gives": (WORDS, "Type your answer into the text box.", "could not read"),
}


@pytest.mark.parametrize("name", GIVEN_UP)
async def test_what_cannot_be_done_is_not_claimed(env: BrowserEnv, name: str) -> None:
    page, sentence, reason = GIVEN_UP[name]

    outcome = await follow_on(env, page, sentence)

    assert outcome.status == "failure", outcome.actions
    assert re.search(reason, outcome.answer), outcome.answer
