"""`sightwords serve`: a web page that shows how captions are made, and a REST API (extra `web`).

    serve.py           START HERE: builds the application and runs it
    app.py             the addresses of the REST API
    guard.py           hosts, origins, token, security headers
    request_body.py    reads photos and sentences from a request
    photo_queue.py     the bounded queue of photos
    workers.py         the worker processes that take photos from the queue
    engine.py          what a worker does with a photo
    caption_detail.py  heat maps and word positions for the page
    schema.py          the answers, for OpenAPI
    errors.py          error codes and messages
    error_responses.py errors as HTTP responses
    limits.py          what the server accepts
    page.py            serves the files of the page
    metrics.py         Prometheus metrics

No address fetches a URL, opens a path that a client names, or stores a photo.
"""
