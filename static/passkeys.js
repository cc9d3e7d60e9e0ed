// Passkeys. A button with data-passkey fetches options from the server, lets the browser use or create a passkey, and
// puts the response into the field "passkey" of its form.
(function () {
  "use strict";

  const BROWSERS = "Use a current version of Chrome, Edge, Firefox or Safari.";
  const ERRORS = {
    NotAllowedError: "No passkey was used: it was cancelled, took too long, or there is none for this server. Try again.",
    InvalidStateError: "This device or password manager already has a passkey for your account.",
    NotSupportedError: "This device cannot create a passkey that verifies you by PIN, fingerprint or face.",
    ConstraintError: "This device cannot verify you by PIN, fingerprint or face. Set up a screen lock or a PIN first.",
    SecurityError: "The browser refuses passkeys at this address.",
  };

  function obstacle(origin) {
    if (location.origin !== origin) return `Passkeys work only at ${origin}. Open that address to use them.`;
    if (!window.isSecureContext) return "Passkeys need HTTPS, and this page was opened without it.";
    const known = window.PublicKeyCredential;
    if (!known || !known.parseRequestOptionsFromJSON) return `This browser does not support passkeys. ${BROWSERS}`;
    return "";
  }

  async function fetchOptions(button) {
    const body = new FormData(button.form);
    body.delete("password");
    const response = await fetch(button.dataset.options, { method: "POST", body, redirect: "error" });
    const type = response.headers.get("Content-Type") || "";
    const answer = type.startsWith("application/json") ? await response.json() : {};
    if (response.ok) return answer.publicKey;
    throw new Error(answer.message || "The server did not accept the request. Reload the page and try again.");
  }

  async function ask(button) {
    const publicKey = await fetchOptions(button);
    if (button.dataset.passkey === "create") {
      return navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(publicKey) });
    }
    return navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(publicKey) });
  }

  function text(error) {
    if (error instanceof TypeError) return "The server does not answer. Check the connection and try again.";
    return ERRORS[error.name] || error.message;
  }

  function finish(button, credential, say) {
    const form = button.form;
    form.elements.passkey.value = JSON.stringify(credential);
    if (button.dataset.then === "submit") {
      say("state", "Passkey accepted by the browser. Sending...");
      form.noValidate = true;
      form.requestSubmit();
      return;
    }
    for (const replaced of form.querySelectorAll("[data-replaced]")) {
      replaced.hidden = true;
      for (const field of replaced.querySelectorAll("input")) field.disabled = true;
    }
    button.hidden = true;
    say("state", "Confirmed with a passkey. Now choose what to do.");
    form.querySelector("button[type=submit]").focus();
  }

  for (const button of document.querySelectorAll("[data-passkey]")) {
    const place = button.closest("[data-passkey-area]");
    const say = (kind, message) => {
      for (const line of ["state", "error"]) {
        place.querySelector(`[data-passkey-${line}]`).textContent = line === kind ? message : "";
      }
    };
    const reason = obstacle(button.dataset.origin);
    button.hidden = false;
    button.disabled = Boolean(reason);
    if (reason) { say("state", reason); continue; }
    button.addEventListener("click", async () => {
      if (button.dataset.passkey === "create" && !button.form.reportValidity()) return;
      button.disabled = true;
      say("state", "Waiting for your passkey...");
      try {
        finish(button, await ask(button), say);
      } catch (error) {
        say("error", text(error));
      } finally {
        button.disabled = false;
        if (!button.hidden) button.focus();
      }
    });
  }
})();
