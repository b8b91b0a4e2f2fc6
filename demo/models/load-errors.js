/** Errors of loads in words for people. Loaded on demand. */
import { trouble } from '../page/alerts.js';

/** Files that are no model, by their names. @type {[RegExp, string][]} */
const KINDS = [
  [/\.(jpe?g|png|gif|webp|heic|bmp)$/i, 'an image'],
  [/\.pdf$/i, 'a PDF document'],
  [/\.(zip|7z|rar|gz|tar)$/i, 'an archive'],
  [/\.onnx$/i, 'a model in another format (ONNX)'],
  [/\.safetensors$/i, 'one part of a model: open its whole folder'],
];

/** An error of a load in words for people, with what helps; the engine's own words are its cause. @param {unknown} error @param {import('../storage/model-history.js').ModelChoice} choice */
export function explained(error, { kind, name, source }) {
  const { code, details } = /** @type {any} */ (error);
  const loadError = (/** @type {string} */ message, hint = '') =>
    Object.assign(trouble(code, message, hint, error, details), { offset: /** @type {any} */ (error).offset });
  if (code === 'NOT_A_MODEL') {
    const what = KINDS.find(([names]) => names.test(name))?.[1];
    return loadError(
      `“${name}” isn't a model${what ? `: it looks like ${what}` : ''}`,
      'models are .gguf or .bq4 files',
    );
  }
  if (code === 'TRUNCATED') return loadError(`“${name}” is incomplete`, 'download it again');
  if (code === 'NETWORK') {
    const elsewhere = kind === 'link' && new URL(String(source), location.href).origin !== location.origin;
    if (!navigator.onLine) return loadError(`there is no network to download “${name}”`, 'what was downloaded is kept');
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
