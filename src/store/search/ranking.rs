//! Scores of documents for the terms of a query, and whether the best is worth showing. Pure.
//!
//! A document scores for a term by its rarity, more when its neighbours have the term too. How often a term occurs in one
//! document, and how long that is, count for nothing: letters are short, and both made the measured recall worse.
//! All numbers come from documents that the searcher may see, so that nothing else can change an order.

use std::collections::{HashMap, HashSet};

/// Weight of a term in one neighbour, to 1 in the document itself: `cargo bench -- recall`, D-99.
const NEAR_WEIGHT: f64 = 0.4;
/// Saturation of BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009).
const SATURATION: f64 = 1.2;
/// Lowest share of the score that the query could have at most; a best hit below it is no answer. Fitted by
/// `cargo bench -- recall` on LoCoMo and on subjects of R's mailing lists (D-99).
pub const SHARE_MIN: f64 = 0.32;
/// Weight of what others wrote, where the question names a sender: a question about Carol is answered by Carol's letters
/// first. Fitted as the others are.
const OTHERS_WEIGHT: f64 = 0.5;
/// Most that a score rises by for being recent, and the days in which that falls to a third: a letter is asked about soon.
/// Fitted on the letters that replies answer, at little cost to questions about any time (D-99).
const RECENT_WEIGHT: f64 = 0.3;
const RECENT_DAYS: f64 = 10.0;
const DAY_MS: f64 = 86_400_000.0;
/// Number of unknown words that the highest possible score of a query stands for at most: a whole letter has words that
/// no answer could have.
const TERMS_EXPECTED: f64 = 5.0;

/// Documents that have a term.
#[derive(Debug, Clone, Default)]
pub struct TermDocuments {
    pub documents: Vec<i64>,
    /// Number of documents with the term; more than are listed when the list was cut, then an estimate.
    pub count: f64,
}

/// Documents that were listed for a term.
#[derive(Debug, Clone, Default)]
pub struct TermListing {
    pub documents: Vec<i64>,
    /// `true`: there may be more.
    pub is_cut: bool,
    /// Times of the first and the last listed document, in Unix milliseconds.
    pub span_ms: Option<(i64, i64)>,
}

impl TermListing {
    /// Joins two listings of one term. Where one was cut, the other is short beside it, and its span stands for both.
    pub fn or(self, other: Self) -> Self {
        if self.documents.is_empty() {
            return other;
        }
        let span = match (self.is_cut, other.is_cut) {
            (true, false) => self.span_ms,
            (false, true) => other.span_ms,
            _ => {
                let spans = self.span_ms.into_iter().chain(other.span_ms);
                spans.reduce(|(a, b), (c, d)| (a.min(b).min(c).min(d), a.max(b).max(c).max(d)))
            }
        };
        let mut documents = [self.documents, other.documents].concat();
        documents.sort_unstable_by(|a, b| b.cmp(a));
        documents.dedup();
        Self {
            documents,
            is_cut: self.is_cut || other.is_cut,
            span_ms: span,
        }
    }
}

/// Counts the documents of each term. Where a list was cut, documents are taken to be spread evenly over the time
/// that all lists span together.
pub fn counted(lists: Vec<TermListing>, total: f64) -> Vec<TermDocuments> {
    let spans = lists.iter().filter_map(|list| list.span_ms);
    let (starts, ends): (Vec<i64>, Vec<i64>) = spans.map(|(a, b)| (a.min(b), a.max(b))).unzip();
    let whole = match (starts.iter().min(), ends.iter().max()) {
        (Some(first), Some(last)) => (last - first) as f64,
        _ => 0.0,
    };
    let count = |list: &TermListing| {
        let listed = list.documents.len() as f64;
        let part = list.span_ms.map_or(0.0, |(a, b)| (a - b).abs() as f64);
        match list.is_cut && part > 0.0 {
            true => (listed * whole / part).clamp(listed, total.max(listed)),
            false => listed,
        }
    };
    let term = |list: TermListing| TermDocuments {
        count: count(&list),
        documents: list.documents,
    };
    lists.into_iter().map(term).collect()
}

/// Scores of one query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// Documents and scores, best first; of equals the newest first.
    pub hits: Vec<(i64, f64)>,
    /// Share of the best score in the highest that the query could have.
    pub share: f64,
    /// The same of the best but the document that asks, which has the words of its own question.
    pub share_of_others: f64,
}

impl Ranking {
    /// Raises the scores of recent documents, as of the newest among them; `times_ms` says when each came. The share
    /// stays: that a document is new does not make it an answer.
    pub(in crate::store) fn prefer_recent(&mut self, times_ms: &HashMap<i64, i64>) {
        let Some(newest) = times_ms.values().max() else {
            return;
        };
        for (document, score) in &mut self.hits {
            let Some(at) = times_ms.get(document) else {
                continue;
            };
            let age_days = (newest - at) as f64 / DAY_MS;
            *score *= 1.0 + RECENT_WEIGHT * (-age_days / RECENT_DAYS).exp();
        }
        sort(&mut self.hits);
    }
}

