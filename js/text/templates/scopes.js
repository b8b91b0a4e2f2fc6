/**
 * Finds the names that begin as undefined in each scope, by jinja2's rule: a name that the scope assigns before it reads it is local to
 * the scope, even while it has no value yet. An inner scope that reads such a name earlier doesn't see the value of an outer scope.
 */

/** @typedef {import('./parse.js').Node} Node */
/**
 * The state of the analysis of a scope, or of one branch of an `if` in it (`branch`). `names`: with which value a name begins, 'missing'
 * as undefined, 'other' with that of an outer scope. `stored`: names that are assigned.
 * @typedef {{ names: Map<string, 'missing' | 'other'>, stored: Set<string>, outer: Frame | null, branch?: boolean }} Frame
 */

/** @param {Frame | null} frame @param {string} name @returns {boolean} */
const knows = (frame, name) => frame !== null && (frame.names.has(name) || knows(frame.outer, name));

/** @param {Frame} frame @param {string} name */
const load = (frame, name) => void (knows(frame, name) || frame.names.set(name, 'other'));

/** The scope that a branch belongs to. @param {Frame} frame @returns {Frame} */
const scopeOf = (frame) => (frame.branch ? scopeOf(/** @type {Frame} */ (frame.outer)) : frame);

/** Whether the scope itself has the name in one of the two collections. @param {Frame} frame @param {'names' | 'stored'} what @param {string} name @returns {boolean} */
const has = (frame, what, name) =>
  frame[what].has(name) || (frame.branch === true && has(/** @type {Frame} */ (frame.outer), what, name));

/** @param {Frame} frame @param {string} name */
function store(frame, name) {
  frame.stored.add(name);
  if (!has(frame, 'names', name)) frame.names.set(name, knows(scopeOf(frame).outer, name) ? 'other' : 'missing');
}

/** Records the names that an expression reads. @param {any} value @param {Frame} frame */
function read(value, frame) {
  if (Array.isArray(value)) for (const item of value) read(item, frame);
  else if (value !== null && typeof value === 'object') {
    if (value.type === 'Name') load(frame, value.name);
    else if (value.type !== 'Constant') for (const part of Object.values(value)) read(part, frame);
  }
}

/** Records the names that an assignment stores. @param {Node} target @param {Frame} frame */
function assign(target, frame) {
  if (target.type === 'Member') load(frame, target.name);
  else if (target.type === 'Name') store(frame, target.name);
  else for (const item of target.items) assign(item, frame);
}

/** The branches of an `if`: a name that not all of them store begins with the value of an outer scope. @param {Node[][]} branches @param {Frame} frame */
function visitBranches(branches, frame) {
  /** @type {Frame[]} */
  const frames = branches.map((body) => {
    /** @type {Frame} */
    const branch = { names: new Map(), stored: new Set(), outer: frame, branch: true };
    visit(body, branch);
    return branch;
  });
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { stored } of frames)
    for (const name of stored) if (!has(frame, 'stored', name)) counts.set(name, (counts.get(name) ?? 0) + 1);
  for (const { names, stored } of frames) {
    for (const [name, begin] of names) frame.names.set(name, begin);
    for (const name of stored) frame.stored.add(name);
  }
  for (const [name, count] of counts) if (count < branches.length) frame.names.set(name, 'other');
}

/** The statements of a scope, without the scopes inside it. @param {Node[]} body @param {Frame} frame */
function visit(body, frame) {
  for (const node of body) {
    if (node.type === 'If') {
      const [[test, first], ...others] = node.branches;
      read(test, frame);
      const elifs = others.map((/** @type {[Node, Node[]]} */ branch) => ({
        type: 'If',
        branches: [branch],
        otherwise: [],
      }));
      visitBranches([first, elifs, node.otherwise], frame);
    } else if (node.type === 'Set') {
      read(node.value, frame);
      assign(node.target, frame);
    } else if (node.type === 'SetBlock') assign(node.target, frame);
    else if (node.type === 'For') read(node.iterable, frame);
    else if (node.type === 'With') read(node.values, frame);
    else if (node.type === 'Macro') store(frame, node.name);
    else if (node.type === 'CallBlock') read(node.call, frame);
    else if (node.type === 'FilterBlock') read(node.filters, frame);
    else if (node.type === 'Output') read(node.value, frame);
    else if (node.type === 'Print') read(node.values, frame);
  }
}

/** Analyses the scopes inside of these statements. @param {Node[]} body @param {Frame} outer */
function visitInnerScopes(body, outer) {
  for (const node of body) {
    if (node.type === 'If') {
      for (const [, statements] of node.branches) visitInnerScopes(statements, outer);
      visitInnerScopes(node.otherwise, outer);
    } else if (node.type === 'For') {
      node.missing = scope(node.body, outer, (frame) => declare(node.target, frame));
      node.otherwiseMissing = scope(node.otherwise, outer);
    } else if (node.type === 'With')
      node.missing = scope(node.body, outer, (frame) => {
        for (const target of node.targets) declare(target, frame);
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

/** Records the names that a scope begins with. @param {Node} target @param {Frame} frame */
function declare(target, frame) {
  if (target.type === 'Name') frame.names.set(target.name, 'other');
  else for (const item of target.items) declare(item, frame);
}

/**
 * Marks each scope inside of a body with the names that begin as undefined in it (`missing`), and returns those of the body itself.
 * @param {Node[]} body @param {Frame | null} [outer] @param {(frame: Frame) => void} [begin]
 * @returns {string[]}
 */
export function scope(body, outer = null, begin = () => {}) {
  /** @type {Frame} */
  const frame = { names: new Map(), stored: new Set(), outer };
  begin(frame);
  visit(body, frame);
  visitInnerScopes(body, frame);
  return [...frame.names].flatMap(([name, start]) => (start === 'missing' ? [name] : []));
}
