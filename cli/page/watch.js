// SPDX-License-Identifier: Apache-2.0
// The page of `shoal watch --http`: what /events tells, as it comes. What jobs are called, and what
// they say, is only ever text.
"use strict";

const RANKS_SHOWN = 1024, SENTENCES_SHOWN = 20, RETRY_MS = 2000;
const MARKS = { running: "●", missing: "○", unresponsive: "▲", dead: "✖", left: "←" };
const STATES = {
  running: "running",
  meeting: "its ranks meet anew, or it has just ended",
  silent: "no rank answers",
  over: "over",
};
const $ = (id) => document.getElementById(id);
let source = null, heard_ms = 0, interval_s = 1, lost = "", newest = null;

// ------------------------------------------------------------------ words

// What would move or turn other text is '?', as on a terminal.
function put(element, text) {
  text = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "?");
  if (element.textContent !== text) element.textContent = text;
}

function span(seconds) {
  const s = Math.max(0, Math.floor(seconds)), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)} min`;
  return `${Math.floor(s / 3600)}:${two(Math.floor((s % 3600) / 60))} h`;
}

function number(value, digits) {
  return typeof value === "number" ? value.toFixed(value >= 1000 ? 0 : digits) : "-";
}

const mbit = (bytes_s) => (bytes_s > 0 ? ((bytes_s * 8) / 1e6).toPrecision(4) : "-");

function now(rank) {
  if (rank.state !== "running") return "";
  const seconds = `${rank.doing_s.toFixed(1)} s`;
  return rank.busy ? `in ${seconds}: ${rank.operation}` : `computing ${seconds}`;
}

// ------------------------------------------------------------------ elements that stay

// As many children as there are items; `make` makes one, `fill` tells it what it shows.
function fit(parent, items, make, fill) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  for (let i = parent.childElementCount; i < items.length; i++) parent.append(make(items[i]));
  items.forEach((item, i) => fill(parent.children[i], item));
}

function line(tag) {
  return () => document.createElement(tag);
}

function row(kinds) {
  return () => {
    const tr = document.createElement("tr");
    kinds.forEach((kind) => {
      const cell = document.createElement(kind === "head" ? "th" : "td");
      if (kind === "head") cell.scope = "row";
      if (kind === "text") cell.className = "text";
      if (kind === "bar") ["span", "span"].forEach((t) => cell.append(document.createElement(t)));
      tr.append(cell);
    });
    return tr;
  };
}

function cells(tr, texts) {
  texts.forEach((text, i) => put(tr.children[i].firstElementChild || tr.children[i], text));
}

function bar(cell, share) {
  cell.lastChild.className = "bar";
  cell.lastChild.style.width = `${Math.round(100 * Math.min(1, share || 0))}%`;
}

// ------------------------------------------------------------------ the picture

function shape(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  if (text !== undefined) element.textContent = text;
  return element;
}

// A frame from x = from to x = to and y = 0 to y = most: where values lie, and its lines and words.
function frame(svg, from, to, most, words) {
  const left = 52, top = 10, height = 140;
  const width = Math.max(svg.clientWidth, 200) - left - 12; // so that letters keep their size
  svg.setAttribute("viewBox", `0 0 ${width + left + 12} 180`);
  const x = (v) => (left + (width * (v - from)) / (to - from || 1)).toFixed(1);
  const y = (v) => (top + height * (1 - v / most)).toFixed(1);
  const parts = [0, 0.5, 1].flatMap((share) => [
    shape("line", { class: "grid", x1: left, x2: left + width, y1: y(share * most),
                    y2: y(share * most) }),
    shape("text", { x: left - 6, y: +y(share * most) + 4, "text-anchor": "end" },
          (share * most).toPrecision(3)),
  ]);
  parts.push(shape("text", { x: left, y: 172 }, words(from)));
  parts.push(shape("text", { x: left + width, y: 172, "text-anchor": "end" }, words(to)));
  return { x, y, parts };
}

function draw_rates(section, job) {
  const svg = section.querySelector("svg.rate"), rates = job.rates;
  const most = rates.reduce((a, r) => Math.max(a, r[3]), 0) || 1;
  const from = rates.length ? rates[0][0] : 0, to = rates.length ? rates[rates.length - 1][0] : 1;
  const { x, y, parts } = frame(svg, from, to, most, (s) => `${s.toFixed(0)} s`);
  const line_of = (k) => rates.map((r) => `${x(r[0])},${y(r[k])}`);
  if (rates.length > 1) {
    const band = [...line_of(1), ...line_of(3).reverse()].join(" ");
    parts.push(shape("polygon", { class: "band", points: band }));
    parts.push(shape("polyline", { class: "median", points: line_of(2).join(" ") }));
  }
  svg.querySelector("g").replaceChildren(...parts);
  const last = rates.length ? rates[rates.length - 1] : null;
  put(svg.querySelector("title"), last
    ? `Operations per second of job ${job.job}: now ${number(last[2], 1)}, up to ${number(most, 1)}`
    : `Operations per second of job ${job.job}: not known yet`);
  const lines = rates.map((r) => [r[0].toFixed(0), ...r.slice(1).map((v) => number(v, 1))]);
  fit(section.querySelector(".rates tbody"), lines.length ? lines : [["-", "-", "-", "-"]],
      row(["head", "number", "number", "number"]), cells);
}

// Of a job that does not train there is none.
function draw_losses(section, job) {
  const svg = section.querySelector("svg.loss"), losses = job.losses;
  section.querySelector(".learning").hidden = losses.length === 0;
  if (losses.length === 0) return;
  const most = losses.reduce((a, l) => Math.max(a, l[1]), 0) || 1, last = losses[losses.length - 1];
  const { x, y, parts } = frame(svg, losses[0][0], last[0], most, (s) => `step ${s}`);
  const points = losses.map((l) => `${x(l[0])},${y(Math.max(0, l[1]))}`).join(" ");
  parts.push(shape("polyline", { class: "median", points }));
  svg.querySelector("g").replaceChildren(...parts);
  put(svg.querySelector("title"), `Loss of job ${job.job}: ${last[1].toPrecision(4)} at step ` +
    `${last[0]}, ${losses[0][1].toPrecision(4)} at step ${losses[0][0]}`);
  fit(section.querySelector(".losses tbody"),
      losses.map((l) => [String(l[0]), l[1].toPrecision(4)]), row(["head", "number"]), cells);
}

// ------------------------------------------------------------------ a job

function sentences_of(job) {
  const all = (job.ranks || []).map((r) => r.text).filter((text) => text);
  const said = all.slice(0, SENTENCES_SHOWN);
  const more = all.length - said.length;
  if (more > 0) said.push(`And ${more} more, in the table.`);
  if (job.state === "over") said.unshift("The job is over; so it was last seen:");
  if (job.state === "silent")
    said.unshift(job.for_s === null
      ? "No rank answers: are they stopped?"
      : `No rank answers, for ${span(job.for_s)}; before:`);
  if (job.verdict) said.push(`${job.verdict[0].toUpperCase()}${job.verdict.slice(1)}.`);
  return said;
}

const RANK_ROW = ["head", "text", "text", "bar", "bar", "bar", "text", "text", "bar", "bar",
                  "number", "number"];

function show_rank(tr, rank, most) {
  const bad = ["dead", "missing", "unresponsive"].includes(rank.state) || rank.cause !== "";
  cells(tr, [
    String(rank.rank), rank.host,
    `${MARKS[rank.state] || ""} ${rank.state}${rank.cause ? `, slow: ${rank.cause}` : ""}`,
    number(rank.rate, 1), number(rank.compute_ms, 2), number(100 * rank.last_share, 0), now(rank),
    rank.waits_for.join(", "), mbit(rank.sends_bytes_s), mbit(rank.receives_bytes_s),
    String(rank.ended), number(rank.last_seen_s, 1),
  ]);
  tr.children[2].classList.toggle("bad", bad);
  bar(tr.children[3], rank.rate / most.rate);
  bar(tr.children[4], rank.compute_ms / most.compute);
  bar(tr.children[5], rank.last_share);
  bar(tr.children[8], rank.sends_bytes_s / most.link);
  bar(tr.children[9], rank.receives_bytes_s / most.link);
}

function show_ranks(section, ranks) {
  const most = (of) => ranks.reduce((a, r) => Math.max(a, of(r) || 0), 0) || 1;
  const scale = {
    rate: most((r) => r.rate),
    compute: most((r) => r.compute_ms),
    link: most((r) => Math.max(r.sends_bytes_s, r.receives_bytes_s)),
  };
  const shown = ranks.slice(0, RANKS_SHOWN);
  fit(section.querySelector(".ranks tbody"), shown, row(RANK_ROW),
      (tr, rank) => show_rank(tr, rank, scale));
  put(section.querySelector(".more"), shown.length < ranks.length
    ? `${ranks.length - shown.length} more ranks are not shown; shoal status --job has all.` : "");
}

function show_job(section, job) {
  const ranks = job.ranks || [], notes = (job.notes || "").split("\n").filter((n) => n);
  section.classList.toggle("over", job.state === "over");
  put(section.querySelector("h2"), `job ${job.job}`);
  const about = [STATES[job.state]];
  if (ranks.length) {
    about.push(job.count, `up ${span(job.age_s)}`);
    if (job.far) about.push(job.far);
    if (job.state === "running")
      about.push(`${number(job.pace, 1)} operations/s`, `rank ${job.answered_by} answers`);
  }
  put(section.querySelector(".about"), about.join(" · "));
  fit(section.querySelector(".sentences"), sentences_of(job), line("li"), put);
  draw_rates(section, job);
  draw_losses(section, job);
  show_ranks(section, ranks);
  section.querySelector(".notes").hidden = notes.length === 0;
  fit(section.querySelector(".notes ul"), notes, line("li"), put);
  const changes = job.changes.length ? [...job.changes].reverse()
    : ["Nothing since this page began to look."];
  fit(section.querySelector(".changes"), changes, line("li"), put);
}

// Regions and tables of several jobs are told apart by their names.
function name_parts(section, job) {
  for (const [what, text] of [[".rates", "Operations per second"], [".losses", "Loss"],
                              [".ranks", "Ranks and links"]]) {
    const table = section.querySelector(what), name = `${text} of job ${job.job}`;
    put(table.caption, name);
    table.parentElement.setAttribute("aria-label", table.caption.textContent);
  }
  section.querySelector("[role=log]").setAttribute("aria-label", "What changed");
}

function make_job(job) {
  const section = $("job").content.firstElementChild.cloneNode(true);
  section.id = `job-${job.id}`;
  section.dataset.id = job.id;
  const heading = section.querySelector("h2");
  heading.id = `name-${job.id}`;
  section.setAttribute("aria-labelledby", heading.id);
  name_parts(section, job);
  return section;
}

// ------------------------------------------------------------------ all of it

function show_list(jobs) {
  $("list").hidden = jobs.length < 2;
  const make = () => {
    const tr = row(["head", "text", "number", "number", "number", "text"])();
    tr.firstChild.append(document.createElement("a"));
    return tr;
  };
  fit($("list").querySelector("tbody"), jobs, make, (tr, job) => {
    const ranks = job.ranks || [], text = sentences_of(job)[0] || "";
    tr.firstChild.firstChild.href = `#job-${job.id}`;
    cells(tr, [job.job, STATES[job.state], String(ranks.length || "-"),
               ranks.length ? span(job.age_s) : "-", number(job.pace, 1), text]);
  });
}

