"""Former place of `envs.suites.osworld`, kept for one release."""
