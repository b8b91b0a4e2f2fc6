// Rendered on the server, by an engine there; the client begins another one in a worker.
import { createEngine, fromFile } from 'bq4/node';
import { Story } from './story.jsx';

export const dynamic = 'force-dynamic';

export default async function Page() {
  const engine = await createEngine({ threads: 1 });
  const model = await engine.load(fromFile('public/chat.bq4'), { contextTokens: 64 });
  const { ids } = await model.generate('Once', { temperature: 0, maxTokens: 8 });
  await engine.close();
  return (
    <main>
      <pre>{JSON.stringify(ids)}</pre>
      <Story />
    </main>
  );
}
