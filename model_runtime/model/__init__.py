"""The language model in torch: rope, MLA, experts, decoder."""
