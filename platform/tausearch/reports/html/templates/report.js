"use strict";
const PRINTED = 640; // pixels that a plot takes on paper

// Drawn when it comes near the window: a page of many cells opens at once.
function draw(figure) {
  const canvas = figure.querySelector(".canvas");
  if (canvas.dataset.drawn) return;
  canvas.dataset.drawn = "yes";
  const content = JSON.parse(figure.querySelector("script").textContent);
  const trials = figure.closest(".run")?.querySelector(".trials"); // plots above the cells show no trials
  const says = trials ? JSON.parse(trials.textContent) : {};
  for (const trace of content.data.filter((each) => each.meta === "trials")) {
    trace.hovertext = [trace.hovertext].flat().map((number) => says[number]);
    if (trace.hovertext.length === 1) trace.hovertext = trace.hovertext[0]; // of a whole line
  }
  content.layout.dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom"; // a finger scrolls the page
  Plotly.newPlot(canvas, content.data, content.layout, { displayModeBar: false, responsive: true });
}

// Plotly is in the page, packed: a script that is unpacked and added runs at once.
async function unpackPlotly() {
  const packed = atob(document.getElementById("plotly").textContent);
  const bytes = Uint8Array.from(packed, (each) => each.charCodeAt(0));
  const script = document.createElement("script");
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  script.textContent = await new Response(unpacked).text();
  document.head.append(script);
}

const plots = document.querySelectorAll(".plot");
const near = new IntersectionObserver(
  (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => draw(entry.target)),
  { rootMargin: "600px" },
);
unpackPlotly().then(() => plots.forEach((figure) => near.observe(figure)));

// A link from the table opens the cell that it leads to.
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target && target.matches("details")) {
    target.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
openTarget();

addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((cell) => (cell.open = true));
  if (!window.Plotly) return; // not unpacked yet: the tables are printed
  plots.forEach((figure) => {
    draw(figure);
    const wide = figure.closest(".slices") ? PRINTED / 3 : PRINTED;
    Plotly.relayout(figure.querySelector(".canvas"), { width: wide, autosize: false });
  });
});
addEventListener("afterprint", () => {
  if (!window.Plotly) return;
  plots.forEach((figure) => Plotly.relayout(figure.querySelector(".canvas"), { width: null, autosize: true }));
});

document.querySelectorAll(".copy").forEach((figure) => {
  const button = figure.querySelector("button");
  const text = figure.querySelector("pre");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text); // no clipboard for a page from disk: at least it is selected
      button.textContent = "Selected";
    }
  });
});
