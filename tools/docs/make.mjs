// Generates build/site/: the demo and the examples (tools/site.mjs), and the documents as pages that need no scripts. All addresses are
// relative, so the site works in any folder of any static host.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { escapeHtml, makePage, convertDocument } from './page.mjs';
import { pagePolicy } from '../serve.mjs';
import { makeSite, SITE } from '../site.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (/** @type {string} */ path) => readFileSync(join(ROOT, path), 'utf8');

/** First documents of the navigation. The other files of docs/ follow. */
const FIRST_DOCUMENTS = ['README.md', 'docs/MODELS.md'];
/** Last documents of the navigation. */
const LAST_DOCUMENTS = ['models/README.md', 'CHANGELOG.md'];
/** Folders of the navigation with their titles. The README of a folder is its first document. */
const FOLDERS = {
  'docs/guides': 'Guides',
  'docs/reference': 'Reference',
  'docs/inside': 'Inside',
  'docs/decisions': 'Decisions',
  'docs/log': 'Logs',
};
/** Files that a browser can display without conversion. Other sources are converted to pages. */
const DISPLAYABLE_FILES = /\.(svg|png|js|json|csv|html|css)$/;
/** Folders of mobile apps: they contain no pages, but sources that documents link to. */
const APPS_FOLDER = 'examples/hosts';

/**
 * Returns the Markdown files of a folder: its README, then the files in the order in which the README links to them (for several links
 * the last one counts), then the others by name.
 * @param {string} folder
 */
function documentsIn(folder) {
  const names = readdirSync(join(ROOT, folder)).filter((name) => name.endsWith('.md'));
  const readme = names.includes('README.md') ? read(`${folder}/README.md`) : '';
  const place = (/** @type {string} */ name) => readme.lastIndexOf(`](${name}`);
  const [linked, others] = [names.filter((name) => place(name) >= 0), names.sort()];
  const first = readme ? ['README.md', ...linked.sort((a, b) => place(a) - place(b))] : [];
  return [...new Set([...first, ...others])].map((name) => posix.join(folder, name));
}

/** Returns the path in the site of a file of the repository. @param {string} path */
function sitePathOf(path) {
  if (path === 'README.md') return 'index.html';
  if (path.endsWith('.md')) return path.replace(/md$/, 'html');
  return path === '' || DISPLAYABLE_FILES.test(path) || path.endsWith('/') ? path : `${path}.html`;
}

/** Returns the file of the repository that a link leads to: for a folder its page, otherwise its README. @param {string} path */
function fileOf(path) {
  const fullPath = join(ROOT, path);
  if (!existsSync(fullPath)) throw new Error(`expected a file or folder at the target of a link, found none: ${path}`);
  if (!statSync(fullPath).isDirectory()) return path;
  const folder = path.replace(/\/?$/, '/');
  if (existsSync(join(fullPath, 'index.html'))) return folder;
  return fileOf(`${folder}README.md`);
}

