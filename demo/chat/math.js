/**
 * Formulas of LaTeX as MathML, by a library that makes elements, never markup. A formula that it can't read stays its source. Loaded
 * when a text has one.
 */
// @ts-ignore: its types are under its name alone
import temml from '../../node_modules/temml/dist/temml.mjs';

/** Characters of a formula; longer ones stay text. */
const MAX_FORMULA = 2000;
/** Macros may define others: a formula may unfold so many. */
const MAX_EXPANSIONS = 200;

/** @param {HTMLElement} place  its text is the source with its marks @param {string} formula @param {boolean} isBlock */
export function showFormula(place, formula, isBlock) {
  if (formula.length > MAX_FORMULA) return;
  const drawn = document.createElement(place.tagName);
  try {
    temml.render(formula, drawn, { displayMode: isBlock, throwOnError: true, maxExpand: MAX_EXPANSIONS });
  } catch {
    return;
  }
  place.title = formula;
  place.replaceChildren(...drawn.childNodes);
}
