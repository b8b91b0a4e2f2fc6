/** What a visit begins with: the model that was used last, or less of it after it ended a tab, or the bundled one. */
import { showError, trouble } from '../page/alerts.js';
import { crashed } from './crash-guard.js';
import * as format from '../page/format.js';
import { say } from '../page/page.js';
import { fromFile, fromLink, lastHandle, lastModel } from '../storage/model-history.js';

/** @typedef {import('./models.js').Models} Models */
/** @typedef {import('./models.js').Page} Page */

/** @param {Models} models @param {Page} page */
export async function comeBack(models, page) {
  const attempt = await crashed();
  if (attempt) return afterCrash(models, page, attempt);
  const last = lastModel();
  if (!last || last.kind === 'bundled') return models.openBundled({ context: last?.context });
  const { context } = last;
  if (last.kind === 'file') return fileAgain(models, page, last);
  const stored = (await page.host.store?.list().catch(() => []))?.find(({ url }) => url === last.key);
  const wanted = fromLink(last.key, last.name);
  if (stored?.complete) return models.want(wanted, { context, agreed: true });
  page.enter('ready');
  say('No model is loaded.');
  const part = stored
    ? `${format.bytes(stored.cachedBytes)} of ${format.bytes(stored.fileBytes)} are stored`
    : 'nothing of it is stored';
  showError(
    trouble('NOT_STORED', `${last.name} was in use: ${part}`, 'go on with its download, or choose another model'),
    { text: 'Resume', run: () => void models.want(wanted, { context }) },
  );
}

/** A file of one's own: by its handle, where there is one and it may be read, else the person opens it. @param {Models} models @param {Page} page @param {import('../storage/model-history.js').Last} last */
async function fileAgain(models, page, last) {
  const handle = /** @type {any} */ (await lastHandle());
  const open = async () => {
    try {
      await byHandle(models, handle, { context: last.context, agreed: true });
    } catch (error) {
      page.enter('ready');
      showError(
        trouble(
          'READ',
          `${last.name} can not be read any more`,
          'open the file where it is now, or choose another model',
          error,
        ),
        choose,
      );
    }
  };
  const choose = {
    text: `Open ${last.name}…`,
    run: () => void (last.folder ? models.picker.chooseFolder() : models.picker.chooseFile()),
  };
  if (handle && (await handle.queryPermission?.({ mode: 'read' }).catch(() => '')) === 'granted') return open();
  page.enter('ready');
  say('No model is loaded.');
  const again = {
    text: `Open ${last.name} again`,
    run: async () =>
      (await handle.requestPermission?.({ mode: 'read' })) === 'granted' ? open() : fileAgain(models, page, last),
  };
  const why = handle
    ? 'allow the page to read it again, or choose another model'
    : 'open it again (a page may not do that by itself), or choose another model';
  showError(
    trouble('FILE_NEEDED', `${last.name} (${format.bytes(last.bytes)}) was in use`, why),
    handle ? again : choose,
  );
}

/** A file, or a folder, that may be read. READ. @param {Models} models @param {any} handle @param {import('./models.js').How} how */
async function byHandle(models, handle, how) {
  if (handle.kind === 'file') return models.want(fromFile(await handle.getFile(), handle), how);
  const { filesOf } = await import('./files.js');
  return models.given(await filesOf(handle), how, handle);
}

/** Not the same again, but less. @param {Models} models @param {Page} page @param {import('./crash-guard.js').Attempt} attempt */
function afterCrash(models, page, { name, url, kind, level }) {
  page.enter('ready');
  say('The page ended while it loaded a model.');
  const less = async () => {
    if (kind === 'link') return models.want(fromLink(String(url), name), { level: level + 1 });
    if (kind === 'bundled') return models.openBundled({ level: level + 1 });
    const handle = /** @type {any} */ (await lastHandle());
    if (handle && (await handle.requestPermission?.({ mode: 'read' }).catch(() => '')) === 'granted')
      return byHandle(models, handle, { level: level + 1 });
    await (lastModel()?.folder ? models.picker.chooseFolder(level + 1) : models.picker.chooseFile(level + 1));
  };
  const hint = 'load it with a smaller context, or choose another model';
  showError(
    trouble('CRASHED', `the tab ended while it loaded ${name}: most likely there was not enough memory`, hint),
    { text: 'Load with less memory', run: () => void less() },
  );
}
