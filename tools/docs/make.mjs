// Generates build/site/: the demo and the examples (tools/site.mjs), and the documents as pages that need no scripts. All addresses are
// relative, so the site works in any folder of any static host.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { escaped, pageOf, textOf } from './page.mjs';
import { pagePolicy } from '../serve.mjs';
import { makeSite, SITE } from '../site.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8');

/** First documents of the navigation. Other files of docs/ follow. */
const FIRST = [
  'README.md',
  'docs/guides/README.md',
  'docs/reference/README.md',
  'docs/inside/README.md',
  'docs/MODELS.md',
];
const LAST = ['models/README.md', 'CHANGELOG.md'];
/** Folders of the navigation with their titles. The README of a folder is its first document. */
const FOLDERS = {
  'docs/guides': 'Guides',
  'docs/reference': 'Reference',
  'docs/inside': 'Inside',
  'docs/decisions': 'Decisions',
  'docs/log': 'Logs',
};
/** Files that a browser can display without conversion. Other sources are converted to pages. */
const SHOWN = /\.(svg|png|js|json|csv|html|css)$/;
/** Folders of mobile apps: they contain no pages, but sources that documents link to. */
const APPS = 'examples/hosts';

/** @param {string} folder  its Markdown, by name */
const documentsIn = (folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => posix.join(folder, name));

/** Returns the path in the site of a file of the repository. @param {string} path */
function placeOf(path) {
  if (path === 'README.md') return 'index.html';
  if (path.endsWith('.md')) return path.replace(/md$/, 'html');
  return path === '' || SHOWN.test(path) || path.endsWith('/') ? path : `${path}.html`;
}

/** Returns the file of the repository that a link leads to: for a folder its page, otherwise its README. @param {string} path */
function fileOf(path) {
  const full = join(ROOT, path);
  if (!existsSync(full)) throw new Error(`a link to ${path}, which is not there`);
  if (!statSync(full).isDirectory()) return path;
  const folder = path.replace(/\/?$/, '/');
  if (existsSync(join(full, 'index.html'))) return folder;
  return fileOf(`${folder}README.md`);
}

/** Whether a link leads to the site itself. @param {string} href */
const isLocal = (href) => !/^([a-z]+:|#|\/)/i.test(href);

/** @param {string} to  the site's folder */
function writePages(to) {
  const shown = [...new Set([...FIRST, ...documentsIn('docs'), ...LAST])];
  const folders = Object.entries(FOLDERS).map(([folder, title]) => ({
    title,
    files: documentsIn(folder).filter((path) => !shown.includes(path)),
  }));
  const begin = [...shown, ...folders.flatMap(({ files }) => files)];
  /** Converted documents by file, in the order in which links to them were found. @type {Map<string, import('./page.mjs').Text>} */
  const texts = new Map();
  /** @param {string} from @param {string} href */
  const resolved = (from, href) => {
    const [path, hash] = href.split('#');
    const file = fileOf(posix.join(posix.dirname(from), path));
    if (file.endsWith('.md')) wanted.add(file);
    else if (!file.endsWith('/')) sources.add(file);
    const address = posix.relative(posix.dirname(placeOf(from)), placeOf(file)) + (file.endsWith('/') ? '/' : '');
    return `${address || './'}${hash === undefined ? '' : `#${hash}`}`;
  };
  const wanted = new Set(begin);
  /** @type {Set<string>} */
  const sources = new Set();
  const write = (/** @type {string} */ place, /** @type {string} */ text) => {
    mkdirSync(dirname(join(to, place)), { recursive: true });
    writeFileSync(join(to, place), text);
  };
  for (const page of pagesOfExamples())
    write(
      page,
      forStatic(read(page)).replace(
        /href="([^"]+\.md)(#[^"]*)?"/g,
        (_, href, hash = '') => `href="${resolved(page, href + hash)}"`,
      ),
    );
  for (const path of wanted)
    // it grows
    texts.set(
      path,
      textOf(read(path), (href) => (isLocal(href) ? resolved(path, href) : href)),
    );
  const pages = [...texts].map(([path, text]) => ({ path, ...text, body: text.html }));
  for (const path of [...sources].filter((name) => !SHOWN.test(name)))
    pages.push({
      path,
      title: basename(path),
      headings: [],
      html: '',
      body: `<h1>${escaped(path)}</h1>\n<pre tabindex="0"><code>${escaped(read(path))}</code></pre>\n`,
    });
  for (const { path, title, body, headings } of pages) {
    const place = placeOf(path);
    const link = (/** @type {string} */ file) => ({
      href: posix.relative(posix.dirname(place), placeOf(file)),
      title: /** @type {import('./page.mjs').Text} */ (texts.get(file)).title,
      here: file === path,
    });
    const up = '../'.repeat(place.split('/').length - 1);
    const links = [
      ...shown.map(link),
      { href: `${up}examples/`, title: 'Examples' },
      { href: `${up}demo/`, title: 'The chat demo' },
    ];
    write(
      place,
      pageOf({
        title,
        up,
        body,
        headings,
        links,
        folders: folders.map((folder) => ({ title: folder.title, links: folder.files.map(link) })),
      }),
    );
  }
  for (const path of sources)
    if (SHOWN.test(path)) {
      mkdirSync(dirname(join(to, path)), { recursive: true });
      cpSync(join(ROOT, path), join(to, path));
    }
  cpSync(join(ROOT, 'tools/docs/style.css'), join(to, 'docs.css'));
}

/** @returns {string[]} */
const pagesOfExamples = () =>
  readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
    .map((name) => posix.join('examples', ...name.split(/[\\/]/)))
    .filter((path) => path.endsWith('.html') && !path.startsWith(APPS));

/**
 * Adds the policy that `npm start` sends to a page, since a static host may send none. The list of examples also gets a link
 * to the documents.
 * @param {string} page
 */
const forStatic = (page) =>
  page
    .replace(
      '<meta charset="utf-8">',
      () => `<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${pagePolicy(page)}">`,
    )
    .replace('<h1>Examples</h1>', '<p><a href="../index.html">bq4</a></p>\n$&');

/** @param {string} [to]  a folder, which is emptied */
export async function makeDocs(to = SITE) {
  await makeSite(to);
  rmSync(join(to, APPS), { recursive: true });
  writePages(to);
  writeFileSync(join(to, '.nojekyll'), ''); // GitHub Pages then takes it as it is
}
