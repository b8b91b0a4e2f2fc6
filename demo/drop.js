/** Files dropped anywhere on the page. */

/**
 * @param {HTMLElement} sign  shown while a file is held over the page
 * @param {(file: File | undefined) => void} onFile
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
  addEventListener('drop', (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    sign.hidden = true;
    onFile(event.dataTransfer?.files[0]);
  });
}
