// Asks the daemon. A problem document becomes an Error with its status; if no answer comes, the
// Error has no status.

const TIMEOUT_MS = 20000;

// The token itself is sent once, when the operator has typed it, for the id of a session. The id
// goes with each request; it is worth nothing to a program that listens on the daemon's port while
// the daemon is down, because the daemon forgets its sessions when it ends.
let session = sessionStorage.getItem("holdfast-session") ?? "";

function setSession(id) {
  session = id;
  if (id) sessionStorage.setItem("holdfast-session", id);
  else sessionStorage.removeItem("holdfast-session");
}

// `holdfastctl page` gives an address of the page with a session behind #, a part that browsers do
// not send.
function takeSessionFromAddress() {
  const found = /^#session=([0-9a-f]{64})$/.exec(location.hash);
  if (!found) return;
  setSession(found[1]);
  history.replaceState(null, "", location.pathname + location.search);
}
takeSessionFromAddress();

export async function logIn(token) {
  setSession((await request("POST", "session", undefined, token)).session);
}

export const hasSession = () => session !== "";

// For a session that the daemon does not know any more, because it was started anew or the session
// was idle for too long.
export const forgetSession = () => setSession("");

export const ask = (method, path, body) => request(method, path, body, session);

async function request(method, path, body, bearer) {
  const headers = bearer ? {Authorization: `Bearer ${bearer}`} : {};
  const answer = await fetch(`/api/v1/${path}`, {method, headers, body, signal: AbortSignal.timeout(TIMEOUT_MS)});
  const json = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(json.detail ?? json.title), {status: answer.status});
  return json;
}

// True if a daemon answers within so many milliseconds; any answer will do.
export async function isThere(timeout) {
  try {
    await (await fetch("/healthz", {cache: "no-store", signal: AbortSignal.timeout(timeout)})).text();
    return true;
  } catch {
    return false;
  }
}
