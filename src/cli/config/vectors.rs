//! Warnings about vectors that the configuration and the database tell together: a persona whose searches would use them, if the
//! model were the one that was measured.

use crate::cli::CommandContext;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Problem};
use crate::store::{DatabasePlace, Store, VectorSwitch};
use std::sync::Arc;

/// Returns personas for which another model was measured. A database that cannot be read says nothing here: `attache doctor`
/// reports it.
pub(super) async fn unused_switches(context: &CommandContext, config: &Config) -> Vec<Problem> {
    let place = DatabasePlace::of(&context.workspace);
    if !place.is_ok_and(|place| place.is_made()) {
        return Vec::new();
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let Ok(store) = Store::open_to_read(&context.workspace, clock).await else {
        return Vec::new();
    };
    let switches = store.vector_switches().await.unwrap_or_default();
    store.close().await;
    let current = config.inference.embeddings.as_ref();
    let current = current.map(|of| (of.provider.clone(), of.vector_model()));
    let problem = |(persona, switch): (String, VectorSwitch)| {
        let is_current = current.as_ref().is_some_and(|(provider, model)| {
            (provider, model) == (&switch.provider, &switch.model)
        });
        let named = current.as_ref().map(|(_, model)| format!("`{model}`"));
        let named = named.unwrap_or_else(|| "no model".to_owned());
        let message = format!(
            "vectors of `{persona}` were measured with `{}`, and the configuration names {named}: its searches go by words alone",
            switch.model
        );
        let place = ("configs/inference.json", "/embeddings");
        let problem = config.snapshot.problem_at(place.0, place.1, message);
        let hint = format!(
            "`attache memory bench --persona {persona} --switch-on` measures again, `--switch-off` forgets it"
        );
        (!is_current).then(|| problem.hint(hint))
    };
    switches.into_iter().filter_map(problem).collect()
}