// A job keeps its place in the document while others come and go, so that focus stays.
function show_jobs(jobs) {
  const old = new Map([...$("jobs").children].map((s) => [s.dataset.id, s]));
  jobs.forEach((job, i) => {
    const section = old.get(String(job.id)) || make_job(job);
    old.delete(String(job.id));
    if ($("jobs").children[i] !== section)
      $("jobs").insertBefore(section, $("jobs").children[i] || null);
    show_job(section, job);
  });
  old.forEach((section) => section.remove());
}

function show(state) {
  heard_ms = Date.now();
  lost = "";
  interval_s = state.interval_s;
  $("door").hidden = true;
  $("none").hidden = state.jobs.length > 0;
  put($("none"), state.place ? `Job ${state.place} does not answer yet.`
    : `No job of this user runs on ${state.host}; one that begins appears here.`);
  show_list(state.jobs);
  show_jobs(state.jobs);
  const running = state.jobs.filter((job) => job.state === "running").length;
  put(document.querySelector("title"),
      state.jobs.length === 1 ? `${state.jobs[0].job}: ${STATES[state.jobs[0].state]} - shoal watch`
        : `${running} jobs - shoal watch`);
  say_link(state.host);
}

// A busy machine may take longer to draw a thousand ranks than the next answer takes to come: what
// has come meanwhile and is old already is not drawn.
function hear(text) {
  if (newest === null)
    setTimeout(() => {
      const state = JSON.parse(newest);
      newest = null;
      show(state);
    }, 0);
  newest = text;
}

