/** Makes elements from texts, never from markup. */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {string} [className]
 * @param {string} [text]
 */
export function element(tag, className = '', text = '') {
  const output = document.createElement(tag);
  if (className) output.className = className;
  output.textContent = text;
  return output;
}

/** @param {string} text @param {string} label @param {() => void} onClick */
export function button(text, label, onClick) {
  const output = element('button', 'quiet', text);
  output.type = 'button';
  output.setAttribute('aria-label', label);
  output.addEventListener('click', onClick);
  return output;
}
