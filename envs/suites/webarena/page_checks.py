"""Check page contents at the end of an episode: `program_html` of WebArena.

Configs name functions, `func:reddit_get_post_url('__last_url__')`. They are looked up in a table by name; a config is
never executed as Python. Locators are JavaScript and run in the page, as published: other engines parse selectors
differently from browsers (209 of them do not close a bracket).
"""

import ast
import asyncio
import html
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from envs.errors import EnvDiedError, EnvSetupError
from envs.json_fields import JsonMapping
from envs.suites.webarena.scoring import ALL_FIXES, clean
from envs.suites.webarena.task_config import PageCheck

if TYPE_CHECKING:
    from playwright.async_api import Page

LAST = "last"
_FUNCTION = "func:"
_LAST_URL, _PAGE = "__last_url__", "__page__"
_LOAD_TIMEOUT_S = 60.0
_REST_TIMEOUT_S = 30.0
_MAX_TEXT_CHARS = 16 * 2**20

_FIND_ROLE = """name => {
  const accounts = [...document.querySelectorAll("td[data-label='Account'] span.gl-avatar-labeled-sublabel")];
  const index = accounts.findIndex(account => account.outerText === '@' + name);
  const role = document.querySelectorAll("td.col-max-role span")[index];
  return role ? role.outerText : "";
}"""
"""Script for GitLab's members page that returns the role of an account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MagentoClient:
    """REST client of Magento, for data that no page shows.

    Attributes:
        url: Address of the shop, without a trailing slash.
        user: Name of the admin account.
        password: Password of the admin account; never shown.
    """

    url: str
    user: str = "admin"
    password: str = field(default="admin1234", repr=False)

    async def latest_order_url(self) -> str:
        """Return the address of the page of the newest order of any customer."""
        query = {
            "searchCriteria[sortOrders][0][field]": "created_at",
            "searchCriteria[sortOrders][0][direction]": "DESC",
            "searchCriteria[pageSize]": "1",
        }
        orders = await self._get("/rest/V1/orders", query)
        try:
            number = int(orders["items"][0]["increment_id"])
        except (TypeError, KeyError, IndexError, ValueError) as error:
            raise EnvDiedError(f"{self.url} returned no order: {str(orders)[:200]}") from error
        return f"{self.url}/sales/order/view/order_id/{number}/"

    async def latest_review(self, sku: str) -> JsonMapping:
        """Return the newest review of a product; empty if it has none."""
        reviews = await self._get(f"/rest/V1/products/{quote(sku, safe='')}/reviews", {})
        if not isinstance(reviews, list) or not all(isinstance(review, dict) for review in reviews):
            raise EnvDiedError(f"{self.url} returned no list of reviews: {str(reviews)[:200]}")
        return reviews[-1] if reviews else {}

    async def _get(self, path: str, query: Mapping[str, str]) -> Any:
        import httpx

        login = {"username": self.user, "password": self.password}
        try:
            async with httpx.AsyncClient(timeout=_REST_TIMEOUT_S) as client:
                token = await client.post(f"{self.url}/rest/default/V1/integration/admin/token", json=login)
                token.raise_for_status()
                headers = {"Authorization": f"Bearer {token.json()}"}
                answer = await client.get(f"{self.url}{path}", params=dict(query), headers=headers)
                answer.raise_for_status()
                return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise EnvDiedError(f"the shop's REST interface at {self.url} does not answer: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """Context of the functions in configs.

    Attributes:
        page: Page that is judged.
        shop: Client for the functions that use the shop; None if it is not configured.
    """

    page: "Page"
    shop: MagentoClient | None = None

    def open_shop(self) -> MagentoClient:
        """Return the shop.

        Raises:
            EnvSetupError: If it is not configured.
        """
        if self.shop is None:
            raise EnvSetupError("this task asks the shop's REST interface; the site shopping is not configured")
        return self.shop


async def _post_url(place: CallContext, url: str) -> str:
    """Return the address of the post that an address belongs to; other addresses are returned unchanged."""
    parts = urlsplit(url)
    names = parts.path.split("/")
    if len(names) < 4 or names[1] != "f":
        return url
    return f"{parts.scheme}://{parts.netloc}/f/{names[2]}/{names[3]}/"


async def _latest_order_url(place: CallContext) -> str:
    return await place.open_shop().latest_order_url()


async def _review_author(place: CallContext, sku: str) -> str:
    return str((await place.open_shop().latest_review(sku)).get("nickname", ""))


async def _review_rating(place: CallContext, sku: str) -> str:
    ratings = (await place.open_shop().latest_review(sku)).get("ratings") or [{}]
    return str(ratings[0].get("percent", ""))


async def _member_role(place: CallContext, name: str) -> str:
    return str(await place.page.evaluate(_FIND_ROLE, name))


FUNCTIONS: Mapping[str, Callable[..., Awaitable[str]]] = {
    "reddit_get_post_url": _post_url,
    "shopping_get_latest_order_url": _latest_order_url,
    "shopping_get_sku_latest_review_author": _review_author,
    "shopping_get_sku_latest_review_rating": _review_rating,
    "gitlab_get_project_memeber_role": _member_role,
}
"""All functions used in configs, by their names there."""


def parse_call(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse `NAME('...', ...)` into name and arguments; `__page__`, which every function gets, is left out.

    Raises:
        EnvSetupError: If the text is not such a call, or names an unknown function.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EnvSetupError(f"{text!r} is not a call of a function: {error}") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
        raise EnvSetupError(f"{text!r} is not a call such as reddit_get_post_url('__last_url__')")
    if call.func.id not in FUNCTIONS:
        raise EnvSetupError(f"{text!r} calls a function that there is not; there are {', '.join(FUNCTIONS)}")
    arguments = []
    for argument in call.args:
        if isinstance(argument, ast.Name) and argument.id == _PAGE:
            continue
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            raise EnvSetupError(f"{text!r} has an argument that is not a text")
        arguments.append(argument.value)
    return call.func.id, tuple(arguments)


async def call_function(text: str, place: CallContext) -> str:
    """Call a function of a config.

    Raises:
        EnvSetupError: If the function does not exist, or the arguments do not match.
        EnvDiedError: If the site does not answer.
    """
    name, arguments = parse_call(text)
    given = (argument.replace(_LAST_URL, place.page.url) for argument in arguments)
    try:
        return await FUNCTIONS[name](place, *given)
    except TypeError as error:
        raise EnvSetupError(f"{text!r} does not take these arguments: {error}") from error


async def read_text(
    check: PageCheck, page: "Page", shop: MagentoClient | None = None, *, wait_s: float = 3.0
) -> str | None:
    """Read the text that a check refers to; None if it does not exist.

    Addresses are opened in another page; the agent's page stays unchanged.

    Args:
        check: Check with address and locator.
        page: Active page of the agent at the end.
        shop: Client for the functions that use the shop.
        wait_s: Wait for an opened page to settle; 3 s as published.

    Raises:
        EnvSetupError: If the check itself is invalid.
        EnvDiedError: If a page cannot be opened.
    """
    url = check.url
    if url.startswith(_FUNCTION):
        url = await call_function(url.removeprefix(_FUNCTION), CallContext(page=page, shop=shop))
    if url == LAST:
        return await _select(check, page, shop)
    beside = await _open(page, url, wait_s)
    try:
        return await _select(check, beside, shop)
    finally:
        await beside.close()


async def _open(page: "Page", url: str, wait_s: float) -> "Page":
    from playwright.async_api import Error

    beside = await page.context.new_page()
    try:
        answer = await beside.goto(url, timeout=1000 * _LOAD_TIMEOUT_S)
        why = f"the site answers {answer.status}" if answer is not None and _is_broken(answer.status) else ""
    except Error as error:
        why = str(error).splitlines()[0]
    if why:
        await beside.close()
        raise EnvDiedError(f"{url} cannot be opened for the verdict: {why}")
    await asyncio.sleep(wait_s)
    return beside


def _is_broken(status: int) -> bool:
    """Return True if a page says nothing about the site's content; a missing or forbidden page does."""
    return status in (401, 407, 408, 429) or status >= 500


