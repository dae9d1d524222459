"""The verifier: a file is opened by a second library, rendered, and everything that can be counted is counted."""
