"""Facts from a screen recording of a website: states, full pages, transitions with trigger, time and easing."""

from apps.video2web.recording.storyboard import read_recording
from apps.video2web.recording.types import PageState, Storyboard, Transition, storyboard_image, tell_facts, to_json

__all__ = ["PageState", "Storyboard", "Transition", "read_recording", "storyboard_image", "tell_facts", "to_json"]
