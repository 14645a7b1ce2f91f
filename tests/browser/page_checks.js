// SPDX-License-Identifier: Apache-2.0
// What tests/browser asks of a page that Chromium has laid out. Evaluated in the page, from outside:
// nothing of it is in the page's files. Each question gives a list of sentences; none: all is well.
"use strict";
(() => {
  const seen = (e) => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const once = (ask) => {
    const known = new WeakMap();
    return (e) => known.has(e) ? known.get(e) : known.set(e, ask(e)).get(e);
  };
  const clips = (e) => getComputedStyle(e).overflowX !== "visible";
  const named = (e) => {
    const own = (e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    const parent = e.parentElement ? e.parentElement.tagName.toLowerCase() + " > " : "";
    return `${parent}${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""} "${own}"`;
  };

  const clippers = () => once((e) => {
    const above = e === document.body ? [] : cutters(e.parentElement);
    return e !== document.body && clips(e) ? [e, ...above] : above;
  });
  let cutters = clippers();

  // What is left of a box when ancestors that scroll or hide have cut it; null: nothing.
  const shown = (element, box) => {
    let { left, top, right, bottom } = box;
    for (const e of cutters(element)) {
      const by = e.getBoundingClientRect();
      left = Math.max(left, by.left);
      top = Math.max(top, by.top);
      right = Math.min(right, by.right);
      bottom = Math.min(bottom, by.bottom);
    }
    return right - left > 0.5 && bottom - top > 0.5 ? { left, top, right, bottom } : null;
  };

  // Every piece of text that somebody can see, with its boxes.
  const texts = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.data.trim() || !seen(node.parentElement)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()].filter((b) => b.width > 0 && b.right > 0);
      if (boxes.length) found.push({ text: node.data.trim(), element: node.parentElement, boxes });
    }
    return found;
  };

  const wide = () => {
    const most = document.documentElement.clientWidth;
    const found = [];
    if (document.documentElement.scrollWidth > most)
      found.push(`the page is ${document.documentElement.scrollWidth} wide, the screen ${most}`);
    for (const e of document.body.querySelectorAll("*")) {
      if (!seen(e) || e.closest("svg svg, defs, title, desc")) continue;
      const box = shown(e.parentElement, e.getBoundingClientRect());
      if (box && box.right > most + 1) found.push(`${named(e)} ends at ${box.right} of ${most}`);
    }
    return found;
  };

  const overlaps = () => {
    const all = [];
    for (const t of texts())
      for (const b of t.boxes) {
        const box = shown(t.element, b);
        if (box) all.push({ ...box, t });
      }
    all.sort((a, b) => a.top - b.top);
    const found = [];
    all.forEach((a, i) => {
      for (let k = i + 1; k < all.length && all[k].top < a.bottom - 2; k++) {
        const b = all[k];
        const over = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const high = Math.min(a.bottom, b.bottom) - b.top;
        if (a.t !== b.t && over > 2 && high > 3)
          found.push(`"${a.t.text.slice(0, 40)}" lies over "${b.t.text.slice(0, 40)}"`);
      }
    });
    return found;
  };

  // Texts of a picture that its frame cuts, and texts that a box without a way to scroll cuts.
  const cut = () => {
    const found = [];
    for (const t of texts()) {
      const frame = t.element.closest("svg");
      for (const b of frame ? t.boxes : []) {
        const f = frame.getBoundingClientRect();
        if (b.left < f.left - 1 || b.right > f.right + 1 || b.top < f.top - 1 ||
            b.bottom > f.bottom + 1)
          found.push(`the picture cuts "${t.text.slice(0, 60)}"`);
      }
      for (let e = t.element; !frame && e && e !== document.body; e = e.parentElement) {
        const style = getComputedStyle(e);
        if (style.overflowX === "hidden" && e.scrollWidth > e.clientWidth + 1)
          found.push(`${named(e)} hides text`);
      }
    }
    return found;
  };

  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const colour = (css) => {
    if (!colours.has(css)) colours.set(css, painted(css));
    return colours.get(css);
  };
  const painted = (css) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = css;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return { r, g, b, a: a / 255 };
  };
  const over = (top, below) => ({
    r: top.r * top.a + below.r * (1 - top.a),
    g: top.g * top.a + below.g * (1 - top.a),
    b: top.b * top.a + below.b * (1 - top.a),
    a: 1,
  });
  const light = (c) => {
    const [r, g, b] = [c.r, c.g, c.b].map((v) => {
      const s = v / 255;
      return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const grounds = () => once((element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(colour(getComputedStyle(e).backgroundColor));
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    let ground = layers.reduceRight((below, top) => over(top, below), colour(dark ? "#000" : "#fff"));
    const picture = element.closest("svg");
    const plate = picture && picture.querySelector(":scope > .ground");
    if (plate) ground = over(colour(getComputedStyle(plate).fill), ground);
    return ground;
  });
  let behind = grounds();

  // WCAG 2.1: 4.5 for text, 3 for large text, for lines and dots of pictures, and for the focus.
  const contrast = () => {
    const found = [];
    for (const t of texts()) {
      const style = getComputedStyle(t.element);
      const ink = t.element.closest("svg") ? style.fill : style.color;
      const size = parseFloat(style.fontSize), bold = parseInt(style.fontWeight, 10) >= 700;
      const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
      const ground = behind(t.element), is = ratio(over(colour(ink), ground), ground);
      if (is < least) found.push(`"${t.text.slice(0, 40)}" has a contrast of ${is.toFixed(2)}`);
    }
    for (const line of document.querySelectorAll("svg[role=img] g[id*=_plot_] path[stroke], svg[role=img] use")) {
      const style = getComputedStyle(line), ground = behind(line);
      const ink = line.matches("use") ? style.color : style.stroke;
      const is = ratio(over(colour(ink), ground), ground);
      if (seen(line) && is < 3) found.push(`a line in ${ink} has a contrast of ${is.toFixed(2)}`);
    }
    return [...new Set(found)];
  };

  // What those go by who hear a page: landmarks, headings, names, and a table for each picture.
  const structure = () => {
    const found = [], count = (what) => document.querySelectorAll(what).length;
    for (const what of ["main", "h1", "body > header", "body > footer", "html[lang]", "head > title"])
      if (count(what) !== 1) found.push(`${count(what)} of ${what}, wanted 1`);
    for (const e of document.querySelectorAll("nav, section, div[tabindex='0']"))
      if (!e.hasAttribute("aria-label") && !e.hasAttribute("aria-labelledby"))
        found.push(`${named(e)} has no name`);
    for (const e of document.querySelectorAll("[aria-labelledby], [aria-describedby]"))
      for (const key of ["aria-labelledby", "aria-describedby"])
        for (const id of (e.getAttribute(key) || "").split(/\s+/).filter(Boolean))
          if (!(document.getElementById(id) || {}).textContent) found.push(`${named(e)}: no #${id}`);
    let before = 0;
    for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
      const level = Number(h.tagName[1]);
      if (level > before + 1) found.push(`${named(h)} comes after a heading of level ${before}`);
      if (!h.textContent.trim()) found.push(`${named(h)} is empty`);
      before = level;
    }
    for (const svg of [...document.querySelectorAll("svg")].filter(seen)) {
      const figure = svg.closest("figure");
      if (svg.getAttribute("role") !== "img" || !svg.querySelector(":scope > title"))
        found.push(`${named(svg)} is no named picture`);
      if (!figure || !figure.querySelector("table tbody tr")) found.push(`${named(svg)} has no table`);
    }
    for (const table of document.querySelectorAll("table")) {
      if (!table.caption || !table.caption.textContent.trim()) found.push("a table has no caption");
      if ([...table.querySelectorAll("th")].some((th) => !th.hasAttribute("scope")))
        found.push(`a heading of "${table.caption.textContent}" has no scope`);
    }
    return found;
  };

  const reachable = "a[href], summary, button, input, select, textarea, [tabindex='0']";
  const stops = () => [...document.querySelectorAll(reachable)].filter((e) => seen(e) && !e.disabled);
  const scrolls = () => [...document.querySelectorAll("*")].filter((e) => seen(e) &&
    /auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1);

  // What has the focus: its place among the stops, and what is wrong with how it is shown.
  const focus = () => {
    const e = document.activeElement, all = stops();
    const style = getComputedStyle(e), box = e.getBoundingClientRect(), found = [];
    const at = all.indexOf(e);
    if (at < 0) return { at, count: all.length, name: named(e), found };
    if (style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2)
      found.push(`${named(e)} does not show that it has the focus`);
    const ground = behind(e.parentElement), is = ratio(over(colour(style.outlineColor), ground), ground);
    if (is < 3) found.push(`the focus of ${named(e)} has a contrast of ${is.toFixed(2)}`);
    if (box.bottom <= 0 || box.top >= innerHeight || box.right <= 0 || box.left >= innerWidth)
      found.push(`${named(e)} has the focus outside the screen`);
    return { at, count: all.length, name: named(e), found };
  };

  // Somebody who has no mouse can scroll whatever scrolls.
  const stuck = () => scrolls().filter((e) => e.tabIndex < 0 && !e.querySelector(reachable))
    .map((e) => `${named(e)} scrolls by mouse only`);

  // What is remembered holds for one question: the page may have changed since.
  const all = { wide, overlaps, cut, contrast, structure, focus, stuck,
    texts: () => texts().map((t) => t.text) };
  window.pageChecks = Object.fromEntries(Object.entries(all).map(([name, ask]) => [name, () => {
    cutters = clippers();
    behind = grounds();
    return ask();
  }]));
})();
