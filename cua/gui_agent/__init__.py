"""The GUI agent: screenshot in, actions out, by the protocol that K2.5 was trained on."""
