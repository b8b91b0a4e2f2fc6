// How a TypeScript project sees the adapters, beside the libraries that they are for.
import { createProviderRegistry, embedMany, generateText, streamText } from 'ai';
import type { Model } from 'bq4';
import { createWorkerEngine } from 'bq4';
import { createProvider, embeddingModel, languageModel } from 'bq4/ai-sdk';
import { connect } from 'bq4/connect';
import { Bq4Embeddings, ChatBq4 } from 'bq4/langchain';
import { polyfill, promptApi } from 'bq4/prompt-api';
import { useChat, useModel } from 'bq4/react';

const engine = await createWorkerEngine();
const model: Model = await engine.load('a.bq4');
const remote = connect('http://127.0.0.1:8080/v1');

/** False of what is `any`. */
type Known<T> = 0 extends 1 & T ? false : true;
const known: Known<ReturnType<typeof languageModel>> &
  Known<ReturnType<typeof embeddingModel>> &
  Known<ReturnType<typeof createProvider>> &
  Known<ReturnType<typeof promptApi>> &
  Known<ReturnType<typeof polyfill>> &
  Known<ConstructorParameters<typeof ChatBq4>[0]> &
  Known<ReturnType<typeof useChat>> &
  Known<ReturnType<typeof useModel>> = true;

for await (const text of streamText({ model: languageModel(model), prompt: 'Hi' }).textStream) text.length;
const { text } = await generateText({ model: languageModel(remote), prompt: 'Hi', temperature: 0 });
const { embeddings } = await embedMany({ model: embeddingModel(model), values: [text] });
const registry = createProviderRegistry({ bq4: createProvider({ small: model, large: remote }) });
const chat = new ChatBq4({ model, temperature: 0, max_tokens: 20, stop: ['.'] });
const reply = await chat.invoke('Hi', { seed: 1 });
const bound = chat.bindTools([{ type: 'function', function: { name: 'time', parameters: {} } }], { tool_choice: 'any', top_k: 5 });
const vectors: number[][] = await new Bq4Embeddings({ model: remote }).embedDocuments(['Hi']);
const LanguageModel = polyfill(({ onProgress }) => engine.load('a.bq4', { onProgress }));
const session = await LanguageModel.create({ samplingMode: 'creative', initialPrompts: [{ role: 'system', content: 'Be brief.' }] });
const said: string = await session.prompt([{ role: 'user', content: 'Hi' }], { responseConstraint: /a+/ });
void [known, bound, embeddings, registry, reply.content, vectors, said, session.contextUsage];

// @ts-expect-error: no model
languageModel({});
// @ts-expect-error: no embedding model
streamText({ model: embeddingModel(model), prompt: 'Hi' });
// @ts-expect-error: an option that does not exist
new ChatBq4({ model, temprature: 0 });
// @ts-expect-error: a number
new ChatBq4({ model, max_tokens: '20' });
// @ts-expect-error: a number
chat.bindTools([], { temperature: 'hot' });
// @ts-expect-error: no such mode
await LanguageModel.create({ samplingMode: 'wild' });
// @ts-expect-error: no such role
await session.prompt([{ role: 'tool', content: 'Hi' }]);

// Requests of OpenAI's client, as they are typed there.
import type OpenAI from 'openai';
declare const messages: OpenAI.ChatCompletionMessageParam[];
declare const message: OpenAI.ChatCompletionMessage;
declare const tools: OpenAI.ChatCompletionTool[];
declare const tool_choice: OpenAI.ChatCompletionToolChoiceOption;
declare const response_format: OpenAI.ChatCompletionCreateParams['response_format'];
declare const texts: OpenAI.CompletionCreateParams['prompt'];
export const answered = (model: Model) =>
  model.chat.completions.create({ messages: [...messages, message], tools, tool_choice, response_format });
export const goesOn = (model: Model) => model.completions.create({ prompt: texts ?? '', echo: true, logprobs: 1 });
