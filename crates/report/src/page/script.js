"use strict";
// What a pointer shows, and the order of tables. All figures are on the page without it.
(() => {
  const hint = document.getElementById("hint");
  const show = (event, text) => {
    hint.hidden = !text;
    if (!text) return;
    hint.textContent = text;
    const box = hint.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 4);
    const below = event.clientY + 18 + box.height < innerHeight;
    hint.style.left = Math.max(left, 0) + "px";
    hint.style.top = event.clientY + (below ? 18 : -box.height - 8) + "px";
  };
  const onPointer = (element, text) => {
    element.addEventListener("pointermove", (event) => show(event, text(event)));
    element.addEventListener("pointerleave", (event) => show(event, ""));
  };

  for (const figure of document.querySelectorAll("figure.cells")) {
    const [rows, columns, cells] = JSON.parse(figure.querySelector("script").textContent);
    const texts = new Map(cells.map(([r, c, text]) => [r + " " + c, text]));
    const svg = figure.querySelector("svg");
    const { cell, margin, sides, for: to } = figure.dataset;
    onPointer(svg, (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const at = (v) => Math.floor((v * scale - margin) / cell);
      const [r, c] = [at(event.clientY - box.top), at(event.clientX - box.left)];
      if (!(r in rows) || !(c in columns)) return "";
      return `${sides} ${rows[r]} ${to} ${columns[c]}: ${texts.get(r + " " + c) ?? "none"}`;
    });
  }

  for (const times of document.querySelectorAll(".times")) {
    const source = times.parentElement.querySelector("script");
    if (!source) continue;
    const { bins, bin_s: binS, ranks } = JSON.parse(source.textContent);
    times.querySelectorAll("svg").forEach((svg, row) => {
      const [rank, shares, peers] = ranks[row];
      const peer = [];
      for (const [number, length] of peers) {
        for (let i = 0; i < length; i++) peer.push(number);
      }
      onPointer(svg, (event) => {
        const box = svg.getBoundingClientRect();
        const at = Math.floor(((event.clientX - box.left) / box.width) * bins);
        if (at < 0 || at >= bins) return "";
        const part = Math.round((parseInt(shares[at], 36) / 35) * 100);
        const whom = part && peer[at] >= 0 ? `, most for rank ${peer[at]}` : "";
        return `rank ${rank}, ${(at * binS).toPrecision(4)} s: waits ${part} %${whom}`;
      });
    });
  }

  for (const table of document.querySelectorAll("table.sorted")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent;
        const order = (a, b) => key(a).localeCompare(key(b), "en", { numeric: true });
        const number = (row) => Number(key(row));
        const rows = [...body.rows];
        const numbers = rows.every((row) => Number.isFinite(number(row)));
        rows.sort((a, b) => (numbers ? number(a) - number(b) : order(a, b)));
        body.append(...(down ? rows.reverse() : rows));
      });
    });
  }
  document.documentElement.dataset.ready = "yes";
})();
