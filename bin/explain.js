/** Error messages of the CLI. */
import { BqError, shortened } from '../js/shared/errors.js';

/** The lines that the CLI prints for an error. @param {unknown} error */
export function explain(error) {
  if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')
    return `bq4: ${error.message}: the port is in use\n     choose another with --port N, or 0 for any free port\n`;
  if (error instanceof Error && 'syscall' in error)
    return `bq4: ${shortened(error.message)}\n     check the path, its permissions and the free space\n`;
  if (!(error instanceof BqError)) return `bq4: ${error instanceof Error ? error.stack : error}\n`;
  const where = error.offset === null ? '' : ` (byte ${error.offset})`;
  return `bq4: ${error.code}: ${error.message}${where}\n${error.hint ? `     ${error.hint}\n` : ''}`;
}
