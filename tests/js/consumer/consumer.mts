// How a TypeScript project sees the package: this must compile against the generated declarations, and the lines
// that are marked must not.
import { BqError, createWorkerEngine, fromBlob, fromBytes, fromFile, fromUrl } from 'bq4';
import { connect, localOrRemote, type RemoteModel } from 'bq4/connect';
import { createEngine } from 'bq4/node';
import { createSharedEngine } from 'bq4/shared';
import type { Chat, ChatCompletion, ChatCompletionChunk, Engine, EngineStore, ErrorCode, Generation, Message, Model, Part, Plan, Result, Session, SharedEngine, SourceLike, StageTrace, StoreOptions, Timings, TokenizerInfo } from 'bq4';

const { signal } = new AbortController();
const engine: Engine = await createWorkerEngine({ signal, build: 'simd128' });
const plan: Plan = await engine.plan(fromUrl('https://example.org/a.bq4'), { contextTokens: 2048, sessions: 2, kv: 'f16' });
const heap: number = plan.heapBytes;
const model: Model = await engine.load(fromBytes(new Uint8Array(3)), { onProgress: ({ phase, loaded, total }) => void [phase === 'download', loaded / total] });
const ids: number[] = await model.tokenize('text', { addSpecial: false });
const session: Session = await model.createSession();
const generation: Generation = session.generate(ids, { maxTokens: 5, stop: ['\n'], seed: heap });
for await (const part of generation) void ((p: Part): string => p.text)(part);
const result: Result = await generation.result;
void session.generate('x', { speculate: { model, tokens: 4 } });
const reason: 'stop' | 'length' | 'context' | 'abort' | 'deadline' = result.finishReason;
const chat: Chat = await model.createChat({ system: reason, messages: [{ role: 'user', content: 'Hi' }] });
const messages: readonly Message[] = chat.messages;
for (const source of [fromBlob(new Blob([])), fromFile('a.bq4'), 'https://example.org/a.bq4', new Blob([])]) await (await createEngine()).load(source);
const { timings }: { timings: Timings } = result;
const tokenizer: TokenizerInfo | null = model.info.tokenizer;
const store: EngineStore | null = engine.store;
const shared: SharedEngine = await createSharedEngine({ name: 'mine', leaderTimeout: 5000, cache: 'auto' });
const leads: boolean = shared.info.leads;
const trace: StageTrace[] = await session.trace();
const [like, kept]: [SourceLike, StoreOptions] = ['a.bq4', { maxBytes: result.usage.completionTokens + timings.decodeMs }];
void [tokenizer, store, trace, like, kept];
const code: ErrorCode = 'NO_SESSION';
const offset: number | null = new BqError(code, String(messages)).offset;
for await (const chunk of await model.chat.completions.create({ messages: [...messages], max_tokens: 5, stream: true })) void ((c: ChatCompletionChunk): string | undefined => c.choices[0].delta.content)(chunk);
const whole: ChatCompletion = await model.chat.completions.create({ messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }] });
const remote: RemoteModel = connect('http://127.0.0.1:8080/v1', { apiKey: 'x' });
const { where, model: either }: { where: 'local' | 'remote', model: Model | RemoteModel } = await localOrRemote(engine, 'a.bq4', remote, { tokensPerSecond: 5 });
void [where, (await either.chat.completions.create({ messages: [] })).choices, (await remote.models.list()).data[0].id];
{
  await using brief: Session = await model.createSession();
  void [brief, whole.usage.total_tokens, await model.countTokens([])];
}
await Promise.all([chat.close(), session.close(), model.close(), engine.close()]);

// @ts-expect-error: an option that does not exist
session.generate('x', { temprature: offset ?? 1 });
// @ts-expect-error: not a policy
session.generate('x', { contextPolicy: 'shrink' });
// @ts-expect-error: not a number
session.generate('x', { topK: '40' });
// @ts-expect-error: no source
engine.load(5);
// @ts-expect-error: no code
new BqError('X', '');
// @ts-expect-error: not a number
plan.heapBytes.length;
