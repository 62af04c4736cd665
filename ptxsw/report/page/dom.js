// Making elements. Text goes in as text: nothing that a report names becomes markup.

const node = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const drawn = (name, attributes = {}, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const canvas = (height, label) =>
  drawn("svg", { viewBox: `0 0 464 ${height}`, role: "img", "aria-label": label });
const signed = (n) => (n > 0 ? `+${n}` : n < 0 ? `\u2212${-n}` : "0");
const known = (value) => (value === null || value === undefined ? "not known" : String(value));
const grouped = (n) => n.toLocaleString("en");
const short = (n) => (n >= 1e6 ? `${+(n / 1e6).toPrecision(3)}M` : n >= 1e4 ? `${Math.round(n / 1e3)}k` : String(n));
const plural = (n, one) => `${grouped(n)} ${one}${n === 1 ? "" : "s"}`;
const button = (label, act, attributes = {}) => {
  const made = node("button", { type: "button", ...attributes }, label);
  made.addEventListener("click", act);
  return made;
};
