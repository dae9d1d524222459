"""Claims on small pages: a refusal, an altered value or an act that comes undone is never claimed; what worked is."""

import pytest

from envs import InstructionTask
from envs.browser import BrowserEnv
from envs.browser.launch import find_browser
from tests.apps.literal.driver import Outcome, follow

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(find_browser() is None, reason="no browser was found; `cua setup` gets one"),
]

HEAD = (
    "<!doctype html><meta charset=utf-8><style>body{font:15px Arial,sans-serif;margin:28px;color:#1d2433}"
    "input{padding:7px;border:1px solid #aab;border-radius:4px;font:inherit;width:220px}button{background:#0a7a5a;"
    "color:#fff;border:0;border-radius:5px;padding:9px 16px;font:inherit}.t{position:fixed;left:24px;bottom:24px;"
    "background:#222;color:#fff;padding:12px 18px;border-radius:5px}@keyframes r{to{transform:rotate(1turn)}}"
    ".s{display:inline-block;width:28px;height:28px;border:4px solid #ddd;border-top-color:#0a7a5a;border-radius:50%;"
    "animation:r 1s linear infinite}</style><script>function toast(t,ms){const d=document.createElement('div');"
    "d.className='t';d.textContent=t;document.body.append(d);if(ms)setTimeout(()=>d.remove(),ms)}</script>"
)


def form(label: str, button: str, script: str, attributes: str = "") -> str:
    """A page with one field `i`, one button `b` that runs a script, and a place `o` for what it says."""
    return (
        f"{HEAD}<h2>Account</h2><p>{label}<br><input id=i {attributes}><p>"
        f'<button id=b onclick="{script}">{button}</button><p id=o>'
    )


def act(button: str, script: str, rest: str = "") -> str:
    """A page with a button `b` that runs a script, and a place `o` for what it says."""
    return f'{HEAD}<h2>Project Lima</h2><p>Owner: Ada<p><button id=b onclick="{script}">{button}</button><p id=o>{rest}'


def page(html: str) -> str:
    """A script that puts another page in the place of this one."""
    return f"document.body.innerHTML='{html}'"


def says(text: str) -> str:
    """A script that shows a message at the lower edge."""
    return f"toast('{text}')"


def field(script: str) -> str:
    """An attribute that changes the field's value `v` by a script at every key."""
    return f'oninput="this.value=(v=>{script})(this.value)"'


def left(script: str) -> str:
    """An attribute that changes the field's value `v` by a script when it is left."""
    return f'onblur="this.value=(v=>{script})(this.value)"'


SAVED = "toast('Saved')"
SMALL = "<span class=s style=width:12px;height:12px;border-width:2px></span>"

