//! One message to a persona until its run has ended or waits for its owner: worked on by the engine that is at work here, or by
//! this process, which works off what is due along with it.

use super::answer::report;
use super::follow::{QuestionWait, Waited};
use super::view::AnswerView;
use crate::app::Engine;
use crate::cli::{CommandContext, Exit, Failure};
use crate::clock::SystemClock;
use crate::config::{Config, Persona};
use crate::domain::{PersonaId, ThreadId};
use crate::runs::chat::outcome::AskedRun;
use crate::runs::chat::question::{AskedAt, question};
use crate::store::{OpenError, Store, StoreError, working_engine};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time between two looks at what is due, while the question waits for another attempt.
const BETWEEN_DRAINS: Duration = Duration::from_millis(500);

/// A message that was answered, or was not.
pub struct AnsweredMessage {
    pub exit: Exit,
    pub asked: AskedRun,
}

/// Returns the persona that was named. Errors: there is none.
pub fn persona_named<'a>(config: &'a Config, typed: &str) -> Result<&'a Persona, Failure> {
    let known = PersonaId::parse(typed).ok();
    known
        .and_then(|id| config.personas.get(&id))
        .ok_or_else(|| {
            let names: Vec<&str> = config
                .personas
                .iter()
                .map(|persona| persona.id.as_str())
                .collect();
            Failure::new(Exit::NoInput, format!("no persona `{typed}`"))
                .hint(format!("there are: {}", names.join(", ")))
        })
}

/// Stores a message with its run, shows what the run does and what becomes of it.
///
/// Errors: a second Ctrl-C, among others; the first cancels the run.
pub async fn exchange(
    context: &CommandContext,
    (config, persona): (&Config, &Persona),
    (text, thread): (&str, Option<ThreadId>),
    view: &mut AnswerView<'_>,
) -> anyhow::Result<AnsweredMessage> {
    let mut engine = match working_engine(&context.workspace) {
        Some(_) => None,
        None => engine_here(config).await?,
    };
    let store = match &engine {
        Some(engine) => engine.store.clone(),
        None => context.store_of_engine().await?,
    };
    let new = question(
        (persona, AskedAt::Terminal),
        store.clock().as_ref(),
        text,
        thread,
    );
    let run = new.run.id.clone();
    store.persona(&persona.id).ask(new).await?;
    let asked = AskedRun::of(&store, &run).await?;
    let mut waiting = QuestionWait::new(context, &store, &asked)?;
    let exchanged = loop {
        if let Some(engine) = &engine {
            break answered_here(context, engine, (&mut waiting, view)).await?;
        }
        match waiting.wait(view, false).await? {
            Waited::Settled(asked) => {
                let exit = report(context, &asked, view)?;
                break AnsweredMessage {
                    exit,
                    asked: *asked,
                };
            }
            Waited::NoEngine => engine = engine_here(config).await?,
        }
    };
    drop(waiting);
    // The workspace is free again before the next message is typed.
    drop(engine);
    store.close().await;
    Ok(exchanged)
}

/// Opens an engine in this process; `None`: another one has just begun to work here.
async fn engine_here(config: &Config) -> anyhow::Result<Option<Engine>> {
    match Engine::open(config.clone(), Arc::new(SystemClock::new())).await {
        Err(error) if matches!(error.downcast_ref(), Some(OpenError::InUse { .. })) => Ok(None),
        opened => opened.map(Some),
    }
}

/// Works off what is due until the question is settled. The answer shows as soon as it is there, and what is left is worked off
/// behind it.
async fn answered_here(
    context: &CommandContext,
    engine: &Engine,
    (waiting, view): (&mut QuestionWait<'_>, &mut AnswerView<'_>),
) -> anyhow::Result<AnsweredMessage> {
    let is_settled = CancellationToken::new();
    let working = work_until(engine, &is_settled);
    tokio::pin!(working);
    let waited = tokio::select! {
        waited = waiting.wait(view, true) => Some(waited?),
        worked = &mut working => {
            worked?;
            None
        }
    };
    if let Some(Waited::Settled(asked)) = waited {
        let exit = report(context, &asked, view)?;
        let exchanged = AnsweredMessage {
            exit,
            asked: *asked,
        };
        is_settled.cancel();
        tokio::select! {
            worked = working => worked.map(|()| exchanged),
            () = waiting.interrupted() => Ok(exchanged),
        }
    } else {
        waiting.look(view).await?;
        let asked = waiting.asked().await?;
        let exit = report(context, &asked, view)?;
        Ok(AnsweredMessage { exit, asked })
    }
}

/// Works off what is due, again and again until `is_settled`: a run that is parked comes due later.
async fn work_until(engine: &Engine, is_settled: &CancellationToken) -> anyhow::Result<()> {
    loop {
        engine.drain().await?;
        tokio::select! {
            () = is_settled.cancelled() => return Ok(()),
            () = tokio::time::sleep(BETWEEN_DRAINS) => {}
        }
    }
}

/// Finds a thread of earlier questions by a piece of its id. Errors: it is another, whose people or agents would be shown what is
/// asked here.
pub async fn thread_of(
    store: &Store,
    persona: &PersonaId,
    typed: &str,
) -> anyhow::Result<ThreadId> {
    let rows = store.persona(persona);
    let found = match store.find_thread(typed).await {
        Ok(thread) if rows.has_thread(&thread).await? => Some(thread),
        Ok(_) | Err(StoreError::Missing { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let Some(thread) = found else {
        let message = format!("{persona} has no thread `{typed}`");
        return Err(Failure::new(Exit::NoInput, message)
            .hint("`attache ask … --json` and `/thread` in `attache chat` show the thread of a question")
            .into());
    };
    match rows.is_asked_at(&thread, &AskedAt::Terminal.word()).await? {
        true => Ok(thread),
        false => {
            let message = format!("`{typed}` is no thread of `attache ask` or `attache chat`");
            Err(Failure::new(Exit::BadData, message)
                .hint("go on with one that they began")
                .into())
        }
    }
}
