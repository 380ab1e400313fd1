// The console: which view is shown, what is fetched how often, and the token.

import { byId, number, plural } from "./dom.js";
import { ring, setToken, token } from "./gateway.js";
import { QueryView } from "./query.js";
import { RingView } from "./ring.js";
import { SubscriptionsView } from "./subscriptions.js";

const VIEWS = ["ring", "subscriptions", "query"];
const LOOK_MS = 2000;
const LOOK_SELDOM_MS = 6000;
const MANY = 200;

let told = null;
let view = "";
let looking = null;
let timer = 0;

const members = () => told?.members ?? [];
const ringView = new RingView();
const subscriptionsView = new SubscriptionsView(members);
const queryView = new QueryView(members, (live) => {
  const badge = byId("live-badge");
  badge.hidden = !live.going;
  badge.textContent = live.paused ? "paused" : live.state === "following" ? `live ${number(live.added - live.removed)}` : live.state;
});

// --- views ----------------------------------------------------------------------------------------

function route() {
  const [wanted, number] = location.hash.slice(1).split("/");
  if (!VIEWS.includes(wanted) && view) return; // such as #main
  view = VIEWS.includes(wanted) ? wanted : VIEWS[0];
  for (const each of VIEWS) byId(`view-${each}`).hidden = each !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "subscriptions" && /^[0-9a-f]{16}$/.test(number ?? "")) subscriptionsView.choose(number);
  document.title = `${byId(`${view}-title`).textContent} · p2prdf console`;
  look();
}

// --- looking --------------------------------------------------------------------------------------

function often() {
  return view === "query" || members().length > MANY ? LOOK_SELDOM_MS : LOOK_MS;
}

/** Look how the overlay is, and again after a while. */
async function look() {
  clearTimeout(timer);
  looking?.abort();
  const mine = (looking = new AbortController());
  if (!document.hidden) {
    try {
      told = await ring(mine.signal);
      if (view === "subscriptions") await subscriptionsView.refresh(mine.signal);
      if (view === "ring") ringView.take(told);
      healthy();
    } catch (problem) {
      if (mine.signal.aborted) return;
      unhealthy(problem);
      if (problem.status === 401 || problem.status === 403) return; // until there is another token
    }
  }
  if (!mine.signal.aborted) timer = setTimeout(look, often());
}

function say(text, kind) {
  const place = byId("health");
  if (place.textContent !== text) place.textContent = text;
  place.className = `health ${kind}`;
}

function healthy() {
  const { here, missing } = told.counts;
  say(missing ? `${plural(here, "node")}, ${number(missing)} missing` : plural(here, "node"), missing ? "bad" : "good");
  byId("notice").hidden = true;
}

function unhealthy(problem) {
  const place = byId("notice");
  if (problem.status === 401 || problem.status === 403) {
    say("Token needed", "bad");
    place.textContent = `${problem.title}: ${problem.message}`;
    if (!byId("token-dialog").open) askToken(problem.message);
  } else {
    say("No answer", "bad");
    place.textContent = `${problem.title}: ${problem.message}`;
  }
  place.hidden = false;
}

// --- the token ------------------------------------------------------------------------------------

function askToken(why) {
  if (why) byId("token-why").textContent = `The gateway says: ${why}.`;
  byId("token-text").value = token();
  byId("token-dialog").showModal();
}

function useToken(text) {
  setToken(text.trim());
  byId("token-text").value = "";
  byId("token-dialog").close();
  look();
}

byId("token-open").addEventListener("click", () => askToken(""));
byId("token-cancel").addEventListener("click", () => byId("token-dialog").close());
byId("token-forget").addEventListener("click", () => useToken(""));
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token-text").value);
});
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => document.hidden || look());
route();
