// Reads recorded streams with OpenAI's client of Node and prints what it read of them. See openai_sdk.sh.

import OpenAI from "openai";

const { BASE_URL, PERSONA } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: "none" });
const read = { chat: "", finish: null, usage: null, kinds: [], response: "" };
const stream = await client.chat.completions.create({ model: PERSONA, messages: [{ role: "user", content: "x" }], stream: true });
for await (const chunk of stream) {
  read.chat += chunk.choices[0]?.delta?.content ?? "";
  read.finish = chunk.choices[0]?.finish_reason ?? read.finish;
  read.usage = chunk.usage?.completion_tokens ?? read.usage;
}
for await (const event of await client.responses.create({ model: PERSONA, input: "x", stream: true })) {
  read.kinds.push(event.type);
  if (event.type === "response.output_text.delta") read.response += event.delta;
}
console.log(JSON.stringify(read));
