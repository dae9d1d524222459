"""Installation on a machine (`run_setup`) and diagnosis of problems (`run_doctor`)."""
