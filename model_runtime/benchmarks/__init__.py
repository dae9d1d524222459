"""Measurements that ship with the runtime, so that whoever has the hardware can repeat them with one command."""
