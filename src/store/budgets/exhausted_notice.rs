//! The notice that a budget account is exhausted.

use super::money::BudgetExhausted;
use crate::domain::{BudgetScope, NoticeId, NoticeKind, NoticeSubject, PersonaId};
use crate::store::NewNotice;

/// Returns the notice that a budget account is exhausted: one for each budget account and period.
pub fn budget_reached(
    id: NoticeId,
    persona: &PersonaId,
    empty: &BudgetExhausted,
    summary: String,
    hint: String,
) -> NewNotice {
    let account = &empty.account;
    let detail = match account.scope {
        BudgetScope::Thread => format!("thread-{}-{}", account.span(), account.owner),
        scope => format!("{scope}-{}", account.span()),
    };
    NewNotice {
        id,
        persona: (account.scope != BudgetScope::Engine).then(|| persona.clone()),
        kind: NoticeKind::BudgetReached,
        detail,
        subject: NoticeSubject::Budget,
        subject_id: format!(
            "{} for the {} {}",
            account.whose(),
            account.span(),
            account.period
        ),
        occurrence: account.period.clone(),
        summary,
        hint,
    }
}
