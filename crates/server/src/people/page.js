// Refreshes the page. Where the server needs a token, it asks for one, keeps it in this tab and sends it with each request.
"use strict";
(() => {
  const KEY = "glidepath.token";
  const EVERY_MS = 5000;
  let loading = false;

  const stored = () => {
    try { return sessionStorage.getItem(KEY); } catch { return null; }
  };
  const kind = () => document.querySelector("main")?.dataset.page;

  // The form is not shown for a moment if there is a token.
  if (stored()) document.documentElement.classList.add("asking");

  const say = (words) => {
    const place = document.getElementById("status");
    if (!place) return;
    place.textContent = words;
    place.classList.toggle("late", words !== "");
  };

  // The content as the server sent it. Scripts in it do not run: a parsed document has none that do.
  const fetched = async (token) => {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const answer = await fetch(location.href, { headers, cache: "no-store", credentials: "omit", redirect: "error" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!page.querySelector("main[data-page]")) throw new Error(`the server answered ${answer.status}`);
    return { status: answer.status, page };
  };

  const show = (page) => {
    const scrolled = [...document.querySelectorAll(".scroll")].map((place) => place.scrollLeft);
    const focused = document.activeElement?.getAttribute("href");
    document.title = page.title;
    document.body.replaceChildren(...page.body.childNodes);
    document.querySelectorAll(".scroll").forEach((place, index) => { place.scrollLeft = scrolled[index] ?? 0; });
    if (focused) [...document.links].find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
  };

  const ask = async (words) => {
    sessionStorage.removeItem(KEY);
    show((await fetched(null)).page);
    const wrong = document.getElementById("wrong");
    if (wrong) wrong.textContent = words;
    document.getElementById("token")?.focus();
  };

  const load = async () => {
    if (loading) return;
    loading = true;
    try {
      const token = stored();
      const { status, page } = await fetched(token);
      if (status === 401 && token) {
        await ask("The server does not accept this token.");
      } else if (status >= 500 && kind() === "content") {
        throw new Error(`the server answered ${status}`);
      } else if (getSelection()?.isCollapsed ?? true) {
        // What somebody is selecting is not taken away.
        show(page);
      }
    } catch (error) {
      say(`not refreshed at ${new Date().toLocaleTimeString()}: ${error.message}`);
      const wrong = document.getElementById("wrong");
      if (wrong) wrong.textContent = `This did not work: ${error.message}`;
    } finally {
      loading = false;
      document.documentElement.classList.remove("asking");
    }
  };

  document.addEventListener("submit", (event) => {
    event.preventDefault();
    const token = document.getElementById("token").value.trim();
    try {
      // As a header can have it; otherwise the browser would refuse in its own words.
      if (!/^[\x21-\x7e]+$/.test(token)) throw new Error("a token has only letters, digits and signs of ASCII");
      sessionStorage.setItem(KEY, token);
    } catch (error) {
      document.getElementById("wrong").textContent = `This token cannot be used: ${error.message}`;
      return;
    }
    load();
  });

  document.addEventListener("click", (event) => {
    if (event.target.id !== "forget") return;
    sessionStorage.removeItem(KEY);
    location.reload();
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (stored() && kind() === "ask") load();
    setInterval(() => {
      if (document.visibilityState === "visible" && kind() !== "ask") load();
    }, EVERY_MS);
  });
})();
