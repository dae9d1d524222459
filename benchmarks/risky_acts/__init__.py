"""A set of risky acts on small pages, and a runner that counts those not stopped."""
