"""Deprecated alias of `envs.suites.osworld.guest_server`, kept for one release."""

from envs.suites.osworld.guest_server import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
