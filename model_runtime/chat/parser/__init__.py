"""What the model wrote, taken apart: reasoning, content, tool calls."""
