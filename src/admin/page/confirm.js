// Asks the operator before a change is made, and also for the token if the daemon wants one and
// this page has no session.

import {logIn} from "./api.js";
import {byId} from "./dom.js";

export function toast(text) {
  const element = byId("toast");
  element.textContent = text;
  element.hidden = false;
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { element.hidden = true; }, 6000);
}

// change makes the change; done returns words for its answer; after is called when the change was
// made.
export function confirmChange({title, text, button, tokenNeeded, change, done, after}) {
  const dialog = byId("confirm"), yes = byId("confirm-yes"), problem = byId("confirm-problem"), token = byId("confirm-token");
  const needToken = needed => {
    byId("confirm-token-row").hidden = !needed;
    token.required = needed;
  };
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  token.value = "";
  needToken(tokenNeeded);
  yes.textContent = button;
  yes.disabled = false;
  problem.hidden = true;
  byId("confirm-form").onsubmit = async event => {
    event.preventDefault();
    yes.disabled = true;
    try {
      if (token.value) await logIn(token.value);
      token.value = "";
      const told = await change();
      dialog.close();
      toast(done(told));
      after();
    } catch (error) {
      const wrongToken = error.status === 401;
      problem.textContent = wrongToken ? "The daemon does not take this token." : error.status ? error.message : "The daemon does not answer.";
      problem.hidden = false;
      yes.disabled = false;
      if (wrongToken) {
        needToken(true);
        token.select();
      }
    }
  };
  byId("confirm-no").onclick = () => dialog.close();
  dialog.showModal();
  // Cancel has the focus, so that an Enter that was meant for something else changes nothing.
  if (tokenNeeded) token.focus();
  else byId("confirm-no").focus();
}
