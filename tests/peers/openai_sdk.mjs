// Talks to a persona with OpenAI's client of Node. See openai_sdk.sh.

import assert from "node:assert/strict";
import OpenAI from "openai";

const { BASE_URL, API_KEY, PERSONA } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY });
const user = (content) => ({ role: "user", content });

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models, [PERSONA, "titles"]);

const first = await client.chat.completions.create({ model: PERSONA, messages: [user("How many seats?")] });
assert.equal(first.choices[0].message.content, "Forty seats.");
const turns = [user("How many seats?"), { role: "assistant", content: "Forty seats." }, user("Bravo!")];
const second = await client.chat.completions.create({ model: PERSONA, messages: turns });
assert.equal(second.attache.thread_id, first.attache.thread_id);

let text = "";
const stream = await client.chat.completions.create({ model: PERSONA, messages: [user("What is in the cupboard?")], stream: true });
for await (const chunk of stream) text += chunk.choices[0]?.delta?.content ?? "";
assert.match(text, /^I looked: /);

const response = await client.responses.create({ model: PERSONA, input: "How many seats?" });
assert.equal(response.output_text, "Forty seats.");
assert.equal((await client.responses.retrieve(response.id)).output_text, "Forty seats.");

await assert.rejects(client.chat.completions.create({ model: "nobody", messages: [user("x")] }), OpenAI.NotFoundError);
await assert.rejects(
  client.chat.completions.create({ model: PERSONA, messages: [user("Zanzibar")] }),
  (error) => error instanceof OpenAI.InternalServerError && error.code === "run_failed",
);
console.log("ok: openai of Node: models, answers, a stream, responses, errors");
