/** Files dropped anywhere on the page. */

/**
 * @param {HTMLElement} sign  shown while a file is held over the page
 * @param {(file: File, handle?: FileSystemFileHandle) => void} onFile  with a handle where browsers give one
 */
export function onDrop(sign, onFile) {
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
    const file = event.dataTransfer?.files[0];
    // It must be asked for before this event ends. A file that a script made has none.
    const item = /** @type {any} */ ([...(event.dataTransfer?.items ?? [])].find(({ kind }) => kind === 'file'));
    const handle = await Promise.resolve(item?.getAsFileSystemHandle?.()).catch(() => null);
    if (file) onFile(file, handle?.kind === 'file' ? handle : undefined);
  });
}
