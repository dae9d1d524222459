"""Getting a machine ready (`run_setup`) and saying what is wrong with it (`run_doctor`)."""
