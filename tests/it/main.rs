//! The one integration binary: one module per capability, in the order and with the words of `tests/README.md`.

// The harness
mod app;
mod guest_house;
mod halt;
mod recording_intake;
mod dns;
mod corpora;

// From letter to answer
mod road;
mod threading;
mod together;
mod archives;
mod isolation;
mod runs;
mod contexts;
mod knowledge;
mod memory;
mod vectors;
mod tools;
mod answers;
mod said;
mod answer_cases;
mod addressees;
mod manners;
mod prompts;
mod structured;
mod summaries;
mod letters;
mod overflow;
mod models;
mod shutdown;
mod behaviour;
mod feed;
mod tail;
mod status;
mod idle;

// Mail in
mod smtp;
mod imap;
mod folder;
mod import;
mod migrate;
mod arrival;
mod mime;
mod letter_groups;
mod shell;
mod skills;
mod shortage;

// Who is believed, and who is answered
mod identity;
mod hijack;
mod judge;
mod mail_commands;
mod sender_notes;
mod automatic;
mod unproven;
mod approvals;
mod asking;
mod drafts;
mod questions;
mod attacks;
mod policy;
mod postgres;
mod hooks;
mod filed;

// Models, agents, money
mod providers;
mod providers_command;
mod extract;
mod web;
mod fallback;
mod breaker;
mod hostile;
mod agents;
mod opencode;
mod supervisor;
mod workspaces;
mod mcp;
mod money;

// Mail out
mod outbound;
mod own_tools;
mod mcp_client;
mod dkim;
mod dns_records;
mod bounce;
mod notices;
mod webhooks;
mod telemetry;

// By the clock
mod scheduler;
mod run_options;
mod clock_steps;

// Crashes and years
mod crashes;
#[cfg(debug_assertions)] // without them there are none
mod crash_points;
mod kills;
mod recovery;
mod maintenance;
#[cfg(debug_assertions)]
mod week;
mod doctor;
mod sql;

// Looking back
mod replay;
mod context_as_of;
mod verify;

// The pages
mod http;

// The command line and the workspace
mod cli;
mod commands;
mod browse;
mod calendar;
mod config;
mod mistakes;
mod init;
mod setup;
mod reload;
mod in_force;
mod out_of_service;
mod protection;
mod readme;
mod docs;
