// Command-line flags of Chromium in tests, and a Chromium without a driver.
import { spawn } from 'node:child_process';
import { inTime } from '../waiting.mjs';

export const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  // The headless shell ends every page that checks for speech recognition on the device.
  '--disable-blink-features=OnDeviceWebSpeechAvailable',
];

/**
 * Starts Chromium in a process of its own.
 * @param {string} executable
 * @param {string} profile  a folder
 * @param {{ detached?: boolean }} [options]  `detached`: the process leads a group, which can be killed together
 * @returns {Promise<{ program: import('node:child_process').ChildProcess, endpoint: string, exit: Promise<unknown> }>}  `endpoint`: address
 *   of the DevTools protocol; `exit`: resolves when the process has ended
 */
export async function spawnChromium(executable, profile, { detached = false } = {}) {
  const args = [...FLAGS, '--headless', '--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank'];
  const program = spawn(executable, args, { detached, stdio: ['ignore', 'ignore', 'pipe'] });
  const exit = new Promise((resolve) => program.on('exit', resolve));
  let text = '';
  /** @type {Promise<string>} */
  const listening = new Promise((resolve, reject) => {
    program.stderr.on('data', (data) => {
      text += data;
      const match = /listening on (ws:\S+)/.exec(text);
      if (match) resolve(match[1]);
    });
    program.on('exit', () => reject(new Error(text)));
  });
  try {
    return { program, endpoint: await inTime('Chromium to listen', listening, { state: () => text }), exit };
  } catch (error) {
    program.kill('SIGKILL');
    throw error;
  }
}