/// Rarity of a term that `count` of `total` documents have; never negative (Lucene's `BM25Similarity`).
fn rarity(count: f64, total: f64) -> f64 {
    let rest = (total - count).max(0.0);
    ((rest + 0.5) / (count + 0.5)).ln_1p()
}

/// Returns the documents with the highest sums of their own terms' rarities, at most `limit`.
pub fn candidates(terms: &[TermDocuments], total: f64, limit: usize) -> Vec<i64> {
    let mut sums: HashMap<i64, f64> = HashMap::new();
    for term in terms {
        let rarity = rarity(term.count, total);
        for document in &term.documents {
            *sums.entry(*document).or_default() += rarity;
        }
    }
    let mut best: Vec<(i64, f64)> = sums.into_iter().collect();
    sort(&mut best);
    best.truncate(limit);
    best.into_iter().map(|(document, _)| document).collect()
}

/// What stands around candidates of a query.
#[derive(Debug, Clone, Default)]
pub struct CandidateFacts {
    /// Neighbours of each.
    pub near: HashMap<i64, Vec<i64>>,
    /// Candidates and neighbours whose senders the query names; `None` when it names nobody.
    pub of_named: Option<HashSet<i64>>,
    /// Document that asks; `None`: none of them does.
    pub asks: Option<i64>,
}

/// Scores the candidates; `total` is the number of documents that the searcher may see.
pub fn rank(
    terms: &[TermDocuments],
    total: f64,
    candidates: &[i64],
    facts: &CandidateFacts,
) -> Ranking {
    let weight_of = |document: &i64| match &facts.of_named {
        Some(named) if !named.contains(document) => OTHERS_WEIGHT,
        _ => 1.0,
    };
    let mut scores: HashMap<i64, f64> = candidates.iter().map(|c| (*c, 0.0)).collect();
    let mut highest = 0.0;
    for term in terms {
        let rarity = rarity(term.count, total);
        highest += rarity;
        let with: HashSet<i64> = term.documents.iter().copied().collect();
        for (document, score) in &mut scores {
            let own = if with.contains(document) {
                weight_of(document)
            } else {
                0.0
            };
            let neighbours = facts.near.get(document).map_or(&[][..], Vec::as_slice);
            let beside = neighbours
                .iter()
                .filter(|n| with.contains(n))
                .map(weight_of);
            let weight = own + NEAR_WEIGHT * beside.sum::<f64>();
            *score += rarity * weight * (SATURATION + 1.0) / (weight + SATURATION);
        }
    }
    let mut hits: Vec<(i64, f64)> = scores.into_iter().collect();
    sort(&mut hits);
    let highest = f64::min(highest, TERMS_EXPECTED * rarity(0.0, total));
    let share = |best: Option<&(i64, f64)>| match best {
        Some((_, score)) if highest > 0.0 => score / highest,
        _ => 0.0,
    };
    Ranking {
        share: share(hits.first()),
        share_of_others: share(
            hits.iter()
                .find(|(document, _)| Some(*document) != facts.asks),
        ),
        hits,
    }
}

