//! The table of routes: path, method, who may, what it changes. The router is made from it and from nothing else, and so is
//! the matrix of tests that every route refuses what it must.

pub(super) mod router;
mod values;

use super::failure::Shape;
use super::pages::workspace::{
    access, configuration, doctor, persona_file, persona_file_versions, personas, schedule,
};
use super::pages::{
    approvals, context, erasure, files, inbox, letter, login, memory, notices, outbox, run, search,
    thread, usage,
};
use super::route::{
    RouteAccess, RouteBody, WebRoute, action, agent, model_question, model_read, open, page, read,
    scrape, write,
};
use super::{api, ingest, metrics, openai};
use crate::replay::rule_proposal::RuleProposal;
use crate::replay::{ContextRecord, MessageRecord, RunRecord, ThreadDetail};
use crate::store::files::persona_file_versions::{PersonaFileHistory, PersonaFileVersionText};
use crate::store::files::persona_files::PersonaFileText;
use crate::store::{
    ApprovalView, Delivery, ErasedMemory, KeyRight, MemoryDossier, MemoryEntry, NoticeFold,
    PersonaHalt, RunSummary, StoredSlot, ThreadOverview,
};
use serde_json::{Map, Value};
use values::{PERSONA, is_address, is_cursor, is_entry_state, is_number};

