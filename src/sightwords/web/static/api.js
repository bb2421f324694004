// What the page asks of its server; errors come back as words for people.

const KEY = "sightwords-token";
const TRIES = 4;

export class Unauthorized extends Error {}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

export async function readSettings() {
  const answer = await fetch("/settings.json");
  if (!answer.ok) throw new Error("The server does not answer as it should; reload the page.");
  return answer.json();
}

export async function readSample(name) {
  const answer = await fetch(`/samples/${encodeURIComponent(name)}`);
  if (!answer.ok) throw new Error(`The sample ${name} could not be loaded.`);
  return new File([await answer.blob()], name, { type: "image/jpeg" });
}

function address(path, wishes, more) {
  const query = new URLSearchParams(more);
  if (wishes.precision > 0) query.set("min_precision", wishes.precision);
  for (const word of wishes.require) query.append("require", word);
  for (const word of wishes.forbid) query.append("forbid", word);
  return `${path}?${query}`;
}

async function send(url, file, signal) {
  const form = new FormData();
  form.append("image", file, file.name || "pasted.png");
  const token = sessionStorage.getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  for (let attempt = 1; ; attempt++) {
    let answer;
    try {
      answer = await fetch(url, { method: "POST", body: form, headers, signal });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      // A folder that was dropped, or a file that has changed since, fails in the same way.
      // The whole file is read: of one that is gone some browsers give an empty slice.
      const whole = (bytes) => bytes.byteLength === file.size;
      const readable = await file.arrayBuffer().then(whole, () => false);
      throw new Error(readable
        ? "The server cannot be reached. Is it still running?"
        : `${file.name} cannot be read. Is it a folder, or was it moved or changed? Choose ` +
          "photographs again.");
    }
    if (answer.ok) return answer;
    if (answer.status === 503 && attempt < TRIES) {
      const seconds = Number(answer.headers.get("Retry-After")) || 1;
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      continue;
    }
    const said = await answer.json().catch(() => null);
    const message = said?.error?.message ?? `The server answered ${answer.status}.`;
    if (answer.status === 401)
      throw new Unauthorized(token
        ? "This server does not know that token. Enter another one above."
        : "This server wants a token. Enter it above.");
    throw new Error(message);
  }
}

export async function caption(file, wishes, signal) {
  const url = address("/v1/caption", wishes, { detail: "true", n_best: "10" });
  const answer = await send(url, file, signal);
  return (await answer.json()).images[0];
}

export async function figure(file, wishes) {
  return (await send(address("/v1/explain", wishes, {}), file)).blob();
}