TRAPS = {
    "quota": (act("Upload", says("Your storage quota is used up. Upgrade your plan.")), "Click Upload."),
    "permission": (act("Archive", "o.textContent='Ask an owner of this project for access.'"), "Click Archive."),
    "maintenance": (
        act("Publish", page("<h1>We will be back soon</h1><p>Scheduled maintenance is under way.")),
        "Click Publish.",
    ),
    "partial": (act("Import", "setTimeout(()=>toast('3 of 14 rows imported'),400)"), "Click Import."),
    "none": (act("Invite", "setTimeout(()=>o.textContent='Invitations sent: 0',600)"), "Click Invite."),
    "sent in part": (act("Send all", says("Sent to 3 of 5 recipients")), "Click Send all."),
    "ratio": (act("Run", "setTimeout(()=>o.textContent='17/20 passed',400)"), "Click Run."),
    "removed none": (act("Clean up", says("Removed 0 files")), "Click Clean up."),
    "bytes": (act("Upload", "o.textContent='39 MB of 210 MB uploaded'"), "Click Upload."),
    "percent": (
        act("Back up", "let p=0;setInterval(()=>o.textContent='Packing… '+(p=Math.min(97,p+9))+' %',700)"),
        "Click Back up.",
    ),
    "bar": (
        act(
            "Install",
            "let i=0;o.innerHTML='<div style=width:300px;height:14px;background:#ddd><div id=q style=height:14px;"
            "background:#07f;width:0>';setInterval(()=>q.style.width=(i=Math.min(88,i+9))+'%',600)",
        ),
        "Click Install.",
    ),
    "pale bar that grows": (
        act(
            "Burn",
            "let i=0;o.innerHTML='<div id=q style=height:8px;background:#07f;width:0>';"
            "setInterval(()=>q.style.width=(i+=2)+'%',600)",
        ),
        "Click Burn.",
    ),
    "bar drawn before": (
        act(
            "Burn",
            "q.style.width='190px'",
            "<div style='width:300px;height:10px;border-radius:5px;background:#e4e7ee'><div id=q style='height:10px;"
            "border-radius:5px;background:#07f;width:0'>",
        ),
        "Click Burn.",
    ),
    "pale bar": (
        act(
            "Sync",
            "o.innerHTML='<div style=width:300px;height:8px;background:#eee><div style=width:40%;height:8px;background:"
            "#2a9d4a>'",
        ),
        "Click Sync.",
    ),
    "strip that slides": (
        act(
            "Refresh",
            "o.innerHTML='<div style=overflow:hidden;height:4px;background:#d9c6fb><div style=&q"
            "uot;width:40%;height:4px;"
            "background:#62e;animation:m_1.3s_linear_infinite&quot;>'.replaceAll('_',' ')",
            "<style>@keyframes m{from{margin-left:-40%}to{margin-left:100%}}</style>",
        ),
        "Click Refresh.",
    ),
    "share alone": (act("Back up", "setTimeout(()=>o.textContent='73 %',500)"), "Click Back up."),
    "placeholders without text": (
        act(
            "Orders",
            "o.innerHTML=[300,460,410,230].map(w=>`<div style='width:${w}px;height:18px;margin:1"
            "4px;background:#eceef2'>"
            "</div>`).join('')",
        ),
        "Click Orders.",
    ),
    "card returns": (
        f"{HEAD}<h2>Board</h2><div style='display:flex;gap:90px'><div id=w>Doing<p id=c>Translate the guide<br><button "
        'onclick="d.append(c);setTimeout(()=>w.append(c),2600)">Finish</button></div><div id=d>Done</div></div>',
        "Click Finish.",
    ),
    "another option": (
        f"{HEAD}<h2>Ticket</h2><p>Assignee<br><select id=i><option>Choose one<option>Ann Koval<op"
        f"tion>Adam Kowal</select>"
        "<p><button onclick=\"i.value='Adam Kowal';o.textContent='Assigned'\">Assign</button><p id=o>",
        'Select "Ann Koval" in Assignee. Click Assign.',
    ),
    "number that rises": (
        act("Scan", "let i=7;setInterval(()=>o.textContent='Files seen so far: '+(i+=5),500)"),
        "Click Scan.",
    ),
    "status alone": (act("Publish", page("<h1>502</h1><hr><center>nginx/1.22.1")), "Click Publish."),
    "status after opening": (act("Open", page("<h1>403</h1><p>nginx")), "Click Open."),
    "no cookies": (act("Checkout", page("<h2>Cookies are switched off</h2><p>Switch on cookies.")), "Click Checkout."),
    "empty page": (act("Publish", page("")), "Click Publish."),
    "code": (
        act("Continue", page("<h2>Enter the code</h2><p>We have sent a text message with 6 digits.<p><input>")),
        "Click Continue.",
    ),
    "pressed and gone": (
        act("Add to cart", "setTimeout(()=>{b.textContent='Sold out';b.style.background='#bbb'},500)"),
        "Click Add to cart.",
    ),
    "disabled": (f"{HEAD}<h2>Terms</h2><button disabled style='opacity:.5'>Accept</button>", "Click Accept."),
    "cookie wall": (
        act("Download", page("<h2>We value your privacy</h2><p>Accept cookies to continue.<p><button>Accept</button>")),
        "Click Download.",
    ),
    "two-factor": (
        act("Transfer", page("<h2>Two-step verification</h2><p>Enter the 6-digit code from your app.<p><input>")),
        "Click Transfer.",
    ),
    "session": (
        form(
            "Note", "Save", page("<h2>Session timed out</h2><p>Log in again to go on.<p><input placeholder=Password>")
        ),
        "Type hello into Note. Click Save.",
    ),
    "reverts": (
        act("Star", "b.textContent='Starred';setTimeout(()=>b.textContent='Star',4000)"),
        "Click Star.",
    ),
    "stops": (
        act("Generate", "b.textContent='Generating…';setTimeout(()=>b.textContent='Generate',3500)"),
        "Click Generate.",
    ),
    "row returns": (
        f'{HEAD}<h2>Tasks</h2><div id=r><p>Milk<p>Bread <button onclick="const p=this.parentNode;p.hidden=true;'
        'setTimeout(()=>p.hidden=false,3000)">Remove</button><p>Tea</div>',
        'Click Remove in the row of "Bread".',
    ),
    "switch returns": (
        f"{HEAD}<h2>Settings</h2><label><input type=checkbox id=c style='width:auto' "
        'onchange="setTimeout(()=>c.checked=false,2500)"> Weekly mail</label>',
        "Tick Weekly mail.",
    ),
    "fleeting": (act("Delete", "toast('You cannot delete the last project',1000)"), "Click Delete."),
    "spinner": (act("Run", "b.hidden=true;o.innerHTML='<span class=s></span>'"), "Click Run."),
    "spinner in button": (act("Buy", f"b.innerHTML='{SMALL}'"), "Click Buy."),
    "progress": (act("Export", "o.textContent='Preparing your file...'"), "Click Export."),
    "stuck at a share": (act("Sync", "o.textContent='Syncing 42 %'"), "Click Sync."),
    "too fast": (act("Vote", says("Slow down! Next vote in 59 s.")), "Click Vote."),
    "robot": (
        form("Comment", "Post", page("<h3>One more step</h3><p>Confirm that you are not a robot.<p>")),
        "Type nice into Comment. Click Post.",
    ),
    "sold out": (act("Book", "o.textContent='The last seat has just gone.'"), "Click Book."),
    "conflict": (
        form("Title", "Save", says("Bob changed this page meanwhile. Reload to see his version.")),
        "Type Plan into Title. Click Save.",
    ),
    "german": (
        form("Name", "Speichern", says("Das hat leider nicht geklappt")),
        "Type Ada into Name. Click Speichern.",
    ),
    "polish": (form("Imie", "Zapisz", says("Nie udalo sie zapisac zmian")), "Type Ada into Imie. Click Zapisz."),
    "czech": (form("Jmeno", "Ulozit", says("Zmeny se nepodarilo ulozit")), "Type Ada into Jmeno. Click Ulozit."),
    "arabic": (form("Name", "Save", says("تعذر حفظ التغييرات")), "Type Ada into Name. Click Save."),
    "hungarian": (
        form("Nev", "Mentes", says("A mentes nem sikerult, probald ujra")),
        "Type Ada into Nev. Click Mentes.",
    ),
    "orange": (
        form(
            "Nimi",
            "Tallenna",
            "o.textContent='Tarkista kentan sisalto';o.style='background:#ffe8c2;color:#8a4b00;padding:12px'",
        ),
        "Type Ada into Nimi. Click Tallenna.",
    ),
    "clipped": (form("IBAN", "Save", SAVED, "maxlength=8"), "Type AT61190430 into IBAN. Click Save."),
    "digits only": (
        form("Amount", "Save", SAVED, field("v.replace(/[^0-9]/g,'')")),
        "Type 49.90 into Amount. Click Save.",
    ),
    "no sign": (form("Change", "Save", SAVED, field("v.replace('-','')")), "Type -350 into Change. Click Save."),
    "part of a code": (
        form("Ticket", "Save", SAVED, field("v.replace('44','')")),
        "Type GA-4471 into Ticket. Click Save.",
    ),
    "upper case": (form("User", "Save", SAVED, field("v.toUpperCase()")), "Type annabel into User. Click Save."),
    "autocorrect": (
        form("Surname", "Save", SAVED, left("v.replace('Thier','Their')")),
        "Type Thierse into Surname. Click Save.",
    ),
    "zeros": (form("Price", "Save", SAVED, left("Number(v)")), "Type 12.50 into Price. Click Save."),
    "leading zeros": (form("Code", "Save", SAVED, field("Number(v)")), "Type 00712 into Code. Click Save."),
    "rounded": (form("Weight", "Save", SAVED, left("Math.round(v)")), "Type 72.6 into Weight. Click Save."),
    "date swap": (
        form("Due", "Save", SAVED, left("v.replace(/(..).(..)/,'$2/$1')")),
        "Type 03/04/2026 into Due. Click Save.",
    ),
    "clamped": (form("Quantity", "Order", "", left("v>99?99:v")), "Type 150 into Quantity. Click Order."),
    "equal digits": (form("Code", "Save", SAVED, field("v.replaceAll('6','9')")), "Type 66 into Code. Click Save."),
    "one digit": (form("Guests", "Book", SAVED, left("v>4?4:v")), "Type 6 into Guests. Click Book."),
    "reversed": (
        form("Reference", "Save", SAVED, left("v.split('-').reverse().join('-')")),
        "Type 04-07-11 into Reference. Click Save.",
    ),
    "country code": (
        form("Phone", "Save", SAVED, left("v.replace('+49','0')")),
        'Type "+49 30 1234" into Phone. Click Save.',
    ),
    "lower case": (form("Login", "Save", SAVED, left("v.toLowerCase()")), "Type AdaL into Login. Click Save."),
    "another date": (
        form("Day", "Save", SAVED, left("v.split('-').reverse().join('.')")),
        "Type 2026-03-14 into Day. Click Save.",
    ),
    "another text": (form("City", "Save", SAVED, left("'Wien'")), "Type Vienna into City. Click Save."),
    "earlier field": (
        form("Guests", "Book", page("<h2>Thank you</h2>"), left("v>4?4:v")).replace(
            "<p><button", "<p>Nights<br><input><p><button"
        ),
        "Type 6 into Guests. Type 3 into Nights. Click Book.",
    ),
}