/// Every route.
pub static ROUTES: &[WebRoute] = &[
    open("/login", |call| Box::pin(login::show(call))),
    WebRoute {
        access: RouteAccess::Anyone,
        ..action("/login", "uses a code up and opens a session", |call| {
            Box::pin(login::log_in(call))
        })
    },
    action("/logout", "ends the session", |call| {
        Box::pin(login::log_out(call))
    }),
    open("/assets/{name}", |call| Box::pin(files::show(call))),
    page("/", |call| Box::pin(inbox::show(call)))
        .checked(&[PERSONA, ("after", "place in this list", is_cursor)]),
    page("/t/{id}", |call| Box::pin(thread::show(call))).checked(&[(
        "letters",
        "number of letters",
        is_number,
    )]),
    page("/r/{id}", |call| Box::pin(run::show(call))),
    page("/r/{id}/context", |call| Box::pin(context::show(call))),
    page("/r/{id}/turns/{turn}/request", |call| {
        Box::pin(run::request(call))
    }),
    page("/r/{id}/turns/{turn}/response", |call| {
        Box::pin(run::response(call))
    }),
    page("/m/{id}", |call| Box::pin(letter::show(call))),
    page("/m/{id}/body.html", |call| Box::pin(letter::body(call))),
    page("/m/{id}/raw", |call| Box::pin(letter::raw(call))),
    page("/m/{id}/files/{number}", |call| {
        Box::pin(letter::file(call))
    }),
    page("/approvals", |call| Box::pin(approvals::show(call))),
    page("/approvals/{id}/rule", |call| {
        Box::pin(approvals::rule::show(call))
    }),
    action(
        "/approvals/{id}/approve",
        "lets the call happen, exactly as shown",
        |call| Box::pin(approvals::approve(call)),
    ),
    action("/approvals/{id}/reject", "refuses the call", |call| {
        Box::pin(approvals::reject(call))
    }),
    action(
        "/approvals/{id}/edit",
        "refuses the call and has it proposed anew",
        |call| Box::pin(approvals::change(call)),
    ),
    action(
        "/approvals/{id}/draft",
        "replaces subject and text of a draft, and sends it if the form says so",
        |call| Box::pin(approvals::rewrite(call)),
    ),
    action(
        "/approvals/{id}/answer",
        "answers a persona's question",
        |call| Box::pin(approvals::answer(call)),
    ),
    action("/r/{id}/cancel", "ends a run", |call| {
        Box::pin(run::cancel(call))
    }),
    action("/r/{id}/retry", "queues a run again", |call| {
        Box::pin(run::retry(call))
    }),
    action("/m/{id}/answer", "has a filed letter answered", |call| {
        Box::pin(letter::answer(call))
    }),
    action("/schedule/{id}/run", "starts a duty now", |call| {
        Box::pin(schedule::start(call))
    }),
    action("/schedule/{id}/pause", "lets a duty rest", |call| {
        Box::pin(schedule::pause(call))
    }),
    action("/schedule/{id}/resume", "lets a duty fire again", |call| {
        Box::pin(schedule::resume(call))
    }),
    page("/outbox", |call| Box::pin(outbox::show(call))),
    action("/outbox/{id}/retry", "has a mail tried at once", |call| {
        Box::pin(outbox::retry(call))
    }),
    action("/outbox/{id}/hold", "keeps a mail back", |call| {
        Box::pin(outbox::hold(call))
    }),
    action("/outbox/{id}/cancel", "gives a mail up", |call| {
        Box::pin(outbox::cancel(call))
    }),
    page("/notices", |call| Box::pin(notices::show(call))),
    action(
        "/notices/{id}/dismiss",
        "takes a cause off the page until it happens again",
        |call| Box::pin(notices::dismiss(call)),
    ),
    page("/usage", |call| Box::pin(usage::show(call))).checked(&[(
        "days",
        "number of days",
        is_number,
    )]),
    page("/memory", |call| Box::pin(memory::show(call))).checked(&[
        PERSONA,
        ("status", "state of an entry", is_entry_state),
        ("contact", "whole address", is_address),
    ]),
    action("/memory/{id}/approve", "has an entry used", |call| {
        Box::pin(memory::approve(call))
    }),
    action("/memory/{id}/reject", "takes an entry out of use", |call| {
        Box::pin(memory::reject(call))
    }),
    action("/memory/{id}/edit", "says an entry anew", |call| {
        Box::pin(memory::edit(call))
    }),
    action(
        "/memory/{id}/restore",
        "undoes the last change of an entry",
        |call| Box::pin(memory::restore(call)),
    ),
    page("/memory/{id}/forget", |call| Box::pin(erasure::show(call))),
    action("/memory/{id}/forget", "erases an entry for good", |call| {
        Box::pin(erasure::forget(call))
    }),
    page("/schedule", |call| Box::pin(schedule::show(call))),
    page("/personas", |call| Box::pin(personas::list(call))),
    page("/personas/{id}/file", |call| {
        Box::pin(persona_file::show(call))
    }),
    action("/personas/{id}/file", "replaces a persona's file", |call| {
        Box::pin(persona_file::save(call))
    }),
    page("/personas/{id}/file/versions", |call| {
        Box::pin(persona_file_versions::list(call))
    }),
    action(
        "/personas/{id}/file/restore",
        "brings an earlier version of a persona's file back",
        |call| Box::pin(persona_file_versions::restore(call)),
    ),
    page("/personas/{id}", |call| Box::pin(personas::show(call))),
    action("/halt", "stops all runs and mail, or a persona's", |call| {
        Box::pin(doctor::halt(call))
    }),
    action("/resume", "lifts a halt", |call| {
        Box::pin(doctor::resume(call))
    }),
    page("/doctor", |call| Box::pin(doctor::show(call))),
    page("/access", |call| Box::pin(access::show(call))),
    action(
        "/access/sessions/{id}/end",
        "ends a session of a browser",
        |call| Box::pin(access::end_session(call)),
    ),
    action(
        "/access/keys/{id}/revoke",
        "revokes a key of a program",
        |call| Box::pin(access::revoke_key(call)),
    ),
    page("/config", |call| Box::pin(configuration::show(call))),
    page("/search", |call| Box::pin(search::show(call))),
    WebRoute {
        shape: Shape::Json,
        ..open("/livez", |call| Box::pin(api::health(call)))
    }
    .about("whether the process answers", &[])
    .gives::<api::HealthRecord>(),
    WebRoute {
        shape: Shape::Json,
        ..open("/readyz", |call| Box::pin(api::ready(call)))
    }
    .about("whether letters are taken; 503 when they are not", &[])
    .gives::<api::ReadyRecord>(),
    scrape("/metrics", |call| Box::pin(metrics::show(call))).about("numbers for Prometheus", &[]),
    read("/api/v1/events", |call| Box::pin(api::events(call))).about(
        "what happens, as kinds and ids",
        &["persona", "thread", "run", "after"],
    ),
    WebRoute {
        access: RouteAccess::Key(KeyRight::Ingest),
        body: RouteBody::Letter,
        shape: Shape::Json,
        ..action("/ingest/{persona}", "stores a letter", |call| {
            Box::pin(ingest::by_key(call))
        })
    },
    read("/api/v1/conversations", |call| {
        Box::pin(api::conversations(call))
    })
    .about(
        "conversations, the newest first",
        &["persona", "outcome", "limit", "cursor"],
    )
    .gives::<api::ItemList<ThreadOverview>>(),
    read("/api/v1/threads/{id}", |call| Box::pin(api::thread(call)))
        .about("a thread with its messages and runs", &["limit"])
        .gives::<ThreadDetail<'static>>(),
    read("/api/v1/runs", |call| Box::pin(api::runs(call)))
        .about(
            "runs, the newest first",
            &["persona", "state", "since", "limit", "cursor"],
        )
        .gives::<api::ItemList<RunSummary>>(),
    read("/api/v1/runs/{id}", |call| Box::pin(api::run(call)))
        .about("a run and everything that happened in it", &[])
        .gives::<RunRecord>(),
    read("/api/v1/runs/{id}/context", |call| {
        Box::pin(api::run_context(call))
    })
    .about("what the model saw in a run", &[])
    .gives::<ContextRecord>(),
    read("/api/v1/messages/{id}", |call| Box::pin(api::message(call)))
        .about("a message as runs show it", &[])
        .gives::<MessageRecord>(),
    read("/api/v1/approvals", |call| Box::pin(api::approvals(call)))
        .about(
            "questions, open ones by their end, others the newest first",
            &["persona", "state", "limit", "cursor"],
        )
        .gives::<api::ItemList<ApprovalView>>(),
    read("/api/v1/approvals/{id}", |call| {
        Box::pin(api::approval(call))
    })
    .about("a question", &[])
    .gives::<ApprovalView>(),
    read("/api/v1/approvals/{id}/rule", |call| {
        Box::pin(approvals::rule::show(call))
    })
    .about("rules that would answer it, with their effects", &[])
    .gives::<RuleProposal>(),
    read("/api/v1/deliveries", |call| Box::pin(api::deliveries(call)))
        .about(
            "mails on their way and gone, the newest first",
            &["persona", "state", "limit", "cursor"],
        )
        .gives::<api::ItemList<Delivery>>(),
    read("/api/v1/notices", |call| Box::pin(api::notices(call)))
        .about("notices by their cause", &["limit", "cursor"])
        .gives::<api::ItemList<NoticeFold>>(),
    read("/api/v1/memory", |call| Box::pin(api::memory(call)))
        .about(
            "entries of memory, the newest first",
            &["persona", "status", "contact", "limit", "cursor"],
        )
        .gives::<api::ItemList<MemoryEntry>>(),
    read("/api/v1/memory/{id}", |call| {
        Box::pin(api::memory_entry(call))
    })
    .about("an entry of memory with what it rests on", &[])
    .gives::<MemoryDossier>(),
    read("/api/v1/slots", |call| Box::pin(api::slots(call)))
        .about(
            "slots of all responsibilities, the newest first",
            &["limit", "cursor"],
        )
        .gives::<api::ItemList<StoredSlot>>(),
    read("/api/v1/personas", |call| Box::pin(api::personas(call)))
        .about("personas with their settings", &[])
        .gives::<api::ItemList<Map<String, Value>>>(),
    read("/api/v1/personas/{id}/file", |call| {
        Box::pin(persona_file::show(call))
    })
    .about("a persona's file with its digest", &["name"])
    .gives::<PersonaFileText>(),
    read("/api/v1/personas/{id}/file/versions", |call| {
        Box::pin(persona_file_versions::list(call))
    })
    .about(
        "a persona's file with its earlier versions, the newest first",
        &["name"],
    )
    .gives::<PersonaFileHistory>(),
    read("/api/v1/personas/{id}/file/version", |call| {
        Box::pin(persona_file_versions::show(call))
    })
    .about(
        "an earlier version of a persona's file, the newest without a number",
        &["name", "version"],
    )
    .gives::<PersonaFileVersionText>(),
    read("/api/v1/usage", |call| Box::pin(api::usage(call)))
        .about("what calls used and cost", &["by", "days"])
        .gives::<api::UsageSums>(),
    WebRoute {
        shape: Shape::Json,
        ..open("/api/v1/openapi.json", |call| {
            Box::pin(api::description(call))
        })
    }
    .about("this description", &[]),
    // What keeps the engine going, a program may do.
    write(
        RouteAccess::Operate,
        "/api/v1/runs/{id}/cancel",
        "ends a run",
        |call| Box::pin(run::cancel(call)),
    )
    .gives::<run::ChangedRun<'static>>(),
    write(
        RouteAccess::Operate,
        "/api/v1/runs/{id}/retry",
        "queues a run again",
        |call| Box::pin(run::retry(call)),
    )
    .gives::<run::ChangedRun<'static>>(),
    write(
        RouteAccess::Operate,
        "/api/v1/deliveries/{id}/retry",
        "has a mail tried at once",
        |call| Box::pin(outbox::retry(call)),
    )
    .gives::<Delivery>(),
    write(
        RouteAccess::Operate,
        "/api/v1/deliveries/{id}/hold",
        "keeps a mail back",
        |call| Box::pin(outbox::hold(call)),
    )
    .gives::<Delivery>(),
    write(
        RouteAccess::Operate,
        "/api/v1/deliveries/{id}/cancel",
        "gives a mail up",
        |call| Box::pin(outbox::cancel(call)),
    )
    .gives::<Delivery>(),
    write(
        RouteAccess::Operate,
        "/api/v1/responsibilities/{id}/run",
        "starts a duty now",
        |call| Box::pin(schedule::start(call)),
    )
    .gives::<schedule::ChangedResponsibility>(),
    write(
        RouteAccess::Operate,
        "/api/v1/responsibilities/{id}/pause",
        "lets a duty rest",
        |call| Box::pin(schedule::pause(call)),
    )
    .gives::<schedule::ChangedResponsibility>(),
    write(
        RouteAccess::Operate,
        "/api/v1/responsibilities/{id}/resume",
        "lets a duty fire again",
        |call| Box::pin(schedule::resume(call)),
    )
    .gives::<schedule::ChangedResponsibility>(),
    write(
        RouteAccess::Operate,
        "/api/v1/halt",
        "stops all runs and mail, or a persona's",
        |call| Box::pin(doctor::halt(call)),
    )
    .gives::<Vec<PersonaHalt>>()
    .knowing(&["persona", "reason"]),
    // What an owner decides, no key does.
    write(
        RouteAccess::Session,
        "/api/v1/personas/{id}/file",
        "replaces a persona's file",
        |call| Box::pin(persona_file::save(call)),
    )
    .gives::<PersonaFileText>()
    .knowing(&["name", "text", "base_sha256"]),
    write(
        RouteAccess::Session,
        "/api/v1/personas/{id}/file/restore",
        "brings an earlier version of a persona's file back",
        |call| Box::pin(persona_file_versions::restore(call)),
    )
    .gives::<PersonaFileText>()
    .knowing(&["name", "version", "base_sha256"]),
    write(
        RouteAccess::Session,
        "/api/v1/resume",
        "lifts a halt",
        |call| Box::pin(doctor::resume(call)),
    )
    .gives::<Vec<PersonaHalt>>()
    .knowing(&["persona"]),
    write(
        RouteAccess::Session,
        "/api/v1/messages/{id}/answer",
        "has a filed letter answered",
        |call| Box::pin(letter::answer(call)),
    )
    .gives::<letter::AnsweredFiled<'static>>(),
    write(
        RouteAccess::Session,
        "/api/v1/approvals/{id}/approve",
        "lets the call happen, exactly as shown",
        |call| Box::pin(approvals::approve(call)),
    )
    .gives::<approvals::DecidedRecord<'static>>()
    .knowing(&["sha256", "words"]),
    write(
        RouteAccess::Session,
        "/api/v1/approvals/{id}/reject",
        "refuses the call",
        |call| Box::pin(approvals::reject(call)),
    )
    .gives::<approvals::DecidedRecord<'static>>()
    .knowing(&["sha256", "words"]),
    write(
        RouteAccess::Session,
        "/api/v1/approvals/{id}/edit",
        "refuses the call and has it proposed anew",
        |call| Box::pin(approvals::change(call)),
    )
    .gives::<approvals::DecidedRecord<'static>>()
    .knowing(&["sha256", "words"]),
    write(
        RouteAccess::Session,
        "/api/v1/approvals/{id}/draft",
        "replaces subject and text of a draft, and sends it with `then: send`",
        |call| Box::pin(approvals::rewrite(call)),
    )
    .gives::<approvals::DecidedRecord<'static>>()
    .knowing(&["sha256", "subject", "text", "then"]),
    write(
        RouteAccess::Session,
        "/api/v1/approvals/{id}/answer",
        "answers a persona's question",
        |call| Box::pin(approvals::answer(call)),
    )
    .gives::<approvals::DecidedRecord<'static>>()
    .knowing(&["sha256", "words"]),
    write(
        RouteAccess::Session,
        "/api/v1/memory/{id}/approve",
        "has an entry used",
        |call| Box::pin(memory::approve(call)),
    )
    .gives::<memory::ChangedEntry<'static>>()
    .knowing(&["for_everybody"]),
    write(
        RouteAccess::Session,
        "/api/v1/memory/{id}/reject",
        "takes an entry out of use",
        |call| Box::pin(memory::reject(call)),
    )
    .gives::<memory::ChangedEntry<'static>>()
    .knowing(&["words"]),
    write(
        RouteAccess::Session,
        "/api/v1/memory/{id}/edit",
        "says an entry anew",
        |call| Box::pin(memory::edit(call)),
    )
    .gives::<memory::ChangedEntry<'static>>()
    .knowing(&["words"]),
    write(
        RouteAccess::Session,
        "/api/v1/memory/{id}/restore",
        "undoes the last change of an entry",
        |call| Box::pin(memory::restore(call)),
    )
    .gives::<memory::ChangedEntry<'static>>(),
    write(
        RouteAccess::Session,
        "/api/v1/memory/{id}/forget",
        "erases an entry for good",
        |call| Box::pin(erasure::forget(call)),
    )
    .gives::<Vec<ErasedMemory>>(),
    agent("/mcp", |call| Box::pin(api::agents(call))),
    model_read("/v1/models", |call| Box::pin(openai::list(call))),
    model_read("/v1/models/{id}", |call| Box::pin(openai::show(call))),
    model_question("/v1/chat/completions", |call| {
        Box::pin(openai::complete(call))
    }),
    model_question("/v1/responses", |call| Box::pin(openai::respond(call))),
    model_read("/v1/responses/{id}", |call| {
        Box::pin(openai::response(call))
    }),
];
