"""An OpenAI-compatible server in front of an engine.

app = make_app(engine, processor, ServerOptions(api_keys=("secret",)))
serve(app, host="127.0.0.1", port=8000)

Reading order: `schemas/` (what may be asked), `reading/` (JSON to prompts), `replies/` (tokens to JSON), `routes/`,
`answer.py` (one exchange: time limits, a client that leaves), `gate.py` (what every request passes), `app.py`,
`run.py`.
"""

from model_runtime.server.app import make_app
from model_runtime.server.options import MediaAccess, ServerOptions
from model_runtime.server.run import serve

__all__ = ["MediaAccess", "ServerOptions", "make_app", "serve"]
