/** Handles files and folders that are dropped anywhere on the page: models, and texts for the message. */

/** @typedef {import('../storage/model-history.js').PlacedFile} PlacedFile */

/** Matches names of files that can be attached to a message. */
export const TEXT =
  /\.(txt|md|markdown|csv|tsv|json|xml|html?|css|js|mjs|ts|py|c|h|cpp|java|rs|go|rb|sh|ya?ml|toml|ini|log|tex|srt|sql|pdf)$/i;

/**
 * @typedef {object} Drops
 * @property {(files: File[]) => void} onTexts
 * @property {(file: File, handle?: FileSystemHandle) => void} onFile  with a handle if the browser supports it
 * @property {(files: PlacedFile[] | FileSystemEntry[], handle?: FileSystemHandle) => void} onSeveral  several files or folders; a single folder with a handle
 */

/**
 * @param {HTMLElement} sign  shown while a file is held over the page
 * @param {Drops} drops
 */
export function onDrop(sign, { onTexts, onFile, onSeveral }) {
  /** @param {DragEvent} event */
  const hasFile = (event) => event.dataTransfer?.types.includes('Files') ?? false;
  addEventListener('dragover', (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    sign.hidden = false;
  });
  addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) sign.hidden = true;
  });
  addEventListener('drop', async (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    sign.hidden = true;
    // All must be requested before this event ends. Items made by a script have neither entries nor handles.
    const files = [...(event.dataTransfer?.files ?? [])];
    const items = [...(event.dataTransfer?.items ?? [])].filter(({ kind }) => kind === 'file');
    const entries = items.map((item) => item.webkitGetAsEntry?.()).filter((entry) => !!entry);
    const request = items.length === 1 && /** @type {any} */ (items[0]).getAsFileSystemHandle?.();
    /** @type {FileSystemHandle | undefined} */
    const handle = (await Promise.resolve(request).catch(() => null)) || undefined;
    if (files.length && files.every(({ name }) => TEXT.test(name))) return onTexts(files);
    if (entries.some(({ isDirectory }) => isDirectory)) return onSeveral(entries, handle);
    if (files.length > 1) return onSeveral(files.map((file) => ({ file, place: file.name })));
    if (files[0]) onFile(files[0], handle);
  });
}
