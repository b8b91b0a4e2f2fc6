/** Files and folders dropped anywhere on the page. */

/** @typedef {import('../storage/model-history.js').Placed} Placed */

/**
 * @param {HTMLElement} sign  shown while a file is held over the page
 * @param {(file: File, handle?: FileSystemHandle) => void} onFile  with a handle where browsers give one
 * @param {(files: Placed[] | FileSystemEntry[], handle?: FileSystemHandle) => void} onSeveral  files, or a folder among what was dropped; of a single folder with a handle
 */
export function onDrop(sign, onFile, onSeveral) {
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
    // All must be asked for before this event ends. What a script made has neither entries nor handles.
    const files = [...(event.dataTransfer?.files ?? [])];
    const items = [...(event.dataTransfer?.items ?? [])].filter(({ kind }) => kind === 'file');
    const entries = items.map((item) => item.webkitGetAsEntry?.()).filter((entry) => !!entry);
    const asked = items.length === 1 && /** @type {any} */ (items[0]).getAsFileSystemHandle?.();
    /** @type {FileSystemHandle | undefined} */
    const handle = (await Promise.resolve(asked).catch(() => null)) || undefined;
    if (entries.some(({ isDirectory }) => isDirectory)) return onSeveral(entries, handle);
    if (files.length > 1) return onSeveral(files.map((file) => ({ file, place: file.name })));
    if (files[0]) onFile(files[0], handle);
  });
}