fn sort(scores: &mut [(i64, f64)]) {
    scores.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(b.cmp(a)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(documents: &[i64]) -> TermDocuments {
        TermDocuments {
            documents: documents.to_vec(),
            count: documents.len() as f64,
        }
    }

    fn ranked(terms: &[TermDocuments], near: &[(i64, &[i64])]) -> Ranking {
        let near = near.iter().map(|(d, n)| (*d, n.to_vec())).collect();
        let facts = CandidateFacts {
            near,
            ..CandidateFacts::default()
        };
        rank(terms, 100.0, &candidates(terms, 100.0, 10), &facts)
    }

    fn order(ranking: &Ranking) -> Vec<i64> {
        ranking.hits.iter().map(|(document, _)| *document).collect()
    }

    #[test]
    fn rare_terms_count_more_and_of_equals_the_newest_comes_first() {
        let common = term(&(1..=50).collect::<Vec<_>>());
        let rare = term(&[3, 60]);
        assert_eq!(order(&ranked(&[common, rare], &[]))[..2], [3, 60]);
        assert_eq!(order(&ranked(&[term(&[4, 9, 7])], &[])), [9, 7, 4]);
    }

    #[test]
    fn of_a_cut_list_the_rest_is_estimated_by_time() {
        let list = |is_cut, span_ms| TermListing {
            documents: (0..300).collect(),
            is_cut,
            span_ms: Some(span_ms),
        };
        let lists = vec![
            list(true, (1000, 900)),
            list(false, (0, 1000)),
            list(true, (9, 9)),
        ];
        let counts: Vec<f64> = counted(lists, 10_000.0)
            .iter()
            .map(|term| term.count)
            .collect();
        assert_eq!(counts, [3000.0, 300.0, 300.0]);
        assert_eq!(
            counted(vec![list(true, (1000, 999)), list(false, (0, 1))], 500.0)[0].count,
            500.0
        );
    }

    #[test]
    fn a_question_that_names_a_sender_is_answered_by_their_letters_first() {
        let terms = [term(&[1, 2])];
        let facts = CandidateFacts {
            of_named: Some([1].into()),
            ..CandidateFacts::default()
        };
        let named = rank(&terms, 100.0, &[1, 2], &facts);
        assert_eq!(order(&named), [1, 2]);
        assert!((named.share - 1.0).abs() < 1e-9, "{named:?}");
        assert_eq!(order(&ranked(&terms, &[])), [2, 1]);
        // What others wrote alone has less of the question.
        let facts = CandidateFacts {
            of_named: Some([9].into()),
            ..facts
        };
        assert!(rank(&terms, 100.0, &[1, 2], &facts).share < 0.75);
    }

    #[test]
    fn a_document_that_asks_is_no_answer_to_itself() {
        let terms = [term(&[1]), term(&[1, 2]), term(&[1])];
        let facts = CandidateFacts {
            asks: Some(1),
            ..CandidateFacts::default()
        };
        let asked = rank(&terms, 100.0, &[1, 2], &facts);
        assert!((asked.share - 1.0).abs() < 1e-9, "{asked:?}");
        assert!(asked.share_of_others < 0.4, "{asked:?}");
        let nobody = rank(&terms, 100.0, &[1, 2], &CandidateFacts::default());
        assert!((nobody.share_of_others - nobody.share).abs() < 1e-9);
    }

    #[test]
    fn of_documents_that_are_nearly_as_good_a_recent_one_comes_first() {
        let day = |days: i64| days * 86_400_000;
        let mut close = Ranking {
            hits: vec![(1, 1.2), (2, 1.0), (3, 0.5)],
            share: 0.5,
            ..Ranking::default()
        };
        close.prefer_recent(&[(1, day(0)), (2, day(400)), (3, day(400))].into());
        assert_eq!((order(&close), close.share), (vec![2, 1, 3], 0.5));
        let mut clear = Ranking {
            hits: vec![(1, 2.0), (2, 1.0)],
            share: 0.5,
            ..Ranking::default()
        };
        clear.prefer_recent(&[(1, day(0)), (2, day(400))].into());
        assert_eq!(order(&clear), [1, 2]);
    }

    #[test]
    fn listings_of_a_word_and_of_its_parts_are_one() {
        let list = |documents: &[i64], is_cut, span_ms| TermListing {
            documents: documents.to_vec(),
            is_cut,
            span_ms,
        };
        let both = list(&[9, 4], false, Some((40, 90))).or(list(&[9, 2], true, Some((20, 95))));
        assert_eq!(both.documents, [9, 4, 2]);
        assert_eq!((both.is_cut, both.span_ms), (true, Some((20, 95))));
        let one = TermListing::default().or(list(&[1], false, Some((10, 10))));
        assert_eq!((one.documents, one.is_cut), (vec![1], false));
    }

    #[test]
    fn a_neighbour_with_a_term_counts_less_than_the_document_itself() {
        let terms = [term(&[1, 2, 5]), term(&[3, 5])];
        // 5 has both terms itself, 2 has one itself and both beside it, 1 has one itself and beside it.
        let found = ranked(&terms, &[(2, &[1, 3]), (1, &[2])]);
        assert_eq!(order(&found)[..3], [5, 2, 1]);
    }

    #[test]
    fn what_matches_a_small_part_of_a_query_is_no_answer() {
        let absent = || term(&[]);
        let one = ranked(&[term(&[1])], &[]);
        assert!(
            one.share >= SHARE_MIN && (one.share - 1.0).abs() < 1e-9,
            "{one:?}"
        );
        let half = ranked(&[term(&[1]), absent()], &[]);
        assert!(half.share >= SHARE_MIN, "{half:?}");
        let little = ranked(&[term(&[1]), absent(), absent(), absent()], &[]);
        assert!(little.share < SHARE_MIN, "{little:?}");
        // A word of every second letter is no answer to a question with an unknown one.
        let common = term(&(1..=50).collect::<Vec<_>>());
        assert!(ranked(&[common, absent()], &[]).share < SHARE_MIN);
        assert!(ranked(&[], &[]).share < SHARE_MIN);
        // A long letter need not be answered word for word.
        let mut long = vec![term(&[1]), term(&[1]), term(&[1])];
        long.extend(std::iter::repeat_n(absent(), 20));
        assert!(ranked(&long, &[]).share >= SHARE_MIN);
    }
}
