"""What the engine puts out, as OpenAI's API shows it: whole answers and chunks of streams."""
