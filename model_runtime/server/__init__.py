"""An OpenAI-compatible server in front of an engine.

app = make_app(engine, processor, ServerOptions(api_keys=("secret",)))
serve(app, host="127.0.0.1", port=8000)

Reading order: `schemas.py` (bodies of requests), `prompt.py` and `media.py` (JSON to prompts),
`responses.py` (deadline, sequences, streams), `chat_completions.py` (tokens to JSON), `app.py`
(with the middleware), `run.py`.
"""

from model_runtime.server.app import make_app
from model_runtime.server.options import MediaAccess, ServerOptions
from model_runtime.server.run import serve

__all__ = ["MediaAccess", "ServerOptions", "make_app", "serve"]