async def follow_on(env: BrowserEnv, html: str, instruction: str) -> Outcome:
    await env.reset(InstructionTask(instruction=instruction))
    await env.page.set_content(html)
    return await follow(env, (await env.step([])).observation, instruction, max_steps=30)


@pytest.mark.parametrize(("html", "instruction"), TRAPS.values(), ids=TRAPS)
async def test_what_did_not_work_is_not_claimed(env: BrowserEnv, html: str, instruction: str) -> None:
    outcome = await follow_on(env, html, instruction)

    assert outcome.status == "failure", [outcome.answer, *outcome.actions]


DOUBTS = {
    "swahili": form("Jina", "Hifadhi", says("Imeshindwa kuhifadhi mabadiliko")),
    "bounced": form("To", "Send", says("Message to Ada bounced")),
    "cross": form("To", "Save", says("\u274c")),
    "other page": form("To", "Submit", page("<h2>Dispatch desk</h2><p>Hours 9 to 5")),
}


@pytest.mark.parametrize("html", DOUBTS.values(), ids=DOUBTS)
async def test_a_result_that_cannot_be_judged_is_named(env: BrowserEnv, html: str) -> None:
    label, button = html.split("<p>")[1].split("<br>")[0], html.split("<button")[1].split(">")[1].split("<")[0]
    outcome = await follow_on(env, html, f"Type Ada into {label}. Click {button}.")

    assert outcome.status == "failure" or "success is not confirmed" in outcome.answer, outcome.actions


