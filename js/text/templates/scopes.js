/**
 * Finds the names that are undefined at the beginning of each scope, by jinja2's rule: a name that a scope assigns
 * before reading it is local to the scope, even while it has no value yet. So an inner scope that reads the name
 * earlier does not get the value of an outer scope.
 */

/** @typedef {import('./parse.js').Node} Node */
/**
 * State of the analysis of a scope, or of a branch of an `if` in it (`branch`). `names`: initial value of each name:
 * 'missing' (undefined) or 'other' (a parameter, or the value of an outer scope). `stored`: names that are assigned.
 * @typedef {{ names: Map<string, 'missing' | 'other'>, stored: Set<string>, outer: Frame | null, branch?: boolean }}
 *   Frame
 */

/**
 * Whether a frame or one around it contains a name.
 * @param {Frame | null} frame @param {string} name @returns {boolean}
 */
const contains = (frame, name) => frame !== null && (frame.names.has(name) || contains(frame.outer, name));

/** Records that a name is read. @param {Frame} frame @param {string} name */
const load = (frame, name) => void (contains(frame, name) || frame.names.set(name, 'other'));

/** Returns the scope to which a branch belongs. @param {Frame} frame @returns {Frame} */
const scopeOf = (frame) => (frame.branch ? scopeOf(/** @type {Frame} */ (frame.outer)) : frame);

/**
 * Whether the scope of a frame (without outer scopes) has a name in one of the two collections.
 * @param {Frame} frame @param {'names' | 'stored'} collection @param {string} name @returns {boolean}
 */
const has = (frame, collection, name) =>
  frame[collection].has(name) || (frame.branch === true && has(/** @type {Frame} */ (frame.outer), collection, name));

/** Records that a name is assigned. @param {Frame} frame @param {string} name */
function store(frame, name) {
  frame.stored.add(name);
  if (!has(frame, 'names', name)) frame.names.set(name, contains(scopeOf(frame).outer, name) ? 'other' : 'missing');
}

/** Records the names that an expression reads. @param {any} value @param {Frame} frame */
function read(value, frame) {
  if (Array.isArray(value)) for (const item of value) read(item, frame);
  else if (value !== null && typeof value === 'object') {
    if (value.type === 'Name') load(frame, value.name);
    else if (value.type !== 'Constant') for (const part of Object.values(value)) read(part, frame);
  }
}

/** Records the names that an assignment sets. @param {Node} target @param {Frame} frame */
function assign(target, frame) {
  if (target.type === 'Member') load(frame, target.name);
  else if (target.type === 'Name') store(frame, target.name);
  else for (const item of target.items) assign(item, frame);
}

/**
 * Analyses the branches of an `if`. A name that not all of them assign initially has the value of an outer scope.
 * @param {Node[][]} branches @param {Frame} frame
 */
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

/** Analyses the statements of a scope, without the scopes inside it. @param {Node[]} body @param {Frame} frame */
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
      node.missing = markMissing(node.body, outer, (frame) => declare(node.target, frame));
      node.otherwiseMissing = markMissing(node.otherwise, outer);
    } else if (node.type === 'With')
      node.missing = markMissing(node.body, outer, (frame) => {
        for (const target of node.targets) declare(target, frame);
        read(node.values, frame);
      });
    else if (node.type === 'Macro' || node.type === 'CallBlock') {
      const macro = node.macro ?? node;
      macro.missing = markMissing(macro.body, outer, (frame) => {
        for (const { name, value } of macro.parameters) {
          frame.names.set(name, 'other');
          read(value, frame);
        }
      });
    } else if (node.type === 'SetBlock' || node.type === 'FilterBlock') node.missing = markMissing(node.body, outer);
  }
}

/**
 * Records the names of an assignment's target as defined at the beginning of a scope.
 * @param {Node} target @param {Frame} frame
 */
function declare(target, frame) {
  if (target.type === 'Name') frame.names.set(target.name, 'other');
  else for (const item of target.items) declare(item, frame);
}

/**
 * Sets `missing` of each scope inside a body to the names that are undefined at its beginning. Returns those of the
 * body.
 * @param {Node[]} body @param {Frame | null} [outer]
 * @param {(frame: Frame) => void} [begin]  records names that are defined at the beginning of the body
 * @returns {string[]}
 */
export function markMissing(body, outer = null, begin = () => {}) {
  /** @type {Frame} */
  const frame = { names: new Map(), stored: new Set(), outer };
  begin(frame);
  visit(body, frame);
  visitInnerScopes(body, frame);
  return [...frame.names].flatMap(([name, start]) => (start === 'missing' ? [name] : []));
}
