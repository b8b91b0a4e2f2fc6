/** Error messages of the CLI. */
import { BqError, shortened } from '../js/shared/errors.js';

/** Returns the lines that the CLI prints for an error. @param {unknown} error */
export function explain(error) {
  if (error instanceof Error && 'syscall' in error && /^(listen|getaddrinfo)$/.test(String(error.syscall)))
    return explainAddress(/** @type {NodeJS.ErrnoException} */ (error));
  if (error instanceof Error && 'syscall' in error)
    return `bq4: ${shortened(error.message)}\n     check the path, its permissions and the free space\n`;
  if (!(error instanceof BqError)) return `bq4: ${error instanceof Error ? error.stack : error}\n`;
  const where = error.offset === null ? '' : ` (byte ${error.offset})`;
  return `bq4: ${error.code}: ${error.message}${where}\n${error.hint ? `     ${error.hint}\n` : ''}`;
}

/** Returns the lines for a server that can't listen. @param {NodeJS.ErrnoException} error */
function explainAddress({ code, message }) {
  if (code === 'EADDRINUSE')
    return `bq4: ${message}: the port is in use\n     choose another with --port N, or 0 for any free port\n`;
  if (code === 'EACCES') return `bq4: ${message}\n     choose a port of 1024 or more with --port N\n`;
  return `bq4: ${shortened(message)}\n     choose a name or an address of this machine with --host\n`;
}
