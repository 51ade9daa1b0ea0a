"""The pages: search, documents, drafts, labels, reports, the graph, settings. One module for each kind of page.

How a page is made:

    router = APIRouter(include_in_schema=False)

    @router.get("/things")
    async def things(request: Request, service: Served) -> Response:
        caller = await service.caller(request, "read")               # a key, a token or the session's cookie

        def read() -> Response:                                       # reading and rendering run in a thread
            return page(caller, "things.html", title="Things", here="things", things=...)

        return await service.work(read)

- `templates/things.html` extends `base.html`. Jinja escapes everything; no template uses `|safe` on text of documents.
- The page works without a script: links and forms. htmx makes it faster: a request with the header `HX-Request` gets
  the same page, of which htmx takes a part (`hx-select`), or a fragment (`is_fragment(request)`).
- A form that changes something is a POST. It answers `back_to(request, "/things")`: the browser reads the page again.
- An error is raised as anywhere else (`UsageError`, `NotFoundError` ...). `Guard` shows it as a page or a fragment, and
  sends visitors who are not signed in to `/sign-in`.
- A page runs no inline script and no inline style (`Content-Security-Policy`). Behaviour is in `static/web.js`, looks
  are in `static/web.css`, on top of `bench/page.css`, which the reports share.
"""
