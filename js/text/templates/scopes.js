/**
 * Names that a scope gives a value, where jinja2 takes them for undefined until then: those it finds given a value before
 * it finds them read. What reads them earlier, from a scope inside, doesn't see the value of the scope outside.
 */

/** @typedef {import('./parse.js').Node} Node */
/**
 * What is known of a scope so far, or of a branch of an `if` in it beside that. `names`: how one begins, 'missing' as
 * undefined, 'other' as whatever is outside.
 * @typedef {{ names: Map<string, 'missing' | 'other'>, stored: Set<string>, outer: Frame | null, branch?: boolean }} Frame
 */

/** @param {Frame | null} frame @param {string} name @returns {boolean} */
const knows = (frame, name) => frame !== null && (frame.names.has(name) || knows(frame.outer, name));

/** @param {Frame} frame @param {string} name */
const load = (frame, name) => void (knows(frame, name) || frame.names.set(name, 'other'));

/** @param {Frame} frame @returns {Frame} the scope that a branch is of */
const scopeOf = (frame) => (frame.branch ? scopeOf(/** @type {Frame} */ (frame.outer)) : frame);

/** Whether the scope itself has the name, or a value for it. @param {Frame} frame @param {'names' | 'stored'} what @param {string} name @returns {boolean} */
const has = (frame, what, name) =>
  frame[what].has(name) || (frame.branch === true && has(/** @type {Frame} */ (frame.outer), what, name));

/** @param {Frame} frame @param {string} name */
function store(frame, name) {
  frame.stored.add(name);
  if (!has(frame, 'names', name)) frame.names.set(name, knows(scopeOf(frame).outer, name) ? 'other' : 'missing');
}

/** Names that an expression reads. @param {any} value @param {Frame} frame */
function read(value, frame) {
  if (Array.isArray(value)) for (const one of value) read(one, frame);
  else if (value !== null && typeof value === 'object') {
    if (value.type === 'Name') load(frame, value.name);
    else if (value.type !== 'Constant') for (const one of Object.values(value)) read(one, frame);
  }
}

/** @param {Node} target @param {Frame} frame */
function give(target, frame) {
  if (target.type === 'Member') load(frame, target.name);
  else if (target.type === 'Name') store(frame, target.name);
  else for (const item of target.items) give(item, frame);
}

/** @param {Node[][]} branches @param {Frame} frame */
function branch(branches, frame) {
  /** @type {Frame[]} */
  const found = branches.map((body) => {
    /** @type {Frame} */
    const one = { names: new Map(), stored: new Set(), outer: frame, branch: true };
    visit(body, one);
    return one;
  });
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { stored } of found)
    for (const name of stored) if (!has(frame, 'stored', name)) counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const { names, stored } of found) {
    for (const [name, how] of names) frame.names.set(name, how);
    for (const name of stored) frame.stored.add(name);
  }
  for (const [name, count] of counts) if (count < branches.length) frame.names.set(name, 'other');
}

/** Statements of one scope, without those inside. @param {Node[]} body @param {Frame} frame */
function visit(body, frame) {
  for (const node of body) {
    if (node.type === 'If') {
      const [[test, first], ...rest] = node.branches;
      read(test, frame);
      const others = rest.map((/** @type {[Node, Node[]]} */ one) => ({ type: 'If', branches: [one], otherwise: [] }));
      branch([first, others, node.otherwise], frame);
    } else if (node.type === 'Set') {
      read(node.value, frame);
      give(node.target, frame);
    } else if (node.type === 'SetBlock') give(node.target, frame);
    else if (node.type === 'For') read(node.iterable, frame);
    else if (node.type === 'With') read(node.values, frame);
    else if (node.type === 'Macro') store(frame, node.name);
    else if (node.type === 'CallBlock') read(node.call, frame);
    else if (node.type === 'FilterBlock') read(node.filters, frame);
    else if (node.type === 'Output') read(node.value, frame);
    else if (node.type === 'Print') read(node.values, frame);
  }
}

/** Scopes inside of these statements. @param {Node[]} body @param {Frame} outer */
function inner(body, outer) {
  for (const node of body) {
    if (node.type === 'If') {
      for (const [, one] of node.branches) inner(one, outer);
      inner(node.otherwise, outer);
    } else if (node.type === 'For') {
      node.missing = scope(node.body, outer, (frame) => parameters(node.target, frame));
      node.otherwiseMissing = scope(node.otherwise, outer);
    } else if (node.type === 'With')
      node.missing = scope(node.body, outer, (frame) => {
        for (const target of node.targets) parameters(target, frame);
        read(node.values, frame);
      });
    else if (node.type === 'Macro' || node.type === 'CallBlock') {
      const macro = node.macro ?? node;
      macro.missing = scope(macro.body, outer, (frame) => {
        for (const { name, value } of macro.parameters) {
          frame.names.set(name, 'other');
          read(value, frame);
        }
      });
    } else if (node.type === 'SetBlock' || node.type === 'FilterBlock') node.missing = scope(node.body, outer);
  }
}

/** @param {Node} target @param {Frame} frame */
function parameters(target, frame) {
  if (target.type === 'Name') frame.names.set(target.name, 'other');
  else for (const item of target.items) parameters(item, frame);
}

/**
 * Marks the scopes of a template, each with the names that begin as undefined in it.
 * @param {Node[]} body @param {Frame | null} [outer] @param {(frame: Frame) => void} [begin]
 * @returns {string[]}
 */
export function scope(body, outer = null, begin = () => {}) {
  /** @type {Frame} */
  const frame = { names: new Map(), stored: new Set(), outer };
  begin(frame);
  visit(body, frame);
  inner(body, frame);
  return [...frame.names].flatMap(([name, how]) => (how === 'missing' ? [name] : []));
}
