/** The list of chats, as a sidebar or a drawer: search, open, rename, delete, export, import. Loaded on demand. */
import { showError, showNotice, trouble } from '../page/alerts.js';
import { asJson, asMarkdown, fileName, fromFile } from './import-export.js';
import { button, element } from '../page/element.js';
import { watchMenus } from '../page/menus.js';
import { closeBeside, rememberPanel, say } from '../page/page.js';
import * as format from '../page/format.js';
import { list, onOther, read, save, saveDraft, titleOf } from '../storage/local-storage.js';
import { removeChat } from './chat-deletion.js';
import { messageWith, openAt } from './found-message.js';

/** @typedef {import('../storage/local-storage.js').Conversation} Conversation */
/**
 * @typedef {object} Page
 * @property {import('./conversation.js').Current} current
 * @property {(conversation?: Conversation) => Promise<void>} open
 * @property {() => Promise<void>} beginAnew
 * @property {import('./view.js').Log} log
 */

/** Largest number of characters that are shown before the text that a search found. */
const MAX_BEFORE = 12;

const dialog = /** @type {HTMLDialogElement} */ (document.getElementById('chats-dialog'));
const rows = /** @type {HTMLElement} */ (dialog.querySelector('ul'));
const search = /** @type {HTMLInputElement} */ (dialog.querySelector('[type=search]'));
const none = /** @type {HTMLElement} */ (dialog.querySelector('.hint'));
const file = /** @type {HTMLInputElement} */ (dialog.querySelector('[type=file]'));

/** The object that shows the list; null before it is first shown. @type {Chats | null} */
let shown = null;
/** The chat that was deleted last while the list was open. @type {{ text: string, undo: () => void } | null} */
let deleted = null;

const named = (/** @type {string} */ name) => /** @type {HTMLElement} */ (dialog.querySelector(`[name="${name}"]`));

/** Removes what the list says about the last deletion and the last import. */
function clearNotes() {
  deleted = null;
  for (const name of ['deleted', 'imported']) named(name).replaceChildren();
}

search.addEventListener('input', () => shown?.draw());
named('close').addEventListener('click', () => {
  rememberPanel('sidebar', false);
  dialog.close();
});
named('new').addEventListener('click', () => {
  closeDrawer();
  void shown?.page.beginAnew();
});
named('json').addEventListener('click', () => download('bq4-chats.json', 'application/json', asJson(list())));
named('import').addEventListener('click', () => file.click());
file.addEventListener('change', () => void shown?.importFiles([...(file.files ?? [])]));
closeBeside(dialog, () => closeDrawer());
watchMenus(); // while a menu is open, the list is not redrawn
dialog.addEventListener('close', () => {
  document.documentElement.removeAttribute('data-sidebar');
  if (deleted) showNotice(deleted.text, [{ text: 'Undo', run: deleted.undo }]);
  clearNotes();
});
onOther(() => dialog.open && shown?.draw());

/** Returns the calendar days since a time. @param {number} at  milliseconds since 1970 */
const daysSince = (at) =>
  Math.round((new Date().setHours(0, 0, 0, 0) - new Date(at).setHours(0, 0, 0, 0)) / 86_400_000);
/** @param {number} at */
const groupOf = (at) => {
  const days = daysSince(at);
  return days < 1 ? 'Today' : days < 2 ? 'Yesterday' : days < 8 ? 'Previous 7 days' : 'Earlier';
};

const wide = matchMedia('(min-width: 80rem)');

/** Whether the sidebar was open when the window became too narrow for it. */
let wasSidebar = false;
wide.addEventListener('change', ({ matches }) => {
  if (matches) {
    if (wasSidebar) shown?.show(false);
    wasSidebar = false;
  } else if (dialog.open && !dialog.matches(':modal')) {
    wasSidebar = true;
    dialog.close();
  }
});

/** Closes the list if it is a drawer; a sidebar stays open. */
const closeDrawer = () => dialog.matches(':modal') && dialog.close();

