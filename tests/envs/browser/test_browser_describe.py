"""What would get a click, in words for guards and reports."""

import pytest

from envs.actions import Move
from envs.browser import BrowserEnv
from tests.envs.browser.driving import OpenPage, do, middle
from tests.envs.browser.pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

BODY = """
<style>body > * { display: block; margin: 6px }</style>
<button id=a><span>Delete</span> <b>all</b></button>
<a id=b href="/next?x=1">Next page</a>
<label id=c>Password <input id=d type=password></label>
<input id=e placeholder="Search here">
<input id=f type=submit>
<div id=g role=button aria-label="Close dialog">x</div>
<div id=h style="cursor:pointer;width:200px"><i>Open</i> menu</div>
<label id=i><input id=j type=checkbox> I agree</label>
<button id=k><img alt="Trash" width=20 height=20></button>
<select id=l aria-label="Kind"><option>a</select>
<p id=m style="width:300px">Just a text</p>
<textarea id=n title="Notes"></textarea>
<span id=q>Amount</span><input id=r aria-labelledby=q name=amount>
<div id=host style="width:100px"></div>
<script>host.attachShadow({mode: 'open'}).innerHTML = '<button>In the shadow</button>'</script>
"""


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("#a", 'button "Delete all"'),
        ("#a b", 'button "Delete all"'),
        ("#b", 'link "Next page" -> {base}/next?x=1'),
        ("#d", 'input[type=password] "Password"'),
        ("#e", 'input[type=text] "Search here"'),
        ("#f", 'button "Submit"'),
        ("#g", 'button "Close dialog"'),
        ("#h i", 'div "Open menu"'),
        ("#i", 'checkbox "I agree"'),
        ("#j", 'checkbox "I agree"'),
        ("#k img", 'button "Trash"'),
        ("#l", 'select "Kind"'),
        ("#m", 'p "Just a text"'),
        ("#n", 'text area "Notes"'),
        ("#r", 'input[type=text] "Amount"'),
        ("#host", 'button "In the shadow"'),
    ],
)
async def test_things_of_a_page(env: BrowserEnv, pages: PageServer, selector: str, text: str) -> None:
    url = pages.serve(BODY)
    if "described" not in env.__dict__ or env.__dict__["described"] != pages.port:
        await env.reset(OpenPage(url))
        env.__dict__["described"] = pages.port
    point = await middle(env, selector)
    assert await env.describe_point(*point) == text.format(base=pages.url(""))


async def test_nothing_and_nowhere(env: BrowserEnv, pages: PageServer) -> None:
    await env.reset(OpenPage(pages.serve("<p>text")))
    assert await env.describe_point(900, 600) is None
    assert await env.describe_point(-5, 10) is None
    assert await env.describe_point(10, 720) is None


@pytest.mark.parametrize("host", ["127.0.0.1", "frame.localhost"])
@pytest.mark.long
async def test_frames_of_this_and_of_another_origin(env: BrowserEnv, pages: PageServer, host: str) -> None:
    inner = pages.serve("<button style='margin:30px'>Pay now</button>", host=host)
    await env.reset(OpenPage(pages.serve(f"<iframe src='{inner}' style='margin:50px;border:5px solid'></iframe>")))
    assert await env.describe_point(50 + 5 + 40, 50 + 5 + 40) == 'button "Pay now"'


@pytest.mark.long
async def test_a_transparent_cover_is_what_gets_the_click(env: BrowserEnv, pages: PageServer) -> None:
    body = (
        "<button id=under>Cancel</button><a id=cover href='/pay' style='position:fixed;inset:0' aria-label='Pay'></a>"
    )
    await env.reset(OpenPage(pages.serve(body)))
    assert await env.describe_point(*await middle(env, "#under")) == f'link "Pay" -> {pages.url("/pay")}'
    await do(env, Move(x_px=5, y_px=5))
