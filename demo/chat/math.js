/**
 * Draws LaTeX formulas as MathML with a library that makes elements, never markup. The source of an invalid formula stays. Loaded with
 * the first formula.
 */
// @ts-ignore: its types are under its name alone
import temml from '../../node_modules/temml/dist/temml.mjs';

/** Longer formulas, in characters, stay text. */
const MAX_FORMULA = 2000;
/** Largest number of macro expansions in a formula: macros can define others. */
const MAX_EXPANSIONS = 200;

/**
 * @param {HTMLElement} place  contains the source with its delimiters
 * @param {string} formula
 * @param {boolean} isBlock
 */
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
