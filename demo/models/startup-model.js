/**
 * The start of a visit that does not simply use the built-in model: loads the model used last, offers less memory after a crash, resumes
 * a download. Loaded on demand.
 */
import { showError, showNotice, trouble } from '../page/alerts.js';
import * as format from '../page/format.js';
import { lastHandle } from '../storage/file-handles.js';
import { fromFile, fromLink, lastDownload, lastModel, rememberDownload } from '../storage/model-history.js';

/** @typedef {import('./models.js').Models} Models */
/** @typedef {import('./models.js').Page} Page */

/**
 * Loads the model used last, else the built-in one.
 * @param {Models} models
 * @param {Page} page
 * @param {import('./crash-guard.js').Attempt | null} attempt  load that crashed its tab
 */
export async function comeBack(models, page, attempt) {
  if (attempt) return afterCrash(models, page, attempt);
  const last = /** @type {import('../storage/model-history.js').Last} */ (lastModel());
  const { context } = last;
  if (last.kind === 'file') return fileAgain(models, page, last);
  const stored = (await page.host.store?.list().catch(() => []))?.find(({ url }) => url === last.key);
  const choice = fromLink(last.key, last.name);
  if (stored?.complete) {
    await models.use(choice, { context, agreed: true, first: true });
    if (page.host.hasModel) return;
  }
  await models.openBundled({ first: true });
  if (!stored?.complete && !lastDownload() && !models.hasChosen) await offerDownload(models, page, choice, { context });
}

/**
 * Resumes the download that was incomplete when the page was closed; only offers that if it was paused or data is to be
 * saved.
 * @param {Models} models
 * @param {Page} page
 */
export async function resumeDownload(models, page) {
  const download = lastDownload();
  if (!download) return;
  const { name, url, context, paused } = download;
  const choice = fromLink(url, name);
  const stored = (await page.host.store?.list().catch(() => []))?.find((file) => file.url === url);
  if (stored?.complete) {
    const { showReady } = await import('./ready-notice.js');
    models.offered = showReady(choice, () => void models.use(choice, { context, agreed: true }));
    return;
  }
  const { saveData } = /** @type {any} */ (navigator).connection ?? {};
  if (!stored || paused || saveData || !navigator.onLine || models.hasChosen)
    return offerDownload(models, page, choice, { context });
  void models.use(choice, { context, agreed: true, quiet: true });
}

/**
 * Offers in a notice to resume a download.
 * @param {Models} models
 * @param {Page} page
 * @param {import('./models.js').ModelChoice} choice
 * @param {import('./models.js').LoadOptions} loadOptions
 */
export async function offerDownload(models, page, choice, loadOptions) {
  const stored = (await page.host.store?.list().catch(() => []))?.find(({ url }) => url === choice.key);
  const words = stored
    ? `${choice.name}: ${format.bytes(stored.cachedBytes)} of ${format.bytes(stored.fileBytes)} downloaded.`
    : `${choice.name} is not stored in this browser any more.`;
  const run = () => void models.use(choice, { ...loadOptions, agreed: Boolean(stored) });
  const { showOffer } = await import('./ready-notice.js');
  const action = { text: stored ? 'Resume' : 'Download', run };
  models.offered = showOffer(choice.key, words, action, () => rememberDownload(null));
}

/**
 * Loads a local file again: with its handle if it may be read, else the user is asked to open it.
 * @param {Models} models
 * @param {Page} page
 * @param {import('../storage/model-history.js').Last} last
 */
async function fileAgain(models, page, last) {
  const handle = /** @type {any} */ (await lastHandle());
  const open = async (first = false) => {
    try {
      await byHandle(models, handle, { context: last.context, agreed: true, first });
      if (!page.host.hasModel) await models.openBundled({ first });
    } catch {
      await models.openBundled({ first });
      ask(`“${last.name}” can't be read any more. Open the file where it is now.`, choose);
    }
  };
  const ask = (/** @type {string} */ words, /** @type {() => void} */ run) =>
    showNotice(words, [{ text: 'Open…', run }], true);
  const choose = async () => {
    const picker = await models.picker();
    await (last.folder ? picker.chooseFolder() : picker.chooseFile());
  };
  if (handle && (await handle.queryPermission?.({ mode: 'read' }).catch(() => '')) === 'granted') return open(true);
  await models.openBundled({ first: true });
  ask(`To go on with “${last.name}” (${format.bytes(last.bytes)}), open the file again.`, async () => {
    if (!handle) return choose();
    if ((await handle.requestPermission?.({ mode: 'read' })) === 'granted') await open();
    else await choose();
  });
}

/**
 * Loads the file or folder of a handle with read permission. Throws READ.
 * @param {Models} models
 * @param {any} handle
 * @param {import('./models.js').LoadOptions} loadOptions
 */
async function byHandle(models, handle, loadOptions) {
  if (handle.kind === 'file') return models.use(fromFile(await handle.getFile(), handle), loadOptions);
  const { filesOf } = await import('./files.js');
  return models.useFiles(await filesOf(handle), loadOptions, handle);
}

/**
 * Offers to load with less memory what has crashed its tab.
 * @param {Models} models
 * @param {Page} page
 * @param {import('./crash-guard.js').Attempt} attempt
 */
async function afterCrash(models, page, { name, url, kind, level }) {
  rememberDownload(null);
  const less = async () => {
    if (kind === 'link') return models.use(fromLink(String(url), name), { level: level + 1 });
    if (kind === 'bundled') return models.openBundled({ level: level + 1 });
    const handle = /** @type {any} */ (await lastHandle());
    if (handle && (await handle.requestPermission?.({ mode: 'read' }).catch(() => '')) === 'granted')
      return byHandle(models, handle, { level: level + 1 });
    const picker = await models.picker();
    await (lastModel()?.folder ? picker.chooseFolder(level + 1) : picker.chooseFile(level + 1));
  };
  if (kind === 'bundled') page.enter('ready');
  else await models.openBundled({ first: true });
  showError(
    trouble(
      'CRASHED',
      `the tab crashed while loading ${name}, probably for lack of memory`,
      'load it with a smaller context, or choose another model',
    ),
    { text: 'Load with less memory', run: () => void less() },
  );
}
