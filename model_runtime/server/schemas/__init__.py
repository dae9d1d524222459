"""What may be asked and what is answered, as pydantic models: they read requests and write the OpenAPI document."""
