// What a reader has chosen, kept as long as the browser's tab.

/** What is kept under a key; `usual` where that is nothing, or is not an object, or the page may keep nothing. */
export function remembered<Kept extends object>(key: string, usual: Kept): Kept {
  try {
    const held: unknown = JSON.parse(sessionStorage.getItem(key) ?? "null");
    return held && typeof held === "object" ? { ...usual, ...held } : usual;
  } catch {
    return usual;
  }
}

/** Keep it; where the page may not, it is forgotten with the page. */
export function remember(key: string, kept: object): void {
  try { sessionStorage.setItem(key, JSON.stringify(kept)); } catch { /* as told */ }
}
