// Keeps the page as new as the runs: asks for their state, and for the page when that has changed.

const PAUSE = 1000; // milliseconds; longer where an answer takes long, so that watching does not slow the runs down
const element = (id) => document.getElementById(id);
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
let version = element("live").dataset.version;
let problem = ""; // why the newest state cannot be shown

function say(text, lost = false) {
  element("live-text").textContent = text;
  element("live").classList.toggle("lost", lost);
}

async function ask(address) {
  const answer = await fetch(address, { cache: "no-store" });
  if (!answer.ok) throw new Error(answer.statusText);
  return answer;
}

async function fetchPage() {
  const newer = new DOMParser().parseFromString(await (await ask("./")).text(), "text/html");
  const message = newer.getElementById("problem");
  problem = message?.textContent.trim() ?? "";
  if (message && element("problem")) element("problem").replaceWith(message);
  else if (element("problem")) location.reload();
  else if (!message) globalThis.renew(newer);
  version = newer.getElementById("live").dataset.version;
}

async function follow() {
  const began = performance.now();
  try {
    const status = await (await ask("status.json")).json();
    if (status.version !== version) await fetchPage();
    element("live-bar").max = Math.max(1, status.total);
    element("live-bar").value = status.done;
    say(problem && !element("problem") ? `The page is older than the runs: ${problem}` : status.text);
  } catch {
    say("Connection lost: driftless watch has ended, or the tunnel is closed. The page goes on when it runs again.", true);
  }
  await wait(Math.max(PAUSE, 4 * (performance.now() - began)));
  if (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
  follow();
}

follow();
