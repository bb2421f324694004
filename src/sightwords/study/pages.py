"""The HTML pages for judges; they load nothing from other servers.

They work without JavaScript: the answers are buttons of a form, and the one script adds keys.
Nothing on a page shows which system wrote a caption, what others answered, or that a pair is a
check case.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape

from sightwords.study.model import Showing

QUESTION = "Which caption describes the photo better?"


def pair_page(showing: Showing, *, base: str) -> str:
    """A photo, two captions, three answers; `base` is the address of the judge, `/j/TOKEN`."""
    where = escape(base, quote=True)
    done = showing.number - 1
    return _page(
        f"{showing.number} of {showing.total}",
        f"""<header>
<label for=progress>{showing.number} of {showing.total}</label>
<progress id=progress max={showing.total} value={done}>{done}</progress>
</header>
<form method=post action="{where}/vote">
<input type=hidden name=showing value={showing.id}>
<img src="{where}/photo/{showing.id}" alt="Photo">
<h1 id=question>{QUESTION}</h1>
<div class=answers role=group aria-labelledby=question>
{_answer("first", escape(showing.first), "1", "First caption is better")}
{_answer("second", escape(showing.second), "2", "Second caption is better")}
{_answer("same", "Equally good or equally bad", "0", "No difference")}
</div>
</form>
<footer><p>Select the caption that describes the photo better.
<span class=keys>Keys: <kbd>1</kbd> or <kbd>2</kbd> for a caption, <kbd>0</kbd> for no
difference.</span>
Each answer is saved at once. You can close this page and continue later with the same
link.</p></footer>""",
    )


def end_page(*, finished: bool) -> str:
    """The page after the last pair, or when no pair needs a judge."""
    if finished:
        return _page("Thank you", "<h1>Thank you!</h1><p>All your answers are saved. "
                     "You can close this page.</p>")  # fmt: skip
    return _page(
        "No photos left",
        "<h1>No photos left</h1><p>Every photo has enough judges at the moment. Your answers are "
        "saved. You can try the same link again later.</p>",
    )


def message_page(title: str, text: str) -> str:
    """A message for a judge."""
    return _page(title, f"<h1>{escape(title)}</h1><p>{escape(text)}</p>")


def _answer(choice: str, text: str, key: str, label: str) -> str:
    return (
        f"<button name=choice value={choice} class={choice} data-key={key}><span>{text}</span>"
        f"<small>{label} <kbd>{key}</kbd></small></button>"
    )


_STYLE = """
:root { color-scheme: light dark; --line: #8886; --mark: #0b62c4; --paper: #fff; --ink: #1b1b1b;
  --soft: #f2f4f7; --faint: #555; }
@media (prefers-color-scheme: dark) { :root { --mark: #7ab4ff; --paper: #16181b; --ink: #ececec;
  --soft: #23262b; --faint: #b4b4b4; } }
* { box-sizing: border-box; }
body { margin: 0; font: 1.0625rem/1.45 system-ui, sans-serif; background: var(--paper);
  color: var(--ink); }
main { max-width: 46rem; margin: 0 auto; padding: .75rem 1rem 2rem; }
header { display: flex; align-items: center; gap: .75rem; color: var(--faint); font-size: .9rem; }
header label { white-space: nowrap; }
progress { flex: 1; height: .6rem; accent-color: var(--mark); }
img { display: block; width: 100%; max-height: 46vh; object-fit: contain; margin: .75rem 0;
  background: var(--soft); border-radius: .5rem; }
h1 { font-size: 1.15rem; margin: .75rem 0; text-align: center; }
.answers { display: grid; gap: .75rem; grid-template-columns: 1fr 1fr; }
.same { grid-column: 1 / -1; }
button { font: inherit; color: inherit; text-align: left; background: var(--soft); cursor: pointer;
  border: 2px solid var(--line); border-radius: .6rem; padding: .8rem 1rem; min-height: 4rem;
  display: flex; flex-direction: column; justify-content: space-between; gap: .4rem;
  overflow-wrap: anywhere; touch-action: manipulation; }
button:hover, button:focus-visible { border-color: var(--mark); outline: 3px solid var(--mark);
  outline-offset: 1px; }
button span { font-size: 1.1rem; } button small { color: var(--faint); }
.same { align-items: center; text-align: center; min-height: 3.25rem; }
form.sent { opacity: .55; }
kbd { border: 1px solid var(--line); border-radius: .25rem; padding: 0 .35rem; font-size: .85em; }
footer { color: var(--faint); font-size: .9rem; }
@media (hover: none) { kbd, .keys { display: none; } }
@media (max-width: 34rem) { .answers { grid-template-columns: 1fr; gap: .5rem; }
  img { max-height: 34vh; } button { padding: .5rem .8rem; min-height: 3.25rem; gap: .1rem; }
  button span { font-size: 1rem; } .same small { display: none; } }
"""

_SCRIPT = """
(function () {
  var form = document.forms[0], sent = false;
  if (!form) { return; }
  form.addEventListener('submit', function (event) {
    if (sent) { event.preventDefault(); return; }
    sent = true; form.classList.add('sent');
  });
  window.addEventListener('pageshow', function (event) {
    if (event.persisted) { location.reload(); }
  });
  document.addEventListener('keydown', function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) { return; }
    var button = form.querySelector('button[data-key="' + CSS.escape(event.key) + '"]');
    if (button) { event.preventDefault(); form.requestSubmit(button); }
  });
})();
"""


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


POLICY = (
    "default-src 'none'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    f"frame-ancestors 'none'; style-src 'sha256-{_digest(_STYLE)}'; "
    f"script-src 'sha256-{_digest(_SCRIPT)}'"
)
"""Content-Security-Policy of every page: its own photos, style and script, nothing else."""


def _page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
{body}
</main>
<script>{_SCRIPT}</script>
</body>
</html>
"""
