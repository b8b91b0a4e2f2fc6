/** Addresses: full ones, relative ones of the page, and names on a hub. */
import { fullUrl, noAddress } from '../../shared/builds.js';
import { BqError } from '../../shared/errors.js';

/** @import { Source, UrlOptions } from './types.js' */

/** @param {string | URL} url */
function resolve(url) {
  // In a page '' is the page; a path of Windows begins as a scheme of one letter does.
  const href = url && fullUrl(url);
  if (href && !/^(.|ftp):/.test(href)) return href;
  throw noAddress(url);
}

/** ARGUMENT. @param {string} name  `hf:owner/name[/file][@revision]` */
function parseHubName(name) {
  const [, repo, file, revision = 'main'] =
    /^hf:([\w-][\w.-]*\/[\w-][\w.-]*)(?:\/([^@?#]+))?(?:@([\w./-]+))?$/.exec(name) ?? [];
  if (!repo)
    throw new BqError(
      'ARGUMENT',
      `expected hf:owner/name, hf:owner/name/file.gguf, or either with @revision, found "${name}"`,
    );
  return { repo, revision, ...(file && { file }) };
}

/**
 * The source that an address stands for. ARGUMENT.
 * @param {string | URL} url
 * @param {Omit<UrlOptions, 'companion' | 'manifest'>} options  checked
 * @returns {Source}
 */
export function sourceAt(url, { hubUrl, mirrors = [], ...options }) {
  if (String(url).startsWith('hf:'))
    return {
      kind: 'hub',
      ...parseHubName(String(url)),
      ...(hubUrl !== undefined && { hubUrl: resolve(hubUrl) }),
      ...options,
    };
  return { kind: 'url', url: resolve(url), ...(mirrors.length && { mirrors: mirrors.map(resolve) }), ...options };
}