/** @param {string} name @param {string} type @param {string} text */
function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = element('a');
  Object.assign(link, { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Whether a chat with the same messages is already stored. @param {Conversation} chat */
const isStored = (chat) => {
  const messagesOf = (/** @type {Conversation} */ { entries }) =>
    JSON.stringify(entries.map(({ role, content }) => [role, content]));
  const messages = messagesOf(chat);
  return list().some((other) => messagesOf(other) === messages);
};

export class Chats {
  /** @param {Page} page */
  constructor(page) {
    this.page = page;
  }

  /** Opens the sidebar or the drawer; closes it if it is open. @param {boolean} [isRequested]  by the user */
  show(isRequested = true) {
    shown = this;
    if (dialog.open) {
      if (isRequested) named('close').click();
      return;
    }
    search.value = '';
    this.draw();
    if (!wide.matches) return dialog.showModal();
    document.documentElement.setAttribute('data-sidebar', '');
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.show(); // moves the focus to its first button
    if (isRequested) {
      rememberPanel('sidebar', true);
      search.focus();
    } else if (focused && focused !== document.body) focused.focus();
    else /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
  }

  /** Opens the list if it is closed, and focuses its search field. A list behind another dialog stays there. */
  search() {
    if (!dialog.open) this.show();
    search.focus();
  }

  /**
   * Redraws the list if it is open and no row is being edited.
   * @param {boolean} [isTurn]  whether a turn begins, which also removes the notices above the message field
   */
  refresh(isTurn = false) {
    if (isTurn) clearNotes();
    if (!dialog.open || rows.querySelector('form, details[open]')) return;
    const hadFocus = rows.contains(document.activeElement);
    this.draw();
    const row = /** @type {HTMLElement | null} */ (
      rows.querySelector('[aria-current]') ?? rows.querySelector('button')
    );
    if (hadFocus) (row ?? search).focus();
  }

  draw() {
    const wanted = search.value.trim().toLocaleLowerCase();
    const has = (/** @type {Conversation} */ one) =>
      [titleOf(one), one.system, ...one.entries.map(({ content }) => content)].some((text) =>
        text.toLocaleLowerCase().includes(wanted),
      );
    const all = list();
    const found = wanted ? all.filter(has) : all;
    let group = '';
    rows.replaceChildren(
      ...found.flatMap((one) => {
        const chatGroup = groupOf(one.at);
        const head = chatGroup === group ? [] : [element('li', 'group', chatGroup)];
        group = chatGroup;
        return [...head, this.#row(one, wanted)];
      }),
    );
    /** @type {HTMLButtonElement} */ (named('json')).disabled = !all.length;
    none.hidden = found.length > 0;
    none.textContent = all.length ? 'No chats found.' : 'Your chats are stored only in this browser.';
  }

  /** @param {Conversation} one @param {string} query */
  #row(one, query) {
    const title = titleOf(one);
    const row = element('li', 'chat');
    row.dataset.id = one.id;
    const name = element('button', 'chat-name', title);
    name.type = 'button';
    name.title = title;
    name.dir = 'auto'; // the end of a long title is cut off, in either direction
    const found = query ? messageWith(one, query) : undefined;
    if (found) {
      const at = found.content.toLocaleLowerCase().indexOf(query);
      const end = at + query.length;
      // The end of a row is cut off, so few words are shown before those that were found.
      const before = found.content.slice(Math.max(0, at - MAX_BEFORE), at);
      const place = element('small', '', at > MAX_BEFORE ? `…${before.slice(before.indexOf(' ') + 1)}` : before);
      place.append(element('b', '', found.content.slice(at, end)), found.content.slice(end, end + 40));
      name.append(place);
    }
    if (one.id === this.page.current.conversation.id) name.setAttribute('aria-current', 'true');
    name.addEventListener('click', () => {
      closeDrawer();
      void (found ? openAt(one, found, query, this.page) : this.page.open(one));
    });
    const tools = element('details', 'chat-tools');
    const summary = element('summary', '', '⋯');
    summary.setAttribute('aria-label', `Rename, share, export or delete ${title}`);
    const menu = element('div', 'menu');
    tools.append(summary, menu);
    tools.addEventListener('toggle', () => tools.open && row.scrollIntoView({ block: 'nearest' }));
    const copyLink = button('Copy link', `Copy a link that holds ${title}`, () => void this.#copyLink(one, copyLink));
    menu.append(
      button('Rename', `Rename ${title}`, () => this.#rename(one, row)),
      button('Export', `Export ${title} as Markdown`, () =>
        download(`${fileName(title)}.md`, 'text/markdown', asMarkdown(one)),
      ),
      copyLink,
      button('Delete', `Delete ${title}`, () => void this.#delete(one)),
    );
    row.append(name, tools);
    return row;
  }

  /** @param {Conversation} one @param {HTMLElement} from  the button */
  async #copyLink(one, from) {
    try {
      const { linkTo } = await import('./share-link.js');
      await navigator.clipboard.writeText(await linkTo(one));
      from.textContent = 'Copied ✓';
      say('The link is copied. It holds a copy of this chat.');
    } catch (error) {
      closeDrawer();
      showError(error);
    }
  }

  /** @param {Conversation} one @param {HTMLElement} row */
  #rename(one, row) {
    const form = element('form', 'row');
    const field = element('input');
    field.value = titleOf(one);
    field.dir = 'auto';
    field.setAttribute('aria-label', 'Name of the conversation');
    const send = element('button', '', 'Rename');
    const end = () => {
      this.draw();
      const renamed = [.../** @type {NodeListOf<HTMLElement>} */ (rows.querySelectorAll('.chat'))].find(
        ({ dataset }) => dataset.id === one.id,
      );
      (renamed?.querySelector('button') ?? search).focus();
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const title = field.value.trim();
      if (one.id === this.page.current.conversation.id) this.page.current.change({ title });
      else save({ ...one, title });
      end();
    });
    field.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.preventDefault();
      end();
    });
    form.append(field, button('Cancel', 'Cancel', end), send);
    row.replaceChildren(form);
    field.select();
    field.focus();
  }

  /** Deletes a chat, its unsent message and its unsent edit. @param {Conversation} chat */
  async #delete({ id }) {
    const isOpen = id === this.page.current.conversation.id;
    if (isOpen) await this.page.open(); // stops its reply, which stores it again
    const chat = read(id);
    // A new chat is gone when its first reply is stopped before the first word.
    if (!chat) {
      saveDraft(id, '');
      return this.draw();
    }
    const restore = removeChat(chat);
    const at = [...rows.querySelectorAll('.chat')].findIndex((row) => row.matches(':focus-within'));
    this.draw();
    const button = rows.querySelectorAll('.chat')[Math.max(0, at)]?.querySelector('button');
    (button ?? search).focus();
    this.#offerUndo(chat, restore, isOpen);
  }

  /**
   * Offers Undo in the list, and above the message field once the list is closed.
   * @param {Conversation} one
   * @param {() => void} restore
   * @param {boolean} wasOpen
   */
  #offerUndo(one, restore, wasOpen) {
    const note = named('deleted');
    const text = `Deleted “${titleOf(one)}”.`;
    const undo = () => {
      restore();
      say('Restored.');
      deleted = null;
      note.replaceChildren();
      if (wasOpen && !this.page.current.path.length) void this.page.open(one);
      if (dialog.open) this.draw();
    };
    deleted = { text, undo };
    note.replaceChildren(element('span', '', text), button('Undo', `Undo: ${text}`, undo));
  }

  /** Imports the chats of files that are not stored yet. @param {File[]} files */
  async importFiles(files) {
    file.value = '';
    named('imported').replaceChildren();
    try {
      const all = (await Promise.all(files.map(fromFile))).flat();
      const newChats = all.filter((chat) => !isStored(chat));
      const storedCount = all.length - newChats.length;
      const unsaved = newChats.filter((chat) => !save(chat));
      this.draw();
      if (unsaved.length)
        throw trouble(
          'NOT_KEPT',
          `${unsaved.length} of ${all.length} chats could not be saved`,
          'the storage of this browser is full or blocked: delete chats and import them again',
        );
      const words = newChats.length
        ? `${format.counted(newChats.length, 'chat')} imported${storedCount ? `, ${storedCount} already here` : ''}.`
        : 'Nothing to import: these chats are already here.';
      say(words);
      named('imported').replaceChildren(element('span', '', words));
      if (newChats.length === 1 && !storedCount) {
        closeDrawer();
        await this.page.open(newChats[0]);
      }
    } catch (error) {
      closeDrawer();
      showError(error);
    }
  }
}
