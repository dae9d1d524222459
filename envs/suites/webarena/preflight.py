"""Which tasks cannot be evaluated because a site or the judge is missing: asked once, before the first episode."""

import asyncio
from collections.abc import Iterable, Mapping

from envs.errors import EnvSetupError
from envs.suites.webarena.sites import Site, SiteFile
from envs.suites.webarena.task_config import TaskConfig

_TIMEOUT_S = 8.0
_NO_JUDGE = "needs a model as the judge of answers in words; name one by judge and judge_url in the file of sites"


def find_unavailable(tasks: Mapping[str, Iterable[str]], file: SiteFile) -> dict[str, str]:
    """Return by task id the reason why it cannot be evaluated; not to be called in an event loop.

    Args:
        tasks: Names of the sites that a task needs, by its id.
        file: The sites.

    Raises:
        EnvSetupError: None of the sites answers.
    """
    needed = {name for sites in tasks.values() for name in sites}
    silent = asyncio.run(_find_silent([file.sites[name] for name in sorted(needed)]))
    if needed and silent.keys() == needed:
        raise EnvSetupError("; ".join(sorted(silent.values())))
    lacks = {id: [silent[name] for name in sites if name in silent] for id, sites in tasks.items()}
    return {id: f"needs a site that does not work: {' and '.join(whys)}" for id, whys in lacks.items() if whys}


def without_judge(configs: Mapping[str, TaskConfig], file: SiteFile) -> dict[str, str]:
    """Return a reason for each task whose answers a judge compares, if none is named."""
    if file.judge and file.judge_url:
        return {}
    return {id: _NO_JUDGE for id, config in configs.items() if config.is_judged}


async def _find_silent(sites: Iterable[Site]) -> dict[str, str]:
    import httpx

    async with httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False) as client:

        async def ask(site: Site) -> str:
            try:
                async with asyncio.timeout(_TIMEOUT_S), client.stream("GET", site.url) as answer:
                    is_up = site.is_up(answer.status_code, answer.headers.get("location", ""))
                    return "" if is_up else f"{site.name} at {site.url} answers {answer.status_code}"
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
                return f"{site.name} at {site.url} does not answer ({type(error).__name__})"

        sites = list(sites)
        found = await asyncio.gather(*(ask(site) for site in sites))
    return {site.name: why for site, why in zip(sites, found, strict=True) if why}
