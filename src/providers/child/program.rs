//! Programs: found and started.

use super::process::{GRACE, Output, Process, ProcessStart};
use crate::config::ProviderSettings;
use crate::domain::ErrorClass;
use crate::providers::contract::traits::{Phase, ProviderCheck, ProviderError};
use crate::providers::transport::lines::OutputLimits;
use secrecy::{ExposeSecret, SecretString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

const VERSION_DEADLINE: Duration = Duration::from_secs(10);

/// A program that was found, and the environment that it may see.
pub struct Program {
    path: PathBuf,
    environment: Vec<(String, SecretString)>,
    workspace: Option<PathBuf>,
    pub limits: OutputLimits,
    pub grace: Duration,
}

impl Program {
    /// Finds the configured program, or `name`, without starting it. Errors: class `BinaryMissing`
    /// with `install`, a command that installs it.
    pub fn find(
        settings: &ProviderSettings,
        name: &str,
        install: &str,
    ) -> Result<Self, ProviderError> {
        let agent = &settings.agent;
        let wanted = agent.binary.as_deref().unwrap_or(name);
        let search = agent.environment.iter().find(|(name, _)| name == "PATH");
        let search = search.map_or("", |(_, value)| value.expose_secret());
        let Some(path) = agent.found.clone().or_else(|| look_up(wanted, search)) else {
            let place = if wanted.contains('/') {
                "is not a program"
            } else {
                "is not on `PATH`"
            };
            let message =
                format!("`{wanted}` {place}; install it (`{install}`) or set `binary` to its path");
            return Err(ProviderError::new(
                ErrorClass::BinaryMissing,
                Phase::Config,
                message,
            ));
        };
        let (environment, limits) = (agent.environment.clone(), OutputLimits::default());
        let (workspace, grace) = (agent.workspace.clone(), agent.stop_grace.unwrap_or(GRACE));
        Ok(Self {
            path,
            environment,
            workspace,
            limits,
            grace,
        })
    }

    /// Builds a program from a path, relative to a folder, or from a name on `PATH` of `environment`; `None`: there is none. Its
    /// processes are marked as those of the workspace.
    pub fn at(
        wanted: &str,
        (folder, workspace): (&Path, &Path),
        environment: Vec<(String, SecretString)>,
    ) -> Option<Self> {
        let search = environment.iter().find(|(name, _)| name == "PATH");
        let search = search.map_or("", |(_, value)| value.expose_secret());
        let path = match wanted.contains('/') {
            true => look_up(&folder.join(wanted).display().to_string(), search)?,
            false => look_up(wanted, search)?,
        };
        Some(Self {
            path,
            environment,
            workspace: Some(workspace.to_owned()),
            limits: OutputLimits::default(),
            grace: GRACE,
        })
    }

    pub fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Sets or replaces a variable that the program sees.
    pub fn set(&mut self, name: &str, value: SecretString) {
        self.unset(name);
        self.environment.push((name.to_owned(), value));
    }

    /// Removes a variable from the program's environment, even an allowed one.
    pub fn unset(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// Returns values of the environment that must not appear in an error.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        const NAMES: [&str; 4] = ["KEY", "TOKEN", "SECRET", "PASSWORD"];
        let secret = |name: &str| NAMES.iter().any(|part| name.contains(part));
        self.environment
            .iter()
            .filter(move |(name, _)| secret(name))
            .map(|(_, value)| value.expose_secret())
    }

    /// Starts the program. Errors: class `BinaryMissing` or `Config`, phase `BeforeSend`.
    pub fn start(&self, args: &[String], folder: &Path) -> Result<Process, ProviderError> {
        let failed = |error: std::io::Error| {
            let missing = error.kind() == std::io::ErrorKind::NotFound && folder.is_dir();
            let class = if missing {
                ErrorClass::BinaryMissing
            } else {
                ErrorClass::Config
            };
            let message = format!(
                "cannot start `{}` in `{}`: {error}",
                self.path(),
                folder.display()
            );
            ProviderError::new(class, Phase::BeforeSend, message)
        };
        let start = ProcessStart {
            program: &self.path,
            args,
            environment: &self.environment,
            folder,
            workspace: self.workspace.as_deref(),
            limits: self.limits,
            grace: self.grace,
        };
        Process::spawn(&start).map_err(failed)
    }

    /// Returns path and version, by `--version`. Errors: class `Config` or `Timeout`.
    pub async fn version(&self) -> Result<ProviderCheck, ProviderError> {
        let failed = |class, what: String| {
            ProviderError::new(
                class,
                Phase::Config,
                format!("`{} --version` {what}", self.path()),
            )
        };
        let mut process = self.start(&["--version".to_owned()], Path::new("/"))?;
        process.close_stdin();
        let mut first = None;
        let asked = async {
            loop {
                match process.next().await? {
                    Output::Line(line) => first = first.take().or(Some(line)),
                    Output::End(ending) => return Ok::<_, ProviderError>(ending),
                }
            }
        };
        let ended = timeout(VERSION_DEADLINE, asked).await;
        process.stop().await;
        match ended {
            Err(_) => Err(failed(
                ErrorClass::Timeout,
                format!("said nothing in {} s", VERSION_DEADLINE.as_secs()),
            )),
            Ok(Err(error)) => Err(error),
            Ok(Ok(ending)) if ending.code == Some(0) => Ok(ProviderCheck {
                endpoint: Some(self.path()),
                version: first,
                ..ProviderCheck::default()
            }),
            Ok(Ok(ending)) => Err(failed(ErrorClass::Config, format!("failed: {ending}"))),
        }
    }
}

/// Returns an executable file: the path itself if it has a slash, else the first on `search`.
fn look_up(wanted: &str, search: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        path.metadata()
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    if wanted.contains('/') {
        // A relative path would mean another file in the agent's folder.
        return std::path::absolute(wanted).ok().filter(is_program);
    }
    let folders = search.split(':').filter(|folder| folder.starts_with('/'));
    folders
        .map(|folder| Path::new(folder).join(wanted))
        .find(is_program)
}
