// Elements, the theme, and the clipboard, for the views of code.

/** An element with a class, holding texts and elements. */
export function codeNode(tag, name, ...inside) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...inside);
  return element;
}

/** Tell what is around a view that an Escape had nothing to let go in it; the key itself stays inside. */
export function leaveCode(element) { element.dispatchEvent(new CustomEvent("ksc-leave", { bubbles: true })); }

/** A button that says what it does, and keeps its keys from the notebook. */
export function codeButton(name, text, title, action) {
  const button = codeNode("button", `ksc-button ${name}`, text);
  button.type = "button";
  button.title = title;
  if (!/^[\w ]+$/.test(text)) button.setAttribute("aria-label", title);
  button.setAttribute("data-lm-suppress-shortcuts", "true");
  button.addEventListener("click", action);
  return button;
}

/** A text field of the bar. */
export function codeInput(name, type, label) {
  const input = codeNode("input", `ksc-input ${name}`);
  Object.assign(input, { type, placeholder: label, spellcheck: false, autocomplete: "off" });
  input.setAttribute("aria-label", label);
  input.setAttribute("data-lm-suppress-shortcuts", "true");
  return input;
}

/** A region that tells readers of the screen what happened. */
export function codeLive() {
  const live = codeNode("div", "ksc-live");
  live.setAttribute("aria-live", "polite");
  return live;
}

/**
 * Keep the class `ksc-on-dark` on an element for as long as its ground is dark, whatever made it so: JupyterLab's
 * theme, VS Code's, or the system's. Returns what ends that.
 */
export function followGround(root) {
  const read = () => { root.classList.toggle("ksc-on-dark", lightnessUnder(root) < 128); };
  // An element that is put into the page only later has no ground before.
  const sized = new ResizeObserver(read);
  sized.observe(root);
  const mutated = new MutationObserver(read), preference = matchMedia("(prefers-color-scheme: dark)");
  for (const element of [document.documentElement, document.body]) {
    mutated.observe(element, { attributes: true, attributeFilter: ["class", "data-jp-theme-light", "theme",
      "data-vscode-theme-kind", "style"] });
  }
  preference.addEventListener("change", read);
  read();
  return {
    read,
    end() {
      sized.disconnect();
      mutated.disconnect();
      preference.removeEventListener("change", read);
    },
  };
}

/** How light the ground of an element is, from 0 to 255: its own, or what is seen through it. */
function lightnessUnder(root) {
  for (let element = root; element; element = element.parentElement) {
    const ground = getComputedStyle(element).backgroundColor, scale = ground.startsWith("color(") ? 255 : 1;
    const numbers = ground.replace(/^color\(\S+/, "").match(/[\d.e-]+/g) ?? [0, 0, 0, 0];
    const [red, green, blue, alpha = 1] = numbers.map(Number);
    if (alpha) return scale * (0.299 * red + 0.587 * green + 0.114 * blue);
  }
  return 255;
}

/** Put a text into the clipboard; a page that may not ask for it has an older way. Returns whether it worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = codeNode("textarea", "ksc-clipboard"), focused = document.activeElement;
    field.value = text;
    field.setAttribute("aria-hidden", "true");
    // An event of its own, so that no other listener puts its own text there.
    const put = (event) => {
      event.clipboardData.setData("text/plain", text);
      event.preventDefault();
      event.stopImmediatePropagation();
    };
    document.body.append(field);
    field.select();
    document.addEventListener("copy", put, true);
    const isDone = document.execCommand("copy");
    document.removeEventListener("copy", put, true);
    field.remove();
    focused?.focus?.({ preventScroll: true });
    return isDone;
  }
}
