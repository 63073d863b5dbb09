// Reads a calendar with npm's ical.js and writes what it says as one line of JSON. Argument: the folder with node_modules.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const module = await import(pathToFileURL(`${process.argv[2]}/node_modules/ical.js/dist/ical.js`).href);
const ICAL = module.default ?? module;
const calendar = new ICAL.Component(ICAL.parse(readFileSync(0, "utf8")));
const events = calendar.getAllSubcomponents("vevent");
const event = events[0];
const first = (name) => event.getFirstPropertyValue(name);
const time = (name) => (first(name) ? first(name).toUnixTime() : null);
const instance = first("recurrence-id");
console.log(
  JSON.stringify({
    method: calendar.getFirstPropertyValue("method"),
    events: events.length,
    uid: first("uid"),
    sequence: first("sequence"),
    summary: first("summary"),
    comment: first("comment"),
    organizer: first("organizer"),
    attendees: event.getAllProperties("attendee").map((one) => [one.getFirstValue(), one.getParameter("partstat")]),
    start: time("dtstart"),
    end: time("dtend"),
    instance: instance ? instance.toString() : null,
  }),
);
