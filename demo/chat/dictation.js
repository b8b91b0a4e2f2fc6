/**
 * Dictation into the message field. The browser recognises speech on this device, so no audio is sent to a server. Loaded only in
 * browsers that support this for the user's language.
 */
import { showError, trouble } from '../page/alerts.js';
import { $, message, say } from '../page/page.js';

/**
 * The part of the Web Speech API that is used here.
 * @typedef {{ lang: string, processLocally: boolean, continuous: boolean, interimResults: boolean, start: () => void, stop: () => void, abort: () => void, onresult: ((event: any) => void) | null, onerror: ((event: any) => void) | null, onend: (() => void) | null }}
 *   Recognition
 */

/** Messages for errors of a recognition; other errors are its usual ends. @type {Record<string, [string, string]>} */
const FAILURES = {
  'not-allowed': ["the page can't hear you", 'let it use the microphone, in the settings of the browser for this page'],
  'audio-capture': ['there is no microphone', 'connect one, then try again'],
  'service-not-allowed': ["this browser can't recognise speech on the device any more", 'type the message'],
  'language-not-supported': ["this browser can't recognise your language on the device", 'type the message'],
};

/** Shows the button. @param {new () => Recognition} Recognizer */
export function offerDictation(Recognizer) {
  if (!('processLocally' in Recognizer.prototype)) return; // it might use a server
  /** @type {Recognition | null} */
  let recognition = null;
  const dictate = $('dictate');
  dictate.hidden = false;
  dictate.addEventListener('click', () => (recognition ? recognition.stop() : start()));

  const show = (/** @type {boolean} */ isOn) => {
    dictate.setAttribute('aria-pressed', String(isOn));
    say(isOn ? 'Listening.' : 'Stopped listening.');
  };

  function start() {
    const session = new Recognizer();
    const { value, selectionStart, selectionEnd } = message;
    const [before, after] = [value.slice(0, selectionStart), value.slice(selectionEnd)];
    let written = value;
    Object.assign(session, { lang: navigator.language, processLocally: true, continuous: true, interimResults: true });
    session.onresult = ({ results }) => {
      // The message was sent, or the user types.
      if (message.value !== written) return session.abort();
      const speech = Array.from(results, ([best]) => best.transcript.trim()).join(' ');
      const space = before && !/\s$/.test(before) ? ' ' : '';
      written = before + space + speech + after;
      message.value = written;
      message.setSelectionRange(written.length - after.length, written.length - after.length);
      message.dispatchEvent(new Event('input', { bubbles: true }));
    };
    session.onerror = ({ error }) => {
      const words = FAILURES[error];
      if (words) showError(trouble('DICTATION', words[0], words[1], error));
    };
    session.onend = () => {
      if (recognition !== session) return;
      recognition = null;
      show(false);
    };
    recognition = session;
    session.start();
    show(true);
    message.focus();
  }
}
