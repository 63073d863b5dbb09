//! Server of a call: the running one, or one that is started for the call with a random password.

use crate::clock::{Clock, SystemClock};
use crate::config::ProviderSettings;
use crate::domain::ErrorClass;
use crate::providers::agents::opencode::server::Server;
use crate::providers::child::process::{Output, Process};
use crate::providers::child::program::Program;
use crate::providers::contract::traits::{Phase, ProviderError};
use secrecy::SecretString;
use serde_json::Value;
use std::path::Path;

/// Name of the adapter, and of the program.
pub const NAME: &str = "opencode";
const INSTALL: &str = "npm install --global opencode-ai";
const LISTENING: &str = "opencode server listening on ";

/// Finds the program.
pub fn program(settings: &ProviderSettings) -> Result<Program, ProviderError> {
    Program::find(settings, NAME, INSTALL)
}

/// Connects to the running server, or starts one with a random password.
pub async fn connect(
    settings: &ProviderSettings,
    folder: &str,
    config: &Value,
) -> Result<(Server, Option<Process>), ProviderError> {
    if let Some(url) = &settings.base_url {
        return Ok((Server::new(url, settings.api_key.as_ref(), folder)?, None));
    }
    let mut program = program(settings)?;
    let password = SecretString::from(SystemClock::new().new_token());
    program.set("OPENCODE_SERVER_PASSWORD", password.clone());
    program.set(
        "OPENCODE_CONFIG_CONTENT",
        SecretString::from(config.to_string()),
    );
    let args = ["serve", "--hostname", "127.0.0.1", "--port", "0"].map(str::to_owned);
    let mut process = program.start(&args, Path::new(folder))?;
    loop {
        match process.next().await? {
            Output::Line(line) => {
                if let Some(url) = line.split_once(LISTENING).map(|(_, url)| url.trim()) {
                    return Ok((Server::new(url, Some(&password), folder)?, Some(process)));
                }
            }
            Output::End(ending) => {
                let message = format!("opencode ended before it listened: {ending}");
                return Err(ProviderError::new(
                    ErrorClass::Transient,
                    Phase::BeforeSend,
                    message,
                ));
            }
        }
    }
}
