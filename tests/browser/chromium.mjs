// What every start of Chromium needs.
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
 * A Chromium of one's own, without a driver.
 * @param {string} executable
 * @param {string} profile  its folder
 * @param {{ detached?: boolean }} [options]  `detached`: the leader of a group that can be killed as a whole
 * @returns {Promise<{ program: import('node:child_process').ChildProcess, endpoint: string, gone: Promise<unknown> }>}  `endpoint`: of its protocol
 */
export async function spawnChromium(executable, profile, { detached = false } = {}) {
  const args = [...FLAGS, '--headless', '--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank'];
  const program = spawn(executable, args, { detached, stdio: ['ignore', 'ignore', 'pipe'] });
  const promise = new Promise((resolve) => program.on('exit', resolve));
  let text = '';
  /** @type {Promise<string>} */
  const listening = new Promise((resolve, reject) => {
    program.stderr.on('data', (data) => {
      text += data;
      const found = /listening on (ws:\S+)/.exec(text);
      if (found) resolve(found[1]);
    });
    program.on('exit', () => reject(new Error(text)));
  });
  try {
    return { program, endpoint: await inTime('Chromium to listen', listening, { state: () => text }), gone: promise };
  } catch (error) {
    program.kill('SIGKILL');
    throw error;
  }
}
