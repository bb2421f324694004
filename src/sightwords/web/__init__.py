"""`sightwords serve`: a page to look at captions with, and a REST interface (extra `web`).

    app.py       the addresses          page.py      the page's own files
    bodies.py    photographs in         schema.py    answers out, for OpenAPI
    guard.py     who may ask            workers.py   the bounded queue and its processes
    engine.py    what a worker does     metrics.py   Prometheus
    serve.py     START HERE: put together and run

No address fetches a URL, opens a path that a client names, or keeps a photograph.
"""
