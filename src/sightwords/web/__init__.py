"""`sightwords serve`: a page to look at captions with, and a REST interface (extra `web`).

    serve.py     START HERE: put together and run
    guard.py     who may ask            app.py       the addresses
    bodies.py    photographs in         schema.py    answers out, for OpenAPI
    waiting.py   the bounded queue      workers.py   the processes that empty it
    engine.py    what a worker does     detail.py    what the page draws of a caption
    problems.py  what can go wrong      refusals.py  how it is said
    page.py      the page's own files   metrics.py   Prometheus

No address fetches a URL, opens a path that a client names, or keeps a photograph.
"""
