// Between two columns stands what moves their border: dragged, or by the arrow keys.
const LEAST = 120;  // pixels of a column
function splitter(after, before, columns) {
  const made = node("div", { class: "splitter", role: "separator", tabindex: 0, "aria-orientation": "vertical",
    "aria-label": "Width of the columns", "aria-valuenow": 50 });
  const move = (by) => {
    const sizes = new Map(columns().map((column) => [column, column.getBoundingClientRect().width]));
    for (const [column, width] of sizes) column.style.flexGrow = width;
    const left = before();
    const both = sizes.get(left) + sizes.get(after);
    const width = Math.min(Math.max(sizes.get(left) + by, LEAST), both - LEAST);
    left.style.flexGrow = width;
    after.style.flexGrow = both - width;
    made.setAttribute("aria-valuenow", Math.round(100 * width / both));
  };
  made.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    made.setPointerCapture(event.pointerId);
    let at = event.clientX;
    made.onpointermove = (moved) => { move(moved.clientX - at); at = moved.clientX; };
    made.onpointerup = made.onpointercancel = () => { made.onpointermove = null; };
  });
  made.addEventListener("keydown", (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") move(event.key === "ArrowLeft" ? -24 : 24);
  });
  after.append(made);
  return made;
}