TICKER = (
    "<p id=k style='position:fixed;top:4px;right:20px'><script>setInterval(()=>k.textContent=new Date().toISOString()."
    "slice(11,21),200)</script>"
)
CAROUSEL = (
    "<div id=z style='position:fixed;right:20px;top:60px;width:300px;height:120px;background:#eef;padding:20px'></div>"
    "<script>const q=['Free delivery','Winter sale','New'];let n=0;setInterval(()=>z.textContent=q[n++%3],1500)"
    "</script>"
)
COUNT = "o.textContent=(parseInt(o.textContent)||0)+1+' likes'"


PLAIN = {
    "saved": (form("Name", "Save", "o.textContent='Saved'"), "Type Ada into Name. Click Save.", "i.value", "Ada"),
    "danish": (form("Navn", "Gem", says("Gemt")), "Type Ada into Navn. Click Gem.", "i.value", "Ada"),
    "french": (
        form("Nom", "Enregistrer", says("Vos modifications ont bien été enregistrées")),
        "Type Ada into Nom. Click Enregistrer.",
        "i.value",
        "Ada",
    ),
    "german": (
        form("Name", "Speichern", says("Gespeichert")),
        "Type Ada into Name. Click Speichern.",
        "i.value",
        "Ada",
    ),
    "turkish": (form("Ad", "Kaydet", says("Kaydedildi")), "Type Ada into Ad. Click Kaydet.", "i.value", "Ada"),
    "polish": (
        form("Imie", "Zapisz", says("Zmiany zostały zapisane")),
        "Type Ada into Imie. Click Zapisz.",
        "i.value",
        "Ada",
    ),
    "cancelled": (
        act("Cancel order", "setTimeout(()=>{o.textContent='Status: cancelled';toast('Order cancelled')},500)"),
        "Click Cancel order.",
        "o.textContent",
        "Status: cancelled",
    ),
    "blocked": (
        act("Block", "b.textContent='Unblock';toast('Lima is blocked now')"),
        "Click Block.",
        "b.textContent",
        "Unblock",
    ),
    "no longer": (
        act(
            "Unsubscribe", page("<h2>You have been unsubscribed</h2><p id=o>You will no longer receive mails from us.")
        ),
        "Click Unsubscribe.",
        "o.textContent.length",
        41,
    ),
    "renamed": (
        form("New name", "Rename", "document.querySelector('h2').textContent='Project '+i.value;i.value=''"),
        "Type Atlas into New name. Click Rename.",
        "document.querySelector('h2').textContent",
        "Project Atlas",
    ),
    "list with sad words": (
        form(
            "Title",
            "Create",
            "document.body.innerHTML='<h2>Tickets</h2><table id=o><tr><td>104<td>'+i.value+'<td>"
            "open<tr><td>103<td>Mouse"
            " broken<td>closed<tr><td>102<td>Login failed on Monday<td>open</table>'",
        ),
        "Type Printer jam into Title. Click Create.",
        "o.rows[0].cells[1].textContent",
        "Printer jam",
    ),
    "icon in the field": (
        f"{HEAD}<p>Search</p><div style='display:inline-flex;align-items:center;gap:6px;border:1p"
        f"x solid #888;padding:9px'>"
        "<svg width=16 height=16 fill=none stroke=#444 stroke-width=2><circle cx=7 cy=7 r=5 /><p"
        "ath d='M11 11l4 4'/></svg>"
        "<input id=i style='border:0;outline:0;padding:0'></div><p><button onclick=\"o.textConte"
        "nt='Saved'\">Save</button>"
        "<p id=o>",
        "Type Staff into Search. Click Save.",
        "i.value",
        "Staff",
    ),
    "chosen and reset": (
        f"{HEAD}<h2>Ticket</h2><p>Assignee<br><select id=i><option>Choose one<option>Ann Koval</s"
        f"elect><p><button onclick="
        "\"o.textContent='Ann Koval was assigned';i.selectedIndex=0\">Assign</button><p id=o>",
        'Select "Ann Koval" in Assignee. Click Assign.',
        "o.textContent",
        "Ann Koval was assigned",
    ),
    "switch at the end of its row": (
        f"{HEAD}<h2>View</h2><div style='display:flex;justify-content:space-between;width:900px'>"
        f"Compact<div id=w style='"
        "width:44px;height:24px;border-radius:12px;background:#bbb;position:relative' onclick=\""
        "w.style.background='#2a5';"
        "k.style.left='22px'\"><i id=k style='position:absolute;left:2px;top:2px;width:20px;heig"
        "ht:20px;border-radius:50%;"
        "background:#fff'></i></div></div>",
        "Turn on Compact.",
        "k.style.left",
        "22px",
    ),
    "no errors": (
        act("Check", "o.textContent='Finished: 0 errors, 0 warnings'"),
        "Click Check.",
        "o.textContent.length",
        30,
    ),
    "none left": (
        act("Clear completed", "o.textContent='0 items left'"),
        "Click Clear completed.",
        "o.textContent",
        "0 items left",
    ),
    "counts up": (act("Like", COUNT), "Click Like three times.", "o.textContent", "3 likes"),
    "stays": (act("Follow", "b.textContent='Following'"), "Click Follow.", "b.textContent", "Following"),
    "clock": (
        act("Save", "toast('Saved',1500)", TICKER),
        "Click Save.",
        "document.querySelectorAll('.t').length",
        0,
    ),
    "carousel": (
        act("Subscribe", "b.textContent='Subscribed'", CAROUSEL),
        "Click Subscribe.",
        "b.textContent",
        "Subscribed",
    ),
    "spins first": (
        act(
            "Pay",
            "b.hidden=true;o.innerHTML='<span class=s></span>';setTimeout(()=>o.textContent='Payment received',3000)",
        ),
        "Click Pay.",
        "o.textContent",
        "Payment received",
    ),
    "slow": (
        act("Save", "b.textContent='Saving…';setTimeout(()=>b.textContent='Saved',5000)"),
        "Click Save.",
        "b.textContent",
        "Saved",
    ),
    "label returns with a message": (
        act(
            "Generate",
            "b.textContent='Generating…';setTimeout(()=>{b.textContent='Generate';toast('Report is ready')},3500)",
        ),
        "Click Generate.",
        "b.textContent",
        "Generate",
    ),
    "bordered cells": (
        "<table border=1><tr><td>City<td><input id=i></table><p><button onclick=\"o.textContent='Saved'\">Save</button>"
        "<p id=o>",
        "Type Paris into City. Click Save.",
        "i.value",
        "Paris",
    ),
    "login in cells": (
        "<!doctype html><style>body{font:90%/1.25 Verdana;margin:20px}table{border-collapse:collapse}td,th{border:1px "
        "solid #999;padding:.2em .3em}th{background:#eee;text-align:left}input{border:1px solid #999}</style><h2>Login"
        "</h2><form onsubmit=\"event.preventDefault();document.title=u.value+' '+p.value;document.body.innerHTML='<h2>"
        "Select database</h2>'\"><table><tr><th>System<td><select><option>MySQL</select><tr><th>Server<td><input value="
        "localhost><tr><th>Username<td><input id=u><tr><th>Password<td><input id=p type=password><tr><th>Database<td>"
        "<input></table><p><input type=submit value=Login></form>",
        'Type "root" into Username. Type "s3cret" into Password. Click Login.',
        "document.title",
        "root s3cret",
    ),
    "delete link after success": (
        form("Name", "Save", "o.innerHTML='<p>Shelf saved<p><a href=# style=color:#c00>Delete this Shelf</a>'"),
        "Type Novels into Name. Click Save.",
        "i.value",
        "Novels",
    ),
    "radio": (
        "<!doctype html><style>body{font:16px system-ui,sans-serif}label{display:block;margin-top:10px}.o{inset:0;"
        "position:fixed;background:#0008;display:flex;align-items:center;justify-content:center"
        "}.d{background:#fff;padding:24px;"
        "width:420px}</style><div class=o><div class=d><h3>Step 2 of 3</h3><label><input type=radio name=k>Personal"
        "</label><label><input type=radio name=k>Team</label><button onclick=\"this.textContent='Saved'\">Save",
        'Choose "Team". Click Save.',
        "[...document.querySelectorAll('[name=k]')].findIndex(e=>e.checked)",
        1,
    ),
    "money": (form("Amount", "Save", SAVED), "Type -1,349.90 into Amount. Click Save.", "i.value", "-1,349.90"),
    "code": (form("Code", "Save", SAVED), "Type l0O1-II-5S into Code. Click Save.", "i.value", "l0O1-II-5S"),
    "address": (
        form("Mail", "Save", says("Thanks, we sent you a message.")),
        "Type o'neill_1980@mail.example.org into Mail. Click Save.",
        "i.value",
        "o'neill_1980@mail.example.org",
    ),
    "reset form": (
        form("Name", "Add", "o.textContent='Added '+i.value;i.value=''", "placeholder='Your name'"),
        "Type Ada Lovelace into Name. Click Add.",
        "o.textContent",
        "Added Ada Lovelace",
    ),
    "grouped": (
        form("Amount", "Save", SAVED, left("(+v).toLocaleString('en-US')")),
        "Type 1250000 into Amount. Click Save.",
        "i.value",
        "1,250,000",
    ),
    "native date": (
        form("Due date", "Save", SAVED, "type=date"),
        'Type 2026-03-14 into "Due date". Click Save.',
        "i.value",
        "2026-03-14",
    ),
    "long text": (
        form("Motto", "Save", SAVED),
        "Type The quick brown fox jumps over the lazy dog at noon into Motto. Click Save.",
        "i.value",
        "The quick brown fox jumps over the lazy dog at noon",
    ),
    "counted up": (
        form("Seats", "+", "i.value=+i.value+1"),
        'Type 5 into Seats. Click "+".',
        "i.value",
        "6",
    ),
    "new page": (
        act("Details", page("<h1>Details</h1><p>Weight 3 kg<p>Colour blue<p>Made in Portugal")),
        "Click Details.",
        "document.querySelectorAll('p').length",
        3,
    ),
}


