// Asking the daemon. A problem document becomes an Error with its status; no answer at all, one without.

const TIMEOUT_MS = 20000;

let token = sessionStorage.getItem("holdfast-token") ?? "";

export function setToken(text) {
  token = text;
  sessionStorage.setItem("holdfast-token", text);
}

export async function ask(method, path, body) {
  const headers = token ? {Authorization: `Bearer ${token}`} : {};
  const answer = await fetch(`/api/v1/${path}`, {method, headers, body, signal: AbortSignal.timeout(TIMEOUT_MS)});
  const json = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(json.detail ?? json.title), {status: answer.status});
  return json;
}

// Is there a daemon that answers within so many milliseconds? Any answer will do.
export async function isThere(timeout) {
  try {
    await (await fetch("/healthz", {cache: "no-store", signal: AbortSignal.timeout(timeout)})).text();
    return true;
  } catch {
    return false;
  }
}
