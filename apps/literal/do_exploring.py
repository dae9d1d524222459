"""Open tabs, sections, nodes of a tree and pages of a list, one after another, until a target is seen."""

from apps.literal.find_kind import find_links_named
from apps.literal.find_opener import find_openers
from apps.literal.find_target import choose
from apps.literal.moves import Act, Already, Failed, Move, at
from apps.literal.progress import Progress
from apps.literal.screen import Screen, Sight
from apps.literal.targets import OpenerKind, Target
from apps.literal.text_match import WHOLE, squash
from apps.literal.work_steps import OpenUntil

_MAX_OPENED = 24
_MAX_SCROLLS_EACH = 2
_NAMES: dict[OpenerKind, str] = {
    "tab": "tabs",
    "section": "sections that open",
    "node": "nodes of a tree that are closed",
    "page": "sign for the next page",
}


def plan_open_until(step: OpenUntil, sight: Sight, progress: Progress) -> Move:
    """Press the next opener, look, scroll what it opened; then the next one."""
    screen = sight.now
    if is_seen(screen, step.target):
        return Already(thought=f"{step.target} is seen.")
    tries, scrolls = progress.count("seek"), progress.count("scroll down")
    is_fresh = progress.last in ("seek", "scroll down")
    is_at_end = progress.last == "scroll down" and sight.is_stuck
    if is_fresh and not is_at_end and scrolls < _MAX_SCROLLS_EACH * tries and _runs_over(screen):
        return _scroll(screen, -3, "scroll down", f"{step.target} is not seen yet; what was opened goes on below.")
    if progress.last == "scroll down":
        return _scroll(screen, 30, "scroll up", "Back to the top.")
    openers = find_openers(screen, step.kind)
    if step.kind in ("tab", "section") and all(opener.label for opener in openers):
        tried = {squash(phase.label) for phase in progress.phases if phase.kind == "seek"}
        openers = [opener for opener in openers if squash(opener.label) not in tried]
    # What was tried is left out, a node that was opened is no closed one any more, and a page has one way on.
    is_told = step.kind in ("node", "page") or all(opener.label for opener in openers)
    index = 0 if is_told else tries
    if index >= len(openers) or tries >= _MAX_OPENED:
        if not tries:
            return Failed(reason=f"{step.target} is not seen, and I see no {_NAMES[step.kind]}")
        return Failed(reason=f"I opened {tries} of the {_NAMES[step.kind]} and did not find {step.target}")
    if step.kind == "page" and progress.last == "seek" and sight.is_stuck:
        return Failed(reason=f"{step.target} is not on the pages that I saw, and the next one does not open")
    opener = openers[index]
    code = (f"pyautogui.click({at(screen, opener.point)})", "time.sleep(0.4)")
    return Act(
        code=code, thought=f'{step.target} is not seen; I open "{opener.label}".', phase="seek", label=opener.label
    )


def _scroll(screen: Screen, notches: int, phase: str, thought: str) -> Act:
    middle = at(screen, (screen.width / 2, screen.height / 2))
    return Act(code=(f"pyautogui.scroll({notches}, {middle})", "time.sleep(0.2)"), thought=thought, phase=phase)


def _runs_over(screen: Screen) -> bool:
    """Whether text stands at the lower edge, so that there may be more below."""
    return any(line.box_px.bottom > screen.height - 1.5 * line.box_px.height for line in screen.lines)


def is_seen(screen: Screen, target: Target) -> bool:
    """Whether a target is on the screen: a link as a link, all others in full and not within other words."""
    if target.role == "link":
        return bool(find_links_named(screen, target.text))
    choice = choose(screen, target, to_press=True)
    return choice is not None and choice.place.fit >= WHOLE
