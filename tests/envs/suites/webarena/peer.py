"""Runs libwebarena's own evaluators, unmodified, on canned episodes; started by the tests in a Python that has it.

    WEBARENA_PEER_PYTHON peer.py < episodes.jsonl > scores.jsonl

That Python has: libwebarena==0.0.5 nltk beartype regex requests playwright, and llama-index-core for the data of NLTK's
tokenizer, all by `pip install --no-deps` (besides those of requests and playwright).

One line each: {"config": ..., "answer": ..., "url": ..., "pages": {"URL or last": {"content": ..., "locators": {...}}},
"reply": "..."}; back comes {"score": 0.0} or {"error": "..."}. Pages and the judge's reply are canned; a locator that a
page does not list raises in it, as a wrong page does.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys
import tempfile
import types
from typing import Any

for name in ("SHOPPING", "SHOPPING_ADMIN", "REDDIT", "GITLAB", "WIKIPEDIA", "MAP", "HOMEPAGE"):
    os.environ[name] = os.environ[f"WA_{name}"] = f"http://{name.lower()}.test"


class CannedPage:
    """What the evaluators use of a page of Playwright."""

    def __init__(self, pages: dict[str, Any], url: str, name: str) -> None:
        self._pages, self.url, self._name, self.context = pages, url, name, self

    def new_page(self) -> "CannedPage":
        return CannedPage(self._pages, "about:blank", "about:blank")

    def goto(self, url: str) -> None:
        self.url = self._name = url

    def content(self) -> str:
        return str(self._pages.get(self._name, {}).get("content", ""))

    def evaluate(self, script: str) -> Any:
        return self._pages.get(self._name, {}).get("locators", {})[script.removeprefix("() => ")]

    def close(self) -> None:
        pass


def load_evaluators(reply: dict[str, str]) -> Any:
    """The evaluators' module; what it only imports for other work is left out."""
    for missing in (
        "webarena.llms.providers.openai_utils",
        "webarena.browser_env.actions",
        "webarena.browser_env.utils",
    ):
        sys.modules[missing] = types.ModuleType(missing)
    sys.modules["webarena.browser_env.actions"].Action = dict  # type: ignore[attr-defined]
    sys.modules["webarena.browser_env.utils"].StateInfo = dict  # type: ignore[attr-defined]
    answer = lambda **_: reply["text"]  # noqa: E731
    sys.modules["webarena.llms.providers.openai_utils"].generate_from_openai_chat_completion = answer  # type: ignore[attr-defined]
    found = importlib.util.find_spec("webarena")
    assert found is not None and found.submodule_search_locations
    root = next(iter(found.submodule_search_locations))
    for package, folder in (
        ("webarena.browser_env", "browser_env"),
        ("webarena.llms", "llms"),
        ("webarena.llms.providers", "llms/providers"),
    ):
        module = types.ModuleType(package)
        module.__path__ = [f"{root}/{folder}"]
        module.__spec__ = importlib.machinery.ModuleSpec(package, None, is_package=True)
        sys.modules[package] = module
    import webarena.evaluation_harness.evaluators as evaluators

    evaluators.time.sleep = lambda _: None  # canned pages need no time
    return evaluators


def main() -> None:
    import beartype

    beartype.beartype = lambda function: function  # canned pages are none of Playwright's
    import nltk

    nltk.data.path[:] = [f"{folder}/llama_index/core/_static/nltk_cache" for folder in sys.path]
    reply: dict[str, str] = {}
    evaluators = load_evaluators(reply)
    canned: dict[str, Any] = {}
    for name in ("shopping_get_latest_order_url", "shopping_get_sku_latest_review_author"):
        setattr(evaluators, name, lambda *_, name=name: canned[name])
    evaluators.shopping_get_sku_latest_review_rating = lambda _: canned["shopping_get_sku_latest_review_rating"]
    evaluators.gitlab_get_project_memeber_role = lambda *_: canned["gitlab_get_project_memeber_role"]
    for line in sys.stdin:
        episode = json.loads(line)
        reply["text"] = episode.get("reply", "")
        canned.update(episode.get("functions", {}))
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(episode["config"], file)
            file.flush()
            page = CannedPage(episode.get("pages", {}), episode["url"], "last")
            try:
                judge = evaluators.evaluator_router(file.name)
                score = judge([{}, {"answer": episode["answer"]}], file.name, page, None)
                print(json.dumps({"score": score}), flush=True)
            except Exception as error:
                print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)


if __name__ == "__main__":
    main()
