// A page that shares its engine with other tabs, for bundlers. `continueReply` continues the conversation; the tab that is the leader at
// that time computes it.
import { createSharedEngine } from 'bq4/shared';

async function run(options) {
  const engine = await createSharedEngine({ threads: 2, cache: 'auto', ...options });
  const model = await engine.load('chat.bq4', { contextTokens: 64, sessions: 2 });
  const session = await model.createSession();
  const report = async (prompt) => {
    const { tokens: ids } = await session.generate(prompt, { temperature: 0, maxTokens: 8 }).result;
    const { shared, leads, threads } = engine.info;
    return { ids, shared, leads, threads };
  };
  Object.assign(window, { continueReply: report });
  return report('Once');
}

export const share = (options) =>
  void run(options)
    .catch((error) => ({ error: `${error.stack}; ${error.cause?.stack}`, code: error.code, hint: error.hint }))
    .then((result) => Object.assign(window, { result }));
