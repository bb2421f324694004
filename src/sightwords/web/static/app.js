// START HERE: state and events of the page.
//
//   api.js   requests to the server   draw.js   the photo and its heat maps
//   view.js  answers as elements

import * as api from "./api.js";
import { draw, drawScale, shrunk } from "./draw.js";
import { $, capital, make, showCandidates, showCaption, showWords, wordFacts } from "./view.js";

const SLIDER_MS = 150;
const PARALLEL_REQUESTS = 2;
const MAX_PHOTOS = 100;
const HINT = "Select a word to see where it was found.";

const state = { settings: null, photos: [], current: null, word: null, timer: 0, notice: null };

// ---------------------------------------------------------------- options

function options() {
  const words = (id) => [...new Set($(id).value.toLowerCase().split(/[\s,;]+/).filter(Boolean))];
  return { precision: Number($("precision").value), require: words("require"), forbid: words("forbid") };
}

const keyOf = (chosen) => JSON.stringify(chosen);

// ---------------------------------------------------------------- adding photos

async function add(files) {
  if (!files.length) return;
  state.notice = files.length > MAX_PHOTOS
    ? `The first ${MAX_PHOTOS} of ${files.length} photos were added. Add the others later, or ` +
      "caption whole folders with: sightwords batch"
    : null;
  const photos = [...files].slice(0, MAX_PHOTOS).map(waitingPhoto);
  state.photos.push(...photos);
  $("strip").hidden = state.photos.length < 2;
  select(photos[0]);
  await askAll(photos);
}

async function askAll(photos) {
  const waiting = [...photos];
  await Promise.all(
    Array.from({ length: PARALLEL_REQUESTS }, async () => {
      for (let photo = waiting.shift(); photo; photo = waiting.shift()) await ask(photo);
    }),
  );
}

function waitingPhoto(file) {
  return { file, bitmap: null, url: null, prepared: null, name: file.name || "pasted photo",
           answer: null, error: null, key: null, asking: false, button: null };
}

async function prepare(photo) {
  // The server reads some formats that this browser cannot show.
  photo.bitmap = await shrunk(photo.file).catch(() => null);
  photo.url = photo.bitmap ? URL.createObjectURL(photo.file) : null;
}

async function ask(photo) {
  const chosen = options();
  if (photo.key === keyOf(chosen)) return;
  photo.stop?.abort();
  photo.stop = new AbortController();
  const { signal } = photo.stop;
  photo.key = keyOf(chosen);
  photo.asking = true;
  showBusy();
  try {
    // One at a time: a hundred decoded phone photos would fill the memory.
    await (photo.prepared ??= prepare(photo));
    photo.answer = await api.caption(photo.file, chosen, signal);
    photo.error = null;
    photo.answered = chosen;
  } catch (error) {
    if (error.name === "AbortError") return;
    photo.key = null;
    photo.error = error.message;
    if (error instanceof api.Unauthorized && $("token-form").hidden) {
      $("token-form").hidden = false;
      $("token").focus();
    }
  }
  photo.asking = false;
  showBusy();
  showStrip();
  if (photo !== state.current) return;
  show();
  if (!photo.error) announce(photo);
}

// For screen readers: they do not announce the caption itself, which is made of buttons.
function announce({ name }) {
  $("announced").textContent =
    [`${name}: ${$("caption").textContent}.`, $("facts").textContent, $("unmet").textContent].join(" ");
}

function showBusy() {
  const { asking, name } = state.current;
  $("result").classList.toggle("busy", asking);
  const said = $("status").textContent;
  if (asking) $("status").textContent = `Captioning ${name} …`;
  else if (said.startsWith("Captioning ")) $("status").textContent = "";
}

// ---------------------------------------------------------------- display

function select(photo) {
  state.current = photo;
  state.word = null;
  $("status").textContent = $("announced").textContent = "";
  showStrip();
  photo.button.scrollIntoView({ block: "nearest", inline: "nearest" });
  showBusy();
  show();
  ask(photo);
}

function choose(word) {
  state.word = state.word === word ? null : word;
  showWord();
}

function fail(message) {
  $("error").hidden = !message;
  $("error").textContent = message ?? "";
}

function show() {
  const { answer, error, answered, name } = state.current;
  fail(error && !error.startsWith(name) ? capital(error) : error ?? state.notice);
  // If options are refused, the last caption stays; an unreadable photo has none.
  $("result").hidden = !answer;
  if (!answer) return;
  const names = new Set([...answer.detail.words, ...answer.detail.pieces].map((one) => one.word));
  if (!names.has(state.word)) state.word = null;
  showCaption(answer, state.word, choose);
  showWords(answer, answered.precision, state.word, choose);
  showCandidates(answer);
  showWord();
}

