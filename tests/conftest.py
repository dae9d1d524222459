"""Settings for all tests."""

from hypothesis import settings

# A busy machine must not fail a property test; those that bound time measure processor time themselves.
settings.register_profile("default_without_deadline", deadline=None)
settings.load_profile("default_without_deadline")