async def _select(check: PageCheck, page: "Page", shop: MagentoClient | None) -> str | None:
    """Return the text to judge; None if the page has no such element, "" if the locator fails."""
    from playwright.async_api import Error

    if not check.locator:
        return await page.content()
    if check.locator.startswith(_FUNCTION):
        return await call_function(check.locator.removeprefix(_FUNCTION), CallContext(page=page, shop=shop))
    if not check.locator.startswith(("document.", "[...document.")):
        raise EnvSetupError(f"the locator {check.locator!r} is neither an expression on the document nor a function")
    try:
        for prepare in check.prepare:
            await page.evaluate(f"() => {prepare}")
    except Error:
        pass  # as published: the locator decides
    try:
        value = await page.evaluate(f"() => {check.locator}")
    except Error:
        return ""
    return None if value is None else str(value)[:_MAX_TEXT_CHARS]  # str of Python, as published


def is_met(check: PageCheck, text: str | None, *, fixes: Set[str] = ALL_FIXES) -> bool:
    """Return True if a text meets a check; without the fix `null`, a missing text is the string `None`."""
    if text is None:
        text = "" if "null" in fixes else str(None)
    text = clean(html.unescape(text))
    if check.exact is not None:
        return text == clean(check.exact)
    return all(any(clean(alternative) in text for alternative in alternatives) for alternatives in check.includes)
