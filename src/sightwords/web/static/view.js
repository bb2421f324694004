// Shows answers as elements of the page. Text from outside only becomes text nodes.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const two = (value) => value.toFixed(2);
export const capital = (text) => text[0].toUpperCase() + text.slice(1);
const percent = (value) => `${Math.round(100 * value)} %`;

export function showCaption(answer, chosen, choose) {
  const known = new Map(answer.detail.words.map((word) => [word.word, word]));
  const pieces = answer.detail.pieces.map(({ text, word }) => {
    if (!word) return text;
    const space = text.match(/^\s*/)[0];
    const button = make(
      "button",
      {
        type: "button",
        "data-word": word,
        class: known.has(word) ? "known" : "unknown",
        "aria-pressed": String(chosen === word),
        onclick: () => choose(word),
      },
      text.slice(space.length),
    );
    return [space, button];
  });
  $("caption").replaceChildren(...pieces.flat());
  $("facts").textContent =
    answer.confidence === null
      ? ""
      : `Confidence: ${percent(answer.confidence)} (chance of a good caption)`;
  const unmet = answer.unmet.length ? [`no caption with these required words was found: ${answer.unmet.join(", ")}`] : [];
  const warnings = [...unmet, ...answer.warnings].map((text) => `${capital(text)}.`);
  $("unmet").hidden = warnings.length === 0;
  $("unmet").textContent = warnings.join(" ");
}

export function wordFacts(name, word, shown) {
  if (!name) return "";
  if (!word) return `“${name}” comes from the language model; the detector does not know this word.`;
  const doubt = word.precision < shown ? " (uncertain)" : "";
  return `“${name}”: probability ${two(word.prob)}, precision ${two(word.precision)}${doubt}.`;
}

export function showWords(answer, precision, chosen, choose) {
  const said = new Set(answer.detail.pieces.map((piece) => piece.word));
  const rest = answer.detail.words.filter((w) => !said.has(w.word) && w.precision >= precision);
  const shown = answer.detail.shown_precision;
  const lists = { unused: rest.filter((w) => w.precision >= shown),
                  uncertain: rest.filter((w) => w.precision < shown) };
  for (const [id, words] of Object.entries(lists)) {
    const chips = words.map((word) => make("li", {}, chip(word, chosen, choose)));
    $(id).replaceChildren(...(chips.length ? chips : [make("li", { class: "none" }, "none")]));
  }
  $("uncertain-count").textContent = lists.uncertain.length;
  $("uncertain-box").hidden = lists.uncertain.length === 0;
}

function chip(word, chosen, choose) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", word.precision);
  return make(
    "button",
    {
      type: "button",
      "data-word": word.word,
      "aria-pressed": String(chosen === word.word),
      onclick: () => choose(word.word),
    },
    `${word.word} `,
    make("small", {}, make("span", { class: "unseen" }, "precision "), two(word.precision)),
    bar,
  );
}

export function showCandidates(answer) {
  const best = answer.n_best[0];
  $("candidates").replaceChildren(
    ...answer.n_best.map((sentence) =>
      make(
        "li",
        {},
        make(
          "details",
          {},
          make("summary", {}, sentence.caption, make("span", {}, sentence.score.toFixed(3))),
          breakdown(sentence, best, answer.weights),
        ),
      ),
    ),
  );
}

function breakdown(sentence, best, weights) {
  const is_best = sentence === best;
  const heads = ["Feature", "Value", "Weight", "Product", ...(is_best ? [] : ["Difference"])];
  const rows = Object.entries(sentence.features)
    .map(([name, value]) => {
      const weight = weights[name] ?? 0;
      return { name, value, weight, product: value * weight,
               difference: weight * (value - (best.features[name] ?? 0)) };
    })
    .filter((row) => row.product !== 0 || row.difference !== 0)
    .sort((a, b) => Math.abs(b.product) - Math.abs(a.product))
    .map((row) =>
      make(
        "tr",
        {},
        make("th", { scope: "row" }, row.name.replaceAll("_", " ")),
        ...[row.value, row.weight, row.product, ...(is_best ? [] : [row.difference])].map((number) =>
          make("td", {}, number.toFixed(3)),
        ),
      ),
    );
  const total = [sentence.score, ...(is_best ? [] : [sentence.score - best.score])];
  const foot = [make("th", { scope: "row" }, "Score"), make("td"), make("td"),
                ...total.map((number) => make("td", {}, number.toFixed(3)))];
  const table = make(
    "table",
    {},
    make("caption", { class: "unseen" }, `Features of “${sentence.caption}”`),
    make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...rows),
    make("tfoot", {}, make("tr", {}, ...foot)),
  );
  return make("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Features" }, table);
}
