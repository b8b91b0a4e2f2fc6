// Rendered on the server, by an engine there; the client begins another one in a worker.
import { createEngine, fromFile } from 'bq4/node';
import { Story } from './story.jsx';

export const dynamic = 'force-dynamic';

export default async function Page() {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile('public/chat.bq4'), { contextTokens: 64 });
  const { tokens } = await model.generate('Once', { temperature: 0, maxTokens: 8 }).result;
  await engine.close();
  return (
    <main>
      <pre>{JSON.stringify(tokens)}</pre>
      <Story />
    </main>
  );
}
