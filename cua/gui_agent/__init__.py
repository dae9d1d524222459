"""GUI agent: takes screenshots and returns actions, with the protocol that K2.5 was trained on."""
