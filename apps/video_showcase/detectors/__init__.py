"""What code alone finds in a stream of frames and in sound, each kind of event by a detector of its own."""
