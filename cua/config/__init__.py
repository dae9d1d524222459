"""Settings of a run and where each value came from."""

from cua.config.load import Resolved, load_settings, user_config_file
from cua.config.settings import Settings

__all__ = ["Resolved", "Settings", "load_settings", "user_config_file"]