@pytest.mark.parametrize(("html", "instruction", "script", "expected"), PLAIN.values(), ids=PLAIN)
async def test_what_worked_is_claimed(
    env: BrowserEnv, html: str, instruction: str, script: str, expected: object
) -> None:
    outcome = await follow_on(env, html, instruction)

    seen = await env.page.evaluate(script)
    assert (outcome.status, seen) == ("success", expected), [outcome.answer, *outcome.actions]


async def test_a_value_that_is_still_loading_is_waited_for(env: BrowserEnv) -> None:
    slow = "<p><span>Storage</span> &nbsp; <b id=v>loading…</b>"
    slow += "<script>setTimeout(()=>v.textContent='12.4 GB',3000)</script>"

    outcome = await follow_on(env, HEAD + slow, "Tell me the Storage.")

    assert (outcome.status, outcome.answer) == ("success", "12.4 GB"), outcome.actions


GREY = "<span style='display:inline-block;width:90px;height:16px;background:#ddd'></span>"
ROWS = "<table border=1 cellpadding=6><tr><td>Storage<td>{}<tr><td>Region<td>Oslo</table>"


@pytest.mark.parametrize(
    "html",
    [
        "<p><span>Storage</span> &nbsp; <b>Loading...</b>",
        ROWS.format(""),
        ROWS.format("–"),
        ROWS.format(GREY),
        ROWS.format("").replace("border=1", ""),
        ROWS.format("<td>Region<td>Oslo"),
        f"<p>Storage {GREY}<p>Limit 500.00",
        "<p>Storage<h2>—</h2>",
    ],
)
async def test_a_value_that_never_loads_is_no_answer(env: BrowserEnv, html: str) -> None:
    outcome = await follow_on(env, HEAD + html, "Tell me the Storage.")

    assert outcome.status == "failure", outcome.answer


@pytest.mark.parametrize(
    ("html", "value"),
    [
        ("<p>Storage<h2>12.4 GB</h2><p>Region<h2>Oslo</h2>", "12.4 GB"),
        (
            "<dl><dt style=color:#777>Storage<dd style=margin:0>Large <a href=#>Edit</a><dt>Region<dd>Oslo",
            "Large Edit",
        ),
        ("<p>Storage<br>Large<p>Region<br>Oslo", "Large"),
        (ROWS.format("Large"), "Large"),
        (ROWS.format("-3.5"), "-3.5"),
    ],
)
async def test_a_value_beside_or_below_its_label_is_read(env: BrowserEnv, html: str, value: str) -> None:
    outcome = await follow_on(env, HEAD + html, "Tell me the Storage.")

    assert (outcome.status, outcome.answer) == ("success", value), outcome.actions
