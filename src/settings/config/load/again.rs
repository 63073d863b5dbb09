//! Reads the configuration of a working engine again. A persona whose files have become faulty stays as it was, and so does
//! one in whose folder an agent works: what that has written is put back when it ends.

use super::load_from;
use crate::config::file::{
    ConfigErrors, ConfigLocation, KeptFiles, Problem, persona_file, persona_policy_file,
};
use crate::config::personas::OutOfService;
use crate::config::secrets;
use crate::config::settings::Config;
use crate::domain::PersonaId;
use std::collections::BTreeSet;

/// A configuration that was read beside the one in force.
#[derive(Debug)]
pub struct ReadAgain {
    pub config: Config,
    /// Problems of personas that stay as they were.
    pub kept: Vec<Problem>,
}

/// Reads and checks all files as [`super::load`] does. A persona that works now and has become faulty keeps its files of
/// `in_force`, as one of `held` does; one that never worked is out of service.
///
/// Errors: every problem, when a file other than a persona's is faulty, or the kept files do not fit the new ones.
pub fn load_again(
    in_force: &Config,
    held: &BTreeSet<PersonaId>,
) -> Result<ReadAgain, ConfigErrors> {
    let read = |kept: &KeptFiles| {
        let location = ConfigLocation::FolderWith(&in_force.workspace, kept);
        let (workspace, names) = (&in_force.workspace, &in_force.names);
        load_from(location, workspace, names, &secrets::environment)
    };
    let mut kept = KeptFiles::new();
    keep(in_force, held.iter().map(PersonaId::as_str), &mut kept);
    let mut config = read(&kept)?;
    let works = |out: &&OutOfService| {
        PersonaId::parse(&out.name).is_ok_and(|id| in_force.personas.get(&id).is_some())
    };
    let out_of_service = config.personas.out_of_service().iter();
    let broken: Vec<&OutOfService> = out_of_service.filter(works).collect();
    let problems: Vec<Problem> = broken
        .iter()
        .flat_map(|out| out.problems.iter().cloned())
        .collect();
    if !problems.is_empty() {
        let names = broken.iter().map(|out| out.name.as_str());
        keep(in_force, names, &mut kept);
        config = read(&kept)?;
        if config
            .personas
            .out_of_service()
            .iter()
            .any(|out| works(&out))
        {
            return Err(ConfigErrors { problems });
        }
    }
    // The program may be replaced on disk while it works.
    config.program.clone_from(&in_force.program);
    Ok(ReadAgain {
        config,
        kept: problems,
    })
}

/// Lets the files of these personas stay as they are in force.
fn keep<'n>(in_force: &Config, names: impl Iterator<Item = &'n str>, kept: &mut KeptFiles) {
    let before = in_force.snapshot.files();
    for name in names {
        for file in [persona_file(name), persona_policy_file(name)] {
            let text = before.get(&file).cloned();
            kept.insert(file, text);
        }
    }
}