/** Whether a link leads to the site itself. @param {string} href */
const isLocal = (href) => !/^([a-z]+:|#|\/)/i.test(href);

/** Writes the documents as pages, and the files to which they link. @param {string} siteFolder */
function writePages(siteFolder) {
  const navigationFiles = [...new Set([...FIRST_DOCUMENTS, ...documentsIn('docs'), ...LAST_DOCUMENTS])];
  const folders = Object.entries(FOLDERS).map(([folder, title]) => ({
    title,
    files: documentsIn(folder),
  }));
  const firstFiles = [...navigationFiles, ...folders.flatMap(({ files }) => files)];
  /** Converted documents by file, in the order in which links to them were found. @type {Map<string, import('./page.mjs').Text>} */
  const texts = new Map();
  /** Returns the relative address in the site for a link, and adds its target to the files to write. @param {string} from @param {string} href */
  const resolveLink = (from, href) => {
    const [path, hash] = href.split('#');
    const file = fileOf(posix.join(posix.dirname(from), path));
    if (file.endsWith('.md')) documents.add(file);
    else if (!file.endsWith('/')) sources.add(file);
    const address = posix.relative(posix.dirname(sitePathOf(from)), sitePathOf(file)) + (file.endsWith('/') ? '/' : '');
    return `${address || './'}${hash === undefined ? '' : `#${hash}`}`;
  };
  const documents = new Set(firstFiles);
  /** @type {Set<string>} */
  const sources = new Set();
  const writePage = (/** @type {string} */ sitePath, /** @type {string} */ text) => {
    mkdirSync(dirname(join(siteFolder, sitePath)), { recursive: true });
    writeFileSync(join(siteFolder, sitePath), text);
  };
  for (const page of examplePages())
    writePage(
      page,
      adaptExamplePage(read(page)).replace(
        /href="([^"]+\.md)(#[^"]*)?"/g,
        (_, href, hash = '') => `href="${resolveLink(page, href + hash)}"`,
      ),
    );
  for (const path of documents)
    // `documents` grows during the loop.
    texts.set(
      path,
      convertDocument(read(path), (href) => (isLocal(href) ? resolveLink(path, href) : href)),
    );
  const pages = [...texts].map(([path, text]) => ({ path, ...text, body: text.html }));
  for (const path of [...sources].filter((name) => !DISPLAYABLE_FILES.test(name)))
    pages.push({
      path,
      title: basename(path),
      headings: [],
      html: '',
      body: `<h1>${escapeHtml(path)}</h1>\n<pre tabindex="0"><code>${escapeHtml(read(path))}</code></pre>\n`,
    });
  for (const { path, title, body, headings } of pages) {
    const sitePath = sitePathOf(path);
    const linkTo = (/** @type {string} */ file) => ({
      href: posix.relative(posix.dirname(sitePath), sitePathOf(file)),
      title: /** @type {import('./page.mjs').Text} */ (texts.get(file)).title,
      here: file === path,
    });
    const linkInFolder = (/** @type {string} */ file) => ({
      ...linkTo(file),
      ...(file.endsWith('/README.md') && { title: 'Overview' }),
    });
    const rootPrefix = '../'.repeat(sitePath.split('/').length - 1);
    const [homeLink, ...documentLinks] = navigationFiles.map(linkTo);
    const links = [
      homeLink,
      { href: `${rootPrefix}demo/`, title: 'The chat demo' },
      { href: `${rootPrefix}examples/`, title: 'Examples' },
      ...documentLinks,
    ];
    writePage(
      sitePath,
      makePage({
        title,
        up: rootPrefix,
        body,
        headings,
        links,
        folders: folders.map((folder) => ({ title: folder.title, links: folder.files.map(linkInFolder) })),
      }),
    );
  }
  for (const path of sources)
    if (DISPLAYABLE_FILES.test(path)) {
      mkdirSync(dirname(join(siteFolder, path)), { recursive: true });
      cpSync(join(ROOT, path), join(siteFolder, path));
    }
  cpSync(join(ROOT, 'tools/docs/style.css'), join(siteFolder, 'docs.css'));
}

/** Returns the paths of the examples' pages. @returns {string[]} */
const examplePages = () =>
  readdirSync(join(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
    .map((name) => posix.join('examples', ...name.split(/[\\/]/)))
    .filter((path) => path.endsWith('.html') && !path.startsWith(APPS_FOLDER));

/**
 * Adds to a page the content security policy that `npm start` sends, since a static host may send none. The list of examples also gets a link
 * to the documents.
 * @param {string} page
 */
const adaptExamplePage = (page) =>
  page
    .replace(
      '<meta charset="utf-8">',
      () => `<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${pagePolicy(page)}">`,
    )
    .replace('<h1>Examples</h1>', '<p><a href="../index.html">bq4</a></p>\n$&');

/** Writes the site with its documents. @param {string} [siteFolder]  its content is deleted first */
export async function writeDocs(siteFolder = SITE) {
  await makeSite(siteFolder);
  rmSync(join(siteFolder, APPS_FOLDER), { recursive: true });
  writePages(siteFolder);
  writeFileSync(join(siteFolder, '.nojekyll'), ''); // with this file, GitHub Pages serves the site without changes
}
