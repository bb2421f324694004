// Requests to the server; errors come back as messages for people.

const KEY = "sightwords-token";
const MAX_ATTEMPTS = 4;

export class Unauthorized extends Error {}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

export async function readSettings() {
  const answer = await fetch("/settings.json");
  if (!answer.ok) throw new Error("The server sent an unexpected answer. Reload the page.");
  return answer.json();
}

export async function readSample(name) {
  const answer = await fetch(`/samples/${encodeURIComponent(name)}`);
  if (!answer.ok) throw new Error(`Cannot load the sample ${name}.`);
  return new File([await answer.blob()], name, { type: "image/jpeg" });
}

function address(path, options, extra) {
  const query = new URLSearchParams(extra);
  if (options.precision > 0) query.set("min_precision", options.precision);
  for (const word of options.require) query.append("require", word);
  for (const word of options.forbid) query.append("forbid", word);
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
      // A folder, or a file that has changed, fails in the same way. Read the whole file to find
      // out: for a deleted file, some browsers return an empty slice.
      const whole = (bytes) => bytes.byteLength === file.size;
      const readable = await file.arrayBuffer().then(whole, () => false);
      throw new Error(readable
        ? "Cannot reach the server. Is it still running?"
        : `Cannot read ${file.name}. Is it a folder, or was it moved or changed? Choose it again.`);
    }
    if (answer.ok) return answer;
    if (answer.status === 503 && attempt < MAX_ATTEMPTS) {
      const seconds = Number(answer.headers.get("Retry-After")) || 1;
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      continue;
    }
    const content = await answer.json().catch(() => null);
    const message = content?.error?.message ?? `The server answered with status ${answer.status}.`;
    if (answer.status === 401)
      throw new Unauthorized(token
        ? "This access token is wrong. Enter another one."
        : "This server needs an access token. Enter it above.");
    throw new Error(message);
  }
}

export async function caption(file, options, signal) {
  const url = address("/v1/caption", options, { detail: "true", n_best: "10" });
  const answer = await send(url, file, signal);
  return (await answer.json()).images[0];
}

export async function figure(file, options) {
  return (await send(address("/v1/explain", options, {}), file)).blob();
}
