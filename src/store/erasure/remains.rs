//! Every text of every table, looked through for words of a person.

use crate::domain::{PersonaId, RunId};
use crate::store::memory::erase::rows_with;
use crate::store::{Result, Store};
use crate::text::quotations::Quotations;
use std::collections::BTreeMap;

/// Runs whose requests are stored compressed, where no reading of a column finds a word.
const RUNS_PACKED: &str =
    "SELECT DISTINCT run_id, persona_id FROM run_turns WHERE packed IS NOT NULL";

impl Store {
    /// Counts the rows that quote, as `table.column`; requests that are stored compressed are unpacked for it.
    pub async fn quoting_places(&self, quotations: &Quotations) -> Result<BTreeMap<String, u64>> {
        // All texts of a large database take longer than a read may.
        let mut conn = self.unhurried_reader().await?;
        let read = rows_with(&mut conn, |words| quotations.are_in(words)).await;
        conn.close().await?;
        let named = read?.into_iter();
        let named = named.map(|found| (format!("{}.{}", found.table, found.column), found.rows));
        let mut places: BTreeMap<String, u64> = named.collect();
        let packed = self.quoting_packed(quotations).await?;
        if packed > 0 {
            places.insert("run_turns.packed".to_owned(), packed);
        }
        Ok(places)
    }

    /// Counts the compressed requests that quote.
    async fn quoting_packed(&self, quotations: &Quotations) -> Result<u64> {
        let mut count = 0;
        let runs = self.rows(RUNS_PACKED, ()).await?;
        for row in &runs {
            let persona = PersonaId::parse(row.get("persona_id"));
            let Ok(persona) = persona else { continue };
            let run: RunId = row.get("run_id");
            let turns = match self.persona(&persona).turns_of_run(&run).await {
                // What nobody can unpack any more is no text.
                Err(error) if error.is_of_one_row() => continue,
                turns => turns?,
            };
            let quoting = turns.iter().filter(|turn| {
                let texts = [&turn.context_json, &turn.sources_json];
                let mut texts = texts.into_iter().flatten().chain([&turn.request_json]);
                texts.any(|text| quotations.are_in(text))
            });
            count += quoting.count() as u64;
        }
        Ok(count)
    }
}
