"""Responds to each request with what werkzeug, the parser of Flask, reads from it:

    python3 werkzeug_server.py PORT
"""

import base64
import json
import sys

from werkzeug.serving import WSGIRequestHandler, run_simple
from werkzeug.wrappers import Request, Response


class Quiet(WSGIRequestHandler):
    def log(self, *arguments):
        pass


@Request.application
def serve(request):
    return Response(json.dumps({
        "path": request.path,
        "query": request.args.to_dict(flat=False),
        "form": request.form.to_dict(flat=False),
        "files": {name: [[f.filename, base64.b64encode(f.read()).decode()] for f in files]
                  for name, files in request.files.lists()},
        "json": request.get_json(silent=True),
    }), content_type="application/json")


run_simple("127.0.0.1", int(sys.argv[1]), serve, request_handler=Quiet)
