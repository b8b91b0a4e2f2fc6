/** Explains errors of loads to users. Loaded on demand. */
import { trouble } from '../page/alerts.js';

/** Kinds of files that are not models, by file name. @type {[RegExp, string][]} */
const KINDS = [
  [/\.(jpe?g|png|gif|webp|heic|bmp)$/i, 'an image'],
  [/\.pdf$/i, 'a PDF document'],
  [/\.(zip|7z|rar|gz|tar)$/i, 'an archive'],
  [/\.onnx$/i, 'a model in another format (ONNX)'],
  [/\.safetensors$/i, 'one part of a model: open its whole folder'],
];

/** Problems that may be gone at the next attempt: the page of a captive portal, an incomplete upload. */
const TEMPORARY = / is (a web page|empty)$/;

/**
 * Returns an error with a message and a hint for users; the engine's error is its cause. `isFinal`: another attempt would give the same error.
 * @param {unknown} error @param {import('../storage/model-history.js').ModelChoice} choice
 */
export function explainLoadError(error, choice) {
  const { code, message } = /** @type {any} */ (error);
  const isFinal = choice.kind === 'file' || (code === 'NOT_A_MODEL' && !TEMPORARY.test(message));
  return Object.assign(/** @type {Error} */ (explanation(error, choice)), { isFinal });
}

/** Returns other errors unchanged. @param {unknown} error @param {import('../storage/model-history.js').ModelChoice} choice */
function explanation(error, { kind, name, source }) {
  const { code, details } = /** @type {any} */ (error);
  const loadError = (/** @type {string} */ message, hint = '') =>
    Object.assign(trouble(code, message, hint, error, details), { offset: /** @type {any} */ (error).offset });
  if (code === 'NOT_A_MODEL') {
    const kindOfFile = KINDS.find(([names]) => names.test(name))?.[1];
    return loadError(
      `“${name}” isn't a model${kindOfFile ? `: it looks like ${kindOfFile}` : ''}`,
      /\.(gguf|bq4)$/i.test(name)
        ? 'only its name is that of a model: download the file again, or choose another one'
        : 'models are .gguf or .bq4 files',
    );
  }
  if (code === 'TRUNCATED') return loadError(`“${name}” is incomplete`, 'download it again');
  if (code === 'NETWORK') {
    const elsewhere = kind === 'link' && new URL(String(source), location.href).origin !== location.origin;
    if (!navigator.onLine)
      return loadError(`“${name}” can't be downloaded: you are offline`, 'what was downloaded before is kept');
    if (/** @type {any} */ (error).offset > 0 && kind === 'link')
      return loadError(`the connection broke while “${name}” was downloaded`, 'what was downloaded is kept');
    if (elsewhere && details?.unreached)
      return loadError(
        `“${name}” could not be reached`,
        'check the address; if it is right, its site may not let other pages read its files (CORS): download the file there and open it here',
      );
  }
  return error;
}
