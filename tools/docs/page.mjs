// Converts a Markdown document to an HTML page that needs no scripts. Syntax and anchors of headings are those of GitHub.
import { Marked } from 'marked';

/** @typedef {{ level: number, id: string, html: string }} Heading */
/** @typedef {{ title: string, html: string, headings: Heading[] }} Text  `title`: text without HTML tags */

/** @type {Record<string, string>} */
const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
/** Returns text as HTML. @param {string} text */
export const escapeHtml = (text) => text.replace(/[&<>"]/g, (mark) => ESCAPES[mark]);

/** Returns the text of HTML without tags, like `innerText`. @param {string} html */
const stripTags = (html) => html.replace(/<[^>]*>/g, '');

/** Cells of tables with more characters than this do not become as narrow as their longest word. */
const LONG_CELL = 24;

/** Returns the anchor of a heading, equal to GitHub's. @param {string} html @param {Map<string, number>} useCounts  number of uses of each anchor */
function makeAnchor(html, useCounts) {
  const text = stripTags(html).replace(/&\w+;|&#\d+;/g, '');
  const name = text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-');
  const uses = useCounts.get(name) ?? 0;
  useCounts.set(name, uses + 1);
  return uses ? `${name}-${uses}` : name;
}

/**
 * Converts a document.
 * @param {string} source  Markdown
 * @param {(href: string) => string} link  returns the address in the site for that of a link or an image
 * @returns {Text}
 */
export function convertDocument(source, link) {
  /** @type {Heading[]} */
  const headings = [];
  /** @type {Map<string, number>} */
  const taken = new Map();
  const marked = new Marked({
    gfm: true,
    walkTokens: (token) => {
      if (token.type === 'link' || token.type === 'image') token.href = link(token.href);
    },
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens);
        const id = makeAnchor(html, taken);
        headings.push({ level: depth, id, html });
        return `<h${depth} id="${id}">${html}</h${depth}>\n`;
      },
      // Elements wider than the page have a scroll bar of their own, and can be focused by keyboard.
      code: ({ text, lang }) =>
        `<pre tabindex="0"${lang ? ` data-lang="${escapeHtml(lang)}"` : ''}><code>${escapeHtml(text)}\n</code></pre>\n`,
      table(token) {
        const cellHtml = (/** @type {typeof token.header[0]} */ { align, text, tokens }, /** @type {string} */ tag) => {
          const classes = [align, text.length > LONG_CELL && 'long'].filter(Boolean).join(' ');
          return `<${tag}${classes && ` class="${classes}"`}>${this.parser.parseInline(tokens)}</${tag}>`;
        };
        const rowHtml = (/** @type {typeof token.header} */ row, /** @type {string} */ tag) =>
          `<tr>${row.map((cell) => cellHtml(cell, tag)).join('')}</tr>\n`;
        const hasTitles = token.header.some(({ text }) => text.trim());
        const head = hasTitles ? `<thead>\n${rowHtml(token.header, 'th')}</thead>\n` : '';
        return `<div class="table" tabindex="0"><table>\n${head}<tbody>\n${token.rows.map((row) => rowHtml(row, 'td')).join('')}</tbody></table></div>\n`;
      },
      html({ text }) {
        if (!/^<!--[^]*-->\s*$/.test(text.trim()))
          throw new Error(`expected no HTML except comments in a document, found ${text}`);
        return '';
      },
    },
  });
  const html = /** @type {string} */ (marked.parse(source));
  return { title: stripTags(headings[0]?.html ?? ''), html, headings };
}

/** Content security policy of the page: allows only its own resources. */
const POLICY = "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'";

/** @typedef {{ href: string, title: string, here?: boolean }} Link */

/**
 * Returns the HTML of a page.
 * @param {{ title: string, up: string, body: string, headings?: Heading[], links: Link[], folders: { title: string, links: Link[] }[] }} page
 *   `up`: relative address of the site's root; `links`: the navigation; `folders`: documents after these links, which a reader can
 *   open by folder
 */
export function makePage({ title, up: rootPrefix, body, headings = [], links, folders }) {
  const listItem = (/** @type {Link} */ { href, title: name, here }) =>
    `<li><a href="${href}"${here ? ' aria-current="page"' : ''}>${name}</a></li>`;
  const sections = headings.filter(({ level }) => level === 2 || level === 3);
  const contentsHtml =
    sections.length > 3
      ? `<details class="contents"><summary>On this page</summary>\n<ul>\n${sections.map(({ level, id, html }) => `<li class="level${level}"><a href="#${id}">${html}</a></li>`).join('\n')}\n</ul></details>\n`
      : '';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width">
<title>${title === 'bq4' ? title : `${title} · bq4`}</title>
<link rel="stylesheet" href="${rootPrefix}docs.css">
<link rel="icon" href="${rootPrefix}demo/icon.svg">
</head>
<body>
<a class="skip" href="#text">To the text</a>
<nav aria-label="Documents">
<ul>
${links.map(listItem).join('\n')}
</ul>
${folders
  .map(
    (folder) => `<details${folder.links.some(({ here }) => here) ? ' open' : ''}><summary>${folder.title}</summary>
<ul>
${folder.links.map(listItem).join('\n')}
</ul></details>
`,
  )
  .join('')}</nav>
<main id="text" tabindex="-1">
${contentsHtml ? body.replace('</h1>\n', () => `</h1>\n${contentsHtml}`) : body}</main>
</body>
</html>
`;
}