function showWord() {
  const { answer, name, bitmap } = state.current;
  const word = answer.detail.words.find((one) => one.word === state.word);
  for (const button of document.querySelectorAll("[data-word]"))
    button.setAttribute("aria-pressed", String(button.dataset.word === state.word));
  $("word-facts").textContent = wordFacts(state.word, word, answer.detail.shown_precision);
  const mapped = Boolean(word?.map);
  $("scale").hidden = !mapped;
  $("peak").textContent = mapped ? word.peak.toPrecision(2) : "";
  $("map-of").textContent = mapped
    ? `Heat map of “${word.word}”: bright regions match best. Select the word again to hide it.`
    : HINT;
  if (!bitmap)
    $("map-of").textContent += " This browser cannot show files of this type, but you can download the figure.";
  $("canvas").setAttribute("aria-label", mapped
    ? `Heat map of “${word.word}” over ${name}${place(word.box)}`
    : `${name}: ${answer.caption}`);
  draw($("canvas"), state.current, word, state.settings);
}

function place(box) {
  if (!box) return "";
  const [across, down] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
  const side = across < 0.4 ? "left" : across > 0.6 ? "right" : "middle";
  const height = down < 0.4 ? "top" : down > 0.6 ? "bottom" : "centre";
  return `, strongest at the ${height}, ${side}`;
}

function showStrip() {
  for (const photo of state.photos) {
    // Reuse the button, so that it keeps the keyboard focus.
    if (!photo.button) {
      const shown = { type: "button", title: photo.name, onclick: () => select(photo) };
      photo.button = make("button", shown);
      $("strip").append(photo.button);
    }
    const said = photo.error ?? photo.answer?.caption ?? "waiting";
    const label = said.startsWith(photo.name) ? said : `${photo.name}: ${said}`;
    photo.button.setAttribute("aria-pressed", String(photo === state.current));
    photo.button.classList.toggle("failed", Boolean(photo.error));
    const face = photo.button.firstElementChild;
    if (!face || (photo.url && face.tagName !== "IMG"))
      photo.button.replaceChildren(photo.url
        ? make("img", { src: photo.url })
        : make("span", { class: "text" }, photo.name));
    if (photo.url) {
      photo.button.firstElementChild.alt = label;
      photo.button.removeAttribute("aria-label");
    } else {
      photo.button.setAttribute("aria-label", label);
    }
  }
}

// ---------------------------------------------------------------- copy and download

async function copy() {
  const text = state.current.answer.caption;
  const sentence = `${text[0].toUpperCase()}${text.slice(1)}.`;
  try {
    await navigator.clipboard.writeText(sentence);
    $("status").textContent = `Copied: ${sentence}`;
  } catch {
    $("status").textContent = `The browser did not allow copying. The caption: ${sentence}`;
  }
}

function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function stem() {
  return state.current.name.replace(/\.[^.]*$/, "") || "photo";
}

function downloadJson() {
  const { detail, ...record } = state.current.answer;
  const { precision, require, forbid } = state.current.answered;
  const asked = { min_precision: precision, require, forbid };
  const text = JSON.stringify({ ...record, size_px: detail.size_px, asked }, null, 1);
  download(new Blob([text], { type: "application/json" }), `${stem()}.json`);
}

async function downloadFigure() {
  $("figure").disabled = true;
  try {
    download(await api.figure(state.current.file, state.current.answered), `${stem()}-explained.png`);
  } catch (error) {
    fail(error.message);
  }
  $("figure").disabled = false;
}

// ---------------------------------------------------------------- events

function again() {
  clearTimeout(state.timer);
  if (state.current) ask(state.current);
}

function listen() {
  $("file").addEventListener("change", () => {
    add($("file").files);
    $("file").value = "";
  });
  $("precision").addEventListener("input", () => {
    $("precision-value").textContent = Number($("precision").value).toFixed(2);
    clearTimeout(state.timer);
    state.timer = setTimeout(again, SLIDER_MS);
  });
  $("options").addEventListener("submit", (event) => {
    event.preventDefault();
    again();
  });
  $("options").addEventListener("change", again);
  $("options").addEventListener("reset", () => {
    $("precision-value").textContent = "0.00";
    setTimeout(again); // after the fields are reset
  });
  $("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    api.keepToken($("token").value.trim());
    $("token-form").hidden = true;
    askAll(state.photos.filter((photo) => photo.error));
  });
  $("copy").addEventListener("click", copy);
  $("json").addEventListener("click", downloadJson);
  $("figure").addEventListener("click", downloadFigure);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.word) choose(state.word);
  });
  document.addEventListener("paste", (event) => {
    if (event.clipboardData?.files.length) add(event.clipboardData.files);
  });
  for (const kind of ["dragover", "dragleave", "drop"])
    document.addEventListener(kind, (event) => {
      event.preventDefault(); // the browser must not open a file dropped beside the box
      $("drop").classList.toggle("over", kind === "dragover");
      if (kind === "drop") add(event.dataTransfer.files);
    });
}

async function start() {
  listen();
  try {
    state.settings = await api.readSettings();
  } catch (error) {
    fail(error.message);
    return;
  }
  const { samples, version, fingerprint, words, colours } = state.settings;
  drawScale($("scale-bar"), colours);
  $("about").textContent = `sightwords ${version}, ${words} words, bundle ${fingerprint.slice(0, 12)}.`;
  $("samples").replaceChildren(
    ...samples.map((name) =>
      make("button", {
        type: "button",
        onclick: () => api.readSample(name).then((file) => add([file])).catch((e) => fail(e.message)),
      }, make("img", { src: `/samples/${name}`, alt: `Sample: ${name.replace(".jpg", "")}` })),
    ),
  );
}

start();
