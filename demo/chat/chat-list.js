/** The list of conversations: found, opened, renamed, deleted, taken along and brought back. Loaded when it is first opened. */
import { showError, showNotice, trouble } from '../page/alerts.js';
import { asJson, asMarkdown, fileName, fromFile } from './import-export.js';
import { button, element } from '../page/element.js';
import { list, onOther, remove, save, titleOf } from '../storage/local-storage.js';

/** @typedef {import('../storage/local-storage.js').Conversation} Conversation */
/**
 * @typedef {object} Page
 * @property {import('./conversation.js').Current} current
 * @property {(conversation?: Conversation) => Promise<void>} open
 * @property {() => Promise<void>} beginAnew
 */

const dialog = /** @type {HTMLDialogElement} */ (document.getElementById('chats-dialog'));
const rows = /** @type {HTMLElement} */ (dialog.querySelector('ul'));
const search = /** @type {HTMLInputElement} */ (dialog.querySelector('[type=search]'));
const none = /** @type {HTMLElement} */ (dialog.querySelector('.hint'));
const file = /** @type {HTMLInputElement} */ (dialog.querySelector('[type=file]'));

/** The one that shows the list. @type {Chats | null} */
let shown = null;
/** What was deleted last, while the list was open. @type {{ text: string, undo: () => void } | null} */
let deleted = null;

const named = (/** @type {string} */ name) => /** @type {HTMLElement} */ (dialog.querySelector(`[name="${name}"]`));
search.addEventListener('input', () => shown?.draw());
named('close').addEventListener('click', () => dialog.close());
named('new').addEventListener('click', () => {
  dialog.close();
  void shown?.page.beginAnew();
});
named('json').addEventListener('click', () => download('bq4-chats.json', 'application/json', asJson(list())));
named('import').addEventListener('click', () => file.click());
file.addEventListener('change', () => void shown?.bring([...(file.files ?? [])]));
dialog.addEventListener('click', (event) => event.target === dialog && dialog.close()); // beside it
dialog.addEventListener('close', () => {
  if (deleted) showNotice(deleted.text, [{ text: 'Undo', run: deleted.undo }]);
  deleted = null;
  named('deleted').replaceChildren();
});
onOther(() => dialog.open && shown?.draw());

const when = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** @param {string} name @param {string} type @param {string} text */
function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = element('a');
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

export class Chats {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
  }

  show() {
    shown = this;
    search.value = '';
    this.draw();
    dialog.showModal();
  }

  draw() {
    const wanted = search.value.trim().toLocaleLowerCase();
    const has = (/** @type {Conversation} */ one) =>
      [titleOf(one), one.system, ...one.entries.map(({ content }) => content)].some((text) =>
        text.toLocaleLowerCase().includes(wanted),
      );
    const all = list();
    const found = wanted ? all.filter(has) : all;
    rows.replaceChildren(...found.map((one) => this.#row(one)));
    none.hidden = found.length > 0;
    none.textContent = all.length
      ? 'None of them has these words.'
      : 'What you say is kept here, in this browser alone.';
  }

  /** @param {Conversation} one */
  #row(one) {
    const title = titleOf(one);
    const row = element('li', 'chat');
    const name = element('button', 'chat-name', title);
    name.type = 'button';
    name.append(element('small', '', when.format(one.at)));
    if (one.id === this.page.current.it.id) name.setAttribute('aria-current', 'true');
    name.addEventListener('click', () => {
      dialog.close();
      void this.page.open(one);
    });
    const tools = element('div', 'chat-tools');
    tools.append(
      button('Rename', `Rename ${title}`, () => this.#rename(one, row)),
      button('Export', `Export ${title} as Markdown`, () =>
        download(`${fileName(title)}.md`, 'text/markdown', asMarkdown(one)),
      ),
      button('Delete', `Delete ${title}`, () => this.#delete(one)),
    );
    row.append(name, tools);
    return row;
  }

  /** @param {Conversation} one @param {HTMLElement} row */
  #rename(one, row) {
    const form = element('form', 'row');
    const field = element('input');
    field.value = titleOf(one);
    field.setAttribute('aria-label', 'Name of the conversation');
    const send = element('button', '', 'Rename');
    const end = () => {
      this.draw();
      /** @type {HTMLElement | null} */ (rows.querySelector('button'))?.focus();
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const title = field.value.trim();
      if (one.id === this.page.current.it.id) this.page.current.change({ title });
      else save({ ...one, title });
      end();
    });
    field.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.preventDefault();
      end();
    });
    form.append(field, send);
    row.replaceChildren(form);
    field.select();
    field.focus();
  }

  /** @param {Conversation} one */
  #delete(one) {
    const isOpen = one.id === this.page.current.it.id;
    remove(one.id);
    if (isOpen) void this.page.open();
    const next = rows.querySelector('.chat:focus-within')?.nextElementSibling ?? null;
    const at = next ? [...rows.children].indexOf(next) - 1 : 0;
    this.draw();
    const button = rows.children[at]?.querySelector('button');
    (button ?? search).focus();
    this.#offerUndo(one, isOpen);
  }

  /** In the list, and under it once that is closed. @param {Conversation} one @param {boolean} wasOpen */
  #offerUndo(one, wasOpen) {
    const note = named('deleted');
    const text = `Deleted “${titleOf(one)}”.`;
    const undo = () => {
      save(one);
      deleted = null;
      note.replaceChildren();
      if (wasOpen && !this.page.current.path.length) void this.page.open(one);
      if (dialog.open) this.draw();
    };
    deleted = { text, undo };
    note.replaceChildren(element('span', '', text), button('Undo', `Undo: ${text}`, undo));
  }

  /** @param {File[]} files */
  async bring(files) {
    file.value = '';
    try {
      const all = (await Promise.all(files.map(fromFile))).flat();
      const lost = all.filter((one) => !save(one));
      this.draw();
      if (lost.length)
        throw trouble(
          'NOT_KEPT',
          `${lost.length} of ${all.length} conversations could not be kept`,
          'the storage of this browser is full or refused: delete conversations and import them again',
        );
      if (all.length === 1) {
        dialog.close();
        await this.page.open(all[0]);
      }
    } catch (error) {
      dialog.close();
      showError(error);
    }
  }
}