function say_link(host) {
  $("link").classList.toggle("lost", lost !== "");
  put($("link"), lost || `live, asked every ${interval_s} s on ${host}`);
}

// ------------------------------------------------------------------ the connection

function lose(why) {
  lost = why;
  if (heard_ms) lost += `; what is below is ${span((Date.now() - heard_ms) / 1000)} old`;
  say_link("");
}

function ask_for_token() {
  lose("the token is wanted");
  $("door").hidden = false;
  $("token").focus();
}

// EventSource does not say why it was refused, and gives up then.
async function find_out() {
  try {
    const answer = await fetch("/state", { cache: "no-store" });
    if (answer.status === 401) return ask_for_token();
    lose(answer.ok ? "too many watch already; trying again" : `refused: ${answer.status}`);
  } catch {
    lose("nobody answers at this address any more; trying again");
  }
  setTimeout(open, RETRY_MS);
}

function open() {
  if (source) source.close();
  source = new EventSource("/events");
  source.onmessage = (event) => hear(event.data);
  source.onerror = () => {
    source.close();
    source = null;
    find_out();
  };
}

async function enter(token) {
  put($("refused"), "");
  try {
    const answer = await fetch("/enter", { headers: { Authorization: `Bearer ${token}` } });
    if (!answer.ok) put($("refused"), "That is another token.");
  } catch {
    put($("refused"), "The token was not taken: nobody answers, or it has characters of no token.");
  }
  open();
}

// The address bar is for all to see, and history keeps it.
function take_token() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return false;
  history.replaceState(null, "", location.pathname);
  enter(decodeURIComponent(found[1]));
  return true;
}

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = $("token").value;
  $("token").value = "";
  enter(token);
});
window.addEventListener("hashchange", take_token);
// Told every ten seconds at least; a connection that died unnoticed is made again.
setInterval(() => {
  if (source && heard_ms && Date.now() - heard_ms > 25000) {
    lose("nothing was heard");
    open();
  }
}, 5000);
if (!take_token()) open();
